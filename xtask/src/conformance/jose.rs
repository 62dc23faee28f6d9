//! The `jose` suite: tokens that a key has to verify or refuse (Wycheproof). Runs in process.
//!
//! Owns the parsing of its cases. Signed tokens are scored. Encrypted ones have to be refused as such, whatever the pack
//! expects, and are counted separately.

use std::fmt::Write as _;

use jose::{Error, KeySet, Token};
use serde_json::Value;

use super::known::{Judged, close};
use super::pack::Pack;
use super::{Options, Outcome};
use crate::Failure;

/// One line of the manifest.
struct Case {
    id: String,
    set: String,
    comment: String,
    /// The token in compact form, or as JSON if it has another form.
    token: String,
    encrypted: bool,
    /// A key or a key set, as JSON.
    key: String,
    valid: bool,
}

/// Runs all cases of the pack.
pub(crate) fn run(options: &Options) -> Result<Outcome, Failure> {
    let pack = Pack::open(&options.pack)?;
    let mut cases: Vec<Case> = pack.cases.iter().map(read).collect();
    cases.retain(|case| case.id.contains(&options.only));
    let (encrypted, signed): (Vec<Case>, Vec<Case>) =
        cases.into_iter().partition(|case| case.encrypted);
    let judged: Vec<Judged> = signed.iter().map(judge).collect();
    let mut summary = String::new();
    for set in ["jws", "jwk", "crypto"] {
        let of = signed.iter().zip(&judged).filter(|(case, _)| case.set == set);
        let (passed, all) = of.fold((0, 0), |(passed, all), (_, judged)| {
            (passed + usize::from(judged.passed), all + 1)
        });
        writeln!(summary, "{set}, signed: {passed} of {all}").ok();
    }
    let refused = encrypted.iter().filter(|case| is_refused(case)).count();
    writeln!(summary, "encrypted, not scored: {refused} of {} refused", encrypted.len()).ok();
    let mut outcome = close("jose", &judged, summary)?;
    for case in encrypted.iter().filter(|case| !is_refused(case)) {
        writeln!(outcome.complaints, "{} encrypted and not refused as such", case.id).ok();
        outcome.failed += 1;
    }
    Ok(outcome)
}

fn read(line: &Value) -> Case {
    let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let key = |name: &str| line.get(name).filter(|key| !key.is_null());
    let token = line.get("token").cloned().unwrap_or_default();
    Case {
        id: text("id"),
        set: text("set"),
        comment: text("comment"),
        encrypted: text("token_kind") == "jwe",
        token: token.as_str().map_or_else(|| token.to_string(), str::to_owned),
        key: key("public").or_else(|| key("private")).map(Value::to_string).unwrap_or_default(),
        valid: text("expected") == "valid",
    }
}

fn verify(case: &Case) -> Result<(), String> {
    let (keys, left) = KeySet::from_json(case.key.as_bytes()).ok_or("no key set")?;
    let token = Token::parse(case.token.as_bytes()).map_err(|error| error.to_string())?;
    keys.verify(&token).map_err(|error| format!("{error}; keys left out: {left:?}"))
}

fn judge(case: &Case) -> Judged {
    let verified = verify(case);
    let expected = if case.valid { "accept" } else { "refuse" };
    let complaint = format!("{}: expected {expected}, got {verified:?}", case.comment);
    Judged { id: case.id.clone(), passed: verified.is_ok() == case.valid, complaint }
}

/// Returns true if the token is refused. A token with five parts has to be refused as encrypted.
fn is_refused(case: &Case) -> bool {
    match Token::parse(case.token.as_bytes()) {
        Ok(_) => false,
        Err(Error::Encrypted) => true,
        Err(_) => case.token.matches('.').count() != 4,
    }
}
