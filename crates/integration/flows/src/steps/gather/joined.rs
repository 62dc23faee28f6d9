//! Makes one message of the parts that a gather took.

use expression::Value;
use fault::{Fault, Kind};
use message::Headers;

use super::{Gather, Head, TakenPart, Wrapper, around};
use crate::edit::undefaulted;
use crate::message::{Message, Payload};
use crate::state::{Run, State};
use crate::steps::payload;

/// Makes one message of the results, in the order of the branches.
pub(super) fn join(
    results: &[Option<TakenPart>],
    gather: &Gather,
    run: &Run<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    // Harmless: branches that failed have no result. Their faults are in `Gathered`.
    let there = || results.iter().flatten();
    let head = there().find_map(|taken| taken.head.clone());
    // If there was nothing to split, a SOAP message keeps its own envelope.
    let own = if results.is_empty() && gather.into != Some(Wrapper::Json) {
        around(&Value::Nothing, &state.message)
    } else {
        None
    };
    let as_json = match &gather.into {
        Some(Wrapper::Json) => true,
        Some(Wrapper::Xml { .. }) => false,
        None => own.is_none() && there().all(|taken| taken.is_json),
    };
    if as_json {
        let texts: Vec<&str> =
            there().map(|taken| &*taken.text).filter(|text| !text.is_empty()).collect();
        let text = format!("[{}]", texts.join(","));
        return replace(text, payload::JSON.as_bytes(), head, run, state);
    }
    let (open, close) = match &gather.into {
        Some(Wrapper::Xml { before, after, .. }) => (&**before, &**after),
        Some(Wrapper::Json) | None => ("", ""),
    };
    let around = there().find_map(|taken| taken.around.as_ref()).or(own.as_ref());
    // The element around the first node is used only if there is no other wrapper.
    let around = around.filter(|around| gather.into.is_none() || around.is_soap);
    let default_namespace = around.is_some_and(|around| around.default_namespace);
    let (before, after, content_type) = match around {
        Some(around) => (&*around.before, &*around.after, &*around.content_type),
        None if gather.into.is_none() => {
            let what = "gather: the taken parts have no surrounding element; write `into`";
            return Err(Fault::new(Kind::FlowFailed, what));
        }
        None => ("", "", payload::XML.as_bytes()),
    };
    let len: usize = there().map(|taken| taken.text.len()).sum();
    run.bound(len)?;
    let mut text =
        String::with_capacity(len + before.len() + after.len() + open.len() + close.len());
    text.push_str(before);
    let inside = [open].into_iter().chain(there().map(|taken| &*taken.text)).chain([close]);
    if default_namespace {
        text.push_str(&undefaulted(&inside.collect::<String>(), run)?)
    } else {
        text.extend(inside)
    }
    text.push_str(after);
    replace(text, content_type, head, run, state)
}

fn replace(
    text: String,
    content_type: &[u8],
    head: Option<Head>,
    run: &Run<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    run.bound(text.len())?;
    let Head { status, lines } =
        head.unwrap_or_else(|| Head { status: Some(200), lines: Headers::new() });
    state.message = Message { status, lines, payload: Payload::empty() };
    state.message.replace(text.into(), content_type);
    Ok(())
}
