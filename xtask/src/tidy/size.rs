//! The lengths of files and functions, without tests: a ratchet.
//!
//! Owns the two limits. Longer ones are in a list that may only shrink.

use super::ratchet::{List, Measured};
use super::source::{Source, closing, is_name};
use super::{Complaint, EXCEPTIONS};

/// Maximum number of lines in a file. A longer file usually combines two subjects.
const FILE_LINES_MAX: usize = 600;

/// Maximum number of lines in a function, so that it fits on a screen.
const FUNCTION_LINES_MAX: usize = 70;

/// Returns lengths over their limit that have no exception, and exceptions that are wrong.
pub(crate) fn check(sources: &[Source], recorded: &str) -> Vec<Complaint> {
    let form = "FILE LINES` or `FILE::FUNCTION LINES";
    let list = List { file: EXCEPTIONS, text: recorded, unit: "lines", form };
    let shipped = sources.iter().filter(|source| !source.is_test());
    list.check(shipped.flat_map(measure))
}

/// The file and the functions in it that are too long.
fn measure(source: &Source) -> Vec<Measured> {
    let lines = source.shipped.trim_end().lines().count();
    let what = format!("{lines} lines in one file, {FILE_LINES_MAX} at most");
    let file = Measured {
        name: source.path.clone(),
        count: lines,
        complaint: source.complain(0, what, "split it by idea".to_owned()),
    };
    let file = (lines > FILE_LINES_MAX).then_some(file);
    let functions = functions(&source.shipped).into_iter();
    let long = functions.filter(|function| function.lines > FUNCTION_LINES_MAX);
    let functions = long.map(|Function { name, at, lines }| {
        let what = format!("`{name}` has {lines} lines, {FUNCTION_LINES_MAX} at most");
        Measured {
            name: format!("{}::{name}", source.path),
            count: lines,
            complaint: source.complain(at, what, "look for the split".to_owned()),
        }
    });
    file.into_iter().chain(functions).collect()
}

struct Function<'s> {
    name: &'s str,
    at: usize,
    lines: usize,
}

fn functions(code: &str) -> Vec<Function<'_>> {
    code.match_indices("fn ")
        .filter_map(|(at, keyword)| function(code, at, keyword.len()))
        .collect()
}

/// The function whose keyword is at `at`, if it is one and has a body.
fn function(code: &str, at: usize, keyword_len: usize) -> Option<Function<'_>> {
    let joined = at.checked_sub(1).and_then(|before| code.as_bytes().get(before));
    if joined.is_some_and(|byte| is_name(*byte)) {
        return None;
    }
    let rest = code.get(at + keyword_len..)?;
    let name_len = rest.bytes().take_while(|byte| is_name(*byte)).count();
    let name = rest.get(..name_len).filter(|name| !name.is_empty())?;
    let body = body(code, at + keyword_len + name_len)?;
    let lines = code.get(at..closing(code, body))?.lines().count();
    Some(Function { name, at, lines })
}

/// Returns the offset at which the body begins, or `None` for a declaration.
fn body(code: &str, from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at = match code.as_bytes().get(at)? {
            b'{' => return Some(at),
            b';' => return None,
            b'(' | b'[' => closing(code, at),
            _ => at + 1,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Text;

    fn found(path: &str, text: &str, recorded: &str) -> Vec<String> {
        let text = Text { path: path.to_owned(), text: text.to_owned() };
        let complaints = check(&[Source::read(&text)], recorded);
        complaints.iter().map(ToString::to_string).collect()
    }

    fn long(lines: usize) -> String {
        format!(
            "const A: u8 = 1;\nfn long(a: [u8; 2]) -> u8 {{\n{}}}\n",
            "    a();\n".repeat(lines - 2)
        )
    }

    #[test]
    fn functions_are_measured() {
        let text = "trait T { fn a(&self); fn b(&self) {\n\n} }\nconst F: fn (u8) = c;\nfn c(x: [u8; 2])\nwhere\n{\n}\n";
        let found: Vec<(&str, usize)> =
            functions(text).iter().map(|function| (function.name, function.lines)).collect();
        assert_eq!(found, [("b", 3), ("c", 4)]);
    }

    #[test]
    fn long_functions_and_files_are_found() {
        assert_eq!(found("a.rs", &long(FUNCTION_LINES_MAX), ""), [""; 0]);
        let over = found("a.rs", &long(FUNCTION_LINES_MAX + 1), "");
        assert_eq!(over, ["a.rs:2: `long` has 71 lines, 70 at most; look for the split"]);
        let file = "mod a;\n".repeat(FILE_LINES_MAX + 1);
        assert_eq!(
            found("a.rs", &file, ""),
            ["a.rs:1: 601 lines in one file, 600 at most; split it by idea"]
        );
        assert_eq!(found("tests/a.rs", &file, ""), [""; 0]);
        assert_eq!(
            found("a.rs", &format!("#[cfg(test)]\nmod tests {{\n{}}}\n", long(200)), ""),
            [""; 0]
        );
    }

    #[test]
    fn an_exception_has_the_name_of_its_function() {
        let text = long(80);
        assert_eq!(found("a.rs", &text, "a.rs::long 80\n"), [""; 0]);
        assert_eq!(found("a.rs", &text, "a.rs::short 80\n").len(), 2);
    }
}
