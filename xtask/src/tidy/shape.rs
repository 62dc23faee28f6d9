//! Traits with many methods, and types that pass for another by `Deref`.

use super::Complaint;
use super::source::{Source, closing, is_name, whole};

/// STYLE.md, rule 7.
const METHODS_MAX: usize = 5;

/// Traits that have more methods, and why.
const LARGE: &[(&str, &str)] = &[
    ("crates/xml/xml/src/sink.rs:Sink", "one method for each kind of event of a document"),
    ("crates/gateway/message/src/body.rs:Source", "what a body can be asked while it is pulled"),
    ("crates/xml/xsd/src/validator/scope.rs:Tag", "what the validator asks a start tag"),
];

/// STYLE.md, rule 8: files with a `Deref`.
const DEREF: &[&str] = &[
    "crates/net/kit/src/scratch.rs",
    "crates/gateway/listen/src/client.rs",
    "crates/integration/flows/src/state.rs",
];

/// All violations in one file.
pub(crate) fn check(source: &Source) -> Vec<Complaint> {
    if source.crate_name().is_none() || source.is_test() {
        return Vec::new();
    }
    let mut complaints = traits(source);
    let dereferences = whole(&source.shipped, "Deref for").find(|at| {
        let before = source.shipped.get(..*at).unwrap_or_default();
        before.rsplit('\n').next().is_some_and(|line| line.trim_start().starts_with("impl"))
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
    for at in whole(code, "trait ") {
        let Some(rest) = code.get(at + "trait ".len()..) else { continue };
        let name = rest.split(|c: char| !c.is_ascii() || !is_name(c as u8)).next().unwrap_or(rest);
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

/// The number of functions at the first level of braces.
fn methods(body: &str) -> usize {
    let depth = |at: usize| {
        let before = body.get(..at).unwrap_or_default();
        before.matches('{').count().saturating_sub(before.matches('}').count())
    };
    whole(body, "fn ").filter(|at| depth(*at) == 1).count()
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
        assert_eq!(found("crates/xml/a/src/lib.rs", &of(5)), [""; 0]);
        assert_eq!(found("crates/xml/a/src/lib.rs", &of(6)), ["trait `Tall` has 6 methods"]);
    }

    #[test]
    fn no_type_passes_for_another() {
        let text = "impl<T> Deref for Box<T> {\n";
        assert_eq!(found("crates/xml/a/src/lib.rs", text), ["a `Deref` to an inner value"]);
        assert_eq!(found("crates/net/kit/src/scratch.rs", text), [""; 0]);
        assert_eq!(found("crates/xml/a/src/lib.rs", "impl Display for A {}\n"), [""; 0]);
    }
}
