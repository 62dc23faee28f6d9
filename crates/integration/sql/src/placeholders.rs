//! Finds the placeholders in the text of a statement, as far as possible without a database.

use std::collections::BTreeSet;
use std::fmt;

/// The reason why a statement cannot be used in a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    Empty,
    /// It changes the state of the connection, which a later statement of another message would inherit.
    OfConnection(String),
    /// A placeholder is missing although a higher one is used. Contains the number of the highest one.
    Gap(usize),
    /// The number of a placeholder is 0 or too large.
    TooMany,
    /// A comment, string or name is not closed.
    Open(&'static str),
    /// A placeholder of MySQL, which is written differently here.
    Question,
    /// A comment of MySQL that contains part of the statement.
    Hidden,
}

/// The language of statements, as far as placeholders depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The language of PostgreSQL. The language of SQLite counts as a subset of it.
    Standard,
    /// The language of MySQL and MariaDB.
    MySql,
}

/// Maximum number of arguments, the same as in PostgreSQL.
const ARGUMENTS_MAX: usize = 65_535;

/// Keywords of statements that affect a connection or a transaction. Flows cannot use them, because connections are shared.
const OF_CONNECTION: &[&str] = &[
    "ABORT",
    "ATTACH",
    "BEGIN",
    "CLOSE",
    "COMMIT",
    "COPY",
    "DEALLOCATE",
    "DECLARE",
    "DETACH",
    "DISCARD",
    "END",
    "FETCH",
    "HANDLER",
    "LISTEN",
    "LOAD",
    "LOCK",
    "MOVE",
    "NOTIFY",
    "PRAGMA",
    "PREPARE",
    "RELEASE",
    "RESET",
    "ROLLBACK",
    "SAVEPOINT",
    "SET",
    "START",
    "UNLISTEN",
    "UNLOCK",
    "USE",
    "XA",
];

/// Returns the number of arguments of a statement: the placeholders `$1`, `$2` and so on outside of strings, names and comments.
pub fn placeholders(statement: &str, dialect: Dialect) -> Result<usize, Fault> {
    let mut found = BTreeSet::new();
    let first = walk(statement, dialect, |_, number| found.extend(number))?;
    let first = first.ok_or(Fault::Empty)?.to_ascii_uppercase();
    if OF_CONNECTION.contains(&&*first) {
        return Err(Fault::OfConnection(first));
    }
    let most = found.last().copied().unwrap_or(0);
    if most > ARGUMENTS_MAX || found.contains(&0) {
        return Err(Fault::TooMany);
    }
    match (1..=most).find(|number| !found.contains(number)) {
        Some(_) => Err(Fault::Gap(most)),
        None => Ok(most),
    }
}

/// Returns a statement of MySQL with `?` for each placeholder, and the numbers of the placeholders in their order.
pub(crate) fn positional(statement: &str) -> Result<(String, Vec<usize>), Fault> {
    let (mut text, mut order) = (String::with_capacity(statement.len()), Vec::new());
    walk(statement, Dialect::MySql, |token, number| {
        text.push_str(if number.is_some() { "?" } else { token });
        order.extend(number);
    })?;
    Ok((text, order))
}

/// Passes each token of a statement to `show`, with its number if it is a placeholder. Returns the first word.
fn walk<'s>(
    statement: &'s str,
    dialect: Dialect,
    mut show: impl FnMut(&'s str, Option<usize>),
) -> Result<Option<&'s str>, Fault> {
    let mut first = None;
    let mut rest = statement;
    while let Some(c) = rest.chars().next() {
        // Harmless: `rest` is the end of the statement.
        let before = statement.get(..statement.len() - rest.len()).unwrap_or_default();
        let (taken, number) = match dialect {
            Dialect::Standard => standard(c, rest, before)?,
            Dialect::MySql => mysql(c, rest, before)?,
        };
        if first.is_none() && c.is_ascii_alphabetic() {
            first = rest.split(|c: char| !is_word(c)).next();
        }
        let (token, left) = rest.split_at_checked(taken).unwrap_or((rest, ""));
        show(token, number);
        rest = left;
    }
    Ok(first)
}

/// Returns the length of the first token, and its number if it is a placeholder. After the word `E`, a backslash in a string escapes.
fn standard(c: char, rest: &str, before: &str) -> Result<(usize, Option<usize>), Fault> {
    Ok(match c {
        '\'' => {
            let word = before.strip_suffix(['e', 'E']);
            let escapes = word.is_some_and(|before| !before.ends_with(is_word));
            (quoted(rest, c, escapes, "a text in `'`")?, None)
        }
        '"' => (quoted(rest, '"', false, "a name in `\"`")?, None),
        '-' if rest.starts_with("--") => (line(rest), None),
        '/' if rest.starts_with("/*") => (comment(rest)?, None),
        '$' if !before.ends_with(is_word) => match number(rest) {
            Some((taken, number)) => (taken, Some(number)),
            None => (dollar(rest)?, None),
        },
        c => (c.len_utf8(), None),
    })
}

/// Like `standard`, for MySQL: a backslash escapes in all strings, comments do not nest, and `--` begins one only before white space.
fn mysql(c: char, rest: &str, before: &str) -> Result<(usize, Option<usize>), Fault> {
    let is_comment = |after: &str| after.chars().next().is_none_or(|c| c <= ' ');
    Ok(match c {
        '\'' => (quoted(rest, c, true, "a text in `'`")?, None),
        '"' => (quoted(rest, c, true, "a text in `\"`")?, None),
        '`' => (quoted(rest, c, false, "a name in backticks")?, None),
        '#' => (line(rest), None),
        '-' if rest.strip_prefix("--").is_some_and(is_comment) => (line(rest), None),
        '/' if rest.starts_with("/*!") || rest.starts_with("/*M!") => return Err(Fault::Hidden),
        '/' if rest.starts_with("/*") => {
            let end = rest.get(2..).and_then(|rest| rest.find("*/"));
            (end.ok_or(Fault::Open("a comment"))? + 4, None)
        }
        '?' => return Err(Fault::Question),
        '$' if !before.ends_with(is_word) => match number(rest) {
            Some((taken, number)) => (taken, Some(number)),
            None => (1, None),
        },
        c => (c.len_utf8(), None),
    })
}

/// Returns the length of a line without its end.
fn line(rest: &str) -> usize {
    rest.find('\n').unwrap_or(rest.len())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

/// Returns the length of a quoted string or name. A quote inside is doubled.
fn quoted(rest: &str, quote: char, escapes: bool, what: &'static str) -> Result<usize, Fault> {
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && escapes {
            chars.next();
        } else if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return Ok(at + c.len_utf8());
        }
    }
    Err(Fault::Open(what))
}

/// Returns the length of a comment. In PostgreSQL, comments nest.
fn comment(rest: &str) -> Result<usize, Fault> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(here) = rest.get(at..).filter(|here| !here.is_empty()) {
        let taken = if here.starts_with("/*") {
            depth += 1;
            2
        } else if here.starts_with("*/") {
            depth -= 1;
            2
        } else {
            here.chars().next().map_or(1, char::len_utf8)
        };
        at += taken;
        if depth == 0 {
            return Ok(at);
        }
    }
    Err(Fault::Open("a comment"))
}

/// Returns the length and the number of a placeholder.
fn number(rest: &str) -> Option<(usize, usize)> {
    let after = rest.strip_prefix('$')?;
    let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number = after.get(..digits).filter(|digits| !digits.is_empty())?.parse::<usize>();
    Some((1 + digits, number.unwrap_or(ARGUMENTS_MAX + 1)))
}

/// Returns the length of a string such as `$$a$$` or `$tag$a$tag$`, or of the `$` if it begins none.
fn dollar(rest: &str) -> Result<usize, Fault> {
    let after = rest.get(1..).unwrap_or_default();
    let tag = after.len() - after.trim_start_matches(|c: char| is_word(c) && c != '$').len();
    let begin = rest.get(..tag + 2).filter(|begin| begin.ends_with('$'));
    let Some(begin) = begin else { return Ok(1) };
    let body = rest.get(begin.len()..).unwrap_or_default();
    match body.find(begin) {
        Some(end) => Ok(begin.len() * 2 + end),
        None => Err(Fault::Open("a text in `$$`")),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Empty => f.write_str("there is no statement"),
            Fault::OfConnection(word) => write!(
                f,
                "`{word}` changes the connection, which statements of other messages use too"
            ),
            Fault::Gap(most) => write!(f, "there is `${most}`, but not all placeholders before it"),
            Fault::TooMany => write!(f, "placeholders range from `$1` to `${ARGUMENTS_MAX}`"),
            Fault::Open(what) => write!(f, "{what} is not terminated"),
            Fault::Question => {
                f.write_str("`?` is not a placeholder here: write `$1`, `$2` and so on")
            }
            Fault::Hidden => f.write_str("`/*!` begins a comment that MySQL executes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_counted_outside_strings_names_and_comments() {
        for (text, count) in [
            ("select 1", 0),
            ("select $1", 1),
            ("select $2 from a where b=$1 and c=$2", 2),
            ("select '$1', \"$2\", $1 -- $3\n", 1),
            ("select 'it''s $2' /* $2 /* $3 */ $4 */ where a = $1", 1),
            ("select E'\\'$2' || $1, e'\\'$3'", 1),
            ("select 1 where a like'\\' and b = $1", 1),
            ("select 1 where a like'x\\' or b = $1 or c ='$2'", 1),
            ("select $$ $2 $$, $a$ $3 $$ $a$, $1", 1),
            ("select a$1 from t", 0),
            ("insert into a values ($1,$2,$3)", 3),
            ("-- first\n(select $1)", 1),
            ("select 'ä$1ö', $1::text", 1),
        ] {
            assert_eq!(placeholders(text, Dialect::Standard), Ok(count), "{text}");
        }
    }

    #[test]
    fn statements_that_flows_cannot_use_are_refused() {
        for (text, fault) in [
            ("", Fault::Empty),
            (" -- nothing", Fault::Empty),
            ("begin", Fault::OfConnection("BEGIN".to_owned())),
            ("/* a */ Set role a", Fault::OfConnection("SET".to_owned())),
            ("pragma query_only = on", Fault::OfConnection("PRAGMA".to_owned())),
            ("select $2", Fault::Gap(2)),
            ("select $0", Fault::TooMany),
            ("select $70000", Fault::TooMany),
            ("select $99999999999999999999999", Fault::TooMany),
            ("select 'a", Fault::Open("a text in `'`")),
            ("select \"a", Fault::Open("a name in `\"`")),
            ("select /* a", Fault::Open("a comment")),
            ("select $a$ b", Fault::Open("a text in `$$`")),
        ] {
            assert_eq!(placeholders(text, Dialect::Standard), Err(fault), "{text}");
        }
    }

    #[test]
    fn placeholders_of_mysql_become_questions_in_their_order() {
        for (text, made, order) in [
            ("select $1", "select ?", vec![1]),
            ("select $2, $1, $2", "select ?, ?, ?", vec![2, 1, 2]),
            (
                "select 'it\\'s $9', \"$8\\\"$7\", `$6`, $1",
                "select 'it\\'s $9', \"$8\\\"$7\", `$6`, ?",
                vec![1],
            ),
            ("select $1 # $2\n, $2", "select ? # $2\n, ?", vec![1, 2]),
            ("select /* $3 /* */ $1", "select /* $3 /* */ ?", vec![1]),
            ("select a$1 from t where b = $1", "select a$1 from t where b = ?", vec![1]),
            ("select $$", "select $$", vec![]),
            ("select 5--$1 -- $2", "select 5--? -- $2", vec![1]),
        ] {
            assert_eq!(positional(text), Ok((made.to_owned(), order)), "{text}");
        }
        for (text, fault) in [
            ("select ?", Fault::Question),
            ("select /*! 1 */", Fault::Hidden),
            ("select /*M!100000 1 */", Fault::Hidden),
            ("select 'a\\'", Fault::Open("a text in `'`")),
            ("select `a", Fault::Open("a name in backticks")),
            ("select /* a", Fault::Open("a comment")),
        ] {
            assert_eq!(positional(text), Err(fault), "{text}");
        }
    }
}
