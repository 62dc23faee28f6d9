//! `respond`: the flow ends with an answer.

use expression::Template;
use fault::{Fault, Kind};
use policy::Decision;

use crate::levels::{ActionNeeds, Levels, deepest};
use crate::message::Payload;
use crate::state::{Run, State};
use crate::step::{Action, Shape, Step, StepRun, StepsEnd};
use crate::steps::header;
use crate::steps::payload::PayloadSource;

/// An answer.
#[derive(Default)]
pub struct Respond {
    pub status: Option<Status>,
    pub headers: Vec<(Box<str>, Template)>,
    pub made: Option<PayloadSource>,
}

/// The status of an answer.
pub enum Status {
    Fixed(u16),
    Made(Template),
}

impl Action for Respond {
    fn needs(&self, levels: &Levels<'_>) -> ActionNeeds {
        let headers = || self.headers.iter().map(|(_, template)| template);
        // Harmless: a fixed status has no template.
        let texts = || headers().chain(self.status.iter().filter_map(Status::template));
        let of_made = self.made.iter().map(|made| made.levels(levels));
        let slots = texts().flat_map(Template::slots);
        ActionNeeds {
            slots: slots.chain(self.made.iter().flat_map(PayloadSource::slots)).collect(),
            levels: deepest(of_made.chain([levels.templates(texts())])),
            uses_message: Some(self.made.is_none()),
            ..ActionNeeds::default()
        }
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        Decision::Ready(respond(self, run, state).map(|()| StepsEnd::Answered))
    }

    fn shape(&self) -> Shape<'_> {
        let is_plain = self.status.is_none() && self.headers.is_empty() && self.made.is_none();
        if is_plain { Shape::PlainRespond } else { Shape::Other }
    }
}

impl Status {
    fn template(&self) -> Option<&Template> {
        match self {
            Status::Fixed(_) => None,
            Status::Made(template) => Some(template),
        }
    }

    /// Returns the status, or `None` if the template is empty, so that the message's own status counts.
    fn get(&self, run: &Run<'_>, state: &State) -> Result<Option<u16>, Fault> {
        let template = match self {
            Status::Fixed(status) => return Ok(Some(*status)),
            Status::Made(template) => template,
        };
        let text = run.fill(state, template)?;
        if text.is_empty() {
            return Ok(None);
        }
        // Harmless: an invalid status is refused below.
        let status = kit::digits::whole::<u16>(&text).filter(|_| text.len() == 3);
        status.filter(|status| (200..600).contains(status)).map(Some).ok_or_else(|| {
            // Harmless: the text is only shown.
            let shown: String = text.chars().take(40).collect();
            let what = format!(
                "respond: the status is `{}`, and not a number from 200 to 599",
                shown.escape_debug()
            );
            Fault::new(Kind::Template, what)
        })
    }
}

/// Makes the message the answer.
fn respond(respond: &Respond, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
    // Evaluated before the body is replaced, because the template reads the original message.
    let status = match &respond.status {
        Some(status) => status.get(run, state)?,
        None => None,
    };
    if let Some(made) = &respond.made {
        made.replace(run, state)?;
    }
    for (name, template) in &respond.headers {
        let value = run.fill(state, template)?;
        header::set(&mut state.message.lines, name, &value)?;
    }
    if let Some(status) = status {
        state.message.status = Some(status);
        if matches!(status, 204 | 205 | 304) {
            state.message.payload = Payload::empty();
        }
    }
    Ok(())
}
