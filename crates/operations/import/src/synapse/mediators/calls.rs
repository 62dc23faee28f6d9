//! Mediators that call services and answer the client.

use serde_json::{Map, Value as Json, json};

use super::super::converter::{Converter, Next, Side, same_fault};
use super::super::element::Element;
use super::super::endpoints::Target;
use super::super::pending::KeptProperty;
use super::{gathering, replies};

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
    if rest.iter().any(|item| !matches!(item.name(), "drop" | "log" | "respond" | "description")) {
        c.note("what stands behind it runs on the request in Synapse, and not at all here");
    }
    if let Some(key) = item.attribute("receive") {
        received(c, &targets, key, steps)?;
        return Ok(Next::End);
    }
    if c.flow.side != Side::Request && !c.flow.is_failed_attempt() {
        c.note("its reply answers the client");
    }
    sent(c, &targets, steps)?;
    Ok(Next::End)
}

/// The calls of a message whose reply a sequence of its own gets, which may send it on in the same way.
fn received<'a>(
    c: &mut Converter<'a>,
    targets: &[Target],
    key: &str,
    steps: &mut Vec<Json>,
) -> Result<(), String> {
    let (key, sequence) = c.sequence_by_key(key)?;
    if c.flow.expanding.contains(&key) {
        return Err(format!("the sequence `{key}` gets replies to what it sends itself"));
    }
    c.used.push(key.to_owned());
    let reply = std::mem::replace(&mut c.flow.reply, sequence.children());
    let is_shared = std::mem::replace(&mut c.flow.reply_is_shared, false);
    let is_received = std::mem::replace(&mut c.flow.is_received, true);
    c.flow.expanding.push(key);
    let made = sent(c, targets, steps);
    c.flow.expanding.pop();
    c.flow.is_received = is_received;
    c.flow.reply_is_shared = is_shared;
    c.flow.reply = reply;
    made
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
    if one_way && !c.flow.is_failed_attempt() {
        steps.push(json!({ "drop": {} }));
        return Ok(());
    }
    replies::reply(c, steps);
    Ok(())
}

/// `respond`: the message, with the status set by a property.
pub(super) fn respond(c: &mut Converter<'_>, steps: &mut Vec<Json>) -> Result<Next, String> {
    replies::answer(c, steps);
    Ok(Next::End)
}

/// `loopback`: the mediators for replies run now.
pub(super) fn loopback(c: &mut Converter<'_>, steps: &mut Vec<Json>) -> Result<Next, String> {
    match c.flow.side {
        Side::Request => {
            replies::reply(c, steps);
            Ok(Next::End)
        }
        Side::Reply | Side::Fault => Err("it stands on the way back already".to_owned()),
    }
}

pub(super) fn drop_message(c: &mut Converter<'_>, steps: &mut Vec<Json>) -> Result<Next, String> {
    if c.flow.side == Side::Fault {
        // An answer of 202 would tell the client that all went well.
        if !c.flow.is_attempt {
            c.note("the client would get no answer; here it gets the fault");
        }
        steps.push(same_fault());
        return Ok(Next::End);
    }
    if c.flow.side == Side::Reply && !c.flow.is_attempt {
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
