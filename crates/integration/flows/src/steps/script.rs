//! `script`: a program in jq or JavaScript that computes a new message, or a variable.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use expression::{Expression, Value};
use fault::{Fault, Kind};
use script::{Language, Program, ProgramFailure};

use crate::content::Content;
use crate::levels::{ActionNeeds, Levels};
use crate::state::{Run, State, Variable};
use crate::step::{Action, Step, StepRun, waits};
use crate::steps::payload;
use crate::timeout::{flow_timeout, within};
use crate::view::{Format, View};

/// Maximum duration of a run for one message, without the wait for a free process.
const LONGEST: Duration = Duration::from_secs(1);

/// A program with its inputs other than the message.
pub struct Script {
    pub program: Program,
    /// The values that a JavaScript program gets, by name.
    pub values: Vec<(Box<str>, Expression)>,
    /// The number of the variable that takes the result.
    pub into: Option<u32>,
}

impl Action for Script {
    fn needs(&self, _levels: &Levels<'_>) -> ActionNeeds {
        let slots = self.values.iter().flat_map(|(_, value)| value.slots()).collect();
        ActionNeeds { slots, content: true, ..ActionNeeds::default() }
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        waits(move || script(self, run, state))
    }
}

impl Script {
    /// Returns the input of the program, or `None` if the program needs JSON and the message is not JSON.
    fn input(
        &self,
        content: Option<&Content>,
        run: &Run<'_>,
        state: &State,
    ) -> Result<Option<Bytes>, Fault> {
        match self.program.language() {
            Language::Jq => match content.map(Content::known).transpose()? {
                Some(View::Json(json)) => Ok(Some(Bytes::copy_from_slice(json.text().as_bytes()))),
                Some(View::Empty) | None => Ok(Some(Bytes::new())),
                Some(View::Xml { .. } | View::Text(_) | View::Bytes) => Ok(None),
            },
            Language::JavaScript => self.object(content, run, state).map(Some),
        }
    }

    /// Returns an object with `message` and `values`.
    fn object(
        &self,
        content: Option<&Content>,
        run: &Run<'_>,
        state: &State,
    ) -> Result<Bytes, Fault> {
        let failed = |kind: expression::FailureKind| Fault::new(Kind::FlowFailed, kind.to_string());
        let mut budget = run.budget();
        let mut out = "{\"message\":".to_owned();
        match content.map(|content| Ok::<_, Fault>((content, content.known()?))).transpose()? {
            None | Some((_, View::Empty)) => out.push_str("null"),
            Some((content, View::Bytes)) => {
                return Err(
                    content.malformed("script: the message is neither JSON nor XML nor text")
                );
            }
            Some((_, View::Json(json))) => out.push_str(json.text()),
            Some((_, View::Text(text))) => json::push_string(&mut out, text),
            Some((content, View::Xml { .. })) => {
                let document = content.document().map_err(failed)?;
                let mut markup = String::new();
                document.write_xml(false, &mut markup, &mut budget).map_err(failed)?;
                json::push_string(&mut out, &markup);
            }
        }
        out.push_str(",\"values\":{");
        for (place, (name, expression)) in self.values.iter().enumerate() {
            out.push_str(if place == 0 { "" } else { "," });
            json::push_string(&mut out, name);
            out.push(':');
            let value = run.value(state, expression)?;
            if value.is_missing() {
                out.push_str("null");
            } else if let Value::Nodes(_) = value {
                let mut markup = String::new();
                value.write_xml(false, &mut markup, &mut budget).map_err(failed)?;
                json::push_string(&mut out, &markup);
            } else {
                value.write_json(&mut out, &mut budget).map_err(failed)?;
            }
        }
        out.push_str("}}");
        run.bound(out.len())?;
        Ok(out.into())
    }
}

/// Replaces the message by the program's value, or sets a variable to it. If a jq program yields no value, the message becomes empty.
async fn script(step: &Script, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
    let content = state.message.content().cloned();
    if content.is_none() && step.program.language() == Language::Jq && step.into.is_none() {
        return Ok(());
    }
    let input = step.input(content.as_deref(), run, state)?;
    let Some(input) = input else {
        let malformed = content.map(|content| content.malformed("script: the message is not JSON"));
        return Err(malformed.unwrap_or_else(|| Fault::new(Kind::Internal, "script: no message")));
    };
    let left = state.left();
    let failed = |what: &str| Fault::new(Kind::FlowFailed, format!("script: {what}"));
    let value = match within(left, pin!(step.program.run(&input, LONGEST))).await {
        Some(ran) => ran.map_err(|why| match why {
            ProgramFailure::Crowded => {
                Fault::new(Kind::Busy, format!("script: {why}")).with_header("Retry-After", "1")
            }
            ProgramFailure::Late => failed("it was stopped after 1 s"),
            ProgramFailure::Refused(_)
            | ProgramFailure::Ended
            | ProgramFailure::NotStarted(_)
            | ProgramFailure::TooLarge => failed(&why.to_string()),
        })?,
        None => return Err(flow_timeout()),
    };
    // Harmless: a program without a result makes an empty message.
    let text = Bytes::from(value.unwrap_or_default());
    run.bound(text.len())?;
    match step.into {
        None => state.message.replace(text, payload::JSON.as_bytes()),
        Some(number) if text.is_empty() => state.set(number, Variable::Value(Value::Null)),
        Some(number) => {
            let text = std::str::from_utf8(&text).map_err(|_| failed("its value is not text"))?;
            state.set(number, Variable::Value(payload::read(text, Format::Json)?));
        }
    }
    Ok(())
}
