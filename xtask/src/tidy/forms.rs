//! Forms in which a call that can lose something does not lose anything, or reports the loss.
//!
//! Owns what can be seen in the text of one statement. Such a use does not need a comment.

use super::source::{closing, is_name, whole};

/// Returns true if the form of the call at `at` shows that nothing is lost.
pub(crate) fn is_harmless(code: &str, text: &str, at: usize) -> bool {
    let before = code.get(..at).unwrap_or_default().trim_end();
    let end = at + text.len();
    let after = code.get(end..).unwrap_or_default();
    let given = || code.get(end..closing(code, end - 1) - 1).unwrap_or_default().trim();
    match text {
        // The function returns `None` for its caller to decide, or the error was handled or replaced by another.
        ".ok()" => {
            let handles =
                |call: &Call<'_>| call.name == "map_err" && !call.arguments.starts_with("|_| ()");
            after.starts_with('?')
                || is_refused(after)
                || Call::last(before).is_some_and(|call| handles(&call))
        }
        ".filter_map(" => is_told(given()) || is_optional_field(given()) || is_choice(given()),
        ".flatten()" => Call::last(before).is_some_and(|call| match call.name {
            // A condition, or a list of optional values.
            "then" => true,
            "into_iter" => call.before.ends_with(']') && is_literal(call.before),
            _ => false,
        }),
        // A method of another type than an iterator, or one item more than allowed, to detect that there are too many.
        ".take(" => {
            let of_text = given().is_empty() || given().starts_with('&');
            let is_option = code.get(closing(code, end - 1)..).is_some_and(|c| c.starts_with('?'));
            of_text || is_option || arguments(given()) > 1 || given().ends_with("+ 1")
        }
        ".zip(" => is_told(given()) || is_numbering(before, given()) || compares_lengths(before),
        ".unwrap_or_default()" => Call::last(before).is_some_and(|call| match call.name {
            // A range without an end loses nothing. A constant end may lie after the end of the value, which then has no such range.
            "get" => call.arguments.split_once("..").is_some_and(|(_, end)| {
                !end.starts_with(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase())
            }),
            // The first part always exists.
            "next" => Call::last(call.before)
                .is_some_and(|call| matches!(call.name, "split" | "rsplit" | "splitn")),
            // A text that is written only if there is a value.
            "map" => body(call.arguments).is_some_and(|body| body.starts_with("format!(")),
            "try_from" => fits(&call),
            _ => false,
        }),
        "let _" => {
            let value = value(after);
            is_told(value) || is_text_written(code, value) || keeps(after, value)
        }
        _ => false,
    }
}

/// A call of a method at the end of an expression.
struct Call<'c> {
    name: &'c str,
    arguments: &'c str,
    /// The expression it is called on.
    before: &'c str,
}

impl Call<'_> {
    fn last(code: &str) -> Option<Call<'_>> {
        let open = opening(code)?;
        let (called, arguments) = code.split_at_checked(open)?;
        let arguments = arguments.strip_prefix('(')?.strip_suffix(')')?.trim();
        let before = called.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
        let name = called.get(before.len()..)?;
        let before = before.trim_end();
        let before = before.strip_suffix('.').or_else(|| before.strip_suffix("::"))?.trim_end();
        Some(Call { name, arguments, before })
    }
}

/// Returns true if the following calls in the same expression turn an absent value into an error.
fn is_refused(after: &str) -> bool {
    let mut rest = after;
    while let Some(called) = rest.trim_start().strip_prefix('.') {
        let name = called.bytes().take_while(|byte| is_name(*byte)).count();
        if matches!(called.get(..name), Some("ok_or" | "ok_or_else" | "context" | "with_context")) {
            return true;
        }
        let given = called.get(name..).filter(|given| given.starts_with('('));
        rest = given.and_then(|given| given.get(closing(given, 0)..)).unwrap_or("");
    }
    false
}

/// Returns the offset of the opening bracket that matches the last byte. Returns `None` if that byte is not a closing bracket.
fn opening(code: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().rev() {
        match byte {
            b'}' | b')' | b']' => depth += 1,
            b'{' | b'(' | b'[' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return matches!(byte, b'{' | b'(' | b'[').then_some(offset);
        }
    }
    None
}

/// Returns true if a number always fits: a length has at most 64 bits, and `value % 64` or `value & 0x7f` at most eight.
fn fits(call: &Call<'_>) -> bool {
    let given = call.arguments;
    let is_length = given.ends_with(".len()") || given.ends_with(".count()");
    let bound = given.rsplit_once(" % ").or_else(|| given.rsplit_once(" & "));
    let bound = bound.map(|(_, bound)| match bound.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => bound.parse(),
    });
    is_length && call.before.ends_with("u64") || matches!(bound, Some(Ok(0..256)))
}

/// Returns true if the function can report complaints: `compile` and `config` pass these arguments to functions that refuse values.
fn is_told(given: &str) -> bool {
    ["report", "decoder"].iter().any(|word| whole(given, word).next().is_some())
}

/// The body of a closure.
fn body(closure: &str) -> Option<&str> {
    let (_, body) = closure.strip_prefix('|')?.split_once('|')?;
    Some(body.trim())
}

/// Returns true for the value of an optional field: `|route| route.value.upstream.as_ref()`.
fn is_optional_field(closure: &str) -> bool {
    let Some(body) = body(closure) else {
        return false;
    };
    let field =
        [".as_ref()", ".as_deref()", ".as_mut()"].iter().find_map(|end| body.strip_suffix(end));
    let path = field.unwrap_or(body);
    path.contains('.') && path.bytes().all(|byte| is_name(byte) || byte == b'.')
}

/// Returns true for `|part| match part { .. }` with an arm for each kind, which names the kinds that are left out.
fn is_choice(closure: &str) -> bool {
    let is_open = |arms: &str| arms.contains("_ =>") || arms.contains("_ if ");
    body(closure).is_some_and(|body| body.starts_with("match ") && !is_open(body))
}

/// Returns true if a list is written here and not indexed.
fn is_literal(code: &str) -> bool {
    let list = opening(code).and_then(|open| code.get(..open));
    list.is_some_and(|front| {
        !front.trim_end().ends_with(|c: char| c.is_alphanumeric() || "_)]!".contains(c))
    })
}

/// The number of arguments.
fn arguments(given: &str) -> usize {
    let (mut depth, mut commas) = (0_usize, 0);
    for byte in given.trim_end_matches(',').bytes() {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => commas += 1,
            _ => {}
        }
    }
    commas + 1
}

/// Returns true for `(1..).zip(list)` or `list.zip(0..)`, whose numbers do not end.
fn is_numbering(before: &str, given: &str) -> bool {
    let is_open = |range: &str| {
        range.strip_suffix("..").is_some_and(|from| !from.is_empty() && from.bytes().all(is_name))
    };
    let front = opening(before).and_then(|open| before.get(open..));
    let front = front.and_then(|range| range.strip_prefix('(')?.strip_suffix(')'));
    is_open(given) || front.is_some_and(is_open)
}

/// Returns true if the statement compares the lengths of both lists: `a.len() == b.len() && a.iter().zip(b)`.
fn compares_lengths(before: &str) -> bool {
    let statement = before.rsplit([';', '{', '}']).next().unwrap_or(before);
    let lengths =
        statement.split_once(".len() == ").and_then(|(_, rest)| rest.split_once(".len()"));
    lengths
        .is_some_and(|(other, rest)| !other.contains("&&") && rest.trim_start().starts_with("&&"))
}

/// Returns the value of `NAME = VALUE;`, whose beginning may be missing.
fn value(after: &str) -> &str {
    let mut depth = 0_usize;
    let end = after.bytes().position(|byte| {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        byte == b';' && depth == 0
    });
    let value = after.get(..end.unwrap_or(after.len())).unwrap_or(after);
    value.split_once(" = ").map_or("", |(_, value)| value.trim())
}

/// Returns true if `let _NAME = VALUE;` drops a result that says only whether the call succeeded. `after` is the code after `let _`.
pub(crate) fn names_a_dropped_result(after: &str) -> bool {
    let value = value(after);
    let value = value.strip_suffix(".await").unwrap_or(value);
    let drops = |call: Call<'_>| RESULTS.contains(&call.name);
    after.bytes().next().is_some_and(is_name)
        && (is_written(value) || Call::last(value).is_some_and(drops))
}

/// Calls whose result need not live until the end of its scope.
const RESULTS: &[&str] = &[
    "join",
    "kill",
    "remove_dir_all",
    "remove_file",
    "send",
    "set",
    "shutdown",
    "timeout",
    "try_send",
    "try_with",
    "wait",
    "write_all",
];

fn is_written(value: &str) -> bool {
    value.contains("write!(") || value.contains("writeln!(")
}

/// Returns true if a text is written to, which does not fail. Files that write to something else do not import this trait.
fn is_text_written(code: &str, value: &str) -> bool {
    is_written(value) && code.contains("fmt::Write")
}

/// Returns true if nothing is dropped: a guard or a lock that is held, an unused argument, or a result whose error is passed on.
fn keeps(after: &str, value: &str) -> bool {
    let unused = after.starts_with(" = ") && value.bytes().all(is_name);
    let name = value.bytes().take_while(|byte| is_name(*byte)).count();
    let is_made = value.starts_with(|c: char| c.is_ascii_uppercase())
        && value.get(name..).is_some_and(|rest| rest.starts_with('('))
        && closing(value, name) == value.len();
    let is_moved = !value.is_empty() && name == value.len();
    let is_lock = value.ends_with(".lock().await") || value.ends_with(".lock()");
    unused || is_made || is_moved || is_lock || value.ends_with('?')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_result_has_no_name() {
        for (after, drops) in [
            ("sent = a.b.send(c);", true),
            ("late = tokio::time::timeout(a, b(c)).await;", true),
            ("written = write!(a,   );", true),
            (" = a.b.send(c);", false),
            ("guard = a.lock().await;", false),
            ("permit = a.send(b)?;", false),
            ("first = send(a);", false),
        ] {
            assert_eq!(names_a_dropped_result(after), drops, "{after}");
        }
    }

    #[test]
    fn forms_that_lose_nothing_are_known() {
        let harmless = |code: &str, text: &str| is_harmless(code, text, code.rfind(text).unwrap());
        for (text, lossless, lossy) in [
            (
                ".ok()",
                &[
                    "a.map_err(|e| complain(e)).ok()",
                    "a(1)\n    .map_err(complain)\n    .ok()",
                    "a.ok()?",
                    "a.ok().filter(|a| b)\n    .ok_or_else(c)?",
                ][..],
                &[
                    "a.ok()",
                    "a.ok().filter(b)",
                    "a.map_err(|_| ()).ok()",
                    "a(b).ok()",
                    "map_err(a).ok()",
                ][..],
            ),
            (
                ".filter_map(",
                &[
                    "a.filter_map(|a| read(a, report))",
                    "a.filter_map(|a| T::decode(a, self.decoder))",
                    "a.filter_map(|a| a.value.upstream.as_ref())",
                    "a.filter_map(|a| a.xml)",
                    "a.filter_map(|a| match a { B(b) => Some(b), C => None })",
                ],
                &[
                    "a.filter_map(read)",
                    "a.filter_map(|a| a.get(reported))",
                    "a.filter_map(|a| a.get(0))",
                    "a.filter_map(|a| a)",
                    "a.filter_map(|a| match a { B(b) => Some(b), _ => None })",
                ],
            ),
            (
                ".flatten()",
                &[
                    "[a, b(c)].into_iter().flatten()",
                    "is.then(|| a).flatten()",
                    "(&[a]).then(b).flatten()",
                ],
                &[
                    "a.flatten()",
                    "a[1].into_iter().flatten()",
                    "vec![a].into_iter().flatten()",
                    "a.b.into_iter().flatten()",
                ],
            ),
            (
                ".take(",
                &[
                    "a.take(b(1), 2)",
                    "a.take(max + 1)",
                    "a.take(   )",
                    "a.take(&mut b)",
                    "a.take(b)?",
                ],
                &["a.take(2)", "a.take(b(1, 2))", "a.take(b + 1 + c)"],
            ),
            (
                ".zip(",
                &[
                    "(1..).zip(a)",
                    "a.iter().zip(0u32..)",
                    "a.len() == b.len() && a.iter().zip(b)",
                    "read(a, report).zip(read(b, report))",
                ],
                &[
                    "a.iter().zip(b)",
                    "(1..4).zip(a)",
                    "a.len() == b.len(); a.iter().zip(b)",
                    "a.len() == b.len() || a.iter().zip(b)",
                    "a.len() == 1 && b.len() == 2 && a.zip(b)",
                ],
            ),
            (
                ".unwrap_or_default()",
                &[
                    "a.get(1..).unwrap_or_default()",
                    "a.get(..found).unwrap_or_default()",
                    "a.split( ).next().unwrap_or_default()",
                    "a.map(|a| format!(  )).unwrap_or_default()",
                    "u64::try_from(a.len()).unwrap_or_default()",
                    "usize::try_from(a % 64).unwrap_or_default()",
                    "u8::try_from(a & 0x7f).unwrap_or_default()",
                ],
                &[
                    "a.get(1).unwrap_or_default()",
                    "a.get(..64).unwrap_or_default()",
                    "a.get(..LEN_MAX).unwrap_or_default()",
                    "a.lines().next().unwrap_or_default()",
                    "u32::try_from(a.len()).unwrap_or_default()",
                    "u8::try_from(a % 300).unwrap_or_default()",
                    "u8::try_from(a).unwrap_or_default()",
                    "a.map(b).unwrap_or_default()",
                    "a.unwrap_or_default()",
                ],
            ),
            (
                "let _",
                &[
                    "let _ = check(&a, report);",
                    "use std::fmt::Write as _;\nlet _ = write!(a,   );",
                    "let _ = unused;",
                    "let _turn = a.lock().await;",
                    "let _again = Restore(a.b());",
                    "let _place = place;",
                    "let _lower = a.number()?;",
                ],
                &[
                    "let _ = a();",
                    "let _ = write!(a,   );",
                    "let _ = a(); report();",
                    "let _ = Sender(a).send(b);",
                ],
            ),
        ] {
            for code in lossless {
                assert!(harmless(code, text), "{code}");
            }
            for code in lossy {
                assert!(!harmless(code, text), "{code}");
            }
        }
    }
}
