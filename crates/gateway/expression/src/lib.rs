//! The expression language of message flows: languages that select, compare and compute, and templates that contain expressions.
//!
//! Owns the choice of the language of a text, JSONPath, the conversions between values ([`Value`]), and the safe insertion of values into a
//! text ([`Template`]). XPath is in the crate `xpath`; CEL is a library. The crate knows nothing of messages: names are resolved to numbers
//! once, when a text is compiled, through [`Names`]. A [`Scope`] supplies the values for these numbers. Every evaluation spends a
//! [`Budget`].
//!
//! ```text
//! text       = marked | literal            or { xpath: TEXT }, { json: TEXT }, { cel: TEXT }, { text: TEXT }, whose key names the language
//! marked     = "$" name [ tail ]           a value, and perhaps a path into it
//!            | "$" segments                JSONPath over the body: $.a, $[0], $..b
//!            | xpath                       beginning with "/", "$" or a function and "(": XPath 1.0 over the document
//! name       = part *( "." part | "['" text "']" )     as many parts as it takes to name one value
//! tail       = segments                    of JSONPath (RFC 9535), where it begins with "." or "["
//!            | path                        of XPath 1.0, where it begins with "/" or "["
//! template   = *( text | "{{" expression "}}" )
//! expression = marked | xpath
//! ```
//!
//! If a tail begins with `[` and is valid in both languages, the value decides: nodes use XPath, JSON uses JSONPath.
//! A path into a value of the wrong kind, such as XPath steps into JSON, finds nothing.
#![forbid(unsafe_code)]

mod budget;
mod error;
mod expression;
mod jsonpath;
mod markup;
mod names;
mod number;
mod path;
mod query;
mod rule;
mod tape;
mod template;
mod value;

pub use budget::{Budget, Limits};
pub use error::{Error, ErrorKind, Failure, FailureKind};
pub use expression::{Expression, Language, is_expression, seems_expression};
pub use jsonpath::Query;
pub use markup::{detached_markup, parse_levels};
pub use names::{Member, NameKind, Names, Scope, Slot, TEXT, WHOLE_NUMBER};
pub use tape::{JsonNode, JsonText};
pub use template::{Kind, Template};
pub use value::{JsonNodes, NodeGroup, Nodes, Number, Value};
