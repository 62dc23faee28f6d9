//! `json_schema`: validates JSON bodies and parameters of requests against JSON Schemas.

use crate::decode::{keys, words};
use crate::values::{FilePath, OneOrMore, Size, Spanned};

keys! {
    /// Refuses requests that a JSON Schema does not allow: 400, and 415 for another content type. Use `openapi` for an API with a document.
    pub struct JsonSchema {
        /// A file with the schema of the body. Without it bodies are not looked at.
        body: Option<Spanned<FilePath>>,
        /// The content types that are accepted if there is a schema of the body, without parameters. A body that is not JSON is not read.
        types: OneOrMore<String> = OneOrMore(vec!["application/json".to_owned()]),
        /// Parameters with their schemas.
        parameters: Vec<Spanned<SchemaParameter>> = Vec::new(),
        /// Whether the client is told what is wrong and where, instead of only that something is.
        verbose: bool = false,
        /// The largest body that is read; 413 above.
        // A body is held in memory twice, as bytes and as a tree.
        body_bytes_max: Size = Size(1024 * 1024),
    }
}

keys! {
    /// A parameter of requests.
    pub struct SchemaParameter {
        /// Its name.
        name: Spanned<String>,
        /// Where it is.
        place: SchemaPlace,
        /// Whether a request needs it.
        required: bool = false,
        /// A file with the schema of its value: a string, or a number or a Boolean if it can be read as one.
        schema: Option<Spanned<FilePath>>,
    }
}

words! {
    /// Where a parameter is.
    pub enum SchemaPlace {
        /// In the query.
        Query = "query",
        /// A header.
        Header = "header",
        /// A part of the path that the route names.
        Path = "path",
    }
}
