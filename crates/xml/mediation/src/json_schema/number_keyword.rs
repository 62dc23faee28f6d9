//! The keywords about numbers, which compare numbers in decimal notation instead of as doubles.

use jsonschema::json::Node as _;
use jsonschema::{Keyword, ValidationError, Validator};
use serde_json::{Value, json};

use super::node::{OnTape, Part};
use super::number::Decimal;

/// The keywords about numbers, each with the relation that must hold between a number and the schema's number.
pub(super) const KEYWORDS: [(&str, Holds); 5] = [
    ("minimum", |number, limit| number.against(limit).is_ge()),
    ("maximum", |number, limit| number.against(limit).is_le()),
    ("exclusiveMinimum", |number, limit| number.against(limit).is_gt()),
    ("exclusiveMaximum", |number, limit| number.against(limit).is_lt()),
    ("multipleOf", |number, limit| number.is_multiple_of(limit)),
];

pub(super) type Holds = fn(&Decimal<'_>, &Decimal<'_>) -> bool;

/// One of [`KEYWORDS`] in a schema.
pub(super) struct Exact {
    limit: String,
    holds: Holds,
    /// The library's own validator, which supplies the message, and a number that it refuses.
    library: Validator,
    refused: Value,
}

impl Exact {
    pub(super) fn compile<'a>(
        name: &str,
        limit: &Value,
        holds: Holds,
    ) -> Result<Box<dyn for<'i> Keyword<'i, OnTape>>, ValidationError<'a>> {
        let Value::Number(number) = limit else {
            return Err(ValidationError::custom(format!("`{name}` is not a number")));
        };
        let library = jsonschema::draft202012::options().build(&json!({ name: limit }));
        let library = library.map_err(|error| ValidationError::custom(error.to_string()))?;
        let half = number.as_f64().unwrap_or(0.0) / 2.0;
        let mut others = [f64::MAX, f64::MIN, half, f64::MIN_POSITIVE].into_iter().map(Value::from);
        let refused = others.find(|other| !library.is_valid(other)).unwrap_or(Value::Null);
        Ok(Box::new(Exact { limit: number.to_string(), holds, library, refused }))
    }
}

impl<'i> Keyword<'i, OnTape> for Exact {
    fn validate(&self, instance: Part<'i>) -> Result<(), ValidationError<'i>> {
        if self.is_valid(instance) {
            return Ok(());
        }
        let said = self.library.validate(&self.refused).map_err(ValidationError::to_owned);
        let limit = &self.limit;
        said.and_then(|()| Err(ValidationError::custom(format!("it does not conform to {limit}"))))
    }

    fn is_valid(&self, instance: Part<'i>) -> bool {
        let limit = Decimal::read(&self.limit);
        instance.as_number().is_none_or(|it| (self.holds)(&Decimal::read(it.0), &limit))
    }
}
