//! Traits with many methods, and types that pass for another by `Deref`.

use super::Complaint;
use super::source::{Source, closing, is_name};

/// STYLE.md, rule 7.
const METHODS_MAX: usize = 5;

/// Traits that have more methods, and why.
const LARGE: &[(&str, &str)] = &[
    ("crates/xml/src/sink.rs:Sink", "one method for each kind of event of a document"),
    ("crates/message/src/body.rs:Source", "what a body can be asked while it is pulled"),
    ("crates/xsd/src/validator/scope.rs:Tag", "what the validator asks a start tag"),
];

/// STYLE.md, rule 8: files with a `Deref`.
const DEREF: &[&str] =
    &["crates/kit/src/scratch.rs", "crates/listen/src/client.rs", "crates/flows/src/state.rs"];

/// All violations in one file.
pub(crate) fn check(source: &Source) -> Vec<Complaint> {
    if source.crate_name().is_none() || source.is_test() {
        return Vec::new();
    }
    let mut complaints = traits(source);
    let dereferences = source.shipped.find("impl Deref for").or_else(|| {
        let at = source.shipped.find(" Deref for ")?;
        let line = source.shipped.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
        source.shipped.get(line..at)?.trim_start().starts_with("impl").then_some(at)
    });
    if let Some(at) = dereferences.filter(|_| !DEREF.contains(&&*source.path)) {
        let instead = "write a method or a public field".to_owned();
        complaints.push(source.complain(at, "a `Deref` to an inner value".to_owned(), instead));
    }
    complaints
}

fn traits(source: &Source) -> Vec<Complaint> {
    let code = &source.shipped;
    let mut complaints = Vec::new();
    for (at, _) in code.match_indices("trait ") {
        let (before, rest) = code.split_at(at);
        if before.bytes().next_back().is_some_and(|byte| !byte.is_ascii_whitespace()) {
            continue;
        }
        let rest = rest.strip_prefix("trait ").unwrap_or(rest);
        let name: String = rest.chars().take_while(|c| c.is_ascii() && is_name(*c as u8)).collect();
        let Some(open) = code.get(at..).and_then(|rest| rest.find('{')).map(|from| at + from)
        else {
            continue;
        };
        let body = code.get(open..closing(code, open)).unwrap_or_default();
        let methods = methods(body);
        let place = format!("{}:{name}", source.path);
        if methods > METHODS_MAX && !LARGE.iter().any(|(known, _)| *known == place) {
            let what = format!("trait `{name}` has {methods} methods");
            let instead = format!("have at most {METHODS_MAX}, by a second trait");
            complaints.push(source.complain(at, what, instead));
        }
    }
    complaints
}

/// Functions at the first level of braces.
fn methods(body: &str) -> usize {
    let mut depth = 0usize;
    let mut count = 0;
    for (at, byte) in body.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b'f' if depth == 1 => {
                let rest = body.get(at..).unwrap_or_default();
                let is_word = at.checked_sub(1).and_then(|at| body.as_bytes().get(at));
                let is_word = is_word.is_none_or(|before| !is_name(*before) && *before != b'#');
                count += usize::from(is_word && rest.starts_with("fn "));
            }
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Text;

    fn found(path: &str, text: &str) -> Vec<String> {
        let text = Text { path: path.to_owned(), text: text.to_owned() };
        check(&Source::read(&text)).into_iter().map(|complaint| complaint.what).collect()
    }

    #[test]
    fn traits_are_small() {
        let methods = |count: usize| "  fn f() { if x { fn g() {} } }\n".repeat(count);
        let of = |count: usize| format!("pub trait Tall<T> {{\n{}}}\n", methods(count));
        assert_eq!(found("crates/a/src/lib.rs", &of(5)), [""; 0]);
        assert_eq!(found("crates/a/src/lib.rs", &of(6)), ["trait `Tall` has 6 methods"]);
    }

    #[test]
    fn no_type_passes_for_another() {
        let text = "impl<T> Deref for Box<T> {\n";
        assert_eq!(found("crates/a/src/lib.rs", text), ["a `Deref` to an inner value"]);
        assert_eq!(found("crates/kit/src/scratch.rs", text), [""; 0]);
        assert_eq!(found("crates/a/src/lib.rs", "impl Display for A {}\n"), [""; 0]);
    }
}
