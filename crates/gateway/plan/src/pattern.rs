//! Path patterns: `/exact`, `/prefix/**`, `/with/{parameters}`.

use std::fmt;

/// A parsed path pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    pub segments: Vec<Segment>,
    /// True if the pattern ends in `**`: it matches its prefix and everything below it.
    pub open: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    Literal(Box<[u8]>),
    /// A parameter, which matches one whole segment that is not empty.
    Parameter(String),
}

/// The reason why a text is not a path pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternError {
    NoSlash,
    RestNotLast,
    PartialParameter(String),
    DuplicateParameter(String),
    BadByte(char),
    DotSegment,
    TooDeep,
}

/// The maximum number of segments. A longer pattern is probably a mistake, and the depth of matching grows with this number.
pub(crate) const SEGMENTS_MAX: usize = 64;

impl Pattern {
    /// Parses a pattern of the configuration.
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        let rest = text.strip_prefix('/').ok_or(PatternError::NoSlash)?;
        let (rest, open) = match rest {
            "**" => return Ok(Pattern { segments: Vec::new(), open: true }),
            _ => rest.strip_suffix("/**").map_or((rest, false), |rest| (rest, true)),
        };
        let segments: Vec<Segment> = rest.split('/').map(segment).collect::<Result<_, _>>()?;
        let pattern = Pattern { segments, open };
        let mut names: Vec<&str> = pattern.parameters().collect();
        names.sort_unstable();
        // Harmless: each name is compared with the next one.
        let twice = names.iter().zip(names.iter().skip(1)).find(|(a, b)| a == b);
        match twice {
            Some((name, _)) => Err(PatternError::DuplicateParameter((*name).to_owned())),
            None if pattern.segments.len() > SEGMENTS_MAX => Err(PatternError::TooDeep),
            None => Ok(pattern),
        }
    }

    /// Returns the names of the parameters, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|s| match s {
            Segment::Literal(_) => None,
            Segment::Parameter(name) => Some(name.as_str()),
        })
    }
}

fn segment(text: &str) -> Result<Segment, PatternError> {
    if let Some(name) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
        let plain = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        return if plain {
            Ok(Segment::Parameter(name.to_owned()))
        } else {
            Err(PatternError::PartialParameter(text.to_owned()))
        };
    }
    if text.contains('*') {
        return Err(PatternError::RestNotLast);
    }
    if text.contains(['{', '}']) {
        return Err(PatternError::PartialParameter(text.to_owned()));
    }
    if text == "." || text == ".." {
        return Err(PatternError::DotSegment);
    }
    match text.chars().find(|c| !c.is_ascii_graphic() || matches!(c, '?' | '#' | '\\')) {
        Some(c) => Err(PatternError::BadByte(c)),
        None => Ok(Segment::Literal(crate::path::unescaped(text.as_bytes()).into_owned().into())),
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            match segment {
                // Harmless: it was written as text.
                Segment::Literal(text) => write!(f, "/{}", String::from_utf8_lossy(text))?,
                Segment::Parameter(name) => write!(f, "/{{{name}}}")?,
            }
        }
        f.write_str(if self.open { "/**" } else { "" })
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatternError::NoSlash => write!(f, "a path must begin with `/`"),
            PatternError::RestNotLast => {
                write!(f, "`*` is allowed only in `/**` at the end; one segment is `{{name}}`")
            }
            PatternError::PartialParameter(text) => {
                write!(
                    f,
                    "`{text}`: a parameter must be a whole segment, `{{name}}` of letters, digits, `_` and `-`"
                )
            }
            PatternError::DuplicateParameter(name) => write!(f, "parameter `{name}` appears twice"),
            PatternError::BadByte(c) => {
                write!(f, "{c:?} is not allowed in a path; percent-encode it")
            }
            PatternError::DotSegment => {
                write!(f, "`.` and `..` never match: paths are resolved first")
            }
            PatternError::TooDeep => write!(f, "a path can have at most {SEGMENTS_MAX} segments"),
        }
    }
}

impl std::error::Error for PatternError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_read_back_as_written() {
        for text in ["/", "/a", "/a/", "/a/**", "/**", "/a/{id}/b", "/{x}/**"] {
            assert_eq!(Pattern::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn bad_patterns_say_why() {
        for (text, why) in [
            ("a", "a path must begin with `/`"),
            ("", "a path must begin with `/`"),
            ("/a*", "`*` is allowed only in `/**`"),
            ("/**/a", "`*` is allowed only in `/**`"),
            ("/x{id}", "`x{id}`: a parameter must be a whole segment"),
            ("/{}", "`{}`: a parameter must be a whole segment"),
            ("/{a}/{b}/{a}", "parameter `a` appears twice"),
            ("/a b", "' ' is not allowed in a path"),
            ("/a/../b", "`.` and `..` never match"),
        ] {
            let error = Pattern::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }
}
