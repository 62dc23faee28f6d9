//! The parts of a message that `split` and `foreach` run steps for.

use std::rc::Rc;
use std::sync::Arc;

use expression::{Expression, Value};
use fault::{Fault, Kind};
use xml::Document;

use super::{Wrapper, frame};
use crate::content::Content;
use crate::edit::{Edits, has_default_namespace, put_back, undefaulted};
use crate::message::Message;
use crate::state::{Run, State};
use crate::steps::enrich::{JsonEdit, write_json};
use crate::steps::payload;
use crate::view::View;

/// Parts of a message, as messages.
pub(super) struct Parts {
    pub(super) items: Vec<Value>,
    content: Option<Rc<Content>>,
    /// The SOAP envelope around the Body's content, and whether it has a default namespace.
    envelope: Option<(String, String, bool)>,
}

impl Parts {
    pub(super) fn of(
        over: &Expression,
        max: usize,
        run: &Run<'_>,
        state: &State,
    ) -> Result<Parts, Fault> {
        let items = parts_in(run.value(state, over)?).map_err(|what| {
            let fault =
                Fault::with_detail(Kind::FlowFailed, what, "The message has no parts there.");
            run.blamed(fault)
        })?;
        if items.len() > max {
            let cause = format!("there are {} parts, and at most {max} are allowed", items.len());
            return Err(Fault::new(Kind::TooManyParts, cause));
        }
        let content = state.message.content().cloned();
        let soap = content.as_ref().and_then(|content| content.envelope());
        let envelope = soap.map(|(document, envelope)| {
            let (before, after) = frame(document, envelope.body);
            (before, after, has_default_namespace(document, envelope.body))
        });
        Ok(Parts { items, content, envelope })
    }

    /// Returns the message of one part. In SOAP, it has the same envelope as the whole message.
    pub(super) fn message(
        &self,
        at: usize,
        outer: &State,
        run: &Run<'_>,
    ) -> Result<Message, Fault> {
        // Harmless: the index is always that of a part.
        let value = self.items.get(at).cloned().unwrap_or_default();
        let (bytes, content_type) = payload::bytes_of(&value, run)?;
        let mut message = outer.message.copy();
        match (&self.envelope, &value) {
            (Some((before, after, default_namespace)), Value::Nodes(_)) => {
                // Harmless: the bytes were made of nodes, which are text.
                let markup = String::from_utf8_lossy(&bytes);
                let markup =
                    if *default_namespace { undefaulted(&markup, run)?.into() } else { markup };
                let text = [before, &*markup, after].concat();
                // The envelope is copied and read once more for each part, and attachments are copied.
                let content = self.content.as_ref().filter(|content| content.has_attachments());
                let beside = content.map_or(0, |content| content.bytes.len());
                run.charge((text.len() + beside) as u64 / 2)?;
                message.rewrite(text)?;
            }
            (Some(_) | None, _) => message.replace(bytes, content_type.as_bytes()),
        }
        Ok(message)
    }

    /// Returns the form that a result must have at the position of its part: a JSON value, or content of an element.
    pub(super) fn wrapper_at(&self, at: usize) -> Option<Wrapper> {
        match (self.content.as_ref()?.view().ok()?, self.items.get(at)?) {
            (_, Value::Nodes(nodes)) => {
                let around =
                    nodes.iter().next().and_then(|(of, node)| Some((of, of.parent(node)?)));
                let default_namespace =
                    around.is_some_and(|(of, around)| has_default_namespace(of, around));
                Some(Wrapper::Xml { before: "".into(), after: "".into(), default_namespace })
            }
            (View::Json(_), _) => Some(Wrapper::Json),
            _ => None,
        }
    }

    /// Replaces the parts by their results.
    pub(super) fn put_back(
        &self,
        results: &[Option<String>],
        run: &Run<'_>,
        state: &mut State,
    ) -> Result<(), Fault> {
        let Some(content) = &self.content else { return Ok(()) };
        if let Some(made) = content.made_infoset() {
            let edits = self.edits(results, &made.document);
            if !edits.is_empty() {
                let text = edits.write(&made.document);
                return put_back("foreach", &text, content, run, state);
            }
        }
        // Harmless: each part has a result here.
        let pairs = self.items.iter().zip(results.iter().flatten());
        let text = match content.known()? {
            View::Xml { document, .. } => {
                let edits = self.edits(results, document);
                if edits.is_empty() { return Ok(()) } else { edits.write(document) }
            }
            View::Json(text) => {
                let mut nodes = std::collections::BTreeMap::new();
                for (item, result) in pairs {
                    let Value::Json(json) = item else { continue };
                    let Some(node) = json.first().filter(|_| Arc::ptr_eq(&json.text, text)) else {
                        continue;
                    };
                    nodes.insert(node, result.as_str());
                }
                let mut out = String::new();
                let targets = nodes.keys().copied().collect();
                write_json(
                    text,
                    expression::JsonText::ROOT,
                    &targets,
                    JsonEdit::Each(&nodes),
                    &mut out,
                );
                out
            }
            View::Empty | View::Text(_) | View::Bytes => return Ok(()),
        };
        run.bound(text.len())?;
        state.message.rewrite(text)
    }
}

impl Parts {
    /// Returns the edits that replace the parts in a document by their results.
    fn edits(&self, results: &[Option<String>], document: &Arc<Document>) -> Edits {
        let mut edits = Edits::default();
        // Harmless: each part has a result here.
        for (item, result) in self.items.iter().zip(results.iter().flatten()) {
            let Value::Nodes(nodes) = item else { continue };
            let here = nodes.iter().filter(|(of, _)| Arc::ptr_eq(of, document));
            here.for_each(|(_, node)| edits.at(node).instead = Some(result.clone()));
        }
        edits
    }
}

/// Returns the parts of a value. A missing value or null has none. A text, a number or a boolean cannot be split.
fn parts_in(value: Value) -> Result<Vec<Value>, &'static str> {
    const NO_PARTS: &str = "`over` finds a single text, number or boolean, which has no parts";
    match &value {
        Value::Null => Ok(Vec::new()),
        Value::Json(json) if json.singular => match json.first().map(|node| json.text.kind(node)) {
            None | Some(json::Kind::Null) => Ok(Vec::new()),
            Some(json::Kind::Object | json::Kind::Array) => Ok(value.items()),
            Some(_) => Err(NO_PARTS),
        },
        Value::Text(text) if text.trim().is_empty() => Ok(Vec::new()),
        Value::Boolean(_) | Value::Number(_) | Value::Text(_) | Value::Bytes(_) => Err(NO_PARTS),
        Value::Nothing | Value::Nodes(_) | Value::Json(_) => Ok(value.items()),
    }
}
