//! Keeps secrets out of complaints: texts from the environment or from files, keys in PEM, and passwords in URLs.
//!
//! Owns what a complaint says instead. The text of every complaint passes through here, so the code that complains need not know where a
//! value came from.

use std::fmt;
use std::sync::Arc;

use crate::secret_words::{NOT_SHOWN, PEM};
use crate::sources::{At, CUT};

/// Shorter values occur in other words by chance, so they are only hidden in complaints about their own place that quote exactly the value.
const CHARS_MIN: usize = 4;
/// Values of at least this length do not occur by chance, so they are hidden in all complaints.
const ANYWHERE_CHARS_MIN: usize = 8;

/// The texts that replaced references. They are never shown, not even in debug output.
#[derive(Clone, Default)]
pub(crate) struct HiddenTexts(Vec<Arc<SubstitutedScalar>>);

/// One scalar with references.
struct SubstitutedScalar {
    at: At,
    /// The scalar as written.
    written: String,
    /// The scalar after substitution, in all forms in which a complaint may show it, in lower case.
    texts: Vec<String>,
    values: Vec<String>,
}

impl HiddenTexts {
    /// Records what a scalar with references became.
    pub(crate) fn record_substitution(
        &mut self,
        at: At,
        written: &str,
        text: &str,
        values: &[String],
    ) {
        let values: Vec<String> = values.iter().flat_map(|value| forms(value)).collect();
        let (written, texts) = (written.to_owned(), forms(text));
        self.0.push(Arc::new(SubstitutedScalar { at, written, texts, values }));
    }

    /// Returns the text of a complaint without secrets.
    pub(crate) fn without(&self, at: At, what: &str) -> String {
        let what = self.broken(at, what.to_owned());
        self.anywhere(each_quoted(&what, |piece| {
            let lower = piece.to_ascii_lowercase();
            let bare = lower.trim_end_matches(CUT);
            let put_in = self.0.iter().filter(|one| one.at == at).find(|one| one.is_in(bare));
            match put_in {
                Some(one) => one.written.clone(),
                None if holds_pem(piece) => NOT_SHOWN.to_owned(),
                None => without_user(piece),
            }
        }))
    }

    /// Hides values with backticks, which would end the quotes around them.
    fn broken(&self, at: At, mut said: String) -> String {
        let here = self.0.iter().filter(|one| one.at == at).flat_map(|one| &one.texts);
        let all = here.chain(self.0.iter().flat_map(|one| &one.values));
        for text in all.filter(|text| text.contains('`') && text.chars().count() >= CHARS_MIN) {
            hide(&mut said, text);
        }
        said
    }

    /// Hides long values in any complaint.
    fn anywhere(&self, mut said: String) -> String {
        let values = self.0.iter().flat_map(|one| &one.values);
        for value in values.filter(|value| value.chars().count() >= ANYWHERE_CHARS_MIN) {
            hide(&mut said, value);
        }
        said
    }
}

impl SubstitutedScalar {
    /// Returns true if a quoted piece reveals this scalar: it is the scalar or a part of it, or it contains a substituted value.
    fn is_in(&self, piece: &str) -> bool {
        if piece.chars().count() < CHARS_MIN {
            return !piece.is_empty() && self.texts.iter().chain(&self.values).any(|t| t == piece);
        }
        let has = |value: &String| value.chars().count() >= CHARS_MIN && piece.contains(value);
        self.texts.iter().any(|text| text.contains(piece)) || self.values.iter().any(has)
    }
}

/// Returns the text of a complaint without a secret that was written in the file.
pub(crate) fn without_secret(what: &str, secret: &str) -> String {
    let mut what = what.to_owned();
    // The secret is as written in the file, possibly in quotes.
    let plain = secret.trim_matches(['"', '\'']);
    for form in forms(plain).iter().filter(|form| form.contains('`')) {
        hide(&mut what, form);
    }
    each_quoted(&what, |piece| {
        if secret.contains(piece.trim_end_matches(CUT)) {
            NOT_SHOWN.to_owned()
        } else {
            piece.to_owned()
        }
    })
}

/// Replaces each text between backticks by the result of `shown`.
fn each_quoted(what: &str, shown: impl Fn(&str) -> String) -> String {
    let pieces = what.split('`').enumerate().map(|(index, piece)| match index % 2 {
        1 => shown(piece),
        _ => piece.to_owned(),
    });
    pieces.collect::<Vec<_>>().join("`")
}

/// Returns true if a text has a key or a certificate. The first line alone does not count: help texts mention it.
fn holds_pem(text: &str) -> bool {
    let Some((_, label)) = text.split_once(PEM) else { return false };
    label.split_once("-----").is_none_or(|(_, rest)| !rest.is_empty())
}

/// Replaces a text (given in lower case) in another by [`NOT_SHOWN`], even if only its beginning is quoted.
fn hide(said: &mut String, lower: &str) {
    let begins = match lower.char_indices().nth(ANYWHERE_CHARS_MIN) {
        Some((end, _)) => lower.get(..end).unwrap_or(lower),
        None => lower,
    };
    let mut from = 0;
    while let Some(begin) = find(said, from, begins) {
        let rest = said.get(begin..).unwrap_or_default();
        let len = in_common(rest, lower);
        let cut = rest.get(len..).is_some_and(|rest| rest.starts_with(CUT));
        from = if len == lower.len() || cut {
            said.replace_range(begin..begin + len, NOT_SHOWN);
            begin + NOT_SHOWN.len()
        } else {
            // The text only has the same beginning.
            begin + begins.len()
        };
    }
}

/// Returns the length in bytes of the common beginning of two texts, ignoring case.
fn in_common(said: &str, lower: &str) -> usize {
    // Harmless: the common beginning is not longer than either text.
    let pairs = said.chars().zip(lower.chars());
    let same = pairs.take_while(|(said, lower)| said.to_ascii_lowercase() == *lower);
    same.map(|(said, _)| said.len_utf8()).sum()
}

/// Returns the offset of a text (given in lower case) in another, searching from an offset.
fn find(said: &str, from: usize, lower: &str) -> Option<usize> {
    let rest = said.get(from..)?.to_ascii_lowercase();
    rest.find(lower).map(|begin| from + begin)
}

/// Returns the forms of a text: as is, and as quoted in complaints.
fn forms(text: &str) -> Vec<String> {
    let lower = text.to_ascii_lowercase();
    let mut forms = vec![lower.escape_debug().to_string(), lower];
    forms.dedup();
    forms
}

/// Returns a URL without its user and password, or any other text unchanged.
pub(crate) fn without_user(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((user, _)) => {
            let rest = rest.get(user.len()..).unwrap_or_default();
            format!("{scheme}://{NOT_SHOWN}{rest}")
        }
        None => text.to_owned(),
    }
}

impl fmt::Debug for HiddenTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;

    use crate::load::parse_with;
    use crate::sources::At;

    /// Returns the complaints about a text in which `TOKEN` is a secret.
    fn said(text: &str) -> String {
        let variables = [("TOKEN", "Hush-Hush"), ("N", "3x"), ("PEM", "-----BEGIN KEY-----\nHush")];
        let variables: HashMap<String, String> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        parse_with(text, Path::new("gate.yaml"), &variables).report.to_string()
    }

    #[test]
    fn substituted_values_are_not_shown_in_complaints() {
        for (text, what) in [
            ("workers: \"${TOKEN}\"\n", "found `${TOKEN}`"),
            ("workers: \"${N}\"\n", "found `${N}`"),
            ("workers: \"1${TOKEN}2\"\n", "found `1${TOKEN}2`"),
            ("workers: hush-hush\n", "found `hush-hush`"),
            (
                "upstreams: { u: { targets: [\"ht!tp://u:${TOKEN}@h\"] } }\n",
                "the target `ht!tp://u:${TOKEN}@h` is",
            ),
            (
                "upstreams: { u: { targets: [\"ht!tp://u:literal@h\"] } }\n",
                "the target `ht!tp://(not shown)@h` is",
            ),
            ("issuers: { i: { jwks: \"${PEM}\" } }\n", "the URL `${PEM}` has no scheme"),
            (
                "issuers: { i: { jwks: \"-----BEGIN KEY-----\\nHush\" } }\n",
                "the URL `(not shown)` has no scheme",
            ),
            ("saxon: { home: \"${PEM}\" }\n", "found its content"),
            (
                "routes: { a: { match: { path: /a }, policies: [{ api_key: hunter2 }] } }\n",
                "found `(not shown)`",
            ),
        ] {
            let said = said(text);
            assert!(said.contains(what), "{said}");
            let shown = ["Hush-Hush", "3x", "BEGIN", "\nHush", "literal", "hunter2"];
            assert!(!shown.iter().any(|secret| said.contains(secret)), "{said}");
        }
    }

    /// A backtick ends the quotes around it, and long values are truncated.
    #[test]
    fn values_with_backticks_are_not_shown() {
        let long = format!("a`{}", "hush".repeat(30));
        for (value, what) in [
            ("ab`hush", "found `(not shown)`"),
            ("abcdef`hush-hush", "found `(not shown)`"),
            (&*long, "found `(not shown)...`"),
        ] {
            for text in ["workers: \"${TOKEN}\"\n", "workers: \"2${TOKEN}\"\n"] {
                let variables = HashMap::from([("TOKEN".to_owned(), value.to_owned())]);
                let said = parse_with(text, Path::new("gate.yaml"), &variables).report.to_string();
                assert!(said.contains(what) && !said.contains("hush"), "{said}");
            }
        }
        let text =
            "routes: { a: { match: { path: /a }, policies: [{ api_key: \"abcd`hunter2\" }] } }\n";
        let said = parse_with(text, Path::new("gate.yaml"), &HashMap::new()).report.to_string();
        assert!(said.contains("(not shown)") && !said.contains("hunter2"), "{said}");
    }

    #[test]
    fn secrets_are_not_shown_in_help_texts() {
        let variables = HashMap::from([("TOKEN".to_owned(), "Hush-Hush".to_owned())]);
        let mut report = parse_with("", Path::new("gate.yaml"), &variables).report;
        let at = At::file(0);
        report.hide(at, "/${TOKEN}", "/Hush-Hush", &["Hush-Hush".to_owned()]);
        report.error(at, "wrong", "write `/hush-hush` or hush-hush/x");
        report.error(at, "wrong", "write `-----BEGIN KEY-----`, not `-----BEGIN KEY-----\\nhush`");
        report.error(at, "wrong", "write `/Hush-Hush/y`");
        assert!(!report.to_string().to_ascii_lowercase().contains("hush"), "{report}");
        assert!(report.to_string().contains("write `-----BEGIN KEY-----`, not `(not shown)`"));
    }

    #[test]
    fn long_values_are_hidden_in_every_complaint() {
        let variables = HashMap::from([("TOKEN".to_owned(), "Hush-Hush".to_owned())]);
        let text = "issuers: { i: { issuer: \"${TOKEN}\" } }\n";
        let mut report = parse_with(text, Path::new("gate.yaml"), &variables).report;
        report.error(At::file(0), "they say \"hush-hush\", Hush-Hush", "");
        assert!(report.to_string().contains("they say \"(not shown)\", (not shown)"), "{report}");
        assert!(!format!("{report:?}").contains("Hush"));
    }
}
