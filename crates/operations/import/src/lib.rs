//! Turns API documents into configuration. OpenAPI 3.0 and 3.1 and Swagger 2 are converted to one form and turned into routes.
//! WSDL becomes a route that offers its operations as JSON. Artifacts of Synapse become routes, flows and upstreams, and so do files
//! of Kong. Projects of apictl are read here; `catalog` makes configuration of them.
//!
//! Owns the meaning of a document: its operations, its schemas, and the routes, upstreams and policies that its extensions
//! (`x-wso2-*`, `x-tidegate-*`) require. It compiles nothing and downloads nothing. Its result is configuration, as JSON values
//! that `config` decodes or [`yaml()`] writes.
//!
//! The public names: [`Documents`] and [`JsonLocation`] (files and places in them), [`Model`] (operations), [`examples()`] (of replies),
//! [`expand()`] (routes, with a [`ImportNote`] for each part that is left out or approximated), [`wsdl`] (SOAP services), [`rows`] (tables of
//! both), [`synapse`] (mediation), [`kong`] (files of Kong), [`apictl`] (projects of APIs), [`yaml()`] (configuration as text),
//! [`listen_beside`] (a listener that no target uses), [`zip_names`] (duplicate names in ZIP archives).
#![forbid(unsafe_code)]

pub mod apictl;
mod documents;
mod endpoints;
mod examples;
mod expand;
mod extensions;
mod files;
mod json_location;
pub mod kong;
mod listener;
mod model;
mod normal;
mod note;
mod pattern;
mod read_write_only;
pub mod rows;
mod swagger;
pub mod synapse;
mod table;
mod upgrade;
mod uri;
pub mod wsdl;
mod yaml;
mod zip_entries;
pub mod zip_names;

pub use documents::Documents;
pub use examples::{ExampleReply, examples};
pub use expand::{GeneratedApi, GeneratedRoute, NotedTier, Options, expand};
pub use json_location::JsonLocation;
pub use listener::listen_beside;
pub use model::{Body, Content, FieldEncoding, Model, Operation, Parameter, Path, Reply};
pub use note::ImportNote;
pub use pattern::portable_schema;
pub use read_write_only::SchemaSide;
pub use table::{ArtifactPosition, Mistake, Outcome, Row, Table};
pub use yaml::yaml;
