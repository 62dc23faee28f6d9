//! `log`: writes a line to the log.

use expression::Template;
use tracing::Level;

use crate::levels::{ActionNeeds, Levels};
use crate::state::{Run, State};
use crate::step::{Action, Step, StepRun, ended};

/// A line for the log.
pub struct Log {
    pub level: Level,
    pub message: Template,
}

impl Action for Log {
    fn needs(&self, levels: &Levels<'_>) -> ActionNeeds {
        let levels = levels.template(&self.message);
        ActionNeeds { slots: self.message.slots(), levels, ..ActionNeeds::default() }
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        ended(run.fill(state, &self.message).map(|message| log(self.level, &message, run)))
    }
}

fn log(level: Level, message: &str, run: &Run<'_>) {
    let id = run.ex.id.as_str();
    // Control characters are replaced, so that a message cannot forge other log lines.
    let message = message.replace(char::is_control, " ");
    match level {
        Level::ERROR => tracing::error!(request_id = id, "{message}"),
        Level::WARN => tracing::warn!(request_id = id, "{message}"),
        Level::DEBUG | Level::TRACE => {
            tracing::debug!(request_id = id, "{message}")
        }
        Level::INFO => tracing::info!(request_id = id, "{message}"),
    }
}
