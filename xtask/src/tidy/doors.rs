//! The first file of a crate: a comment that says what the crate owns, and no unsafe code.

use super::Complaint;
use super::source::Source;

/// The crates that may have unsafe code: `kit` for raw memory, `saxon` for the interface to Java, the program for its allocator.
const UNSAFE: &[&str] = &["kit", "saxon", "tidegate"];

/// Returns the violation in the first file of a crate, or `None` for any other file.
pub(crate) fn check(source: &Source) -> Option<Complaint> {
    let name = source.crate_name()?;
    let root =
        ["lib.rs", "main.rs"].iter().any(|f| source.path.ends_with(&format!("/{name}/src/{f}")));
    if !root {
        return None;
    }
    if !source.comments.starts_with("//!") {
        let what = format!("`{name}` does not say what it is");
        let instead = "begin with `//!`: what it owns, what it never does, where a request passes";
        return Some(source.complain(0, what, instead.to_owned()));
    }
    if !UNSAFE.contains(&name) && !source.code.contains("#![forbid(unsafe_code)]") {
        let what = format!("`{name}` does not forbid unsafe code");
        return Some(source.complain(0, what, "add `#![forbid(unsafe_code)]`".to_owned()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Text;

    fn found(path: &str, text: &str) -> Option<String> {
        let text = Text { path: path.to_owned(), text: text.to_owned() };
        check(&Source::read(&text)).map(|complaint| complaint.what)
    }

    #[test]
    fn crates_begin_with_a_description() {
        let silent = Some("`plan` does not say what it is".to_owned());
        assert_eq!(found("crates/gateway/plan/src/lib.rs", "#![forbid(unsafe_code)]\n"), silent);
        assert_eq!(found("crates/gateway/plan/src/lib.rs", "\"//! no\"\n"), silent);
        assert_eq!(found("crates/gateway/plan/src/main.rs", "mod a;\n"), silent);
        assert_eq!(found("crates/gateway/plan/src/table.rs", "mod a;\n"), None);
    }

    #[test]
    fn crates_forbid_unsafe_code() {
        let bare = "//! What it is.\n// #![forbid(unsafe_code)]\nmod a;\n";
        let unsafe_may_be = Some("`plan` does not forbid unsafe code".to_owned());
        assert_eq!(found("crates/gateway/plan/src/lib.rs", bare), unsafe_may_be);
        assert_eq!(
            found("crates/gateway/plan/src/lib.rs", "//! It.\n#![forbid(unsafe_code)]\n"),
            None
        );
        for name in UNSAFE {
            assert_eq!(found(&format!("crates/net/{name}/src/lib.rs"), bare), None);
        }
    }
}
