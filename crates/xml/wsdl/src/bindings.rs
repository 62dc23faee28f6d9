//! Bindings of WSDL 1.1: SOAP 1.1 (section 3), SOAP 1.2 (the member submission of 2006) and HTTP (section 4).
//!
//! Resolves the operation that a binding's operation refers to, and reads the SOAP extensions of its messages.

use crate::WSDL11;
use crate::definitions::words;
use crate::element::{Element, Report};
use crate::model::{
    Binding, BindingOperation, Body, Content, Fault, Header, Interface, Message, Name, Operation,
    Payload, Protocol, Style, Use,
};
use crate::soap::{BINDING_11, BINDING_12, SoapVersion};

const HTTP: &str = "http://schemas.xmlsoap.org/wsdl/http/";
const MIME: &str = "http://schemas.xmlsoap.org/wsdl/mime/";

/// Properties shared by the operations of a binding.
struct Common<'a> {
    /// The namespace of the extension.
    extension: &'a str,
    style: Style,
    /// Index of the interface, if there is one.
    interface: Option<usize>,
    operations: &'a [Operation],
    messages: &'a [Message],
}

pub(crate) fn binding(
    name: &Name,
    at: Element<'_>,
    interfaces: &[Interface],
    messages: &[Message],
    report: &mut Report,
) -> Binding {
    let interface = interface(at, interfaces, report);
    // Some tools write further extensions beside the one that is needed.
    let extensions = || at.children().filter(|e| e.local() == "binding" && e.namespace() != WSDL11);
    let known = |e: &Element<'_>| matches!(e.namespace(), BINDING_11 | BINDING_12 | HTTP);
    let extension = extensions().find(known).or_else(|| extensions().next());
    let namespace = extension.map_or("", Element::namespace);
    let protocol = match namespace {
        BINDING_11 => Protocol::Soap(SoapVersion::V11),
        BINDING_12 => Protocol::Soap(SoapVersion::V12),
        HTTP => Protocol::Http(extension.and_then(|e| e.attribute("verb")).map(Box::from)),
        other => Protocol::Other(other.into()),
    };
    // Harmless: without a `style` attribute the style is `document`.
    let style = extension.and_then(|e| style(e, report)).unwrap_or_default();
    let known = interface.and_then(|at| interfaces.get(at));
    let operations = known.map_or(&[][..], |known| &known.operations);
    let common = Common { extension: namespace, style, interface, operations, messages };
    let operations = at.all(WSDL11, "operation");
    let operations = operations.filter_map(|at| common.operation(at, report)).collect();
    let transport = extension.and_then(|e| e.attribute("transport")).map(Box::from);
    Binding { name: name.clone(), protocol, transport, interface, style, operations }
}

fn interface(at: Element<'_>, interfaces: &[Interface], report: &mut Report) -> Option<usize> {
    let reference = at.reference("type", report)?;
    let found = interfaces.iter().position(|interface| interface.name == reference);
    if found.is_none() {
        report.at(at, "wsdl-reference", format!("there is no portType {reference}"));
    }
    found
}

fn style(at: Element<'_>, report: &mut Report) -> Option<Style> {
    match at.attribute("style")? {
        "document" => Some(Style::Document),
        "rpc" => Some(Style::Rpc),
        other => {
            let message = format!("the style is `document` or `rpc`, not `{other}`");
            report.at(at, "wsdl-attribute", message);
            None
        }
    }
}

fn usage(at: Element<'_>, report: &mut Report) -> Use {
    match at.attribute("use") {
        None | Some("literal") => Use::Literal,
        Some("encoded") => Use::Encoded,
        Some(other) => {
            let message = format!("`use` is `literal` or `encoded`, not `{other}`");
            report.at(at, "wsdl-attribute", message);
            Use::Literal
        }
    }
}

impl Common<'_> {
    fn operation(&self, at: Element<'_>, report: &mut Report) -> Option<BindingOperation> {
        let name = at.required("name", report)?;
        let index = self.meant(at, name);
        if index.is_none() && self.interface.is_some() {
            let message = format!("the portType has no operation `{name}`");
            report.at(at, "wsdl-reference", message);
        }
        let operation = index.and_then(|index| self.operations.get(index));
        let said = at.first(self.extension, "operation");
        let style = said.and_then(|said| style(said, report)).unwrap_or(self.style);
        let mut content = |element: &str, message: Option<&Message>| {
            let at = at.first(WSDL11, element)?;
            Some(self.content(at, message?, report))
        };
        let input = content("input", operation.and_then(|of| of.input.as_ref()));
        let output = content("output", operation.and_then(|of| of.output.as_ref()));
        let faults = at.all(WSDL11, "fault").filter_map(|at| self.fault(at, report)).collect();
        Some(BindingOperation {
            name: name.into(),
            operation: self.interface.and_then(|interface| Some((interface, index?))),
            action: said.and_then(|said| said.attribute("soapAction")).map(Box::from),
            action_required: said
                .and_then(|said| said.attribute("soapActionRequired"))
                .map(|value| matches!(value, "true" | "1")),
            style,
            input,
            output,
            faults,
            location: said.and_then(|said| said.attribute("location")).map(Box::from),
        })
    }

    /// Returns the index of the operation with this name. If the name is overloaded, the presence of input and output decides.
    fn meant(&self, at: Element<'_>, name: &str) -> Option<usize> {
        let of_name = || self.operations.iter().enumerate().filter(|(_, o)| &*o.name == name);
        let bound = [at.first(WSDL11, "input"), at.first(WSDL11, "output")];
        let exact = of_name().find(|(_, operation)| {
            let messages = [&operation.input, &operation.output];
            // Harmless: both arrays hold an input and an output.
            bound.iter().zip(messages).all(|(at, message)| at.is_some() == message.is_some())
        });
        exact.or_else(|| of_name().next()).map(|(index, _)| index)
    }

    fn content(&self, at: Element<'_>, message: &Message, report: &mut Report) -> Content {
        let headers: Vec<(Header, Option<usize>)> = self
            .extensions(at, "header")
            .filter_map(|at| self.header(at, message, report))
            .collect();
        let body = self.extensions(at, "body").next();
        let named = body.and_then(|body| body.attribute("parts"));
        let parts = match named {
            Some(list) => self.parts(body, list, message, report),
            // Without a `parts` list, all parts that are not headers.
            None => (0..message.parts.len())
                .filter(|index| !headers.iter().any(|(_, part)| *part == Some(*index)))
                .collect(),
        };
        let body = Body {
            parts,
            // Harmless: without a `use` attribute the use is literal.
            usage: body.map(|body| usage(body, report)).unwrap_or_default(),
            namespace: body.and_then(|body| body.attribute("namespace")).map(Box::from),
            encoding: body.and_then(|body| body.attribute("encodingStyle")).map(Box::from),
        };
        let mut named: Vec<Header> = Vec::new();
        for (header, _) in headers {
            // Some tools name the same header once for each SOAP version.
            if !named.contains(&header) {
                named.push(header);
            }
        }
        Content { body, headers: named }
    }

    fn parts(
        &self,
        at: Option<Element<'_>>,
        list: &str,
        message: &Message,
        report: &mut Report,
    ) -> Vec<usize> {
        let mut parts = Vec::new();
        for name in words(Some(list)) {
            match (message.parts.iter().position(|part| part.name == name), at) {
                (Some(index), _) => parts.push(index),
                (None, Some(at)) => {
                    let message = format!("the message {} has no part `{name}`", message.name);
                    report.at(at, "wsdl-reference", message);
                }
                (None, None) => {}
            }
        }
        parts
    }

    /// Reads a header, and finds its part in the operation's own message.
    fn header(
        &self,
        at: Element<'_>,
        own: &Message,
        report: &mut Report,
    ) -> Option<(Header, Option<usize>)> {
        let reference = at.reference("message", report)?;
        let name = at.required("part", report)?;
        let Some(message) = self.messages.iter().find(|message| message.name == reference) else {
            report.at(at, "wsdl-reference", format!("there is no message {reference}"));
            return None;
        };
        let Some(index) = message.parts.iter().position(|part| &*part.name == name) else {
            report.at(
                at,
                "wsdl-reference",
                format!("the message {reference} has no part `{name}`"),
            );
            return None;
        };
        let payload = message.parts.get(index).map_or(Payload::Any, |part| part.payload.clone());
        let own = (message.name == own.name).then_some(index);
        Some((Header { payload, usage: usage(at, report) }, own))
    }

    fn fault(&self, at: Element<'_>, report: &mut Report) -> Option<Fault> {
        let said = at.first(self.extension, "fault");
        let name = at.attribute("name").or_else(|| said.and_then(|said| said.attribute("name")));
        let Some(name) = name else {
            report.at(at, "wsdl-attribute", "<fault> needs the attribute `name`".to_owned());
            return None;
        };
        // Harmless: without a `use` attribute the use is literal.
        let usage = said.map(|said| usage(said, report)).unwrap_or_default();
        Some(Fault { name: name.into(), usage })
    }

    /// Returns the elements of the binding's extension, including those in the root part of a multipart message.
    fn extensions<'d>(
        &self,
        at: Element<'d>,
        local: &'static str,
    ) -> impl Iterator<Item = Element<'d>> {
        let extension = self.extension.to_owned();
        let parts = at.all(MIME, "multipartRelated").flat_map(|all| all.all(MIME, "part"));
        let places: Vec<Element<'d>> = std::iter::once(at).chain(parts).collect();
        let all = places.into_iter().flat_map(Element::children);
        all.filter(move |child| child.is(&extension, local))
    }
}
