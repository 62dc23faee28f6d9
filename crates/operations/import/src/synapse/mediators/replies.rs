//! The mediators that run on the reply to a call, and the answer to the client.

use serde_json::{Map, Value as Json, json};

use super::super::converter::{Converter, Flow, Side, same_fault};
use super::super::pending::{KeptProperty, PendingProperties, Sender};
use super::properties;

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
    if is_plain || c.flow.side != Side::Request && !c.flow.is_received {
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
            c.inner_flow(flow, replied, None)
        }
    };
    steps.push(json!({ "sequence": name }));
}

/// The steps for the reply. They always end the flow.
fn replied(c: &mut Converter<'_>) -> Vec<Json> {
    let side = std::mem::replace(&mut c.flow.side, Side::Reply);
    let is_received = std::mem::replace(&mut c.flow.is_received, false);
    let (mut steps, ended) = c.steps(&c.flow.reply.clone());
    if !ended {
        steps.push(json!({ "drop": {} }));
    }
    c.flow.is_received = is_received;
    c.flow.side = side;
    steps
}

pub(super) fn answer(c: &mut Converter<'_>, steps: &mut Vec<Json>) {
    if c.flow.is_failed_attempt() {
        steps.push(same_fault());
        return;
    }
    let mut keys = Map::new();
    if c.flow.side != Side::Reply && c.flow.pending.sender != Sender::Service {
        c.note("the headers of the request, which are sent back there, do not go to the client");
    }
    c.write_message(None, properties::conversion, steps);
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
