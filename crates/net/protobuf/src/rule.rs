//! The rule that maps a method to HTTP (`google.api.http`), as written in the descriptors.

use crate::wire::{Raw, WireError, each, text};

/// One binding of a method.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HttpRule {
    /// The HTTP method.
    pub(crate) verb: String,
    pub(crate) template: String,
    /// The field that the body contains, `*`, or empty.
    pub(crate) body: String,
    /// The field of the reply that the body contains, or empty.
    pub(crate) response_body: String,
}

/// Reads a rule and its additional bindings, which cannot have any themselves.
pub(crate) fn read(rule: &[u8], rules: &mut Vec<HttpRule>) -> Result<(), WireError> {
    rules.push(one(rule)?);
    each(rule, |number, raw| {
        if let (11, Raw::Bytes(additional)) = (number, raw) {
            rules.push(one(additional)?);
        }
        Ok(())
    })
}

fn one(rule: &[u8]) -> Result<HttpRule, WireError> {
    let mut made = HttpRule::default();
    each(rule, |number, raw| {
        let Raw::Bytes(bytes) = raw else { return Ok(()) };
        match number {
            2..=6 => {
                let verbs = ["GET", "PUT", "POST", "DELETE", "PATCH"];
                let at = usize::try_from(number - 2).map_err(|_| WireError)?;
                // Harmless: there are five methods.
                made.verb = verbs.get(at).copied().unwrap_or_default().to_owned();
                made.template = text(bytes)?;
            }
            7 => made.body = text(bytes)?,
            8 => each(bytes, |number, raw| {
                match (number, raw) {
                    (1, Raw::Bytes(kind)) => made.verb = text(kind)?,
                    (2, Raw::Bytes(path)) => made.template = text(path)?,
                    // Harmless: other fields are not needed.
                    _ => {}
                }
                Ok(())
            })?,
            12 => made.response_body = text(bytes)?,
            // Harmless: other fields are not needed.
            _ => {}
        }
        Ok(())
    })?;
    Ok(made)
}
