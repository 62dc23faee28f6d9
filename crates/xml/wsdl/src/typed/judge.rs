//! Validates a message with the schema itself, in proofs and wherever the tables alone cannot decide.

use std::sync::Arc;

use xml::{Here, QName, Sink, Start};
use xsd::{Bounds, ParseStop, Root as Wanted, Schema, Validator};

use super::model::Message;
use super::typed_api::Api;

/// Checks the headers and the body of an envelope. The error says what is wrong.
pub(super) fn judge(api: &Api, message: &Message, envelope: &[u8]) -> Result<(), String> {
    let bounds = Bounds { invalid_max: 1, ..Bounds::default() };
    let mut judge =
        Judge { message, depth: 0, validator: None, schema: &api.schema, bounds, wrong: None };
    xml::parse(envelope, super::options(), &mut judge).map_err(|error| error.to_string())?;
    judge.wrong.map_or(Ok(()), Err)
}

struct Judge<'a> {
    message: &'a Message,
    depth: usize,
    validator: Option<(Validator, usize)>,
    schema: &'a Arc<Schema>,
    bounds: Bounds,
    wrong: Option<String>,
}

impl Judge<'_> {
    /// Returns the requirement for an element at this depth, or `None` for an undeclared one.
    fn wanted(&self, name: QName<'_>) -> Option<Wanted> {
        match (self.depth, self.message.is_rpc) {
            (2, false) => Some(Wanted::Declared),
            (2, true) => {
                let declared = self.schema.has_element(name.namespace.uri, name.local);
                declared.then_some(Wanted::Declared)
            }
            (3, true) => {
                let part = self.message.rpc.iter().find(|part| *part.local == *name.local)?;
                let (uri, local) = &part.type_name;
                Some(Wanted::Type { uri: uri.to_string(), local: local.to_string() })
            }
            _ => None,
        }
    }

    fn after(&mut self, fed: Result<(), ParseStop>) {
        if let (Err(ParseStop::Enough), Some((validator, _))) = (fed, &self.validator) {
            let first = validator.invalid().first();
            self.wrong = self.wrong.take().or_else(|| first.map(ToString::to_string));
        }
    }
}

impl Sink for Judge<'_> {
    type Error = xml::Error;

    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), xml::Error> {
        if self.validator.is_none()
            && self.wrong.is_none()
            && let Some(wanted) = self.wanted(start.name)
        {
            let mut validator = Validator::new(self.schema.clone(), wanted, self.bounds.clone());
            validator.reset();
            self.validator = Some((validator, self.depth));
        }
        if let Some((validator, _)) = &mut self.validator {
            let fed = validator.start(start, here);
            self.after(fed);
        }
        self.depth += 1;
        Ok(())
    }

    fn text(&mut self, text: &str, cdata: bool, here: Here<'_>) -> Result<(), xml::Error> {
        if let Some((validator, _)) = &mut self.validator {
            let fed = validator.text(text, cdata, here);
            self.after(fed);
        }
        Ok(())
    }

    fn end(&mut self, name: QName<'_>, here: Here<'_>) -> Result<(), xml::Error> {
        self.depth -= 1;
        if let Some((validator, _)) = &mut self.validator {
            let fed = validator.end(name, here);
            self.after(fed);
        }
        if self.validator.as_ref().is_some_and(|(_, depth)| *depth == self.depth) {
            self.validator = None;
        }
        Ok(())
    }
}
