//! WSDL 1.1: messages, port types and services.
//!
//! Implements sections 2.3, 2.4, 2.6 and 2.7 of the W3C Note of 2001. Section 2.5, bindings, is in `bindings`.

use std::collections::HashMap;

use crate::WSDL11;
use crate::bindings;
use crate::definitions::{ReadDefinitions, defined, words};
use crate::documents::Documents;
use crate::element::{Element, Report};
use crate::model::{Interface, Message, Name, Operation, Part, Payload, Port, Service};

/// Reads all definitions of all documents.
pub(crate) fn read(documents: &Documents, report: &mut Report) -> ReadDefinitions {
    let mut read = ReadDefinitions::default();
    let roots = || documents.files.iter().map(|file| file.root());
    let messages = defined(roots().flat_map(|root| root.all(WSDL11, "message")), report);
    read.messages = messages.iter().map(|(name, at)| message(name, *at, report)).collect();
    let port_types = defined(roots().flat_map(|root| root.all(WSDL11, "portType")), report);
    // If several have the same name, the first counts.
    let known: HashMap<&Name, &Message> =
        read.messages.iter().rev().map(|message| (&message.name, message)).collect();
    read.interfaces =
        port_types.iter().map(|(name, at)| interface(name, *at, &known, report)).collect();
    let bindings = defined(roots().flat_map(|root| root.all(WSDL11, "binding")), report);
    read.bindings = bindings
        .iter()
        .map(|(name, at)| bindings::binding(name, *at, &read.interfaces, &read.messages, report))
        .collect();
    let services = defined(roots().flat_map(|root| root.all(WSDL11, "service")), report);
    let names: Vec<&Name> = read.bindings.iter().map(|binding| &binding.name).collect();
    read.services = services.iter().map(|(name, at)| service(name, *at, &names, report)).collect();
    read
}

fn message(name: &Name, at: Element<'_>, report: &mut Report) -> Message {
    let parts = at.all(WSDL11, "part").filter_map(|at| part(at, report)).collect();
    Message { name: name.clone(), parts }
}

fn part(at: Element<'_>, report: &mut Report) -> Option<Part> {
    let name = at.required("name", report)?;
    let payload = match (at.attribute("element"), at.attribute("type")) {
        (Some(element), None) => Payload::Element(at.resolve(element, report)?),
        (None, Some(of)) => Payload::Type(at.resolve(of, report)?),
        (Some(_), Some(_)) => {
            report.at(at, "wsdl-part", format!("the part `{name}` has both `element` and `type`"));
            return None;
        }
        (None, None) => {
            report.at(
                at,
                "wsdl-part",
                format!("the part `{name}` has neither `element` nor `type`"),
            );
            return None;
        }
    };
    Some(Part { name: name.into(), payload })
}

fn interface(
    name: &Name,
    at: Element<'_>,
    messages: &HashMap<&Name, &Message>,
    report: &mut Report,
) -> Interface {
    let operations = at.all(WSDL11, "operation");
    let operations = operations.filter_map(|at| operation(at, messages, report)).collect();
    Interface { name: name.clone(), operations, faults: Vec::new() }
}

fn operation(
    at: Element<'_>,
    messages: &HashMap<&Name, &Message>,
    report: &mut Report,
) -> Option<Operation> {
    let name = at.required("name", report)?;
    let input = at.first(WSDL11, "input").and_then(|at| carried(at, messages, report));
    let output = at.first(WSDL11, "output").and_then(|at| carried(at, messages, report));
    let faults = at.all(WSDL11, "fault").filter_map(|at| {
        let name = at.required("name", report)?;
        Some((name.into(), carried(at, messages, report)?))
    });
    let faults = faults.collect();
    let first = at.children().find(|child| matches!(child.local(), "input" | "output"));
    Some(Operation {
        name: name.into(),
        input,
        output,
        faults,
        solicits: first.is_some_and(|first| first.local() == "output"),
        parameter_order: words(at.attribute("parameterOrder")),
    })
}

/// Returns the message of an `input`, `output` or `fault`.
fn carried(
    at: Element<'_>,
    messages: &HashMap<&Name, &Message>,
    report: &mut Report,
) -> Option<Message> {
    let name = at.reference("message", report)?;
    let message = messages.get(&name).map(|message| (*message).clone());
    if message.is_none() {
        report.at(at, "wsdl-reference", format!("there is no message {name}"));
    }
    message
}

fn service(name: &Name, at: Element<'_>, bindings: &[&Name], report: &mut Report) -> Service {
    let ports = at.all(WSDL11, "port").filter_map(|at| port(at, bindings, report)).collect();
    Service { name: name.clone(), ports }
}

fn port(at: Element<'_>, bindings: &[&Name], report: &mut Report) -> Option<Port> {
    let name = at.required("name", report)?;
    let reference = at.reference("binding", report)?;
    let Some(binding) = bindings.iter().position(|binding| **binding == reference) else {
        report.at(at, "wsdl-reference", format!("there is no binding {reference}"));
        return None;
    };
    // `soap:address`, `soap12:address` and `http:address` all have `location`.
    let address =
        at.children().find(|child| child.local() == "address" && child.namespace() != WSDL11);
    let address = address.and_then(|address| address.attribute("location")).map(Box::from);
    Some(Port { name: name.into(), binding, address })
}
