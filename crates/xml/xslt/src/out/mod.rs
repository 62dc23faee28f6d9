//! Output of a transformation: start tags whose namespaces have been fixed up, written to bytes, a tree or a string.
//!
//! Owns namespace fixup and the three output methods. It knows nothing of instructions: the machine calls a [`Composer`].

mod canonical;
mod composer;
mod encode;
mod escape;
mod html;
mod html_elements;
mod scope;
mod serializer;
mod settings;
mod tag;

pub(crate) use composer::{Composer, Target};
pub(crate) use serializer::Serializer;
pub use settings::{Encoding, Method, Style};
pub(crate) use settings::{OutputDeclaration, OutputSettings};
