//! The expression language of message flows: languages that find, compare and compute, and the templates that hold them.
//!
//! Owns which of its languages a text is in, JSONPath, the values that go from one to another with their conversions
//! ([`Value`]), and how a value is written into a text of which it must not break out ([`Template`]). XPath is the crate
//! `xpath`, CEL a library. It knows no message: names are asked for once, at compile, through [`Names`], and are numbers
//! from then on, for which a [`Scope`] has values. Every run takes from a [`Budget`].
//!
//! ```text
//! text       = marked | literal            of { xpath | json | cel | text: TEXT } the key says the language
//! marked     = "$" name [ tail ]           a value, and perhaps a path into it
//!            | "$" segments                JSONPath over the body: $.a, $[0], $..b
//!            | xpath                       beginning with "/" or "$": XPath 1.0 over the document
//! name       = part *( "." part | "['" text "']" )     as many parts as it takes to name one value
//! tail       = segments                    of JSONPath (RFC 9535), where it begins with "." or "["
//!            | path                        of XPath 1.0, where it begins with "/" or "["
//! template   = *( text | "{{" expression "}}" )
//! expression = marked | xpath
//! ```
//!
//! If a tail begins with `[` and is right in both languages, the value decides: nodes take XPath, JSON takes JSONPath.
//! A path into a value of the wrong kind, as steps of XPath into JSON, finds nothing.
#![forbid(unsafe_code)]

mod budget;
mod error;
mod expression;
mod first_node;
mod jsonpath;
mod markup;
mod names;
mod number;
mod path;
mod rule;
mod tape;
mod template;
mod value;

pub use budget::{Budget, Limits};
pub use error::{Error, ErrorKind, Failure, FailureKind};
pub use expression::{Expression, Language, is_expression, seems_expression};
pub use jsonpath::Query;
pub use markup::parse_levels;
pub use names::{Member, NameKind, Names, Scope, Slot, TEXT, WHOLE_NUMBER};
pub use tape::{JsonNode, JsonText};
pub use template::{Kind, Template};
pub use value::{JsonNodes, NodeGroup, Nodes, Number, Value};
