//! Scans the text of an expression for strings, variables and brackets, without parsing it.

/// How an expression uses a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Value,
    /// A step or a predicate follows the variable.
    Start,
    /// The variable is the argument of `count` or `sum`.
    Items,
    /// The variable is an operand of `|`.
    Joined,
}

/// Returns the use of each variable, in the order of the text.
pub(super) fn uses(text: &str) -> Vec<Use> {
    let mut uses = Vec::new();
    let mut rest = text;
    while let Some((at, sign)) = rest.char_indices().find(|(_, c)| matches!(c, '$' | '\'' | '"')) {
        let before = text.len() - rest.len() + at;
        rest = rest.get(at + 1..).unwrap_or_default();
        if sign != '$' {
            rest = rest.split_once(sign).map_or("", |(_, rest)| rest);
            continue;
        }
        let name = rest.trim_start_matches(is_blank);
        let is_name =
            |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '\u{b7}');
        rest = name.trim_start_matches(is_name);
        let before = text.get(..before).unwrap_or_default();
        uses.push(match rest.trim_start_matches(is_blank).chars().next() {
            Some('/' | '[') => Use::Start,
            Some(')') if ends_with_aggregate(before) => Use::Items,
            Some('|') => Use::Joined,
            _ if before.trim_end_matches(is_blank).ends_with('|') => Use::Joined,
            _ => Use::Value,
        });
    }
    uses
}

/// Returns true if the text ends with `count(` or `sum(`.
fn ends_with_aggregate(before: &str) -> bool {
    let open = before.trim_end_matches(is_blank).strip_suffix('(');
    // Harmless: without a bracket there is no function name.
    let name = open.map(|open| open.trim_end_matches(is_blank)).unwrap_or_default();
    ["count", "sum"].iter().any(|aggregate| {
        let front = name.strip_suffix(aggregate);
        front.is_some_and(|front| {
            !front.ends_with(|c: char| c.is_alphanumeric() || "_-.:$".contains(c))
        })
    })
}

/// Returns true if a text is only a variable followed by a path, so that it cannot need the document. If in doubt, returns false.
pub(super) fn is_plain_tail(text: &str) -> bool {
    if !text.starts_with('$') {
        return false;
    }
    let (mut depth, mut before, mut quote) = (0usize, ' ', None);
    for c in text.chars().skip(1) {
        match (quote, c) {
            (Some(open), c) => quote = (c != open).then_some(open),
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => depth = depth.saturating_sub(1),
            // Inside a predicate, a name is a relative path, but a `/` that does not follow a step may select the document root.
            (None, '/') if depth > 0 && !is_step_end(before) => return false,
            // `$a/*` is a step, but `$a*b` is a multiplication.
            (None, '*') if depth == 0 && !matches!(before, '/' | ':' | '@') => return false,
            (None, c) if depth == 0 && (is_blank(c) || "$|=<>+,!".contains(c)) => return false,
            (None, _) => {}
        }
        before = c;
    }
    true
}

fn is_step_end(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '*' | ')' | ']' | '/')
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_each_variable_is_recognised() {
        for (text, expected) in [
            ("$a/b | $c", vec![Use::Start, Use::Joined]),
            ("$a |$b[1]| $c", vec![Use::Joined, Use::Start, Use::Joined]),
            ("'$x' = $ a [1]", vec![Use::Start]),
            ("concat($headers.X-Id, \"'$\", $m:b//c)", vec![Use::Value, Use::Start]),
            ("/a/b", vec![]),
            ("'open $a", vec![]),
            ("count( $a.b ) + sum ($c) - x-sum($d)", vec![Use::Items, Use::Items, Use::Value]),
            (
                "count($a/b) + string($c) + ($d) + count($e | f)",
                vec![Use::Start, Use::Value, Use::Value, Use::Joined],
            ),
        ] {
            assert_eq!(uses(text), expected, "{text}");
        }
    }

    #[test]
    fn plain_tails_do_not_need_the_document() {
        for text in
            ["$a/b", "$a//m:b[1]/@c", "$a/*[b = 'x | /y']", "$a[b/c]", "$a/text()", "$a[$b/c]"]
        {
            assert!(is_plain_tail(text), "{text}");
        }
        for text in [
            "/a",
            "a",
            "$a | b",
            "$a*b",
            "$a = b",
            "$a[/b]",
            "$a[ /b]",
            "$a[x and /b]",
            "$a[f(/b)]",
        ] {
            assert!(!is_plain_tail(text), "{text}");
        }
    }
}
