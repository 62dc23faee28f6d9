//! Masks the secrets in the texts of a configuration, and replaces masks by the values in service.
//!
//! Owns which scalars are secrets: values of keys that the schema marks with `x-secret`, users in URLs, headers and parameters (of URLs
//! too) that look like credentials, and private keys. In a comment, the names in it and around it decide. References (`${NAME}`) are not secrets.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use crate::excerpt::{names_key, secrets_in};
use crate::load::{LoadedConfig, read_again};
use crate::report::Report;
use crate::scalars::{WrittenScalar, comments, replaced, scalars};
use crate::secret_words::{CREDENTIAL_WORDS, FREE_MAPS, MASK, PEM};
use crate::sources::{At, Source, Sources};

/// Headers with credentials that [`CREDENTIAL_WORDS`] does not match.
const CREDENTIAL_HEADERS: &[&str] =
    &["authorization", "proxy-authorization", "cookie", "set-cookie"];

/// Returns the texts of the sources without secrets, in the same order.
pub fn masked(sources: &Sources) -> Vec<String> {
    let loaded = read_again(sources);
    let texts = (0..).zip(sources.iter());
    texts.map(|(file, source)| masked_text(&loaded, file, &source.text)).collect()
}

fn masked_text(loaded: &LoadedConfig, file: u32, text: &str) -> String {
    let Some(scalars) = scalars(text, file) else { return unreadable(loaded) };
    // Harmless: a scalar that is not secret is kept.
    let mut hidden: Vec<_> = scalars
        .iter()
        .filter_map(|scalar| Some((scalar.range.clone(), mask(loaded, scalar)?)))
        .collect();
    hidden.sort_by_key(|(range, _)| range.start);
    let shown = comments_masked(&replaced(text, &hidden));
    // If the masked text parses differently, it may still show secrets.
    let count = |text: &str| self::scalars(text, file).map(|scalars| scalars.len());
    if count(&shown) == Some(scalars.len()) { shown } else { unreadable(loaded) }
}

/// Replaces a text whose secrets cannot be found: returns the configuration with all defaults and hidden secrets.
fn unreadable(loaded: &LoadedConfig) -> String {
    crate::shown(loaded).map_or_else(String::new, |shown| shown.to_string())
}

/// Returns the replacement for a scalar, if it is secret.
fn mask(loaded: &LoadedConfig, scalar: &WrittenScalar) -> Option<String> {
    let quoted = || Some(format!("\"{MASK}\""));
    if is_reference(&scalar.text) {
        return None;
    }
    let is_secret_by_type = |at: &At| loaded.secrets.binary_search(at).is_ok();
    if is_secret_by_type(&scalar.at)
        || scalar.aliases.iter().any(is_secret_by_type)
        || is_private_key(&scalar.text)
    {
        return quoted();
    }
    if is_credential(&scalar.path) && !is_expression(&scalar.text) {
        return quoted();
    }
    let shown = url_shown(&scalar.text)?;
    Some(serde_json::Value::from(shown).to_string())
}

/// Returns true if a text consists of references only.
fn is_reference(text: &str) -> bool {
    let mut rest = text.trim();
    while let Some((_, after)) = rest.strip_prefix("${").and_then(|rest| rest.split_once('}')) {
        rest = after;
    }
    rest.is_empty()
}

/// Returns true for an expression of a flow, which names the source of a value.
fn is_expression(text: &str) -> bool {
    (text.starts_with('$') || text.starts_with("{{")) && !text.contains(' ')
}

fn is_private_key(text: &str) -> bool {
    text.contains(PEM) && text.contains("PRIVATE KEY")
}

/// Returns true for the value of a header or a parameter that looks like a credential.
fn is_credential(path: &[String]) -> bool {
    // Items of a list belong to the key of the list.
    let names = path.iter().rev().skip_while(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    let mut names = names.map(String::as_str);
    let Some(name) = names.next() else { return false };
    let lower = name.to_ascii_lowercase();
    let looks = CREDENTIAL_HEADERS.contains(&&*lower)
        || CREDENTIAL_WORDS.iter().any(|word| lower.contains(word));
    looks && names.any(|holder| FREE_MAPS.contains(&holder))
}

/// Returns a text with `***` instead of what is secret in its URLs, or `None` if nothing is.
fn url_shown(text: &str) -> Option<String> {
    let users = without_users(text);
    without_parameters(users.as_deref().unwrap_or(text)).or(users)
}

/// Returns a text with `***` instead of the values of parameters in its URL that look like credentials, or `None` if there are none.
fn without_parameters(text: &str) -> Option<String> {
    let (before, query) = text.split_once("://").and_then(|_| text.split_once('?'))?;
    let end = query.find(|c: char| c.is_whitespace() || "#\"'<>".contains(c));
    let (query, after) = query.split_at_checked(end.unwrap_or(query.len()))?;
    let mut found = false;
    let parameter = |parameter: &str| {
        let Some((name, value)) = parameter.split_once('=') else { return parameter.to_owned() };
        let lower = name.to_ascii_lowercase();
        let is_secret = CREDENTIAL_WORDS.iter().any(|word| lower.contains(word));
        if !is_secret || is_reference(value) || is_expression(value) {
            return parameter.to_owned();
        }
        found = true;
        format!("{name}={MASK}")
    };
    let shown: Vec<String> = query.split('&').map(parameter).collect();
    found.then(|| format!("{before}?{}{after}", shown.join("&")))
}

/// Returns a text with `***` instead of the users in its URLs, or `None` if it has no users.
fn without_users(text: &str) -> Option<String> {
    let (mut shown, mut rest, mut found) = (String::new(), text, false);
    while let Some((before, after)) = rest.split_once("://") {
        let end = after.find(|c: char| c.is_whitespace() || "/?#\"'<>,".contains(c));
        let authority = after.get(..end.unwrap_or(after.len())).unwrap_or_default();
        shown.push_str(before);
        shown.push_str("://");
        rest = after;
        if let Some((user, _)) = authority.rsplit_once('@')
            && !user.split(':').all(is_reference)
        {
            shown.push_str(MASK);
            rest = after.get(user.len()..).unwrap_or_default();
            found = true;
        }
    }
    shown.push_str(rest);
    found.then_some(shown)
}

/// Masks secrets in comments, which may be keys that were commented out. Lines of a value that look like comments are kept.
fn comments_masked(text: &str) -> String {
    // The caller refuses a text that cannot be parsed.
    let Some(comments) = comments(text) else { return text.to_owned() };
    let mut hidden = Vec::new();
    // The lines of the comment so far, without their `#`: the names of what was commented out.
    let (mut outlined, mut last_end) = (String::new(), 0);
    for Range { start, end } in comments {
        let above = text.get(..start).unwrap_or_default();
        let from = above.rfind('\n').map_or(0, |end| end + 1);
        let begins = |at: usize| above.get(at..).is_some_and(|between| between.trim().is_empty());
        if !begins(from) || !begins(last_end) {
            outlined.clear();
        }
        let comment = text.get(start..end).unwrap_or_default().replacen('#', " ", 1);
        let line = format!("{}{comment}", " ".repeat(start - from));
        // A sentence does not belong to what is around the comment.
        let around = if names_key(&line) { above } else { "" };
        let secrets = secrets_in(&[&outlined, around], &line).into_iter();
        hidden.extend(secrets.map(|span| (from + span.start..from + span.end, MASK.to_owned())));
        outlined.push_str(&line);
        outlined.push('\n');
        last_end = end;
    }
    replaced(text, &hidden)
}

/// Returns a text with its masks replaced by the values in service, or complaints about masks that have no such value.
pub fn unmasked(text: &str, name: &Path, in_service: &Sources) -> Result<String, Report> {
    if !text.contains(MASK) {
        return Ok(text.to_owned());
    }
    // A text that cannot be parsed is reported when it is compiled.
    let Some(sent) = scalars(text, 0) else { return Ok(text.to_owned()) };
    let known = Known::of(in_service);
    let folder = name.parent().unwrap_or(Path::new("")).to_owned();
    let source = Source { name: name.display().to_string(), folder, text: text.to_owned() };
    let mut report = Report::new(Sources::new(vec![source]));
    let mut by = Vec::new();
    for scalar in sent.iter().filter(|scalar| is_masked(&scalar.text)) {
        match known.value_for(scalar) {
            Some(value) => by.push((scalar.range.clone(), value)),
            None => {
                let what = "`***` stands for the value in service, but there is none";
                report.error(scalar.at, what, "write the value, preferably as `${NAME}`");
            }
        }
    }
    if report.has_errors() { Err(report) } else { Ok(replaced(text, &by)) }
}

fn is_masked(text: &str) -> bool {
    text == MASK || text.contains("://***@") || (text.contains("://") && text.contains("=***"))
}

/// The values in service by their paths.
struct Known<'s>(HashMap<Vec<String>, (WrittenScalar, &'s str)>);

impl<'s> Known<'s> {
    fn of(sources: &'s Sources) -> Known<'s> {
        let texts = (0..).zip(sources.iter());
        let all = texts.flat_map(|(file, source)| {
            // Harmless: a text in service can be parsed.
            let scalars = scalars(&source.text, file).unwrap_or_default();
            scalars.into_iter().map(|scalar| (scalar.path.clone(), (scalar, &*source.text)))
        });
        Known(all.collect())
    }

    /// Returns the value in service at the path of a mask, as YAML.
    fn value_for(&self, masked: &WrittenScalar) -> Option<String> {
        let (scalar, text) = self.0.get(&masked.path)?;
        let whole = || {
            if scalar.is_block {
                Some(serde_json::Value::from(scalar.text.as_str()).to_string())
            } else {
                text.get(scalar.range.clone()).map(str::to_owned)
            }
        };
        if masked.text == MASK || url_shown(&scalar.text).as_deref() == Some(&*masked.text) {
            return whole();
        }
        // The URL was changed: its secrets might be sent to another host, so they must be written again.
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;

    fn sources(text: &str) -> Sources {
        let source = Source { name: "a.yaml".to_owned(), folder: "".into(), text: text.to_owned() };
        Sources::new(vec![source])
    }

    const TEXT: &str = "\
# a note; token: commented-secret
admin: { address: \"127.0.0.1:1\", users: { a: { token: literal-1 }, b: { token: \"${file:b}\" } } }
hubs:
  news:
    topics: [a]
    secret: 'literal-2'
routes:
  r:
    match: { path: /a, headers: { x-api-key: literal-3 } }
    policies:
      - api_key: { header: x-key, keys: { ann: literal-4 } }
      - headers: { request: { set: { authorization: Bearer literal-5, x-plain: shown } } }
    respond:
      body: |
        # token: a-line-of-a-value
        shown
  t: { match: { path: /t }, policies: [ { forward_auth: { url: \"https://a.test/x?a=shown&Access_Token=literal-8&b=shown#f\" } } ] }
  s: { match: { path: /s }, policies: [ { redirect: { to: \"https://u:literal-6@a.test/x\" } } ] }
store:
  postgres: |
    postgres://u:literal-7@h/d
";

    #[test]
    fn what_is_secret_is_masked_and_put_back() {
        let shown = masked(&sources(TEXT)).remove(0);
        assert!(!shown.contains("literal") && !shown.contains("commented-secret"), "{shown}");
        assert!(
            shown.contains("# token: a-line-of-a-value")
                && shown.contains("x-plain: shown")
                && shown.contains("${file:b}"),
            "{shown}"
        );
        assert!(
            shown.contains("header: x-key") && shown.contains("https://***@a.test/x"),
            "{shown}"
        );
        assert!(shown.contains("https://a.test/x?a=shown&Access_Token=***&b=shown#f"), "{shown}");
        let again = unmasked(&shown, Path::new("a.yaml"), &sources(TEXT)).unwrap();
        let expected = TEXT
            .replace("commented-secret", "***")
            .replace("|\n    postgres://u:literal-7@h/d\n", "\"postgres://u:literal-7@h/d\\n\"\n");
        assert_eq!(again, expected);
    }

    #[test]
    fn secrets_in_comments_are_masked_wherever_the_comment_stands() {
        for (text, shown) in [
            ("workers: 2 # password: hush\n", "workers: 2 # password: ***\n"),
            ("workers: 2 # no secret\n", "workers: 2 # no secret\n"),
            ("a: | # token: hush\n  # token: shown\n", "a: | # token: ***\n  # token: shown\n"),
            ("a: |\n  b\n# token: hush\n", "a: |\n  b\n# token: ***\n"),
            ("a: [ 1, # secret: hush\n  2 ]\n", "a: [ 1, # secret: ***\n  2 ]\n"),
            ("a: # http://u:hush@h/\n  b\n", "a: # http://***@h/\n  b\n"),
            ("\"a # token: b\": 1\n", "\"a # token: b\": 1\n"),
            ("store: { postgres: 'a' } # b\n", "store: { postgres: \"***\" } # b\n"),
            ("store:\n  postgres: 'a' # b\n", "store:\n  postgres: \"***\" # b\n"),
            // What was commented out, as a whole or in its parent.
            ("# keys:\n#   ann: hush\na: b\n", "# keys:\n#   ann: ***\na: b\n"),
            (
                "# key: |\n#   -----BEGIN\n#   hush\na: b\n",
                "# key: ***\n#   -----***\n#   ***\na: b\n",
            ),
            (
                "keys:\n  a: ${K}\n  # ann: hush\n  # was two lines\n",
                "keys:\n  a: ${K}\n  # ann: ***\n  # was two lines\n",
            ),
        ] {
            assert_eq!(masked(&sources(text)), [shown]);
        }
    }

    /// A walk through the schema: the paths of all secrets, where `*` is any name, and `0` an item.
    struct Walk<'s> {
        schema: &'s Json,
        /// The enclosing definitions. A definition that contains itself is visited once.
        around: Vec<&'s str>,
        path: Vec<&'s str>,
        found: Vec<Vec<&'s str>>,
    }

    impl<'s> Walk<'s> {
        fn visit(&mut self, below: &'s Json) {
            if below.get("x-secret").is_some() {
                return self.found.push(self.path.clone());
            }
            if let Some(reference) = below.get("$ref").and_then(Json::as_str) {
                let name = reference.rsplit('/').next().unwrap();
                if !self.around.contains(&name) {
                    self.around.push(name);
                    self.visit(&self.schema["$defs"][name]);
                    self.around.pop();
                }
                return;
            }
            let properties = below["properties"].as_object().into_iter().flatten();
            let named = properties.map(|(name, below)| (name.as_str(), below));
            let any = [("*", &below["additionalProperties"]), ("0", &below["items"])];
            for (name, below) in named.chain(any.into_iter().filter(|(_, below)| below.is_object()))
            {
                self.path.push(name);
                self.visit(below);
                self.path.pop();
            }
            for one in ["anyOf", "oneOf"].iter().flat_map(|of| below[of].as_array()).flatten() {
                self.visit(one);
            }
        }
    }

    #[test]
    fn every_secret_of_the_schema_is_masked_wherever_it_may_stand() {
        let schema = crate::json_schema();
        let (around, path, found) = (Vec::new(), Vec::new(), Vec::new());
        let mut walk = Walk { schema: &schema, around, path, found };
        walk.visit(&schema);
        assert!(walk.found.len() > 100, "{:?}", walk.found);
        for path in walk.found {
            let nested = path.iter().rev().fold("hush".to_owned(), |text, part| match *part {
                "0" => format!("[{text}]"),
                name => format!("{{ \"{name}\": {text} }}"),
            });
            let shown = masked(&sources(&nested)).remove(0);
            assert_eq!(shown, nested.replace("hush", "\"***\""), "{path:?}");
        }
    }

    #[test]
    fn a_mask_without_a_value_is_complained_about() {
        let sent = "admin: { users: { c: { token: \"***\" } } }\n";
        let report = unmasked(sent, Path::new("a.yaml"), &sources(TEXT)).unwrap_err();
        assert!(report.to_string().contains("a.yaml:1:31"), "{report}");
        let moved =
            "routes: { s: { policies: [ { redirect: { to: \"https://***@b.test/x\" } } ] } }\n";
        assert!(unmasked(moved, Path::new("a.yaml"), &sources(TEXT)).is_err());
    }
}
