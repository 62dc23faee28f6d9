//! Checks the claims of a token against the requirements of the issuer and the route (RFC 7519, 4.1).

use jose::{Members, Object};
use policy::{
    ApplicationKey, Claims, Identity, IdentityScheme, TOKEN_ID_BYTES_MAX, claim_at, states_scope,
};
use serde_json::Value;

use super::JwtSettings;
use super::issuer::{Issuer, Keys};
use super::permitted::Permitted;
use super::refusal::Refusal;
use crate::application_keys::consumer_key;
use crate::identity::identity;
use crate::listed_api::ApiReference;

/// The requirement on a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimRequirement {
    /// The claim exists, with any value.
    Present,
    /// The claim, or an item of it if it is a list, is one of these.
    OneOf(Vec<String>),
}

/// A token with valid claims.
pub(crate) struct CheckedToken {
    pub(crate) identity: Identity,
    /// Valid header lines for the upstream.
    pub(crate) lines: Vec<(String, String)>,
    /// When the token expires, in seconds since the Unix epoch, leeway included.
    pub(crate) until: Option<u64>,
    pub(crate) id: Option<Box<str>>,
    /// The refusal for a missing scope, if the policy `subscription` raises it later.
    pub(crate) lacks: Option<Refusal>,
    /// The addresses and referrers that may use the token, if its issuer limits them.
    pub(crate) permitted: Option<Permitted>,
    /// The memory of the claims in bytes: their text, and their parsed form, which may be created later.
    pub(crate) bytes: usize,
}

/// The maximum length of a value in a header line, in bytes.
const LINE_BYTES_MAX: usize = 4096;

/// Checks the claims of a token with a valid signature. `payload` is their text.
pub(crate) fn check(
    claims: &Members<'_>,
    payload: &[u8],
    issuer: &Issuer,
    settings: &JwtSettings,
    now: u64,
) -> Result<CheckedToken, Refusal> {
    if issuer.expiry_required && claims.get("exp").is_none() {
        return Err(Refusal::Claims("the token has no expiry (`exp`)"));
    }
    if issuer.beginning_required && claims.get("nbf").is_none() {
        return Err(Refusal::Claims("the token has no start of validity (`nbf`)"));
    }
    let kept = || Claims::of_text(payload, issuer.scope_claims.clone());
    let mut checked = check_all(claims, kept, issuer, settings, now)?;
    checked.bytes += payload.len();
    Ok(checked)
}

/// Checks the claims in an introspection response, which may lack an expiry.
pub(crate) fn check_introspected(
    claims: Object,
    issuer: &Issuer,
    settings: &JwtSettings,
    now: u64,
) -> Result<CheckedToken, Refusal> {
    let members = claims.clone().into();
    let kept = || Claims::of_members(claims, issuer.scope_claims.clone());
    check_all(&members, kept, issuer, settings, now)
}

/// Checks all claims. `kept` builds the form in which valid claims are kept.
fn check_all(
    claims: &Members<'_>,
    kept: impl FnOnce() -> Claims,
    issuer: &Issuer,
    settings: &JwtSettings,
    now: u64,
) -> Result<CheckedToken, Refusal> {
    let until = in_time(claims, issuer, now)?;
    if let Some(max) = settings.lifetime_max
        && time(claims, "exp")?.is_none_or(|ends| ends > now.saturating_add(max.as_secs()))
    {
        return Err(Refusal::Claims("the token is valid for too long (`lifetime_max`)"));
    }
    let audiences = [&issuer.audiences, &settings.audiences];
    if !audiences.into_iter().all(|wanted| names_one(claims.get("aud"), wanted)) {
        let wanted = audiences.into_iter().find(|wanted| !names_one(claims.get("aud"), wanted));
        let wanted = wanted.map_or_else(String::new, |wanted| wanted.join(", "));
        return Err(Refusal::Audience(compared(claims.get("aud"), &wanted)));
    }
    let id = match claims.get("jti") {
        None => None,
        Some(Value::String(id)) if id.len() <= TOKEN_ID_BYTES_MAX => Some(id.as_str().into()),
        Some(_) => return Err(Refusal::Claims("`jti` is not a text, or is too long")),
    };
    for (path, wanted) in &settings.claims {
        let value = value_at(claims, path);
        let good = match wanted {
            ClaimRequirement::Present => value.is_some(),
            ClaimRequirement::OneOf(values) => value.is_some_and(|value| is_one(value, values)),
        };
        if !good {
            return Err(Refusal::Wanted(path.as_str().into()));
        }
    }
    let lacks = match (allows(claims, issuer, settings), settings.defers_scopes) {
        (Err(refusal), true) => Some(refusal),
        (allowed, _) => allowed.map(|()| None)?,
    };
    let permitted = match &issuer.keys {
        Keys::Own(_) => Permitted::of(claims)?,
        Keys::Nowhere | Keys::Fixed(_) | Keys::Published(_) => None,
    };
    let tier = tier_of(claims, issuer, settings)?;
    let (subject, groups, attributes) = match &issuer.client {
        Some(client) => {
            let attributes = client.attributes.iter();
            let attributes =
                attributes.map(|(name, text)| (name.as_str().into(), text.as_str().into()));
            let groups = client.groups.iter().map(|group| group.as_str().into());
            (client.subject.as_str(), groups.collect(), attributes.collect())
        }
        None => (subject(claims, issuer), groups(claims, settings)?, Box::default()),
    };
    Ok(CheckedToken {
        lines: lines(claims, settings, &groups),
        bytes: bytes(claims.iter()) + groups.iter().map(|group| 16 + group.len()).sum::<usize>(),
        identity: Identity {
            groups,
            attributes,
            application: application(claims, issuer),
            ..identity(subject, IdentityScheme::Jwt, Some(kept()), tier)
        },
        until,
        id,
        lacks,
        permitted,
    })
}

/// Returns the tier of the subscription, or else the one in a claim.
fn tier_of(
    claims: &Members<'_>,
    issuer: &Issuer,
    settings: &JwtSettings,
) -> Result<Option<Box<str>>, Refusal> {
    let subscribed = settings.subscription.as_ref().map(|api| tier(claims, api)).transpose()?;
    Ok(subscribed.and_then(|tier| tier).or_else(|| {
        let claim = issuer.tier_claim.as_deref()?;
        value_at(claims, claim)?.as_str().map(Box::from)
    }))
}

/// Parses a time (RFC 7519): seconds, possibly with a fraction.
fn time(claims: &Members<'_>, name: &str) -> Result<Option<u64>, Refusal> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::Number(number)) => {
            let whole = number.as_u64().or_else(|| {
                let seconds = number.as_f64().filter(|seconds| seconds.is_finite())?;
                // A time before the epoch is in the past, so its exact value does not matter.
                let seconds = std::time::Duration::try_from_secs_f64(seconds.max(0.0)).ok()?;
                Some(seconds.as_secs())
            });
            whole.map(Some).ok_or(Refusal::Claims("a time is out of range"))
        }
        Some(_) => Err(Refusal::Claims("a time is not a number")),
    }
}

/// Returns when the token expires, if it is valid now.
fn in_time(claims: &Members<'_>, issuer: &Issuer, now: u64) -> Result<Option<u64>, Refusal> {
    let leeway = issuer.leeway.as_secs();
    let known = |name, ignored| if ignored { Ok(None) } else { time(claims, name) };
    let until = known("exp", issuer.expiry_ignored)?.map(|ends| ends.saturating_add(leeway));
    if until.is_some_and(|until| until <= now) {
        return Err(Refusal::Expired);
    }
    let begins = known("nbf", issuer.beginning_ignored)?;
    if begins.is_some_and(|begins| begins > now.saturating_add(leeway)) {
        return Err(Refusal::NotYet);
    }
    Ok(until)
}

/// Returns true if `aud`, a text or a list, contains one of `wanted`, or if `wanted` is empty.
fn names_one(audience: Option<&Value>, wanted: &[String]) -> bool {
    wanted.is_empty() || audience.is_some_and(|audience| is_one(audience, wanted))
}

/// Returns true if a value, or an item of it if it is a list, is one of these texts.
fn is_one(value: &Value, wanted: &[String]) -> bool {
    let is = |value: &Value| match value {
        Value::String(text) => wanted.contains(text),
        Value::Bool(_) | Value::Number(_) => wanted.contains(&value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    };
    let items = value.as_array();
    items.map_or_else(|| is(value), |items| items.iter().any(is))
}

/// Returns the claim of this name, or else the member at this path, such as `address.city`. Names of claims may themselves contain dots.
fn value_at<'c>(claims: &'c Members<'_>, path: &str) -> Option<&'c Value> {
    claims.get(path).or_else(|| {
        let (first, rest) = path.split_once('.')?;
        claim_at(claims.get(first)?.as_object()?, rest)
    })
}

fn allows(claims: &Members<'_>, issuer: &Issuer, settings: &JwtSettings) -> Result<(), Refusal> {
    let JwtSettings { scopes_any, scopes_all, .. } = settings;
    if scopes_any.is_empty() && scopes_all.is_empty() {
        return Ok(());
    }
    let stated = issuer.scope_claims.iter().find_map(|name| value_at(claims, name));
    let has = |scope: &String| states_scope(stated, scope);
    let any = scopes_any.is_empty() || scopes_any.iter().any(has);
    if any && scopes_all.iter().all(has) {
        return Ok(());
    }
    let listed = [("one of", scopes_any), ("all of", scopes_all)];
    let listed = listed.iter().filter(|(_, scopes)| !scopes.is_empty());
    let wanted: Vec<String> =
        listed.map(|(word, scopes)| format!("{word} {}", scopes.join(", "))).collect();
    Err(Refusal::Scope(compared(stated, &wanted.join(" and "))))
}

/// The maximum length of a token's value in the log. Longer values are cut.
const SHOWN_CHARS_MAX: usize = 200;

/// Describes the actual and the required value, for the log.
fn compared(value: Option<&Value>, wanted: &str) -> Box<str> {
    let had = value.and_then(text).unwrap_or_else(|| "none".to_owned());
    let had = had.escape_debug().to_string();
    let had = match had.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}...", had.get(..end).unwrap_or(&had)),
        None => had,
    };
    format!("the token has: {had}; needed: {wanted}").into()
}

/// Returns the groups of the subject, from a list of texts or a text with commas. A group that is not a text is an error, since it could be
/// a denied one.
fn groups(claims: &Members<'_>, settings: &JwtSettings) -> Result<Box<[Box<str>]>, Refusal> {
    let Some(path) = settings.groups.as_deref() else { return Ok(Box::default()) };
    let wrong = || Refusal::Wanted(path.into());
    match value_at(claims, path) {
        Some(Value::String(text)) => {
            let all = text.split(',').map(str::trim).filter(|one| !one.is_empty());
            Ok(all.map(Box::from).collect())
        }
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().map(Box::from).ok_or_else(wrong)).collect()
        }
        Some(Value::Null) | None => Ok(Box::default()),
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => Err(wrong()),
    }
}

/// Returns the key of the token's application, if the issuer has a claim for applications.
fn application(claims: &Members<'_>, issuer: &Issuer) -> Option<ApplicationKey> {
    let claim = issuer.application_claim.as_deref()?;
    // Harmless: a claim that is not a text identifies no application.
    value_at(claims, claim)?.as_str().filter(|key| !key.is_empty()).map(consumer_key)
}

/// Returns the plan of the token's subscription to the API.
fn tier(claims: &Members<'_>, api: &ApiReference) -> Result<Option<Box<str>>, Refusal> {
    let subscribed = claims.get("subscribedAPIs").and_then(Value::as_array);
    let found = subscribed.map_or(&[][..], Vec::as_slice).iter().find(|one| api.matches(one));
    let found = found.ok_or(Refusal::Subscription)?;
    let tier = found.get("subscriptionTier").and_then(Value::as_str);
    Ok(tier.map(Into::into))
}

/// Returns the subject of the token, or the application if there is no subject.
fn subject<'c>(claims: &'c Members<'_>, issuer: &Issuer) -> &'c str {
    let names = [issuer.subject_claim.as_str(), issuer.consumer_claim.as_str(), "client_id"];
    let found = names.into_iter().find_map(|name| value_at(claims, name)?.as_str());
    found.unwrap_or("")
}

/// Returns an estimate of the memory, in bytes, of parsed claims.
fn bytes<'c>(claims: impl Iterator<Item = (&'c str, &'c Value)>) -> usize {
    // Each member has a slot for name and value, and a map keeps some slots free.
    64 + claims.map(|(name, value)| 96 + name.len() + value_bytes(value)).sum::<usize>()
}

/// Returns the memory of a value, without its slot. The JSON parser has bounded the depth.
fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| 32 + value_bytes(item)).sum(),
        Value::Object(members) => bytes(members.iter().map(|(name, value)| (name.as_str(), value))),
    }
}

/// Returns claims as header lines. The path `groups` refers to the client's groups if no claim has that name. A value that cannot be
/// written in one line is omitted with a log entry.
fn lines(
    claims: &Members<'_>,
    settings: &JwtSettings,
    groups: &[Box<str>],
) -> Vec<(String, String)> {
    let line = |(name, path): &(String, String)| {
        let value = match value_at(claims, path) {
            Some(value) => text(value)?,
            // The token has no claim of this name.
            None if path == "groups" && !groups.is_empty() => groups.join(","),
            None => return None,
        };
        let good = http1::is_header_value(value.as_bytes())
            && value.len() <= LINE_BYTES_MAX
            && value.trim() == value;
        if !good {
            tracing::warn!(
                claim = path,
                header = name,
                "a claim of a token cannot be written in a header of {LINE_BYTES_MAX} bytes; it is not sent"
            );
        }
        good.then(|| (name.clone(), value))
    };
    // Harmless: a missing claim has no header, and an invalid value is logged.
    settings.claims_to_headers.iter().filter_map(line).collect()
}

/// Returns a value as text: a text unchanged, a list of texts with commas, anything else as JSON.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => {
            let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            Some(texts.map_or_else(|| value.to_string(), |texts| texts.join(",")))
        }
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => Some(value.to_string()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    const NOW: u64 = 1_000_000;

    pub(crate) fn issuer() -> Issuer {
        Issuer {
            issuer: Some("i".to_owned()),
            issuer_claim: None,
            keys: Keys::Nowhere,
            introspection: None,
            audiences: Vec::new(),
            algorithms: Vec::new(),
            client: None,
            types: Vec::new(),
            leeway: Duration::from_secs(5),
            expiry_required: true,
            beginning_required: false,
            expiry_ignored: false,
            beginning_ignored: false,
            subject_claim: "sub".to_owned(),
            scope_claims: ["scope".to_owned(), "scp".to_owned()].into(),
            consumer_claim: "azp".to_owned(),
            application_claim: None,
            tier_claim: Some("plan".to_owned()),
        }
    }

    fn checked(claims: Value, settings: &JwtSettings) -> Result<CheckedToken, Refusal> {
        let Value::Object(mut claims) = claims else { panic!("no object") };
        claims.entry("exp").or_insert_with(|| (NOW + 60).into());
        check(&claims.into(), b"", &issuer(), settings, NOW)
    }

    #[test]
    fn times_are_seconds_with_some_leeway() {
        for (claims, said) in [
            (json!({ "exp": NOW - 4 }), Ok(())),
            (json!({ "exp": NOW - 5 }), Err(Refusal::Expired)),
            (json!({ "exp": NOW as f64 + 0.5 }), Ok(())),
            (json!({ "exp": -1 }), Err(Refusal::Expired)),
            (json!({ "exp": 1e300 }), Err(Refusal::Claims("a time is out of range"))),
            (json!({ "exp": u64::MAX }), Ok(())),
            (json!({ "exp": "1000060" }), Err(Refusal::Claims("a time is not a number"))),
            (json!({ "exp": null }), Err(Refusal::Claims("a time is not a number"))),
            (json!({ "nbf": NOW + 5 }), Ok(())),
            (json!({ "nbf": NOW + 6 }), Err(Refusal::NotYet)),
        ] {
            let got = checked(claims.clone(), &JwtSettings::default()).map(|_| ());
            assert_eq!(got, said, "{claims}");
        }
        let without = check(&Object::new().into(), b"", &issuer(), &JwtSettings::default(), NOW);
        assert!(matches!(without, Err(Refusal::Claims(_))));
    }

    #[test]
    fn times_may_be_required_or_ignored() {
        let checked = |claims: Value, issuer: &Issuer| {
            let Value::Object(claims) = claims else { panic!("no object") };
            check(&claims.into(), b"", issuer, &JwtSettings::default(), NOW)
                .map(|checked| checked.until)
        };
        let kong = Issuer {
            expiry_required: false,
            expiry_ignored: true,
            beginning_ignored: true,
            ..issuer()
        };
        for claims in [json!({}), json!({ "exp": 1 }), json!({ "exp": "soon", "nbf": u64::MAX })] {
            assert_eq!(checked(claims.clone(), &kong), Ok(None), "{claims}");
        }
        let expiry = Issuer { beginning_ignored: true, ..issuer() };
        assert_eq!(checked(json!({ "exp": NOW + 1, "nbf": u64::MAX }), &expiry), Ok(Some(NOW + 6)));
        assert_eq!(checked(json!({ "exp": 1 }), &expiry), Err(Refusal::Expired));
        let both = Issuer { beginning_required: true, ..issuer() };
        assert!(matches!(checked(json!({ "exp": NOW + 1 }), &both), Err(Refusal::Claims(_))));
        assert!(checked(json!({ "exp": NOW + 1, "nbf": 1 }), &both).is_ok());
    }

    #[test]
    fn audiences_and_scopes_are_texts_or_lists() {
        let list = |items: &[&str]| items.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let settings = JwtSettings {
            audiences: list(&["a", "b"]),
            scopes_any: list(&["r", "w"]),
            scopes_all: list(&["x"]),
            ..JwtSettings::default()
        };
        for (claims, said) in [
            (json!({ "aud": "a", "scope": "r x" }), Ok(())),
            (json!({ "aud": ["z", "b"], "scope": ["w", "x"] }), Ok(())),
            (json!({ "aud": "a", "scp": "x w" }), Ok(())),
            (json!({ "aud": "ab", "scope": "r x" }), Err(("aud", "ab", "a, b"))),
            (json!({ "scope": "r x" }), Err(("aud", "none", "a, b"))),
            (json!({ "aud": { "a": 1 }, "scope": "r x" }), Err(("aud", "{\\\"a\\\":1}", "a, b"))),
            (json!({ "aud": "a" }), Err(("scope", "none", "one of r, w and all of x"))),
            (json!({ "aud": "a", "scope": "r" }), Err(("scope", "r", "one of r, w and all of x"))),
            (json!({ "aud": "a", "scope": "x" }), Err(("scope", "x", "one of r, w and all of x"))),
            (
                json!({ "aud": "a", "scope": "rx x" }),
                Err(("scope", "rx x", "one of r, w and all of x")),
            ),
            (
                json!({ "aud": "a", "scope": "", "scp": "r x" }),
                Err(("scope", "", "one of r, w and all of x")),
            ),
        ] {
            let got = checked(claims.clone(), &settings).map(|_| ());
            let got = got.map_err(|refusal| {
                if let Refusal::Audience(values) = &refusal {
                    return ("aud", values.to_string());
                }
                let Refusal::Scope(values) = &refusal else { panic!("{refusal:?}") };
                ("scope", values.to_string())
            });
            let said = said.map_err(|(what, had, needed): (&str, &str, &str)| {
                (what, format!("the token has: {had}; needed: {needed}"))
            });
            assert_eq!(got, said, "{claims}");
        }
    }

    #[test]
    fn only_valid_values_of_claims_become_header_lines() {
        let to = |name: &str, path: &str| (name.to_owned(), path.to_owned());
        let settings = JwtSettings {
            claims_to_headers: vec![
                to("x-user", "sub"),
                to("x-city", "address.city"),
                to("x-url", "http://wso2.org/claims/role"),
                to("x-list", "list"),
                to("x-age", "age"),
                to("x-bad", "bad"),
                to("x-none", "none"),
            ],
            ..JwtSettings::default()
        };
        let claims = json!({
            "sub": "alice", "address": { "city": "Ulm" }, "http://wso2.org/claims/role": "admin",
            "list": ["a", "b"], "age": 7, "bad": "a\r\nx-evil: 1",
        });
        let lines = checked(claims, &settings).unwrap_or_else(|r| panic!("{r:?}")).lines;
        let lines: Vec<String> = lines.iter().map(|(n, v)| format!("{n}: {v}")).collect();
        assert_eq!(
            lines,
            ["x-user: alice", "x-city: Ulm", "x-url: admin", "x-list: a,b", "x-age: 7"]
        );
    }

    #[test]
    fn a_token_with_invalid_groups_is_refused() {
        let settings = JwtSettings { groups: Some("groups".to_owned()), ..JwtSettings::default() };
        let groups = |claim: Value| {
            let checked = checked(json!({ "groups": claim }), &settings)?;
            Ok(checked.identity.groups.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        for (claim, read) in [
            (json!(["a", "b,c"]), vec!["a", "b,c"]),
            (json!("a, b"), vec!["a", "b"]),
            (json!(null), vec![]),
        ] {
            let read: Vec<String> = read.into_iter().map(str::to_owned).collect();
            assert_eq!(groups(claim.clone()), Ok(read), "{claim}");
        }
        for claim in [json!(["a", 7]), json!([{ "name": "a" }]), json!({ "a": true }), json!(7)] {
            assert_eq!(groups(claim.clone()), Err(Refusal::Wanted("groups".into())), "{claim}");
        }
    }

    #[test]
    fn a_long_value_is_cut_for_the_log() {
        let long = json!("x".repeat(SHOWN_CHARS_MAX + 1));
        let told = compared(Some(&long), "y");
        assert!(told.contains("xxx...; needed: y"), "{told}");
        assert!(!compared(Some(&json!("x".repeat(SHOWN_CHARS_MAX))), "y").contains("..."));
    }

    #[test]
    fn a_subscription_names_the_api_and_gives_the_plan() {
        let api = |context: &str| JwtSettings {
            subscription: Some(ApiReference {
                name: Some("orders".to_owned()),
                context: Some(context.to_owned()),
                version: None,
            }),
            ..JwtSettings::default()
        };
        let claims = json!({ "plan": "Bronze", "sub": "a", "subscribedAPIs": [
            { "name": "other", "context": "/orders/1", "subscriptionTier": "Silver" },
            { "name": "orders", "context": "orders/1", "version": "1", "subscriptionTier": "Gold" },
        ]});
        let tier = |settings: &JwtSettings| {
            checked(claims.clone(), settings).map(|checked| checked.identity.tier)
        };
        assert_eq!(tier(&api("/orders/1")), Ok(Some("Gold".into())));
        assert_eq!(tier(&api("/orders/2")), Err(Refusal::Subscription));
        assert_eq!(tier(&JwtSettings::default()), Ok(Some("Bronze".into())));
        let nobody = checked(json!({ "subscribedAPIs": "orders" }), &api("/orders/1"));
        assert!(matches!(nobody, Err(Refusal::Subscription)));
    }
}
