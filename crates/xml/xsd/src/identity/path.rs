//! The restricted XPath of selectors and fields (Part 1, 3.11.6).

use super::PathError;
use crate::datatype::{NameScope, is_ncname};

/// Maximum number of steps in a path. Each is a bit of a machine word, and hand-written paths have only a few.
const STEPS_MAX: usize = 60;

/// The path of a selector or field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    pub(crate) branches: Box<[Branch]>,
}

/// One alternative of a path with `|`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Branch {
    /// Whether the path begins with `.//`.
    pub(crate) descendant: bool,
    /// Element steps; `.` adds none.
    pub(crate) steps: Box<[NameTest]>,
    /// The attribute at the end, if any.
    pub(crate) attribute: Option<NameTest>,
}

/// Name test of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NameTest {
    Any,
    AnyOf(Box<str>),
    Name { uri: Box<str>, local: Box<str> },
}

impl Path {
    /// Parses the path of a selector. A name without prefix is in no namespace.
    pub fn selector(xpath: &str, names: &dyn NameScope) -> Result<Path, PathError> {
        Reader { xpath, at: 0, names, field: false }.path()
    }

    /// Parses the path of a field, which may end in an attribute.
    pub fn field(xpath: &str, names: &dyn NameScope) -> Result<Path, PathError> {
        Reader { xpath, at: 0, names, field: true }.path()
    }
}

impl NameTest {
    pub(crate) fn takes(&self, of_uri: &str, name: &str) -> bool {
        match self {
            NameTest::Any => true,
            NameTest::AnyOf(uri) => **uri == *of_uri,
            NameTest::Name { uri, local } => **local == *name && **uri == *of_uri,
        }
    }
}

struct Reader<'a> {
    xpath: &'a str,
    at: usize,
    names: &'a dyn NameScope,
    field: bool,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.xpath.get(self.at..).unwrap_or_default()
    }

    /// Consumes a token and the white space before it.
    fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn refuse<T>(&self, message: impl Into<String>) -> Result<T, PathError> {
        let code = if self.field { "c-fields-xpaths" } else { "c-selector-xpath" };
        Err(PathError { code, offset: self.at, message: message.into() })
    }

    fn path(&mut self) -> Result<Path, PathError> {
        let mut branches = vec![self.branch()?];
        while self.take("|") {
            branches.push(self.branch()?);
        }
        self.skip_space();
        if self.rest().is_empty() {
            Ok(Path { branches: branches.into() })
        } else {
            self.refuse("the path must end here or continue with `|`")
        }
    }

    fn branch(&mut self) -> Result<Branch, PathError> {
        let mut steps = Vec::new();
        let mut attribute = None;
        let start = self.at;
        let descendant = self.take(".") && self.take("//");
        if !descendant {
            self.at = start;
        }
        loop {
            if self.take(".") {
                // `.` adds no step.
            } else if self.take("@") || self.axis("attribute") {
                if !self.field {
                    return self.refuse("a selector cannot select attributes");
                }
                attribute = Some(self.name_test()?);
                break;
            } else {
                self.axis("child");
                steps.push(self.name_test()?);
            }
            if steps.len() > STEPS_MAX {
                return self.refuse(format!("a path has over {STEPS_MAX} steps"));
            }
            self.skip_space();
            if self.rest().starts_with("//") {
                return self.refuse("`//` may only stand at the start, as `.//`");
            }
            if !self.take("/") {
                break;
            }
        }
        Ok(Branch { descendant, steps: steps.into(), attribute })
    }

    /// Takes `name ::`, or nothing.
    fn axis(&mut self, name: &str) -> bool {
        let start = self.at;
        // Harmless: the position is restored below if it is not an axis.
        let found = self.take(name) && self.take("::");
        if !found {
            self.at = start;
        }
        found
    }

    /// Parses `*`, `prefix:*`, `local` or `prefix:local`.
    fn name_test(&mut self) -> Result<NameTest, PathError> {
        if self.take("*") {
            return Ok(NameTest::Any);
        }
        let first = self.ncname()?;
        let Some(after) = self.rest().strip_prefix(':') else {
            return Ok(NameTest::Name { uri: "".into(), local: first.into() });
        };
        if after.starts_with(':') {
            return self.refuse(format!("`{first}::` is not an axis that is allowed here"));
        }
        let Some(uri) = self.names.resolve(first) else {
            return self.refuse(format!("the prefix `{first}` is not declared here"));
        };
        self.at += 1;
        if after.starts_with('*') {
            self.at += 1;
            return Ok(NameTest::AnyOf(uri.into()));
        }
        if after.starts_with([' ', '\t', '\n', '\r']) {
            self.refuse("a name has no white space inside")
        } else {
            Ok(NameTest::Name { uri: uri.into(), local: self.ncname()?.into() })
        }
    }

    fn ncname(&mut self) -> Result<&'a str, PathError> {
        self.skip_space();
        let rest = self.rest();
        let end = rest.find(|c: char| !crate::datatype::is_name_char(c) || c == ':');
        let name = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        if !is_ncname(name) {
            return self.refuse("a name is missing");
        }
        self.at += name.len();
        Ok(name)
    }
}
