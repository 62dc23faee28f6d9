//! Mediators that call services and answer the client.

use serde_json::{Map, Value as Json, json};
use wsdl::SOAP_11;

use super::super::converter::{Converter, Flow, Next, Side};
use super::super::element::Element;
use super::super::endpoints::Target;
use super::super::pending::{KeptProperty, PendingProperties, Sender};
use super::gathering;

/// `send`: a call and the mediators for its reply, or the answer to the client.
pub(super) fn send<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    rest: &[Element<'a>],
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let endpoint = item.child("endpoint");
    if endpoint.is_none() && (c.flow.side != Side::Request || c.flow.pending.is_reply) {
        return respond(c, steps);
    }
    if endpoint.is_none() && c.keeps(KeptProperty::Response) && !c.flow.has_split {
        return either_way(c, item, rest, steps);
    }
    let targets = match endpoint {
        Some(endpoint) => c.endpoint(&endpoint)?,
        None => c.unnamed(item)?,
    };
    if let Some(key) = item.attribute("receive") {
        let found = c.artifacts.sequences.get_key_value(key);
        let (_, sequence) =
            found.ok_or_else(|| format!("the sequence `{key}` is not among the artifacts"))?;
        c.flow.reply = sequence.children();
        c.used.push(key.to_owned());
        c.flow.reply_is_shared = false;
    }
    if rest.iter().any(|item| !matches!(item.name(), "drop" | "log" | "respond" | "description")) {
        c.note("what stands behind it runs on the request in Synapse, and not at all here");
    }
    if c.flow.side != Side::Request {
        c.note("its reply answers the client");
    }
    sent(c, &targets, steps)?;
    Ok(Next::End)
}

/// A `send` without an endpoint, if the message may be a reply at that point.
fn either_way<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    rest: &[Element<'a>],
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let (pending, before) = (c.flow.pending.clone(), std::mem::take(&mut c.before));
    let mut back = Vec::new();
    respond(c, &mut back)?;
    let back = std::mem::take(&mut c.before).into_iter().chain(back).collect::<Vec<_>>();
    c.flow.pending = pending;
    c.flow.has_split = true;
    let mut on = Vec::new();
    let sent = send(c, item, rest, &mut on);
    c.flow.has_split = false;
    let mut on = std::mem::replace(&mut c.before, before).into_iter().chain(on).collect::<Vec<_>>();
    if let Err(why) = sent {
        c.note(&format!("a message that nothing has made a reply is dropped: {why}"));
        on = vec![json!({ "drop": {} })];
    }
    let variable = c.kept_variable(KeptProperty::Response);
    let when = json!({ "value": format!("${variable}"), "matches": "^true$" });
    steps.push(json!({ "filter": { "when": when, "then": back, "else": on } }));
    Ok(Next::End)
}

/// The calls of a message that is sent, and the mediators for the reply.
pub(in super::super) fn sent<'a>(
    c: &mut Converter<'a>,
    targets: &[Target],
    steps: &mut Vec<Json>,
) -> Result<(), String> {
    let one_way = c.flow.pending.one_way;
    match targets {
        [target] => c.call(target, Map::new(), steps)?,
        _ => gathering::recipients(c, targets, steps)?,
    }
    steps.extend(c.begin_kept());
    if one_way {
        steps.push(json!({ "drop": {} }));
        return Ok(());
    }
    reply(c, steps);
    Ok(())
}

/// Converts the mediators that run on the reply to a sent call. They end the flow.
pub(in super::super) fn reply(c: &mut Converter<'_>, steps: &mut Vec<Json>) {
    if c.flow.in_branch {
        // The aggregate continues with the result.
        let side = std::mem::replace(&mut c.flow.side, Side::Reply);
        let made = c.branch(&c.flow.reply.clone()).0;
        c.flow.side = side;
        steps.extend(made);
        return;
    }
    let is_plain = c
        .flow
        .reply
        .iter()
        .all(|item| matches!(item.name(), "send" | "respond") && item.children().is_empty());
    if is_plain || c.flow.side != Side::Request {
        answer(c, steps);
        return;
    }
    if !c.flow.reply_is_shared {
        steps.extend(replied(c));
        return;
    }
    let name = match c.flow.reply_flow.clone() {
        Some(name) => name,
        None => {
            let name = c.out.fresh("flow", &format!("{}-out", c.flow.name));
            c.flow.reply_flow = Some(name.clone());
            let flow = Flow {
                name,
                reply: c.flow.reply.clone(),
                query_names: c.flow.query_names.clone(),
                expanding: c.flow.expanding.clone(),
                template: c.flow.template,
                made: c.flow.made.clone(),
                pending: PendingProperties { sender: Sender::Service, ..Default::default() },
                ..Flow::default()
            };
            let notes = std::mem::take(&mut c.notes);
            let name = c.flow_of(flow, replied, None);
            c.notes = notes;
            name
        }
    };
    steps.push(json!({ "sequence": name }));
}

/// The steps for the reply. They always end the flow.
fn replied(c: &mut Converter<'_>) -> Vec<Json> {
    let side = std::mem::replace(&mut c.flow.side, Side::Reply);
    let (mut steps, ended) = c.steps(&c.flow.reply.clone());
    if !ended {
        steps.push(json!({ "drop": {} }));
    }
    c.flow.side = side;
    steps
}

/// `respond`: the message, with the status set by a property.
pub(super) fn respond(c: &mut Converter<'_>, steps: &mut Vec<Json>) -> Result<Next, String> {
    answer(c, steps);
    Ok(Next::End)
}

fn answer(c: &mut Converter<'_>, steps: &mut Vec<Json>) {
    let mut keys = Map::new();
    if c.flow.side != Side::Reply && c.flow.pending.sender != Sender::Service {
        c.note("the headers of the request, which are sent back there, do not go to the client");
    }
    c.write_message(None, steps);
    let status = if c.keeps(KeptProperty::Status) {
        let variable = c.kept_variable(KeptProperty::Status);
        Some(format!("{{{{ ${variable} }}}}"))
    } else {
        c.flow.pending.status.take()
    };
    if let Some(status) = status {
        let number = status.parse::<u16>().map_or_else(|_| json!(status), |number| json!(number));
        keys.insert("status".to_owned(), number);
    }
    c.flow.pending.is_reply = false;
    steps.push(json!({ "respond": keys }));
}

/// `loopback`: the mediators for replies run now.
pub(super) fn loopback(c: &mut Converter<'_>, steps: &mut Vec<Json>) -> Result<Next, String> {
    match c.flow.side {
        Side::Request => {
            reply(c, steps);
            Ok(Next::End)
        }
        Side::Reply | Side::Fault => Err("it stands on the way back already".to_owned()),
    }
}

pub(super) fn drop_message(c: &mut Converter<'_>, steps: &mut Vec<Json>) -> Result<Next, String> {
    if c.flow.side == Side::Fault {
        // An answer of 202 would tell the client that all went well.
        c.note("the client would get no answer; here it gets the fault");
        steps.push(json!({ "fault": { "code": "server", "reason": "{{ $error.message }}" } }));
        return Ok(Next::End);
    }
    if c.flow.side == Side::Reply {
        c.note("the client waits there until it gives up, and gets 202 here");
    }
    steps.push(json!({ "drop": {} }));
    Ok(Next::End)
}

/// `call`: the reply becomes the message, or is stored in `target`.
pub(super) fn call<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let targets = match item.child("endpoint") {
        Some(endpoint) => c.endpoint(&endpoint)?,
        None => c.unnamed(item)?,
    };
    let mut more = Map::new();
    if let Some(source) = item.child("source") {
        let value = source_of(c, &source)?;
        more.extend(value.map(|value| ("body".to_owned(), value)));
    }
    let mut into = None;
    let named;
    if let Some(target) = item.child("target") {
        // Micro Integrator writes the name as the element's text.
        named = target.text();
        let text = Some(named.as_str()).filter(|name| !name.is_empty());
        into = match target.attribute("type").unwrap_or("body") {
            "property" | "variable" => target.attribute("name").or(text),
            "body" => None,
            other => return Err(format!("the target `{other}` of a reply has no counterpart")),
        };
        if into.is_none()
            && target.attribute("type") != Some("body")
            && target.attribute("type").is_some()
        {
            return Err("its target has no name".to_owned());
        }
    }
    let reply = into.map(|name| (name, c.out.variable(&format!("{name}.reply"))));
    if let Some((_, variable)) = &reply {
        more.insert("into".to_owned(), json!(variable));
    }
    match targets.as_slice() {
        [target] => {
            let keeps_message = more.contains_key("into");
            c.call(target, more, steps)?;
            if !keeps_message {
                steps.extend(c.begin_kept());
            }
        }
        _ if more.is_empty() => gathering::recipients(c, &targets, steps)?,
        _ => return Err("a recipient list with a source or a target has no counterpart".to_owned()),
    }
    if let Some((name, variable)) = reply {
        let name = c.out.variable(name);
        steps.push(json!({ "set": { name: format!("${variable}.body") } }));
    }
    Ok(Next::Continue)
}

/// Converts a `source` element.
fn source_of<'a>(c: &mut Converter<'a>, source: &Element<'a>) -> Result<Option<Json>, String> {
    let text = source.text();
    match source.attribute("type").unwrap_or("body") {
        "body" => Ok(None),
        "inline" if source.children().is_empty() => Ok(Some(json!({ "text": text }))),
        "inline" => Ok(Some(json!({ "text": source.content() }))),
        "property" | "variable" => {
            let name = source.attribute("name").map_or(text, str::to_owned);
            c.named("default", &name).map(|path| Some(json!(path)))
        }
        "custom" => c.expression(source, &text).map(|value| Some(value.expression())),
        other => Err(format!("the source `{other}` has no counterpart")),
    }
}

/// `callout`: a call whose request and reply are parts of the message.
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
    let is_whole = source.is("type", "envelope");
    let request = c.out.variable("callout.request");
    if !is_whole {
        // The service gets the selected elements in a new envelope.
        let empty = format!(
            "<soapenv:Envelope xmlns:soapenv=\"{SOAP_11}\"><soapenv:Body/></soapenv:Envelope>"
        );
        steps.push(json!({ "set": { &request: { "value": empty, "type": "xml" } } }));
        let target = format!("${request}/soap:Body");
        steps.push(json!({ "enrich": { "source": body, "target": target, "action": "child" } }));
    }
    let body = if is_whole { body } else { json!(format!("${request}")) };
    let action = item.attribute("action").unwrap_or("");
    let lines =
        json!({ "content-type": "text/xml; charset=utf-8", "SOAPAction": format!("\"{action}\"") });
    let reply = c.out.variable("callout.reply");
    let mut more = Map::from_iter([
        ("headers".to_owned(), json!({ "set": lines })),
        ("body".to_owned(), body),
        ("into".to_owned(), json!(reply)),
        ("fault_on".to_owned(), json!(["4xx", "5xx"])),
    ]);
    let target = Target { method: None, format: None, is_exact: true, ..target.clone() };
    more.insert("method".to_owned(), json!("POST"));
    c.call(&target, more, steps)?;
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
    Ok(Next::Continue)
}
