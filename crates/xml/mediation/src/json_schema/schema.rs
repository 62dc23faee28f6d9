//! JSON Schema 2020-12: schemas compiled by the library. Module `node` presents documents to it.

use std::fmt;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, Registry, Validator};
use serde_json::{Value as Json, json};

use super::document::Document;
use super::node::{OnTape, Part};
use super::number_keyword::{Exact, KEYWORDS};

/// Maximum number of backtracking steps of a `pattern`. Patterns come from the operator, but texts come from anyone: without the limit, one
/// text could block a worker indefinitely.
const BACKTRACKS_MAX: usize = 2_000;

/// The fault of a value whose validation exceeded its budget.
const COSTLY: &str = "/: its validation takes too many steps";

/// Maximum length of a message that is shown to a client.
const MESSAGE_CHARS_MAX: usize = 300;

/// Documents whose schemas refer to one another.
pub struct Schemas {
    registry: Registry<'static>,
    formats: bool,
}

/// One compiled schema. Cheap to clone.
#[derive(Clone)]
pub struct Schema {
    validator: Arc<Validator<OnTape>>,
    /// The schema's number among those compiled together, or `None` if it was compiled alone. Schemas compiled together share a validator:
    /// an object schema with a property for each number. What they reference is compiled once for all of them.
    number: Option<u32>,
}

/// Number of faulty schemas after which compiling stops.
const FAULTS_MAX: usize = 16;

impl Schemas {
    /// Registers documents by their URI. `formats`: whether `format` is enforced instead of being an annotation.
    pub fn new(
        documents: impl IntoIterator<Item = (String, Json)>,
        formats: bool,
    ) -> Result<Schemas, String> {
        let registry = Registry::new().draft(Draft::Draft202012);
        let registry = registry.extend(documents).and_then(|registry| registry.prepare());
        Ok(Schemas { registry: registry.map_err(|error| error.to_string())?, formats })
    }

    /// Compiles the schema at a URI, which may have a fragment.
    pub fn at(&self, uri: &str) -> Result<Schema, String> {
        self.compile(&json!({ "$ref": uri }))
    }

    /// Compiles the schemas at several URIs together. Everything that they reference is compiled once.
    pub fn compile_each(&self, uris: &[String]) -> Vec<Result<Schema, String>> {
        let mut left = FAULTS_MAX;
        self.compile_parts(uris, &mut left)
    }

    /// Compiles the schemas together. If that fails, finds the faulty ones, at most `left` of them.
    fn compile_parts(&self, uris: &[String], left: &mut usize) -> Vec<Result<Schema, String>> {
        if uris.is_empty() {
            return Vec::new();
        }
        if *left == 0 {
            let why = "it was not checked, because too many others are faulty";
            return uris.iter().map(|_| Err(why.to_owned())).collect();
        }
        let named = (0_u32..).zip(uris).map(|(n, uri)| (n.to_string(), json!({ "$ref": uri })));
        let together = json!({ "properties": named.collect::<serde_json::Map<_, _>>() });
        match (self.validator(&together), uris.split_at(uris.len() / 2)) {
            (Ok(validator), _) => {
                let numbers = (0_u32..).zip(uris).map(|(number, _)| Some(number));
                numbers.map(|number| Ok(Schema { validator: validator.clone(), number })).collect()
            }
            (Err(fault), ([], _)) => {
                *left -= 1;
                vec![Err(fault)]
            }
            (Err(_), (first, second)) => {
                let mut made = self.compile_parts(first, left);
                made.extend(self.compile_parts(second, left));
                made
            }
        }
    }

    /// Compiles a schema that may reference the registered documents.
    pub fn compile(&self, schema: &Json) -> Result<Schema, String> {
        Ok(Schema { validator: self.validator(schema)?, number: None })
    }

    fn validator(&self, schema: &Json) -> Result<Arc<Validator<OnTape>>, String> {
        let patterns = PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS_MAX);
        let mut options = jsonschema::options_for::<OnTape>()
            .with_draft(Draft::Draft202012)
            .with_registry(&self.registry)
            .with_pattern_options(patterns)
            .should_validate_formats(self.formats)
            .with_format("byte", is_base64);
        for (name, holds) in KEYWORDS {
            options =
                options.with_keyword(name, move |_, limit, _| Exact::compile(name, limit, holds));
        }
        let built = options.build(schema);
        built.map(Arc::new).map_err(|error| error.to_string())
    }
}

impl Schema {
    /// Compiles a self-contained schema, in the draft that its `$schema` names.
    pub fn self_contained(schema: &Json) -> Result<Schema, String> {
        let patterns = PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS_MAX);
        let mut options = jsonschema::options_for::<OnTape>().with_pattern_options(patterns);
        let draft = schema.get("$schema").and_then(Json::as_str).unwrap_or("");
        // In draft 4 the exclusive bounds are booleans that modify the other bounds.
        if !draft.contains("draft-04") {
            for (name, holds) in KEYWORDS {
                options = options
                    .with_keyword(name, move |_, limit, _| Exact::compile(name, limit, holds));
            }
        }
        let built = options.build(schema);
        let made = |validator| Schema { validator: Arc::new(validator), number: None };
        built.map(made).map_err(|error| error.to_string())
    }

    pub fn allows(&self, document: &Document<'_>) -> bool {
        document.allow_looks();
        self.validator.is_valid(self.seen(document)) && !document.is_spent()
    }

    /// Returns the faults of an invalid value, each with its JSON pointer, at most `max` of them. They quote values only if `shown`.
    /// [`Schema::allows`] must have been called for the document: before that, its look budget counts as spent.
    pub fn faults(&self, document: &Document<'_>, shown: bool, max: usize) -> Vec<String> {
        if document.is_spent() {
            return vec![COSTLY.to_owned()];
        }
        document.allow_looks();
        let own = self.number.map(|number| format!("/{number}")).unwrap_or_default();
        // Harmless: a caller that sets a limit knows that there may be more.
        let errors = self.validator.iter_errors(self.seen(document)).take(max);
        let told = errors.map(|error| {
            let message = match (error.kind(), shown) {
                // The library's own message would mention its regex engine.
                (ValidationErrorKind::BacktrackLimitExceeded { .. }, _) => {
                    "its text takes too many steps to match".to_owned()
                }
                (_, true) => error.to_string(),
                (_, false) => error.masked().to_string(),
            };
            let message = match message.char_indices().nth(MESSAGE_CHARS_MAX) {
                Some((end, _)) => format!("{}...", message.get(..end).unwrap_or_default()),
                None => message,
            };
            let pointer = error.instance_path().as_str();
            match pointer.strip_prefix(own.as_str()).unwrap_or(pointer) {
                "" => format!("/: {message}"),
                pointer => format!("{pointer}: {message}"),
            }
        });
        let told: Vec<String> = told.collect();
        // Errors after the budget was spent are about values that were not looked at.
        if document.is_spent() { vec![COSTLY.to_owned()] } else { told }
    }

    /// Returns the faults of an invalid value. There is always at least one, so that a refusal cannot look like a success.
    pub fn refusal(&self, document: &Document<'_>, shown: bool, max: usize) -> Vec<String> {
        let faults = self.faults(document, shown, max.max(1));
        if faults.is_empty() { vec!["/: it does not match its schema".to_owned()] } else { faults }
    }

    /// Returns the document as the validator sees it.
    fn seen<'d>(&self, document: &'d Document<'d>) -> Part<'d> {
        match self.number {
            Some(number) => Part::as_member(document, number),
            None => Part::whole(document),
        }
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

/// Checks `format: byte` of OpenAPI: base64 (RFC 4648, 4).
fn is_base64(text: &str) -> bool {
    let text = text.as_bytes();
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = text.get(..text.len() - padding).unwrap_or_default();
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    text.len().is_multiple_of(4) && padding <= 2 && digits.iter().all(is_digit)
}
