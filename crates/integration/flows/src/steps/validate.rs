//! `validate`: validates the message, or a part of it, against a schema.

use std::sync::Arc;

use expression::{Expression, Value};
use fault::{Fault, Kind};
use mediation::json_schema::{self, Document};
use policy::Decision;
use xml::NodeId;
use xsd::{Bounds, Root, Schema, Validator};

use crate::levels::{ActionNeeds, Levels};
use crate::run_steps::run_steps;
use crate::state::{Run, State};
use crate::step::{Action, Step, StepRun, Steps, StepsEnd};
use crate::steps::payload;
use crate::view::View;

/// A check against a schema.
pub struct Validate {
    pub schema: Schemas,
    /// The part to validate. If absent, it is the body, or the content of the Body in a SOAP message.
    pub of: Option<Expression>,
    /// The steps that run instead of a fault.
    pub otherwise: Option<Steps>,
}

/// A schema of either language.
pub enum Schemas {
    Xml(Arc<Schema>),
    Json(json_schema::Schema),
}

enum Outcome<'a> {
    Valid,
    /// The steps to run, and the fault.
    Otherwise(&'a Steps, Fault),
}

/// Maximum number of errors that are reported.
const ERRORS_MAX: usize = 10;

/// Maximum length of the description of one error.
const ERROR_CHARS_MAX: usize = 300;

impl Action for Validate {
    fn needs(&self, _levels: &Levels<'_>) -> ActionNeeds {
        let slots = self.of.iter().flat_map(Expression::slots).collect();
        ActionNeeds { slots, content: true, ..ActionNeeds::default() }
    }

    fn inner(&self) -> Vec<&Steps> {
        self.otherwise.iter().collect()
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        match check(self, run, state) {
            Ok(Outcome::Valid) => Decision::Ready(Ok(StepsEnd::Through)),
            Ok(Outcome::Otherwise(steps, why)) => Decision::Waits(Box::pin(async {
                let outer = state.caught.replace(why.into());
                let ended = run_steps(steps, run, state).await?;
                state.caught = outer;
                Ok(ended)
            })),
            Err(fault) => Decision::Ready(Err(fault)),
        }
    }
}

/// Validates the message. An invalid message is the client's fault, unless there are steps for it.
fn check<'a>(validate: &'a Validate, run: &Run<'_>, state: &State) -> Result<Outcome<'a>, Fault> {
    let errors = errors(validate, run, state)?;
    if errors.is_empty() {
        return Ok(Outcome::Valid);
    }
    // Harmless: there is a first error.
    let cause = errors.first().cloned().unwrap_or_default();
    let fault = Fault::with_detail(Kind::RequestInvalid, cause, "The message is not valid.");
    let fault = fault.with_errors(errors);
    match &validate.otherwise {
        Some(steps) => Ok(Outcome::Otherwise(steps, fault)),
        None => Err(fault),
    }
}

fn errors(validate: &Validate, run: &Run<'_>, state: &State) -> Result<Vec<Box<str>>, Fault> {
    let value = match &validate.of {
        Some(expression) => run.value(state, expression)?,
        None => match state.message.content() {
            Some(content) => content.body().map_err(|kind| content.malformed(&kind.to_string()))?,
            None => Value::Nothing,
        },
    };
    match &validate.schema {
        Schemas::Xml(schema) => match element(validate, &value, state) {
            Some((document, element)) => Ok(of_xml(schema, &document, element)),
            None => Ok(vec!["there is no element to check".into()]),
        },
        Schemas::Json(schema) => {
            let (bytes, content_type) = payload::bytes_of(&value, run)?;
            if content_type != payload::JSON {
                return Ok(vec!["the message is not JSON".into()]);
            }
            Ok(of_json(schema, &bytes))
        }
    }
}

/// Returns the element to check: the first node that was found, or the first element in the SOAP Body.
fn element(
    validate: &Validate,
    value: &Value,
    state: &State,
) -> Option<(Arc<xml::Document>, NodeId)> {
    let Value::Nodes(nodes) = value else { return None };
    let (document, node) = nodes.iter().next()?;
    let content = state.message.content();
    let in_soap = validate.of.is_none()
        && content.is_some_and(|content| {
            matches!(content.view(), Ok(View::Xml { envelope: Some(_), .. }))
        });
    let of_element = |node: &NodeId| document.kind(*node) == xml::Kind::Element;
    let node = match (in_soap, document.kind(node)) {
        (true, _) => document.children(node).find(of_element)?,
        (false, xml::Kind::Document) => document.root_element()?,
        (false, _) => node,
    };
    of_element(&node).then(|| (document.clone(), node))
}

fn of_xml(schema: &Arc<Schema>, document: &xml::Document, element: NodeId) -> Vec<Box<str>> {
    let bounds = Bounds { invalid_max: ERRORS_MAX, ..Bounds::default() };
    let mut validator = Validator::new(schema.clone(), Root::Declared, bounds);
    validator.validate_tree(document, element);
    let errors = validator.invalid().iter();
    errors.map(|invalid| shortened(&format!("<{}>: {}", invalid.node, invalid.message))).collect()
}

fn of_json(schema: &json_schema::Schema, bytes: &[u8]) -> Vec<Box<str>> {
    let document = match Document::read(bytes) {
        Ok(document) => document,
        Err(unreadable) => return vec![unreadable.to_string().into()],
    };
    if schema.allows(&document) {
        Vec::new()
    } else {
        schema.faults(&document, false, ERRORS_MAX).into_iter().map(Into::into).collect()
    }
}

fn shortened(text: &str) -> Box<str> {
    // Harmless: the beginning of an error shows its place and its kind.
    text.chars().take(ERROR_CHARS_MAX).collect::<String>().into()
}
