//! What a transformation writes: start tags with their namespaces made right, into bytes, a tree or a string.
//!
//! Owns namespace fixup and the three output methods. It knows nothing of instructions: the machine calls a
//! [`Composer`], and whoever reads the result never sees one.

mod canonical;
mod composer;
mod encode;
mod escape;
mod html;
mod scope;
mod serializer;
mod settings;
mod tag;

pub(crate) use composer::{Composer, Target};
pub(crate) use serializer::Serializer;
pub(crate) use settings::{Declared, Settings};
pub use settings::{Encoding, Method, Style};
