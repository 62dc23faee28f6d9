//! What is cached from earlier messages: the prefix of an envelope, and whole messages except for their values.

use std::sync::{Arc, Weak};

use xml::Recall;
use xsd::{Schema, TextRule, Validator, ValidatorMark};

use super::{Pass, Ready, State, ValidatorFeed};
use crate::soap::{CompiledDefinition, Definitions, Envelope, Version};

/// The state after the prefix of an envelope.
pub(in crate::soap) struct Memory {
    state: State,
    /// A snapshot of the envelope's validator, or `None` if the envelope is not validated.
    mark: Option<ValidatorMark>,
}

/// The facts about a valid message.
pub(in crate::soap) struct ValidMessage {
    version: Option<Version>,
    operation: Box<str>,
    called: Option<u32>,
    /// The definition that the operation was validated against, and the index of the schema.
    api: Option<Weak<CompiledDefinition>>,
    schema: usize,
}

/// The rules for the value at one place of a message.
pub(in crate::soap) struct Gap {
    of_envelope: TextRule,
    of_api: TextRule,
}

/// Returns the schema of the envelope, or `None` if it may differ between messages.
fn of_envelope(definitions: &Definitions, version: Option<Version>) -> Option<&Arc<Schema>> {
    let slot = version.unwrap_or(Version::V11).index();
    match definitions.envelopes.get(slot)? {
        Envelope::BuiltIn(schema) | Envelope::Own(schema) => Some(schema),
        Envelope::Off | Envelope::Missing | Envelope::Remote(_) | Envelope::Broken(_) => None,
    }
}

/// Returns a validator's rule for text. Without a validator any text is allowed.
fn rule(asked: Option<&Validator>) -> Option<TextRule> {
    asked.map_or(Some(TextRule::ANY), Validator::text_rule)
}

impl Recall for Pass<'_> {
    type Memory = Memory;
    type DocumentState = ValidMessage;
    type Gap = Gap;

    fn remember(&self) -> Option<Memory> {
        let state = &*self.state;
        let slot = state.version?.index();
        let mark = match (self.definitions.envelopes.get(slot)?, state.fed_envelope) {
            (Envelope::Off, _) => None,
            (Envelope::BuiltIn(_) | Envelope::Own(_), ValidatorFeed::Yes) => {
                Some(self.validators.envelopes.get(slot)?.as_ref()?.validator.mark()?)
            }
            // A fetched schema may have changed by the next message.
            _ => return None,
        };
        Some(Memory { state: state.clone(), mark })
    }

    fn resume(&mut self, memory: &Memory) {
        self.state.clone_from(&memory.state);
        let slot = self.state.version.unwrap_or(Version::V11).index();
        let place = self.validators.envelopes.get_mut(slot);
        let schema = of_envelope(self.definitions, memory.state.version);
        if let (Some(place), Some(schema), Some(mark)) = (place, schema, &memory.mark) {
            let validator = Ready::again(place, schema);
            validator.set_foreign_types(self.state.shallow);
            validator.resume(mark);
        }
    }

    fn gap(&self, _text: &str) -> Option<Gap> {
        let state = &*self.state;
        let envelope = state.of_envelope(self.validators);
        let envelope =
            envelope.filter(|_| state.fed_envelope == ValidatorFeed::Yes && !state.within);
        let api = state.of_api(self.validators).filter(|_| state.fed_api == ValidatorFeed::Yes);
        Some(Gap { of_envelope: rule(envelope)?, of_api: rule(api)? })
    }

    fn whole(&mut self) -> Option<ValidMessage> {
        let state = &*self.state;
        let is_fault = state.code.as_ref().is_some_and(|code| code.fault().is_some());
        let is_right = state.is_right(self.api.is_some(), self.validators);
        let fetched = state.fed_envelope != ValidatorFeed::No
            && of_envelope(self.definitions, state.version).is_none();
        let known = is_right && !is_fault && !fetched;
        known.then(|| ValidMessage {
            version: state.version,
            operation: self.validators.operation.as_str().into(),
            called: state.called,
            api: self.api.map(Arc::downgrade),
            schema: state.schema,
        })
    }

    fn fill<'t, T>(&mut self, whole: &ValidMessage, mut texts: T) -> bool
    where
        T: Iterator<Item = (&'t Gap, &'t str)> + Clone,
    {
        let known = whole.api.as_ref().map(Weak::as_ptr);
        if self.api.map(Arc::as_ptr) != known {
            return false;
        }
        let of_envelope = of_envelope(self.definitions, whole.version);
        // Harmless: messages of a faulty schema are not cached.
        let of_api = self.api.and_then(|api| api.schemas.get(whole.schema)?.as_ref().ok());
        let fits = |rule: &TextRule, schema: Option<&Arc<Schema>>, text: &str| {
            schema.is_none_or(|schema| rule.accepts(schema, text))
        };
        let fit = texts.all(|(gap, text)| {
            fits(&gap.of_envelope, of_envelope, text) && fits(&gap.of_api, of_api, text)
        });
        if fit {
            self.state.version = whole.version;
            self.state.body = true;
            self.state.operation = true;
            self.state.called = whole.called;
            self.validators.operation.push_str(&whole.operation);
        }
        fit
    }
}
