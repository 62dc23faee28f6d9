//! `cache`: reuses a message that steps made before.
//!
//! The rules and the store are those of the policy `cache`. Concurrent misses do not wait for one another: each runs the steps.

use std::rc::Rc;
use std::sync::Arc;

use ::message::{Body, Reply};
use expression::Template;
use fault::Fault;
use policy::{CacheHindrance, Decision, KeptMessage, ReplyCache};

use crate::content::Content;
use crate::levels::{ActionNeeds, Levels};
use crate::message::Payload;
use crate::noted_replies::NotedReplies;
use crate::run_steps::run_steps;
use crate::sender::Sender;
use crate::state::{Run, State};
use crate::step::{Action, Step, StepRun, Steps, StepsEnd};

/// The steps of a `cache`, with the cache of the messages that they made.
pub struct Cache {
    pub key: Template,
    pub steps: Steps,
    pub kept: Arc<dyn ReplyCache>,
}

impl Action for Cache {
    fn needs(&self, _levels: &Levels<'_>) -> ActionNeeds {
        ActionNeeds { slots: self.key.slots(), keeps_bodies: true, ..ActionNeeds::default() }
    }

    fn inner(&self) -> Vec<&Steps> {
        vec![&self.steps]
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        Decision::Waits(Box::pin(cached(self, run, state)))
    }
}

/// Returns the cached message, or runs the steps and caches the message that they make.
async fn cached(cache: &Cache, run: &Run<'_>, state: &mut State) -> Result<StepsEnd, Fault> {
    let key = run.fill(state, &cache.key)?;
    let found = cache.kept.find(run.ex, run.head, &key);
    // Harmless: the reasons against caching are reported below.
    if let Ok(Some(known)) = found {
        if let Some(outer) = &state.noted {
            outer.note(run.head, &state.request_lines, &known.head);
        }
        return Ok(give(known, state));
    }
    let noted = Rc::new(NotedReplies::new(cache.kept.clone()));
    let outer = state.noted.replace(noted.clone());
    let ended = run_steps(&cache.steps, run, state).await;
    state.noted = outer;
    let terms = noted.take();
    if let Some(outer) = &state.noted {
        outer.add(&terms);
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

/// `Cache-Status` of a message that was not served from the cache (RFC 9211).
fn told(forward: &str, why: CacheHindrance) -> String {
    format!("tidegate; fwd={forward}; detail={why}")
}

/// The message to store. Its mark encodes how the steps ended, whether it is a request, and the status of the last call.
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

/// Replaces the message by a cached one. Returns how the steps ended that made it.
fn give(known: KeptMessage, state: &mut State) -> StepsEnd {
    let KeptMessage { head, body, mark } = known;
    let (last, is_request) = (mark >> 2, mark & 1 == 1);
    // Harmless: the number was written from a status.
    state.status = last.checked_sub(1).and_then(|status| u16::try_from(status).ok());
    state.message.status = (!is_request).then_some(head.status);
    state.message.lines = head.headers;
    let content = Content::new(body, state.message.content_type(), Sender::Flow);
    state.message.payload = Payload::Held(Rc::new(content));
    match mark & 2 {
        0 => StepsEnd::Through,
        _ => StepsEnd::Answered,
    }
}
