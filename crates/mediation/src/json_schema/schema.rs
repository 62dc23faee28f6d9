//! JSON Schema, 2020-12: schemas compiled by the library that `node` shows documents to.

use std::fmt;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, Registry, Validator};
use serde_json::{Value as Json, json};

use super::document::Document;
use super::node::{OnTape, Part};
use super::number::{self, Exact};

/// A `pattern` gives up here. Patterns are the operator's, texts are whoever's: without it one text could hold a worker
/// for ever.
const BACKTRACKS_MAX: usize = 2_000;

/// The fault of a value whose validation did not end within its budget.
const COSTLY: &str = "/: its validation takes too many steps";

/// The longest piece of a message that a client is shown.
const MESSAGE_CHARS_MAX: usize = 300;

/// Documents whose schemas refer to one another.
pub struct Schemas {
    registry: Registry<'static>,
    formats: bool,
}

/// One schema, compiled. Cheap to clone.
#[derive(Clone)]
pub struct Schema(Arc<Validator<OnTape>>);

impl Schemas {
    /// Documents by their URI. `formats`: `format` is more than a comment.
    pub fn new(
        documents: impl IntoIterator<Item = (String, Json)>,
        formats: bool,
    ) -> Result<Schemas, String> {
        let registry = Registry::new().draft(Draft::Draft202012);
        let registry = registry.extend(documents).and_then(|registry| registry.prepare());
        Ok(Schemas { registry: registry.map_err(|error| error.to_string())?, formats })
    }

    /// The schema at a URI with its fragment.
    pub fn at(&self, uri: &str) -> Result<Schema, String> {
        self.compile(&json!({ "$ref": uri }))
    }

    /// A schema in hand, which may refer to the documents.
    pub fn compile(&self, schema: &Json) -> Result<Schema, String> {
        let patterns = PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS_MAX);
        let mut options = jsonschema::options_for::<OnTape>()
            .with_draft(Draft::Draft202012)
            .with_registry(&self.registry)
            .with_pattern_options(patterns)
            .should_validate_formats(self.formats);
        for (name, holds) in number::KEYWORDS {
            options =
                options.with_keyword(name, move |_, limit, _| Exact::compile(name, limit, holds));
        }
        let built = options.build(schema);
        built.map(|validator| Schema(Arc::new(validator))).map_err(|error| error.to_string())
    }
}

impl Schema {
    /// A schema that is complete in itself, in the draft that it names.
    pub fn alone(schema: &Json) -> Result<Schema, String> {
        let patterns = PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS_MAX);
        let mut options = jsonschema::options_for::<OnTape>().with_pattern_options(patterns);
        let draft = schema.get("$schema").and_then(Json::as_str).unwrap_or_default();
        // In draft 4 the exclusive bounds are not numbers, but say how the others are meant.
        if !draft.contains("draft-04") {
            for (name, holds) in number::KEYWORDS {
                options = options
                    .with_keyword(name, move |_, limit, _| Exact::compile(name, limit, holds));
            }
        }
        let built = options.build(schema);
        built.map(|validator| Schema(Arc::new(validator))).map_err(|error| error.to_string())
    }

    pub fn allows(&self, document: &Document<'_>) -> bool {
        document.allow_looks();
        self.0.is_valid(Part::whole(document)) && !document.is_spent()
    }

    /// The faults of a value, each with its JSON pointer, at most `max`. They quote values only if `shown`.
    pub fn faults(&self, document: &Document<'_>, shown: bool, max: usize) -> Vec<String> {
        if document.is_spent() {
            return vec![COSTLY.to_owned()];
        }
        document.allow_looks();
        let errors = self.0.iter_errors(Part::whole(document)).take(max);
        let told = errors.map(|error| {
            let message = match (error.kind(), shown) {
                // The library would tell of its engine.
                (ValidationErrorKind::BacktrackLimitExceeded { .. }, _) => {
                    "its text takes too many steps to match".to_owned()
                }
                (_, true) => error.to_string(),
                (_, false) => error.masked().to_string(),
            };
            let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
            match error.instance_path().as_str() {
                "" => format!("/: {message}"),
                pointer => format!("{pointer}: {message}"),
            }
        });
        let told = told.collect();
        // Errors behind the end of the budget are of values that were not looked at.
        if document.is_spent() { vec![COSTLY.to_owned()] } else { told }
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}
