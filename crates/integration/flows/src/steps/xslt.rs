//! `xslt`: transforms the message with a stylesheet. A SOAP message is transformed with its envelope.

use std::sync::Arc;

use expression::{Expression, Nodes, Value};
use fault::{Fault, Kind};
use mediation::Work;
use mediation::xslt::{TransformRejection, TransformResult, Transformation};
use message::{GatheredBody, Trailers};
use xslt::{Argument, Parameter};

use crate::edit::{Edits, put_back};
use crate::levels::{ActionNeeds, Levels};
use crate::state::{Run, State};
use crate::step::{Action, Step, StepRun, waits};
use crate::steps::payload;
use crate::timeout::{flow_timeout, within};

/// A transformation, and parameters that are evaluated for each message.
pub struct Xslt {
    pub transformation: Transformation,
    pub parameters: Vec<(Box<str>, Expression)>,
    /// The element that is transformed. If absent, it is the whole message.
    pub of: Option<Expression>,
}

impl Action for Xslt {
    fn needs(&self, _levels: &Levels<'_>) -> ActionNeeds {
        let values = self.parameters.iter().map(|(_, expression)| expression).chain(&self.of);
        let slots = values.flat_map(Expression::slots).collect();
        ActionNeeds { slots, content: true, ..ActionNeeds::default() }
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        waits(move || transform(self, run, state))
    }
}

/// Transforms the message.
async fn transform(made: &Xslt, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
    let Some(content) = state.message.content().cloned() else { return Ok(()) };
    if let Some(of) = &made.of {
        return part(made, of, run, state).await;
    }
    let (content_type, _) = content.looked_into();
    let result = transformed(made, content_type, &mut content.gathered(), run, state).await?;
    let result = result.map_err(|refused| fault(refused, |what| content.malformed(what)))?;
    run.bound(result.bytes.len())?;
    let label = result.label(content_type);
    if result.bytes.trim_ascii_start().starts_with(b"<")
        && state.message.exchange_root(&result.bytes, label.as_deref())?
    {
        return Ok(());
    }
    let label = label.map(String::into_bytes).or_else(|| content_type.map(<[u8]>::to_vec));
    state.message.replace(result.bytes, &label.unwrap_or_else(|| payload::XML.into()));
    Ok(())
}

/// Transforms one element, and puts the result in its place.
async fn part(made: &Xslt, of: &Expression, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
    let Value::Nodes(nodes) = run.value(state, of)? else { return Ok(()) };
    let Some((document, node)) = nodes.iter().next() else { return Ok(()) };
    let Some(content) = state.message.content().cloned() else { return Ok(()) };
    let around = content.made_infoset();
    let is_made = around.is_some_and(|around| Arc::ptr_eq(&around.document, document));
    if !is_made && !content.has(document) {
        let cause = "xslt: the element is not part of the message";
        return Err(Fault::new(Kind::FlowFailed, cause));
    }
    let one = Value::Nodes(Nodes::one(document.clone(), node));
    let (bytes, content_type) = payload::bytes_of(&one, run)?;
    let mut body = GatheredBody::new(bytes, Trailers::new());
    let result = transformed(made, Some(content_type.as_bytes()), &mut body, run, state).await?;
    let failed = |what: &str| Fault::new(Kind::ProcessingFailed, what);
    let result = result.map_err(|refused| fault(refused, failed))?;
    let text = std::str::from_utf8(&result.bytes)
        .map_err(|_| Fault::new(Kind::ProcessingFailed, "xslt: the result is not in UTF-8"))?;
    let declared = text.strip_prefix("<?xml").and_then(|rest| rest.split_once("?>"));
    let text = declared.map_or(text, |(_, rest)| rest).trim();
    let mut edits = Edits::default();
    edits.at(node).instead = Some(text.to_owned());
    let text = edits.write(document);
    run.bound(text.len())?;
    if is_made {
        put_back("xslt", &text, &content, run, state)
    } else {
        state.message.rewrite(text)
    }
}

async fn transformed(
    made: &Xslt,
    content_type: Option<&[u8]>,
    body: &mut GatheredBody,
    run: &Run<'_>,
    state: &State,
) -> Result<Result<TransformResult, TransformRejection>, Fault> {
    let result = if made.parameters.is_empty() {
        None
    } else {
        let parameters = parameters(made, run, state)?;
        made.transformation.run_with(content_type, body, &parameters)
    };
    if let Some(result) = result {
        return Ok(result);
    }
    match made.transformation.run(content_type, body, kit::alarm::take()) {
        Work::Done(result) => Ok(result),
        Work::Waits(mut result) => {
            within(state.left(), result.as_mut()).await.ok_or_else(flow_timeout)
        }
    }
}

fn parameters(made: &Xslt, run: &Run<'_>, state: &State) -> Result<Vec<Parameter>, Fault> {
    let parameter = |(name, expression): &(Box<str>, Expression)| {
        let value = Argument::Text(run.text(state, expression)?.as_str().into());
        Ok(Parameter { uri: "".into(), local: (**name).into(), value })
    };
    made.parameters.iter().map(parameter).collect()
}

fn fault(refused: TransformRejection, malformed: impl FnOnce(&str) -> Fault) -> Fault {
    match refused {
        TransformRejection::Failed(failed) if !failed.server => malformed(failed.cause()),
        TransformRejection::Failed(failed) => Fault::new(Kind::ProcessingFailed, failed.cause()),
        TransformRejection::Late(failed) => Fault::new(Kind::EngineTimeout, failed.cause()),
        TransformRejection::Broken(cause) => Fault::new(Kind::ProcessingFailed, cause),
        TransformRejection::Busy => {
            Fault::new(Kind::EngineBusy, "too many messages wait for Saxon")
        }
    }
}
