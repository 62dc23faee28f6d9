//! `fault`: the flow fails with the configured fault.

use expression::Template;
use fault::{Fault, Kind};
use policy::Decision;

use crate::levels::{ActionNeeds, Levels};
use crate::state::{Run, State};
use crate::step::{Action, Step, StepRun};

/// The fault with which a flow fails.
pub struct FaultTemplate {
    /// True if the client is at fault, false if the gateway is.
    pub client: bool,
    pub reason: Template,
    pub detail: Option<Template>,
    pub status: Option<u16>,
}

impl Action for FaultTemplate {
    fn needs(&self, levels: &Levels<'_>) -> ActionNeeds {
        let texts = || [&self.reason].into_iter().chain(&self.detail);
        ActionNeeds {
            slots: texts().flat_map(Template::slots).collect(),
            levels: levels.templates(texts()),
            uses_message: Some(false),
            ..ActionNeeds::default()
        }
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        Decision::Ready(Err(self.fault(run, state).unwrap_or_else(|fault| fault)))
    }
}

impl FaultTemplate {
    fn fault(&self, run: &Run<'_>, state: &State) -> Result<Fault, Fault> {
        let kind = if self.client { Kind::FlowRefused } else { Kind::FlowFault };
        let reason = run.fill(state, &self.reason)?;
        let detail = self.detail.as_ref().map(|detail| run.fill(state, detail)).transpose()?;
        let mut fault = Fault::with_detail(kind, format!("a step of the flow: {reason}"), &reason);
        if let Some(detail) = detail {
            fault = fault.with_errors(vec![detail.into()]);
        }
        Ok(match self.status {
            Some(status) => fault.with_status(status),
            None => fault,
        })
    }
}
