//! `cache`: a message that steps made is given again.
//!
//! The rules are those of the policy `cache`, as are the messages that are kept. They never wait for one another: several that miss
//! at once each run the steps.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use ::message::{Body, Headers, Reply, ReplyHead};
use expression::Template;
use fault::Fault;
use policy::{CacheHindrance, CacheTerms, KeptMessage, ReplyCache};

use crate::content::{Content, Maker};
use crate::message::Payload;
use crate::state::{Run, State};
use crate::step::{self, Steps, StepsEnd};

/// Steps, and the messages that they made.
pub struct Cache {
    pub key: Template,
    pub steps: Steps,
    pub kept: Arc<dyn ReplyCache>,
}

/// The conditions of the replies that steps of a cache get.
pub(crate) struct NotedReplies {
    kept: Arc<dyn ReplyCache>,
    terms: RefCell<CacheTerms>,
}

impl NotedReplies {
    /// Notes a reply to a request with these lines.
    pub(crate) fn note(&self, run: &Run<'_>, sent: &Headers, reply: &ReplyHead) {
        self.kept.note(run.head, sent, reply, &mut self.terms.borrow_mut());
    }
}

impl fmt::Debug for NotedReplies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.terms.fmt(f)
    }
}

/// Gives the cached message, or runs the steps and caches the message that they make.
pub(crate) async fn cached(
    cache: &Cache,
    run: &Run<'_>,
    state: &mut State,
) -> Result<StepsEnd, Fault> {
    let key = run.fill(state, &cache.key)?;
    let found = cache.kept.find(run.ex, run.head, &key);
    // Harmless: the reasons against caching are reported below.
    if let Ok(Some(known)) = found {
        if let Some(outer) = &state.noted {
            outer.note(run, &state.request_lines, &known.head);
        }
        return Ok(give(known, state));
    }
    let noted = NotedReplies { kept: cache.kept.clone(), terms: RefCell::default() };
    let noted = Rc::new(noted);
    let outer = state.noted.replace(noted.clone());
    let ended = step::run(&cache.steps, run, state).await;
    state.noted = outer;
    let terms = noted.terms.take();
    if let Some(outer) = &state.noted {
        outer.terms.borrow_mut().add(&terms);
    }
    let ended = ended?;
    let how = match found {
        Err(why) => told("bypass", why),
        Ok(_) => {
            state.hold(run).await?;
            let kept = match made(state, ended) {
                Some(made) => cache.kept.keep(run.ex, run.head, &key, made, &terms),
                None => Ok(()),
            };
            match kept {
                Ok(()) => "tidegate; fwd=uri-miss; stored".to_owned(),
                Err(why) => told("uri-miss; stored=?0", why),
            }
        }
    };
    state.message.lines.add_known("Cache-Status", how.as_bytes());
    Ok(ended)
}

/// `Cache-Status` of a message that was not given again (RFC 9211).
fn told(forward: &str, why: CacheHindrance) -> String {
    format!("tidegate; fwd={forward}; detail={why}")
}

/// The message as it is kept. Its mark says how the steps ended, whether it is a request, and the status of the last call.
fn made(state: &State, ended: StepsEnd) -> Option<KeptMessage> {
    let message = &state.message;
    let body = message.content()?.bytes.clone();
    let mut head = Reply::new(message.status.unwrap_or(200), Body::Empty).head;
    head.headers = message.lines.clone();
    let last = state.status.map_or(0, |status| u64::from(status) + 1);
    let answered = u64::from(ended == StepsEnd::Answered);
    let is_request = u64::from(message.status.is_none());
    Some(KeptMessage { head, body, mark: last << 2 | answered << 1 | is_request })
}

fn give(known: KeptMessage, state: &mut State) -> StepsEnd {
    let KeptMessage { head, body, mark } = known;
    let (last, is_request) = (mark >> 2, mark & 1 == 1);
    // Harmless: the number was written from a status.
    state.status = last.checked_sub(1).and_then(|status| u16::try_from(status).ok());
    state.message.status = (!is_request).then_some(head.status);
    state.message.lines = head.headers;
    let content = Content::new(body, state.message.content_type(), Maker::Flow);
    state.message.payload = Payload::Held(Rc::new(content));
    match mark & 2 {
        0 => StepsEnd::Through,
        _ => StepsEnd::Answered,
    }
}
