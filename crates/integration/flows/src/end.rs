//! A flow as the destination of a route.

use std::sync::Arc;
use std::time::Duration;

use fault::Fault;
use kit::{clock, turns};
use message::{Reply, Request};
use policy::{Answer, Answerer, Exchange, Explanation};
use serde_json::{Value as Json, json};
use telemetry::FlowMetrics;
use telemetry::trace::Tracer;

use crate::block::Block;
use crate::message::{Message, take_lines_about_reply};
use crate::names::Slots;
use crate::recording::Recording;
use crate::state::{Run, State};
use crate::step::Shape;

/// A compiled flow.
pub struct Flow {
    pub name: Box<str>,
    pub block: Arc<Block>,
    pub timeout: Duration,
    /// Maximum size of a body that it reads into memory.
    pub body_bytes_max: usize,
    /// True if JSON with a duplicate member in an object is malformed. Otherwise the last of the duplicates counts.
    pub refuses_duplicate_members: bool,
    pub metrics: Arc<FlowMetrics>,
    /// The tracer that traces are requested from.
    pub tracer: Arc<Tracer>,
}

/// A flow at the end of a route.
pub struct FlowEnd {
    pub flow: Arc<Flow>,
    /// The route's name.
    pub route: Box<str>,
    /// The slots of all flows of the configuration.
    pub slots: Arc<Slots>,
    /// Names of the route's path parameters, in their order.
    pub parameters: Arc<[Box<str>]>,
}

impl Flow {
    /// Returns the upstream and the name of the `call` step, if the flow only calls the upstream and answers with its reply, and has no
    /// `catch` and no timeout.
    pub fn plain_upstream(&self) -> Option<(&str, Arc<str>)> {
        let call = match self.block.steps() {
            [call] => call,
            [call, respond] if matches!(respond.shape(), Shape::PlainRespond) => call,
            _ => return None,
        };
        let Shape::PlainCall(upstream) = call.shape() else { return None };
        let is_plain = !self.block.has_catch() && self.block.timeout().is_none();
        is_plain.then(|| (upstream, call.name().clone()))
    }
}

impl Answerer for FlowEnd {
    fn answer<'a>(&'a self, ex: &'a mut Exchange, request: &'a mut Request) -> Answer<'a> {
        Answer::Wait(Box::pin(turns::in_turns(self.run(ex, request))))
    }

    fn explained(&self, _parameters: &[&str]) -> Explanation {
        Explanation {
            what: format!("flow `{}`", self.flow.name),
            how: vec![explained(&self.flow.block.labels())],
        }
    }

    fn view(&self) -> Json {
        json!({ "flow": &*self.flow.name })
    }
}

/// Maximum number of step labels in an explanation.
const STEPS_SHOWN_MAX: usize = 20;

fn explained(labels: &[&str]) -> String {
    let shown: Vec<String> =
        // Harmless: the number of omitted labels is reported.
        labels.iter().take(STEPS_SHOWN_MAX).map(|label| format!("`{label}`")).collect();
    let more = match labels.len().saturating_sub(STEPS_SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match labels.len() {
        1 => format!("1 step: {}", shown.concat()),
        count => format!("{count} steps: {}{more}", shown.join(", ")),
    }
}

impl FlowEnd {
    async fn run(&self, ex: &mut Exchange, request: &mut Request) -> Result<Reply, Fault> {
        let body = std::mem::take(&mut request.body);
        ex.has_body = !body.is_empty();
        let mut lines = request.head.headers.clone();
        let needs = self.flow.block.needs();
        let withheld = if needs.bodies || needs.other_methods {
            take_lines_about_reply(&mut lines)
        } else {
            None
        };
        let (mut ran, state, target, failed, limit_lines) = {
            let (flow, head) = (&*self.flow, &request.head);
            let mut run = Run::new(ex, head, &self.slots, &self.parameters, flow.body_bytes_max);
            run.recording =
                Recording::of(&flow.tracer, &flow.name, &self.route, head.path(), ex.id.as_str());
            run.route = &self.route;
            run.asks_request.set(needs.request);
            run.refuses_duplicate_members = flow.refuses_duplicate_members;
            run.levels = needs.levels;
            run.reads_replies = needs.bodies;
            // The steps have the flow's timeout, and those of `catch` have it again.
            let longest = flow.timeout.saturating_mul(2);
            let deadline = clock::now().checked_add(longest).unwrap_or_else(clock::now);
            let mut state = State::new(Message::request(&mut lines, body), lines, deadline);
            state.withheld_lines = withheld;
            let ran = flow.block.run(Some(flow.timeout), &run, &mut state).await.map(|_| ());
            let limit_lines = run.limit_lines.into_inner();
            (ran, state, run.target.into_inner(), run.failed.into_inner(), limit_lines)
        };
        let fault = ran.as_ref().err().map(|fault| fault.kind.label());
        self.flow.metrics.record(ex.caller.worker, Duration::ZERO, Duration::ZERO, fault);
        if target.is_some() {
            ex.target = target;
        }
        if let (Err(fault), Some(step)) = (&mut ran, failed) {
            let place = format!(" (step `{step}` of flow `{}`)", self.flow.name);
            fault.cause = [&*fault.cause, &*place].concat().into();
        }
        if ran.is_err() {
            // The format of the fault follows the message that was read: the content type of SOAP 1.1 is that of any XML, and any kind of
            // message may have attachments.
            let content = state.message.content();
            match (state.soap_format(), content.is_some_and(|content| content.has_attachments())) {
                (Some(format), _) => ex.notes().message_format = Some(format),
                (None, true) => ex.notes().message_format = None,
                (None, false) => {}
            }
        }
        ran?;
        let mut reply = match request.head.method() {
            b"HEAD" => state.message.into_reply_to_head(),
            _ => state.message.into_reply(),
        };
        if let Some(lines) = limit_lines {
            reply.head.headers.add_all(&lines);
        }
        Ok(reply)
    }
}
