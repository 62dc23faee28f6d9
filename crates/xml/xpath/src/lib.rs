//! XPath 1.0, compiled: a text is compiled once to an [`Expr`], which is evaluated to a [`Value`] for each context node.
//!
//! Owns the grammar, the four types with their conversions, the core functions, the match patterns of XSLT 1.0, and the budgets that bound
//! the cost of an expression. The caller owns the documents and adds them to a [`DocumentSet`]. The caller also supplies variables and
//! further functions: [`Statics`] resolves them at compile time, [`Host`] at run time. The crate never loads a document, never reads a
//! clock, and knows nothing of stylesheets.
//!
//! ```
//! use std::sync::Arc;
//! use xpath::{Budget, DocumentSet, Evaluation, Expr, NoHost, Plain};
//!
//! let document = xml::Document::parse(b"<a><b>1</b><b>2</b></a>", &xml::Options::default())?;
//! let documents = DocumentSet::new(Arc::new(document));
//! let expr = Expr::compile("sum(/a/b) > 2", &Plain::default())?;
//! let (mut host, mut budget) = (NoHost, Budget::default());
//! let mut evaluation = Evaluation::of(&documents, documents.root(), &mut host, &mut budget);
//! assert!(expr.boolean(&mut evaluation)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod budget;
mod document_set;
mod error;
mod eval;
mod expr;
mod host;
mod number;
mod pattern;
mod regex;
mod statics;
mod streaming;
mod syntax;
mod value;

pub use budget::{Budget, Limits};
pub use document_set::{DocId, DocumentSet, Node, NodeKind};
pub use error::{Error, ErrorKind};
pub use expr::Expr;
pub use host::{Call, Evaluation, Focus, Host, NoHost};
pub use number::{number_text, text_number};
pub use pattern::Pattern;
pub use statics::{Lookup, Name, NameTest, Options, Plain, Statics, Unknown};
pub use streaming::{
    Ancestors, DownStart, Needs, NodeFacts, Selection, StreamNode, StreamStep, StreamString,
    StreamTest,
};
pub use syntax::{Alternative, Shape, core_arity, is_core_function};
pub use value::Value;
