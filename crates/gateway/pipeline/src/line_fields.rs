//! Configured fields of the access log: the values kept for them, and their results at the end of the exchange.

use std::borrow::Cow;

use expression::{
    Budget, FailureKind, JsonNodes, JsonText, Limits, Member, Number, Scope, Slot, Value,
};
use message::Headers;
use plan::{AccessFields, AccessSource, AccessValue};
use policy::{Claims, Exchange};
use telemetry::access::ExtraValue;

/// Values of headers for fields of the access log.
#[derive(Default)]
pub(crate) struct LoggedHeaders(Vec<Option<Vec<u8>>>);

/// The sources for fields of an exchange that has ended.
#[derive(Clone, Copy)]
pub(crate) struct LoggedExchange<'a> {
    pub(crate) ex: &'a Exchange,
    pub(crate) headers: &'a LoggedHeaders,
    pub(crate) status: u16,
    pub(crate) method: &'a [u8],
    pub(crate) host: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) route: Option<&'a str>,
}

/// The value of a field, as an owned copy.
pub(crate) enum FieldValue {
    Text(Vec<u8>),
    Number(u64),
    Boolean(bool),
}

/// The limits of a field's expression, which only compares and joins a few texts.
const LIMITS: Limits =
    Limits { steps_max: 20_000, results_max: 1_000, output_bytes_max: 64 << 10, depth_max: 64 };

impl LoggedHeaders {
    /// Keeps the headers of a request or a reply that fields use.
    pub(crate) fn note(&mut self, fields: &AccessFields, headers: &Headers, of_reply: bool) {
        if fields.headers.is_empty() {
            return;
        }
        self.0.resize(fields.headers.len(), None);
        // Harmless: both lists have the same length after the resize.
        for (kept, header) in self.0.iter_mut().zip(&fields.headers) {
            if header.of_reply == of_reply {
                *kept = headers.get_joined(&header.name).map(Cow::into_owned);
            }
        }
    }

    fn get(&self, at: usize) -> Option<&[u8]> {
        self.0.get(at)?.as_deref()
    }
}

impl FieldValue {
    pub(crate) fn extra(&self) -> ExtraValue<'_> {
        match self {
            FieldValue::Text(text) => ExtraValue::Text(text),
            FieldValue::Number(number) => ExtraValue::Number(*number),
            FieldValue::Boolean(truth) => ExtraValue::Boolean(*truth),
        }
    }
}

impl LoggedExchange<'_> {
    /// The fields that have a value, by name.
    pub(crate) fn fields<'f>(&self, fields: &'f AccessFields) -> Vec<(&'f str, FieldValue)> {
        let mut budget = None;
        let value = |field: &'f plan::AccessField| {
            let value = match &field.value {
                AccessValue::Source(source) => self.source(source)?,
                AccessValue::Computed(expression, slots) => {
                    let budget = budget.get_or_insert_with(|| Budget::new(LIMITS));
                    let scope = LineScope { ended: self, slots };
                    // Harmless: a field whose expression fails is left out, as the guide says.
                    field_value(&expression.value(&scope, budget).ok()?)?
                }
            };
            Some((&*field.name, value))
        };
        // Harmless: a field without a value is left out, as the guide says.
        fields.fields.iter().filter_map(value).collect()
    }

    fn claims(&self) -> Option<&Claims> {
        self.ex.identity.as_ref()?.claims.as_deref()
    }

    fn source(&self, source: &AccessSource) -> Option<FieldValue> {
        let text = |text: &[u8]| Some(FieldValue::Text(text.to_vec()));
        match source {
            AccessSource::Header(at) => text(self.headers.get(*at)?),
            AccessSource::Status => Some(FieldValue::Number(u64::from(self.status))),
            AccessSource::Subject => text(self.ex.identity.as_ref()?.subject.as_bytes()),
            AccessSource::Claim(names) => text(self.claim(names)?.as_bytes()),
            AccessSource::Claims => text(self.claims()?.json().as_bytes()),
            AccessSource::Method => text(self.method),
            AccessSource::Host => text(self.host),
            AccessSource::Path => text(self.target.split(|byte| *byte == b'?').next()?),
            AccessSource::Route => text(self.route?.as_bytes()),
            AccessSource::RequestId => text(self.ex.id.as_bytes()),
            AccessSource::Client => text(self.ex.client.to_canonical().to_string().as_bytes()),
        }
    }

    fn claim(&self, names: &[String]) -> Option<String> {
        let (first, rest) = names.split_first()?;
        let mut value = self.claims()?.get(first)?;
        for name in rest {
            value = value.get(name)?;
        }
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }
}

fn field_value(value: &Value) -> Option<FieldValue> {
    if value.is_missing() {
        return None;
    }
    if let Value::Boolean(truth) = value {
        return Some(FieldValue::Boolean(*truth));
    }
    // Harmless: a value that is not text is left out, as the guide says.
    let text = value.text().ok()?;
    let whole = matches!(value, Value::Number(_)).then(|| text.parse());
    Some(match whole {
        Some(Ok(number)) => FieldValue::Number(number),
        Some(Err(_)) | None => FieldValue::Text(text.as_bytes().to_vec()),
    })
}

/// The values of an expression's slots.
struct LineScope<'a> {
    ended: &'a LoggedExchange<'a>,
    slots: &'a [AccessSource],
}

impl Scope for LineScope<'_> {
    fn value(&self, slot: Slot) -> Result<Value, FailureKind> {
        // Harmless: a slot number that is too large has no source, so its value is missing.
        let source = usize::try_from(slot.0).ok().and_then(|at| self.slots.get(at));
        let found = source.and_then(|source| self.ended.source(source));
        let is_claims = source == Some(&AccessSource::Claims);
        Ok(match found {
            Some(FieldValue::Text(text)) if is_claims => json_value(text)?,
            // Harmless: an expression works on text, so invalid UTF-8 is replaced.
            Some(FieldValue::Text(text)) => Value::text_of(String::from_utf8_lossy(&text)),
            Some(FieldValue::Number(number)) => number_value(number),
            Some(FieldValue::Boolean(truth)) => Value::Boolean(truth),
            None => Value::Nothing,
        })
    }

    fn members(&self, _: Slot) -> Result<Vec<(Box<str>, Member)>, FailureKind> {
        // `compile` refuses expressions that use a group of names as a whole.
        Err(FailureKind::Missing)
    }
}

fn number_value(number: u64) -> Value {
    Number::parse(&number.to_string()).map_or(Value::Nothing, Value::Number)
}

fn json_value(text: Vec<u8>) -> Result<Value, FailureKind> {
    let text = String::from_utf8(text).map_err(|_| FailureKind::NotText)?;
    // These limits are never reached: a token is smaller, and was already parsed once.
    let limits = json::Limits { depth_max: 128, entries_max: 1 << 20 };
    let read = JsonText::read(text, &limits);
    let read = read.map_err(|error| FailureKind::Malformed(error.what.into()))?;
    Ok(Value::Json(JsonNodes::root(read)))
}
