//! XML 1.0 (fifth edition) with Namespaces: bytes to events, events to a tree, a tree to bytes.
//!
//! Owns well-formedness, encodings, entities of an internal subset (if enabled), and limits that bound the cost of a hostile document. It
//! never loads anything from outside and knows nothing of gateways.
//!
//! There is one mechanism: a [`Parser`] pushes events into a [`Sink`], from a complete document ([`parse`]) or from chunks as they arrive
//! ([`Parser::feed`]). The [`Document`] is built by a sink, and everything that validates without a tree is a sink too.
#![forbid(unsafe_code)]

mod blocks;
mod byte_search;
mod chars;
mod decode;
mod dtd;
mod duplicate_attributes;
mod entity;
mod error;
mod fast_path;
mod intern;
mod limits;
mod machine;
mod misc;
mod name;
mod parser;
mod pool;
mod position_tracker;
mod prefix_cache;
mod recall;
mod scope;
mod serialize;
mod shortcuts;
mod sink;
mod stop;
mod tag;
mod tag_cache;
mod template;
mod template_cache;
mod text;
mod token_count;
mod transcript;
mod tree;
mod window;

pub use blocks::{block, is_category};
pub use chars::{is_name_char, is_name_start};
pub use error::{Error, ErrorKind, Position};
pub use limits::{Doctype, Limits, Options};
pub use name::{Namespace, QName, XML_NAMESPACE, XMLNS_NAMESPACE};
pub use parser::{Parser, parse};
pub use pool::Pool;
pub use recall::Recall;
pub use serialize::{Form, escape_attribute, escape_text};
pub use shortcuts::{set_shortcuts, shortcuts};
pub use sink::{Attribute, Attributes, Here, Scope, Sink, Start};
#[doc(hidden)]
pub use sink::{Passed, ShortEvent};
#[doc(hidden)]
pub use tag_cache::TagSlot;
pub use template_cache::TemplateCache;
pub use transcript::Transcript;
pub use tree::{BuildError, Builder, Document, Kind, NameId, NodeId};
