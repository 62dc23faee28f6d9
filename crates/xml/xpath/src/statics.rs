//! The static context of an expression: prefixes, variables, functions.

/// A name with its prefix resolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// Empty for no namespace.
    pub uri: Box<str>,
    /// The part after the prefix.
    pub local: Box<str>,
}

/// The name test of a step or pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NameTest {
    /// `*`
    Any,
    /// `p:*`, with the prefix's URI.
    Namespace(Box<str>),
    /// `p:local` or `local`.
    Name(Name),
}

/// Options of the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The supported functions and the `if` of XPath 2.0 are available, in addition to XPath 1.0.
    pub xpath2: bool,
    /// `current()` is available and means [`crate::Focus::current`].
    pub current: bool,
    /// What to do with an unknown function.
    pub unknown: Unknown,
}

/// What to do with a function that neither XPath nor the caller defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// The expression does not compile.
    Refuse,
    /// The expression fails only when the call is reached, as in forwards-compatible stylesheets.
    FailAtCall,
}

/// The result of looking up one of the caller's functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// The number to pass to [`crate::Host::call`]. It may identify this particular call instead of only the function, for instance to
    /// include the scope of the expression, or the key that a literal argument names.
    Found(u32),
    /// The caller has no function of that name.
    Unknown,
    /// The caller refuses the call, usually because the function does not take these arguments; the text says why.
    WrongArguments(Box<str>),
}

/// The static context, which resolves the names in an expression. It does not resolve the functions that XPath itself defines.
pub trait Statics {
    /// Returns the URI of a prefix. Never called for the prefix `xml`.
    fn namespace(&self, prefix: &str) -> Option<&str>;

    /// Returns the number of a variable for [`crate::Host::variable`].
    fn variable(&self, name: &Name) -> Option<u32>;

    /// Looks up a function by name and arguments: the text of each literal string, and `None` for any other expression.
    fn function(&self, name: &Name, arguments: &[Option<&str>]) -> Lookup;

    /// Returns the number of a key for [`crate::Host::key`]. It is used only for `key(..)` in patterns.
    fn key(&self, name: &Name) -> Option<u32>;

    /// Returns the options of the compiler.
    fn options(&self) -> Options;
}

/// A static context that has only prefixes and options. It has no variables, keys, or functions of its own.
#[derive(Debug, Clone, Default)]
pub struct Plain<'a> {
    /// Prefixes with their URIs.
    pub prefixes: &'a [(&'a str, &'a str)],
    /// Options of the compiler.
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
    /// Returns whether a name passes the test.
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
