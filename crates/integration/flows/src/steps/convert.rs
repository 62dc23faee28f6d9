//! `convert`: the message in another format.

use expression::{JsonText, Value};
use fault::Fault;
use json::push_string;
use mediation::soap::Version;

use crate::content::Content;
use crate::infoset;
use crate::json_xml::{Marks, ToJson, json_as_xml, push_text, to_xml};
use crate::levels::{ActionNeeds, Levels};
use crate::soap;
use crate::state::{Run, State};
use crate::step::{Action, Step, StepRun, ended};
use crate::steps::payload;
use crate::view::View;

/// A change of format.
pub enum Convert {
    Json {
        /// Paths of elements that become arrays even if there is only one. A path such as `a/b` starts at the root or below it.
        arrays: Vec<Box<str>>,
        /// True if texts that are numbers or booleans become JSON numbers and booleans.
        types: bool,
    },
    Xml {
        /// The name of the root element.
        root: Box<str>,
        /// True if an empty array becomes a processing instruction. Otherwise it is left out.
        marks_empty: bool,
    },
    Text,
    /// A SOAP envelope of this version.
    Soap(Version),
    /// The content of the envelope of a SOAP message.
    Pox,
}

impl Action for Convert {
    fn needs(&self, _levels: &Levels<'_>) -> ActionNeeds {
        ActionNeeds { content: true, ..ActionNeeds::default() }
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        ended(convert(self, run, state))
    }
}

/// Converts the message.
fn convert(made: &Convert, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
    let Some(content) = state.message.content().cloned() else { return Ok(()) };
    let view = content.known()?;
    let form = match view {
        View::Text(_) | View::Bytes => content.fields(),
        View::Empty | View::Xml { .. } | View::Json(_) => Ok(None),
    };
    let form = form.map_err(|kind| content.malformed(&kind.to_string()))?;
    let (text, content_type) = match (made, form) {
        (Convert::Json { .. }, Some(form)) => (form.raw(JsonText::ROOT).to_owned(), payload::JSON),
        (Convert::Xml { root, marks_empty }, Some(form)) => {
            (to_xml(form, root, Marks::of(*marks_empty), content.maker)?, payload::XML)
        }
        (Convert::Text | Convert::Pox, Some(_)) => return Ok(()),
        (Convert::Soap(_), Some(_)) | (_, None) => match converted(made, &content, view, run)? {
            Some(converted) => converted,
            None => return Ok(()),
        },
    };
    run.bound(text.len())?;
    state.message.replace(text.into(), content_type.as_bytes());
    Ok(())
}

/// Returns the text of the message in another format, with its content type. Returns `None` if there is nothing to convert.
fn converted(
    made: &Convert,
    content: &Content,
    view: &View,
    run: &Run<'_>,
) -> Result<Option<(String, &'static str)>, Fault> {
    Ok(Some(match (made, view) {
        (Convert::Json { arrays, types }, View::Xml { document, envelope }) => {
            let top = match envelope {
                Some(envelope) => document
                    .children(envelope.body)
                    .find(|id| document.kind(*id) == xml::Kind::Element),
                None => document.root_element(),
            };
            let root = top.map_or("", |top| document.name(top).local);
            let last_counts = !run.refuses_duplicate_members;
            let sender = content.maker;
            let writer = ToJson { document, root, arrays, types: *types, last_counts, sender };
            (writer.write(top)?, payload::JSON)
        }
        (Convert::Xml { root, marks_empty }, View::Json(text)) => {
            (to_xml(text, root, Marks::of(*marks_empty), content.maker)?, payload::XML)
        }
        (Convert::Json { .. }, View::Json(_)) | (Convert::Xml { .. }, View::Xml { .. }) => {
            return Ok(None);
        }
        (Convert::Json { .. }, View::Text(text)) => {
            let mut out = String::new();
            push_string(&mut out, text);
            (out, payload::JSON)
        }
        (Convert::Xml { root, .. }, View::Text(text)) => {
            let mut out = format!("<{root}>");
            push_text(&mut out, text, content.maker)?;
            out.push_str(&format!("</{root}>"));
            (out, payload::XML)
        }
        (Convert::Text, View::Xml { .. }) => {
            let value = content.body().map_err(|kind| content.malformed(&kind.to_string()))?;
            (text_of(&value), payload::TEXT)
        }
        (Convert::Text, View::Json(text)) => {
            (text.string(JsonText::ROOT).into_owned(), payload::TEXT)
        }
        (Convert::Text, View::Text(_)) => return Ok(None),
        (Convert::Soap(version), View::Json(text)) => {
            // A service may refuse the instructions that mark lists.
            let inside = json_as_xml(text, content.maker, Marks::None)?;
            (infoset::enveloped(*version, "", &inside), soap::content_type(*version))
        }
        (Convert::Soap(version), _) => {
            let infoset = content.infoset();
            let infoset = infoset.map_err(|kind| content.malformed(&kind.to_string()))?;
            if !infoset.is_made && infoset.envelope.version == *version {
                return Ok(None);
            }
            (infoset.in_version(*version), soap::content_type(*version))
        }
        (Convert::Pox, View::Xml { document, envelope: Some(envelope) }) => {
            (infoset::unwrapped(document, envelope), payload::XML)
        }
        (Convert::Pox, _) => return Ok(None),
        (_, View::Empty) => return Ok(None),
        (_, View::Bytes) => return Err(content.malformed("bytes that are not text")),
    }))
}

fn text_of(value: &Value) -> String {
    // Harmless: a value without a text becomes an empty text.
    value.text().map(|text| text.into_owned()).unwrap_or_default()
}
