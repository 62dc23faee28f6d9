//! WSDL 2.0: interfaces, bindings and services (part 1, section 2; the SOAP binding of part 2, section 5).
//!
//! Resolves the inheritance of interfaces, and the names of elements in messages.

use crate::WSDL20;
use crate::definitions::{ReadDefinitions, defined};
use crate::documents::Documents;
use crate::element::{Element, Report};
use crate::model::{
    Binding, BindingOperation, Body, Content, Fault, Interface, Message, Name, Operation, Part,
    Payload, Port, Protocol, Service, Style, Use,
};
use crate::soap::SoapVersion;

const WSOAP: &str = "http://www.w3.org/ns/wsdl/soap";
const WHTTP: &str = "http://www.w3.org/ns/wsdl/http";

/// Maximum length of a chain of `extends`. A longer chain is a cycle or a mistake.
const EXTENDS_DEPTH_MAX: usize = 32;

pub(crate) fn read(documents: &Documents, report: &mut Report) -> ReadDefinitions {
    let roots = || documents.files.iter().map(|file| file.root());
    let of = |local: &'static str| roots().flat_map(move |root| root.all(WSDL20, local));
    let interfaces = defined(of("interface"), report);
    let mut read = ReadDefinitions {
        interfaces: interfaces
            .iter()
            .map(|(name, at)| interface(name, *at, &interfaces, report))
            .collect(),
        ..ReadDefinitions::default()
    };
    let bindings = defined(of("binding"), report);
    read.bindings =
        bindings.iter().map(|(name, at)| binding(name, *at, &read.interfaces, report)).collect();
    let services = defined(of("service"), report);
    let names: Vec<&Name> = read.bindings.iter().map(|binding| &binding.name).collect();
    read.services = services.iter().map(|(name, at)| service(name, *at, &names, report)).collect();
    read
}

/// Reads an interface with its inherited operations and faults.
fn interface(
    name: &Name,
    at: Element<'_>,
    all: &[(Name, Element<'_>)],
    report: &mut Report,
) -> Interface {
    let mut line = Vec::new();
    ancestry(at, all, EXTENDS_DEPTH_MAX, &mut line, report);
    let mut faults: Vec<(Box<str>, Payload)> = Vec::new();
    for fault in line.iter().flat_map(|at| at.all(WSDL20, "fault")) {
        if let Some(name) = fault.required("name", report) {
            faults.push((name.into(), payload(fault, report)));
        }
    }
    let operations = line.iter().flat_map(|at| at.all(WSDL20, "operation"));
    let operations = operations.filter_map(|at| operation(at, &faults, report)).collect();
    Interface { name: name.clone(), operations, faults }
}

/// Collects the interface and those it extends, each once.
fn ancestry<'d>(
    at: Element<'d>,
    all: &[(Name, Element<'d>)],
    depth: usize,
    line: &mut Vec<Element<'d>>,
    report: &mut Report,
) {
    let same = |known: &Element<'_>| known.node == at.node && std::ptr::eq(known.file, at.file);
    if line.iter().any(same) {
        return;
    }
    if depth == 0 {
        let message =
            format!("interfaces extend one another more than {EXTENDS_DEPTH_MAX} levels deep");
        return report.at(at, "limit", message);
    }
    line.push(at);
    for base in at.attribute("extends").unwrap_or("").split_ascii_whitespace() {
        let Some(name) = at.definition(base, report) else { continue };
        match all.iter().find(|(known, _)| *known == name) {
            Some((_, base)) => ancestry(*base, all, depth - 1, line, report),
            None => report.at(at, "wsdl-reference", format!("there is no interface {name}")),
        }
    }
}

fn operation(
    at: Element<'_>,
    faults: &[(Box<str>, Payload)],
    report: &mut Report,
) -> Option<Operation> {
    let name = at.required("name", report)?;
    let first = at.children().find(|child| matches!(child.local(), "input" | "output"));
    let mut message = |local: &str| {
        let at = at.first(WSDL20, local)?;
        let payload = payload(at, report);
        let parts = match payload {
            Payload::None => Vec::new(),
            payload @ (Payload::Element(_) | Payload::Type(_) | Payload::Any | Payload::Other) => {
                vec![Part { name: "body".into(), payload }]
            }
        };
        Some(Message { name: Name::new(&at.file.target, name), parts })
    };
    let (input, output) = (message("input"), message("output"));
    let mut named = Vec::new();
    for fault in at.children().filter(|c| c.is(WSDL20, "outfault") || c.is(WSDL20, "infault")) {
        let Some(reference) = fault.reference("ref", report) else { continue };
        match faults.iter().find(|(known, _)| *known == reference.local) {
            Some((known, payload)) => {
                let part = Part { name: "body".into(), payload: payload.clone() };
                named.push((known.clone(), Message { name: reference, parts: vec![part] }));
            }
            None => report.at(fault, "wsdl-reference", format!("there is no fault {reference}")),
        }
    }
    Some(Operation {
        name: name.into(),
        input,
        output,
        faults: named,
        solicits: first.is_some_and(|first| first.local() == "output"),
        parameter_order: Vec::new(),
    })
}

/// `element`: a name, `#any`, `#none` or `#other`. If absent, it means `#other`.
fn payload(at: Element<'_>, report: &mut Report) -> Payload {
    match at.attribute("element") {
        None | Some("#other") => Payload::Other,
        Some("#any") => Payload::Any,
        Some("#none") => Payload::None,
        Some(name) => at.resolve(name, report).map_or(Payload::Any, Payload::Element),
    }
}

fn binding(name: &Name, at: Element<'_>, interfaces: &[Interface], report: &mut Report) -> Binding {
    let interface = at.attribute("interface").and_then(|text| {
        let reference = at.definition(text, report)?;
        let found = interfaces.iter().position(|interface| interface.name == reference);
        if found.is_none() {
            report.at(at, "wsdl-reference", format!("there is no interface {reference}"));
        }
        found
    });
    let protocol = match at.required("type", report).unwrap_or("") {
        // The default version is 1.2 (part 2, 5.10.1).
        WSOAP if at.qualified(WSOAP, "version") == Some("1.1") => Protocol::Soap(SoapVersion::V11),
        WSOAP => Protocol::Soap(SoapVersion::V12),
        WHTTP => Protocol::Http(at.qualified(WHTTP, "methodDefault").map(Box::from)),
        other => Protocol::Other(other.into()),
    };
    let operations = match interface.and_then(|index| Some((index, interfaces.get(index)?))) {
        Some((index, known)) => operations(at, index, known, report),
        None => Vec::new(),
    };
    let transport = at.qualified(WSOAP, "protocol").map(Box::from);
    Binding {
        name: name.clone(),
        protocol,
        transport,
        interface,
        style: Style::Document,
        operations,
    }
}

/// Binds every operation of the interface, even those that the binding does not mention (part 2, 5.8).
fn operations(
    at: Element<'_>,
    index: usize,
    interface: &Interface,
    report: &mut Report,
) -> Vec<BindingOperation> {
    let mut said: Vec<(Box<str>, Element<'_>)> = Vec::new();
    for bound in at.all(WSDL20, "operation") {
        let Some(reference) = bound.reference("ref", report) else { continue };
        if interface.operations.iter().any(|operation| operation.name == reference.local) {
            said.push((reference.local, bound))
        } else {
            let message = format!("the interface has no operation {reference}");
            report.at(bound, "wsdl-reference", message);
        }
    }
    let operations = interface.operations.iter().enumerate();
    operations
        .map(|(place, operation)| {
            let said = said.iter().find(|(name, _)| *name == operation.name).map(|(_, at)| *at);
            bound(operation, (index, place), said)
        })
        .collect()
}

fn bound(
    operation: &Operation,
    place: (usize, usize),
    said: Option<Element<'_>>,
) -> BindingOperation {
    let content = |message: &Message| Content {
        body: Body { parts: (0..message.parts.len()).collect(), ..Body::default() },
        headers: Vec::new(),
    };
    let fault = |(name, _): &(Box<str>, Message)| Fault { name: name.clone(), usage: Use::Literal };
    let action = said.and_then(|said| said.qualified(WSOAP, "action"));
    BindingOperation {
        name: operation.name.clone(),
        operation: Some(place),
        action: action.map(Box::from),
        action_required: None,
        style: Style::Document,
        input: operation.input.as_ref().map(content),
        output: operation.output.as_ref().map(content),
        faults: operation.faults.iter().map(fault).collect(),
        location: said.and_then(|said| said.qualified(WHTTP, "location")).map(Box::from),
    }
}

fn service(name: &Name, at: Element<'_>, bindings: &[&Name], report: &mut Report) -> Service {
    let mut ports = Vec::new();
    for endpoint in at.all(WSDL20, "endpoint") {
        let (Some(name), Some(reference)) =
            (endpoint.required("name", report), endpoint.reference("binding", report))
        else {
            continue;
        };
        match bindings.iter().position(|binding| **binding == reference) {
            Some(binding) => {
                let address = endpoint.attribute("address").map(Box::from);
                ports.push(Port { name: name.into(), binding, address });
            }
            None => {
                report.at(endpoint, "wsdl-reference", format!("there is no binding {reference}"))
            }
        }
    }
    Service { name: name.clone(), ports }
}
