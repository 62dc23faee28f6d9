//! API documents to configuration: OpenAPI 3.0 and 3.1 and Swagger 2 read, brought to one form, and turned into routes; WSDL
//! turned into a route that offers its operations as JSON.
//!
//! Owns what a document means: which operations it has, where its schemas are, and which routes, upstreams and policies
//! its extensions (`x-wso2-*`, `x-tidegate-*`) ask for. It compiles nothing and downloads nothing; what it makes is
//! configuration, as JSON values that `config` decodes or [`yaml`] writes.
//!
//! The public names: [`Documents`] and [`Spot`] (files and places in them), [`Model`] (operations), [`expand`] (routes),
//! [`wsdl`] (SOAP services), [`yaml`] (as text), [`listen_beside`] (a listener that is no target).
#![forbid(unsafe_code)]

mod documents;
mod endpoints;
mod expand;
mod extensions;
mod listener;
mod model;
mod sides;
mod swagger;
mod upgrade;
pub mod wsdl;
mod yaml;

pub use documents::{Documents, Spot};
pub use expand::{Made, MadeRoute, Options, expand};
pub use listener::listen_beside;
pub use model::{Body, Content, Model, Operation, Parameter, Path, Reply};
pub use sides::Side;
pub use yaml::yaml;
