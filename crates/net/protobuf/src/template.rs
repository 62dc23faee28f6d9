//! The path template of a rule: its grammar, and the values of its variables.
//!
//! `Template = "/" Segments [":" LITERAL]`, `Segment = "*" | "**" | LITERAL | "{" FieldPath ["=" Segments] "}"`. `**` is the last segment.

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) segments: Vec<Segment>,
    pub(crate) verb: Option<Box<str>>,
    pub(crate) variables: Vec<Variable>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    Literal(Box<str>),
    /// Any one segment, which is not empty.
    One,
    /// All segments to the end, or none.
    Rest,
}

/// A variable: a field and the segments that are its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    /// The names of the field and of those around it.
    pub(crate) path: Vec<Box<str>>,
    pub(crate) from: usize,
    /// The index after the last segment.
    pub(crate) to: usize,
    /// Whether the value may have several segments.
    pub(crate) is_multi: bool,
    /// Whether the last of them is `**`.
    pub(crate) ends_in_rest: bool,
}

impl Template {
    /// Parses a template. The error says what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Template, String> {
        let mut made = Template { segments: Vec::new(), verb: None, variables: Vec::new() };
        let Some(path) = text.strip_prefix('/') else {
            return Err("it does not begin with `/`".to_owned());
        };
        // The verb follows the last colon that is neither in a variable nor before a slash.
        let last = path.rfind(['}', '/']).map_or(0, |at| at + 1);
        let (path, verb) = match path.get(last..).and_then(|tail| tail.find(':')) {
            Some(at) => (path.get(..last + at), path.get(last + at + 1..)),
            None => (Some(path), None),
        };
        if let Some(verb) = verb {
            made.verb = Some(literal(verb)?.into());
        }
        // Harmless: the range ends at a character.
        for segment in split(path.unwrap_or_default())? {
            made.push(segment)?;
        }
        let rest = made.segments.iter().position(|segment| *segment == Segment::Rest);
        if rest.is_some_and(|at| at + 1 != made.segments.len()) {
            return Err("`**` is not its last segment".to_owned());
        }
        Ok(made)
    }

    fn push(&mut self, segment: &str) -> Result<(), String> {
        let Some(variable) = segment.strip_prefix('{').and_then(|text| text.strip_suffix('}'))
        else {
            self.segments.push(plain(segment)?);
            return Ok(());
        };
        let (path, segments) = variable.split_once('=').unwrap_or((variable, "*"));
        let names: Vec<Box<str>> = path.split('.').map(Into::into).collect();
        if let Some(name) = names.iter().find(|name| !is_identifier(name)) {
            return Err(format!("`{name}` is not the name of a field"));
        }
        if self.variables.iter().any(|known| known.path == names) {
            return Err(format!("the variable `{path}` appears twice"));
        }
        let from = self.segments.len();
        for segment in segments.split('/') {
            self.segments.push(plain(segment)?);
        }
        let to = self.segments.len();
        let ends_in_rest = self.segments.last() == Some(&Segment::Rest);
        let is_multi = to - from > 1 || ends_in_rest;
        self.variables.push(Variable { path: names, from, to, is_multi, ends_in_rest });
        Ok(())
    }
}

/// Splits a path at the slashes outside of variables.
fn split(path: &str) -> Result<Vec<&str>, String> {
    let mut segments = Vec::new();
    let (mut from, mut is_open) = (0, false);
    for (at, letter) in path.char_indices() {
        match letter {
            '{' if is_open => return Err("a variable contains another one".to_owned()),
            '{' => is_open = true,
            '}' if !is_open => return Err("a `}` has no `{`".to_owned()),
            '}' => is_open = false,
            '/' if !is_open => {
                segments.push(path.get(from..at).unwrap_or_default());
                from = at + 1;
            }
            // Harmless: other characters are parts of a segment.
            _ => {}
        }
    }
    if is_open {
        return Err("a `{` has no `}`".to_owned());
    }
    segments.push(path.get(from..).unwrap_or_default());
    Ok(segments)
}

fn plain(segment: &str) -> Result<Segment, String> {
    match segment {
        "*" => Ok(Segment::One),
        "**" => Ok(Segment::Rest),
        text => Ok(Segment::Literal(literal(text)?.into())),
    }
}

/// Returns a literal without its percent escapes.
fn literal(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a segment is empty".to_owned());
    }
    if let Some(wrong) = text.chars().find(|letter| "{}*:?#".contains(*letter) || *letter <= ' ') {
        return Err(format!("`{}` in `{text}` has to be escaped", wrong.escape_debug()));
    }
    let decoded = kit::percent::decoded(text.as_bytes(), false).into_owned();
    String::from_utf8(decoded).map_err(|_| format!("`{text}` is not UTF-8"))
}

fn is_identifier(name: &str) -> bool {
    let begins = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    begins && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Returns the value of a variable: its segments, decoded. In a value of several segments, an escaped slash stays escaped, since it would
/// look like one between segments.
pub(crate) fn value(segments: &[&[u8]], is_multi: bool) -> Option<String> {
    let mut bytes = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        if index > 0 {
            bytes.push(b'/');
        }
        if is_multi {
            decode_but_slashes(segment, &mut bytes);
        } else {
            bytes.extend_from_slice(&kit::percent::decoded(segment, false));
        }
    }
    // Harmless: the caller refuses a value that is not UTF-8.
    String::from_utf8(bytes).ok()
}

fn decode_but_slashes(mut segment: &[u8], out: &mut Vec<u8>) {
    while let Some((first, rest)) = segment.split_first() {
        let escaped = if *first == b'%' { kit::percent::byte(rest) } else { None };
        match escaped {
            Some((byte, rest)) if byte != b'/' => {
                out.push(byte);
                segment = rest;
            }
            _ => {
                out.push(*first);
                segment = rest;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        match Template::parse(text) {
            Err(why) => why,
            Ok(made) => {
                let segments = made.segments.iter().map(|segment| match segment {
                    Segment::Literal(text) => text.to_string(),
                    Segment::One => "*".to_owned(),
                    Segment::Rest => "**".to_owned(),
                });
                let variables = made.variables.iter().map(|one| {
                    let multi = if one.is_multi { "+" } else { "" };
                    format!(" {}={}..{}{multi}", one.path.join("."), one.from, one.to)
                });
                let verb = made.verb.iter().map(|verb| format!(" :{verb}"));
                let segments = segments.collect::<Vec<_>>().join(" ");
                segments + &variables.chain(verb).collect::<String>()
            }
        }
    }

    #[test]
    fn templates_are_parsed() {
        for (text, expected) in [
            ("/v1/orders", "v1 orders"),
            ("/v1/orders/{id}", "v1 orders * id=2..3"),
            ("/v1/{a.b.c}:cancel", "v1 * a.b.c=1..2 :cancel"),
            ("/v1/{name=shelves/*/books/*}", "v1 shelves * books * name=1..5+"),
            ("/v1/{name=**}:undo", "v1 ** name=1..2+ :undo"),
            ("/v1/{name=files/**}", "v1 files ** name=1..3+"),
            ("/v1/{kind=cats}/*", "v1 cats * kind=1..2"),
            ("/v1/**", "v1 **"),
            ("/v1/a%20b/*", "v1 a b *"),
            ("/a:b", "a :b"),
            ("/{_x1}/{y}", "* * _x1=0..1 y=1..2"),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }

    #[test]
    fn wrong_templates_are_explained() {
        for (text, why) in [
            ("", "it does not begin with `/`"),
            ("v1", "it does not begin with `/`"),
            ("/", "a segment is empty"),
            ("/v1/", "a segment is empty"),
            ("/v1//a", "a segment is empty"),
            ("/v1:", "a segment is empty"),
            ("/v1/{a", "a `{` has no `}`"),
            ("/v1/a}", "a `}` has no `{`"),
            ("/v1/{a={b}}", "a variable contains another one"),
            ("/v1/{a=**}/b", "`**` is not its last segment"),
            ("/**/{a=**}", "`**` is not its last segment"),
            ("/v1/{a.}", "`` is not the name of a field"),
            ("/v1/{1a}", "`1a` is not the name of a field"),
            ("/v1/{}", "`` is not the name of a field"),
            ("/{a}/{a}", "the variable `a` appears twice"),
            ("/v1/a*", "`*` in `a*` has to be escaped"),
            ("/v1/x{a}", "`{` in `x{a}` has to be escaped"),
            ("/v1/a?b", "`?` in `a?b` has to be escaped"),
            ("/v1/a b", "` ` in `a b` has to be escaped"),
            ("/v1/{a=}", "a segment is empty"),
            ("/v1/a:b:c", "`:` in `b:c` has to be escaped"),
            ("/v1/a:b/c", "`:` in `a:b` has to be escaped"),
            ("/v1/%ff", "`%ff` is not UTF-8"),
        ] {
            assert_eq!(parsed(text), why, "{text}");
        }
    }

    #[test]
    fn values_are_decoded_but_for_slashes_between_segments() {
        for (segments, is_multi, expected) in [
            (&["a%20b"][..], false, Some("a b")),
            (&["a%2Fb"], false, Some("a/b")),
            (&["a%2Fb", "%41%2f"], true, Some("a%2Fb/A%2f")),
            (&[], true, Some("")),
            (&["%", "%4"], true, Some("%/%4")),
            (&["%ff"], false, None),
        ] {
            let segments: Vec<&[u8]> = segments.iter().map(|text| text.as_bytes()).collect();
            assert_eq!(value(&segments, is_multi).as_deref(), expected);
        }
    }
}
