//! Checks a complete message: by its transcript, by templates of earlier messages, or by parsing it.

use std::sync::Arc;

use xml::Transcript;

use super::super::{CompiledDefinition, Definitions};
use super::{OPTIONS, Pass, State, Validators};

/// Checks a complete message.
pub(super) struct Check<'a> {
    pub(super) definitions: &'a Definitions,
    pub(super) api: Option<&'a Arc<CompiledDefinition>>,
    pub(super) validators: &'a mut Validators,
}

impl Check<'_> {
    fn pass<'p>(&'p mut self, state: &'p mut State) -> Pass<'p> {
        self.validators.operation.clear();
        let Check { definitions, api, validators } = self;
        Pass { definitions, api: *api, validators, state }
    }

    /// Checks a message by its transcript and returns the state at its end. Returns `None` if there is any fault; the message is then
    /// parsed, so that the fault has its position.
    pub(super) fn replay(
        &mut self,
        transcript: &mut Transcript,
        message: &[u8],
        reply: bool,
    ) -> Option<State> {
        let mut state = State::new(reply);
        transcript.replay(message, &OPTIONS, &mut self.pass(&mut state))?.ok()?;
        state.is_right(self.api.is_some(), self.validators).then_some(state)
    }

    /// Parses a message. Returns the state at its end, and whether it is well-formed.
    pub(super) fn parse(&mut self, message: &[u8], reply: bool) -> (State, Result<(), xml::Error>) {
        let mut state = State::new(reply);
        // Harmless: without cached templates, an empty cache is used.
        let mut template_caches = self.validators.template_caches.take().unwrap_or_default();
        let [of_requests, of_replies] = &mut *template_caches;
        let known = if reply { of_replies } else { of_requests };
        let mut parsed = known.parse(message, &OPTIONS, &mut self.pass(&mut state));
        self.validators.template_caches = Some(template_caches);
        while parsed.is_ok() && state.is_undecided(self.validators) {
            state = state.next_turn();
            parsed = xml::parse(message, &OPTIONS, &mut self.pass(&mut state));
        }
        (state, parsed)
    }
}
