//! `callout`: a call whose request and reply are parts of the message.

use serde_json::{Map, Value as Json, json};
use wsdl::{SOAP_11, SOAP_12};

use super::super::converter::{Converter, Next};
use super::super::element::Element;
use super::super::endpoints::{Format, Target};

/// What the service gets.
struct Request {
    /// The expression of the selected elements, or of the whole message.
    body: Json,
    is_whole: bool,
    action: String,
}

/// Converts the mediator.
pub(super) fn callout<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let target =
        match (item.attribute("endpointKey"), item.attribute("serviceURL"), item.child("endpoint"))
        {
            (Some(key), _, _) => c.endpoint_by_key(key)?,
            (None, Some(url), _) => vec![c.address(item, url)?],
            (None, None, Some(endpoint)) => c.endpoint(&endpoint)?,
            (None, None, None) => return Err("it does not say where to".to_owned()),
        };
    let [target] = target.as_slice() else {
        return Err("a recipient list has no counterpart here".to_owned());
    };
    let source = item.child("source").ok_or("it has no source")?;
    let body = match (source.attribute("xpath"), source.attribute("key")) {
        (Some(xpath), _) => c.expression(&source, xpath)?.expression(),
        (None, Some(key)) => json!(c.named("default", key)?),
        (None, None) => json!("$envelope"),
    };
    let action = item.attribute("action").unwrap_or("").to_owned();
    let request = Request { body, is_whole: source.is("type", "envelope"), action };
    let reply = c.out.variable("callout.reply");
    let pending = c.flow.pending.clone();
    let [of_11, of_12, plain] = [Format::Soap11, Format::Soap12, Format::Pox].map(|form| {
        c.flow.pending = pending.clone();
        called(c, target, &request, form, &reply)
    });
    let cases = json!([
        { "matches": "(?i)^application/soap\\+xml", "steps": of_12? },
        { "matches": "(?i)^text/xml", "steps": of_11? },
    ]);
    steps.push(json!({
        "switch": { "on": "$headers.content-type", "cases": cases, "default": plain? },
    }));
    replied(c, item, &reply, steps)?;
    Ok(Next::Continue)
}

/// The steps that call the service with a request of one form.
fn called(
    c: &mut Converter<'_>,
    target: &Target,
    request: &Request,
    form: Format,
    reply: &str,
) -> Result<Vec<Json>, String> {
    let mut steps = Vec::new();
    let variable = c.out.variable("callout.request");
    let envelope = match form {
        Format::Soap11 => Some(("soap", SOAP_11)),
        Format::Soap12 => Some(("soap12", SOAP_12)),
        Format::Pox => None,
    };
    let body = match envelope.filter(|_| !request.is_whole) {
        // The service gets the selected elements in a new envelope.
        Some((prefix, namespace)) => {
            let empty = format!(
                "<soapenv:Envelope xmlns:soapenv=\"{namespace}\"><soapenv:Body/></soapenv:Envelope>"
            );
            steps.push(json!({ "set": { &variable: { "value": empty, "type": "xml" } } }));
            let target = format!("${variable}/{prefix}:Body");
            let source = &request.body;
            steps.push(
                json!({ "enrich": { "source": source, "target": target, "action": "child" } }),
            );
            json!(format!("${variable}"))
        }
        None => request.body.clone(),
    };
    let action = &request.action;
    let quoted = format!("\"{action}\"");
    let headers = match form {
        Format::Soap11 => {
            json!({ "set": { "content-type": "text/xml; charset=utf-8", "SOAPAction": quoted } })
        }
        Format::Soap12 => {
            let mut kind = "application/soap+xml; charset=utf-8".to_owned();
            if !action.is_empty() {
                kind.push_str(&format!("; action={quoted}"));
            }
            json!({ "set": { "content-type": kind }, "remove": ["SOAPAction"] })
        }
        Format::Pox => {
            json!({ "set": { "content-type": "application/xml; charset=utf-8", "SOAPAction": quoted } })
        }
    };
    let more = Map::from_iter([
        ("headers".to_owned(), headers),
        ("body".to_owned(), body),
        ("into".to_owned(), json!(reply)),
        ("fault_on".to_owned(), json!(["4xx", "5xx"])),
        ("method".to_owned(), json!("POST")),
    ]);
    let target = Target { method: None, format: None, is_exact: true, ..target.clone() };
    c.call(&target, more, &mut steps)?;
    Ok(steps)
}

/// Puts the element of the reply into its place.
fn replied<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    reply: &str,
    steps: &mut Vec<Json>,
) -> Result<(), String> {
    let found = format!(
        "${reply}.body/self::soap:Body/*[1] | ${reply}.body/self::soap12:Body/*[1] | ${reply}.body[not(self::soap:Body or self::soap12:Body)]"
    );
    let place = item.child("target").ok_or("it has no target")?;
    match (place.attribute("xpath"), place.attribute("key")) {
        (Some(xpath), _) => {
            let target = c.expression(&place, xpath)?.expression();
            let source = json!({ "xpath": found });
            steps.push(
                json!({ "enrich": { "source": source, "target": target, "action": "replace" } }),
            );
        }
        (None, Some(key)) => {
            let name = c.out.variable(key);
            steps.push(json!({ "set": { name: { "xpath": found } } }));
        }
        (None, None) => return Err("its target names no place".to_owned()),
    }
    Ok(())
}
