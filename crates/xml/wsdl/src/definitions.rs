//! What the readers of both versions return, and how they find definitions and names.

use std::collections::HashSet;

use crate::element::{Element, Report};
use crate::model::{Binding, Interface, Message, Name, Service};

/// Definitions found by the reader of one version.
#[derive(Debug, Default)]
pub(crate) struct ReadDefinitions {
    pub(crate) services: Vec<Service>,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) messages: Vec<Message>,
}

/// Returns the definitions of one kind with their names. A duplicate name gives a complaint, but the duplicate is returned too: look-ups by
/// name take the first.
pub(crate) fn defined<'d>(
    elements: impl Iterator<Item = Element<'d>>,
    report: &mut Report,
) -> Vec<(Name, Element<'d>)> {
    let mut all: Vec<(Name, Element<'d>)> = Vec::new();
    let mut known = HashSet::new();
    for element in elements {
        let Some(name) = element.defines(report) else { continue };
        if !known.insert(name.clone()) {
            let message = format!("there are two <{}> with the name {name}", element.local());
            report.at(element, "wsdl-duplicate", message);
        }
        all.push((name, element));
    }
    all
}

/// Returns the items of a list of words.
pub(crate) fn words(list: Option<&str>) -> Vec<Box<str>> {
    list.unwrap_or("").split_ascii_whitespace().map(Box::from).collect()
}
