//! The JSON Schema of the configuration and of other files, for editors.

use serde_json::Value as Json;

use crate::decode::Decode;
use crate::schema::SchemaBuilder;
use crate::sections::Config;

/// Returns the schema of the whole configuration (draft 2020-12).
pub fn json_schema() -> Json {
    json_schema_of::<Config>("Tidegate configuration")
}

/// Returns the schema of a file of another kind, whose keys were defined by [`crate::keys`].
pub fn json_schema_of<T: Decode>(title: &str) -> Json {
    let mut builder = SchemaBuilder::default();
    let root = T::schema(&mut builder);
    builder.document(title, &root)
}
