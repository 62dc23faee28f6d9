//! XSLT 1.0: a stylesheet is compiled to instructions once, and then transforms any number of documents.
//!
//! Owns the stylesheet language, its output methods and the common extension functions. It loads nothing by itself: modules and documents
//! come from the caller's [`Resolver`]. It never reads a clock or a locale, and knows nothing of gateways. The cost of a run is bounded by
//! its [`Budgets`], and a run needs little of the thread's stack.
//!
//! ```
//! let source = br#"<t:transform version="1.0" xmlns:t="http://www.w3.org/1999/XSL/Transform">
//!   <t:output omit-xml-declaration="yes"/>
//!   <t:template match="a"><b><t:apply-templates/></b></t:template>
//! </t:transform>"#;
//! let stylesheet = xslt::Stylesheet::compile(source, "", &xslt::NoDocuments)?;
//! let document = xml::Document::parse(b"<a>1</a>", &xml::Options::default()).unwrap();
//! let output = stylesheet.transform(&document.into(), &xslt::Run::default())?;
//! assert_eq!(output.bytes, b"<b>1</b>");
//! # Ok::<(), xslt::Error>(())
//! ```
#![forbid(unsafe_code)]

mod collate;
mod compile;
mod decimal;
mod error;
mod exslt;
mod inputs;
mod limits;
mod numbering;
mod out;
mod program;
mod resolver;
mod run;
mod stream;
mod stylesheet;

pub use error::{At, Error, ErrorKind, TransformError};
pub use inputs::{Argument, Parameter, Run};
pub use limits::Budgets;
pub use out::{Encoding, Method, Style};
pub use resolver::{NoDocuments, Resolver, Resource};
pub use stylesheet::{Output, Stylesheet};
