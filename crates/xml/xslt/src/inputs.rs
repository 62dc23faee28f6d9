//! The inputs of a transformation, in addition to its source.

use crate::limits::Budgets;
use crate::out::Style;
use crate::resolver::{NoDocuments, Resolver};

/// A value for one of the stylesheet's parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Empty for no namespace.
    pub uri: Box<str>,
    /// The part after the prefix.
    pub local: Box<str>,
    /// The value.
    pub value: Argument,
}

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// A string.
    Text(Box<str>),
    /// A number.
    Number(f64),
    /// True or false.
    Boolean(bool),
    /// An XPath expression, evaluated at the root of the source.
    Expression(Box<str>),
}

/// The inputs of a transformation, in addition to its source.
pub struct Run<'a> {
    /// Values of parameters. Those that the stylesheet does not declare are ignored.
    pub parameters: &'a [Parameter],
    /// Resolver of documents for `document()`.
    pub resolver: &'a dyn Resolver,
    /// Limits on the cost of the transformation.
    pub budgets: Budgets,
    /// The address of the source, the base of references in it.
    pub base: &'a str,
    /// The current time in seconds since 1970 (UTC), for functions that return it. With `None` they fail.
    pub now: Option<i64>,
    /// Seed of functions that return random numbers.
    pub seed: u64,
    /// Whether to write XML, whatever `xsl:output` specifies.
    pub as_xml: bool,
    /// How XML is written. If `as_xml` is set, XML is written as the stylesheet specifies, and this selects only whether numbers and sort
    /// orders are those of libxslt.
    pub style: Style,
    /// Whether to omit each `xmlns=""` from the start tags of the result.
    pub strip_empty_namespaces: bool,
    /// Whether to make a transcript of the result.
    pub transcribe: bool,
}

impl Default for Run<'_> {
    fn default() -> Self {
        Run {
            parameters: &[],
            resolver: &NoDocuments,
            budgets: Budgets::default(),
            base: "",
            now: None,
            seed: 0,
            as_xml: false,
            style: Style::Plain,
            strip_empty_namespaces: false,
            transcribe: false,
        }
    }
}
