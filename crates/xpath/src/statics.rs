//! What an expression's names mean where it stands: prefixes, variables, functions.

use crate::Error;
use crate::syntax::compile_name_test;

/// A name with its prefix resolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// Empty for no namespace.
    pub uri: Box<str>,
    /// The part after the prefix.
    pub local: Box<str>,
}

/// What a step or pattern asks of a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NameTest {
    /// `*`
    Any,
    /// `p:*`, with the prefix's URI.
    Namespace(Box<str>),
    /// `p:local` or `local`.
    Name(Name),
}

/// How expressions are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The functions and the `if` of XPath 2.0 that are offered beside XPath 1.0.
    pub xpath2: bool,
    /// `current()` means [`crate::Focus::current`].
    pub current: bool,
    /// What becomes of a function nobody has.
    pub unknown: Unknown,
}

/// What becomes of a function nobody has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// The expression does not compile.
    Refuse,
    /// The expression fails when the call is reached, as forwards-compatible stylesheets want it.
    Later,
}

/// What the caller says of a function's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// The number by which [`crate::Host::call`] will know it. It may say more than which function: also where the
    /// expression stands, or which key its literal argument names.
    Found(u32),
    /// There is none of that name.
    Unknown,
    /// There is, but not with these arguments; says why.
    Wrong(Box<str>),
}

/// What an expression's names mean where it stands. Functions of XPath itself are not asked for.
pub trait Statics {
    /// The URI of a prefix; the prefix `xml` is not asked for.
    fn namespace(&self, prefix: &str) -> Option<&str>;

    /// The number by which [`crate::Host::variable`] will know a variable.
    fn variable(&self, name: &Name) -> Option<u32>;

    /// A function and the arguments it is given: a literal string's text, or none for any other expression.
    fn function(&self, name: &Name, arguments: &[Option<&str>]) -> Lookup;

    /// The number by which [`crate::Host::key`] will know a key that a pattern names.
    fn key(&self, name: &Name) -> Option<u32>;

    /// How to compile.
    fn options(&self) -> Options;
}

/// Prefixes and options, no variables and no further functions.
#[derive(Debug, Clone, Default)]
pub struct Plain<'a> {
    /// Prefixes with their URIs.
    pub prefixes: &'a [(&'a str, &'a str)],
    /// How to compile.
    pub options: Options,
}

impl Default for Options {
    fn default() -> Options {
        Options { xpath2: false, current: false, unknown: Unknown::Refuse }
    }
}

impl Statics for Plain<'_> {
    fn namespace(&self, prefix: &str) -> Option<&str> {
        self.prefixes.iter().find(|(known, _)| *known == prefix).map(|(_, uri)| *uri)
    }

    fn variable(&self, _name: &Name) -> Option<u32> {
        None
    }

    fn function(&self, _name: &Name, _arguments: &[Option<&str>]) -> Lookup {
        Lookup::Unknown
    }

    fn key(&self, _name: &Name) -> Option<u32> {
        None
    }

    fn options(&self) -> Options {
        self.options
    }
}

impl NameTest {
    /// Compiles `*`, `p:*`, `p:local` or `local`.
    pub fn compile(text: &str, statics: &dyn Statics) -> Result<NameTest, Error> {
        compile_name_test(text, statics)
    }

    /// Whether a name passes.
    #[inline]
    pub fn accepts(&self, name: xml::QName<'_>) -> bool {
        match self {
            NameTest::Any => true,
            NameTest::Namespace(uri) => name.namespace.uri == &**uri,
            NameTest::Name(wanted) => {
                name.local == &*wanted.local && name.namespace.uri == &*wanted.uri
            }
        }
    }
}
