//! `json_schema`: refuses requests whose body or parameters a JSON Schema does not allow. It never changes a request.
//!
//! Owns which bodies are read, and how the text of a parameter becomes a value: a string, or else the number, boolean or null that the text
//! is in JSON.

use std::borrow::Cow;

use fault::{Fault, Kind};
use mediation::content_coding::is_coded;
use mediation::json_schema::{Document, Schema};
use message::{GatheredBody, RequestHead};
use policy::{Decision, Exchange, Flow, OnBuffered, OnHead, Onward, Policy, Step};

/// The settings of one `json_schema`.
#[derive(Default)]
pub struct JsonSchemaSettings {
    pub body: Option<Schema>,
    /// Content types of bodies, in lower case.
    pub types: Vec<String>,
    pub parameters: Vec<ParameterRule>,
    /// Whether the reply states what is wrong, and where.
    pub verbose: bool,
    pub body_bytes_max: usize,
}

/// A parameter, its place, and the schema of its value.
pub struct ParameterRule {
    pub name: String,
    pub place: ParameterPlace,
    pub required: bool,
    pub schema: Option<Schema>,
}

/// Where a parameter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterPlace {
    Query,
    Header,
    /// The index of a path parameter of the route.
    Path(usize),
}

/// The maximum number of errors in one reply.
const ERRORS_MAX: usize = 16;

/// Methods whose requests must have a body if there is a schema for it.
const METHODS_WITH_BODY: [&[u8]; 3] = [b"POST", b"PUT", b"PATCH"];

/// Returns the policy for these settings.
pub fn policy(settings: JsonSchemaSettings) -> Policy {
    let request = if settings.body.is_some() {
        Step::Buffered(Box::new(settings) as Box<dyn OnBuffered<RequestHead>>)
    } else {
        Step::Head(Box::new(settings))
    };
    Policy { name: "json_schema", request: Some(request), response: None }
}

impl OnHead<RequestHead> for JsonSchemaSettings {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        self.check_parameters(ex, head)?;
        Ok(Onward::Next)
    }
}

impl OnBuffered<RequestHead> for JsonSchemaSettings {
    fn wants(&self, ex: &mut Exchange, head: &mut RequestHead) -> Result<bool, Fault> {
        self.check_parameters(ex, head)?;
        Ok(true)
    }

    fn bytes_max(&self) -> usize {
        self.body_bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        _ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        Decision::Ready(self.check_body(head, &body.bytes).map(|()| Onward::Next))
    }
}

impl JsonSchemaSettings {
    fn check_body(&self, head: &RequestHead, bytes: &[u8]) -> Result<(), Fault> {
        if bytes.is_empty() {
            return if METHODS_WITH_BODY.contains(&head.method()) {
                Err(self.wrong(vec!["/: there is no body".to_owned()]))
            } else {
                Ok(())
            };
        }
        let mut lines = head.headers.get_all("content-type");
        // Harmless: a request without a content type matches none of the listed types.
        let kind = lines.next().map(message::media_type).unwrap_or_default();
        let is_listed = self.types.iter().any(|one| kind.eq_ignore_ascii_case(one.as_bytes()));
        if !is_listed || lines.next().is_some() || is_coded(&head.headers) {
            let cause = "json_schema: the content type or the content coding is not accepted";
            return Err(Fault::new(Kind::MediaTypeUnsupported, cause));
        }
        let Some(schema) = self.body.as_ref().filter(|_| message::is_json(kind)) else {
            return Ok(());
        };
        let document =
            Document::read(bytes).map_err(|why| self.wrong(vec![format!("/: {why}")]))?;
        if schema.allows(&document) {
            return Ok(());
        }
        Err(self.wrong(schema.refusal(&document, self.verbose, self.errors_max())))
    }

    fn check_parameters(&self, ex: &Exchange, head: &RequestHead) -> Result<(), Fault> {
        let mut wrong = Vec::new();
        for rule in &self.parameters {
            let values = rule.values(ex, head);
            if values.is_empty() && rule.required {
                wrong.push(format!("{}: it is missing", rule.name));
            }
            if values.iter().any(|value| !rule.allows(value)) {
                wrong.push(format!("{}: its value does not match its schema", rule.name));
            }
            if wrong.len() >= self.errors_max() {
                break;
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(self.wrong(wrong)) }
    }

    fn errors_max(&self) -> usize {
        if self.verbose { ERRORS_MAX } else { 1 }
    }

    fn wrong(&self, wrong: Vec<String>) -> Fault {
        let first = wrong.first().map_or("", String::as_str);
        let fault = Fault::new(Kind::RequestInvalid, format!("json_schema: {first}"));
        if !self.verbose {
            return fault;
        }
        fault.with_errors(wrong.into_iter().map(String::into_boxed_str).collect())
    }
}

impl ParameterRule {
    /// Returns all values, decoded.
    fn values<'v>(&'v self, ex: &'v Exchange, head: &'v RequestHead) -> Vec<Cow<'v, [u8]>> {
        match self.place {
            ParameterPlace::Header => head.headers.get_all(&self.name).map(Cow::Borrowed).collect(),
            ParameterPlace::Path(at) => {
                let value = ex.parameters.get(at);
                value.map(|text| kit::percent::decoded(text, false)).into_iter().collect()
            }
            ParameterPlace::Query => {
                // Harmless: a request may have no query.
                let query = head.query().unwrap_or_default();
                kit::percent::values(query, self.name.as_bytes()).collect()
            }
        }
    }

    fn allows(&self, value: &[u8]) -> bool {
        let Some(schema) = &self.schema else { return true };
        let Ok(text) = std::str::from_utf8(value) else { return false };
        if schema.allows(&Document::string(Cow::Borrowed(text))) {
            return true;
        }
        // Only numbers, booleans and null are parsed: a parameter is never a list or an object, and a quoted text is a string as it is.
        let is_scalar = !text.starts_with(['{', '[', '"']);
        is_scalar && Document::read(value).is_ok_and(|document| schema.allows(&document))
    }
}
