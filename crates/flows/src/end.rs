//! A flow as the destination of a route.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fault::Fault;
use kit::clock;
use message::{Reply, Request};
use policy::{Answer, Answerer, Exchange, Explanation};
use serde_json::{Value as Json, json};
use telemetry::FlowMetrics;
use telemetry::trace::Tracer;

use crate::message::Message;
use crate::names::Slots;
use crate::state::{Run, State};
use crate::step::{Block, Step};
use crate::steps::call::{flow_timeout, within};
use crate::trace::Recording;

/// A compiled flow.
pub struct Flow {
    pub name: Box<str>,
    pub block: Arc<Block>,
    pub timeout: Duration,
    /// The largest body that it holds.
    pub body_bytes_max: usize,
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
    pub parameters: Box<[Box<str>]>,
}

impl Flow {
    /// The upstream, if all it does is to call that and to answer with the reply.
    pub fn plain_upstream(&self) -> Option<&str> {
        let upstream = match self.block.steps() {
            [call] => call.plain_call(),
            [call, respond] if respond.is_plain_respond() => call.plain_call(),
            _ => None,
        };
        upstream.filter(|_| !self.block.has_catch())
    }

    fn any(&self, is: fn(&Step) -> bool) -> bool {
        self.block.all().any(is)
    }
}

impl Answerer for FlowEnd {
    fn answer<'a>(&'a self, ex: &'a mut Exchange, request: &'a mut Request) -> Answer<'a> {
        Answer::Wait(Box::pin(self.run(ex, request)))
    }

    fn explained(&self, _parameters: &[&str]) -> Explanation {
        Explanation {
            what: format!("flow `{}`", self.flow.name),
            how: vec![match self.flow.block.steps().len() {
                1 => "1 step".to_owned(),
                count => format!("{count} steps"),
            }],
        }
    }

    fn view(&self) -> Json {
        json!({ "flow": &*self.flow.name })
    }
}

impl FlowEnd {
    async fn run(&self, ex: &mut Exchange, request: &mut Request) -> Result<Reply, Fault> {
        let body = std::mem::take(&mut request.body);
        let mut lines = request.head.headers.clone();
        if self.flow.any(Step::looks_anywhere) {
            // A coded reply could not be looked into.
            lines.remove("accept-encoding");
        }
        let (ran, state, target) = {
            let deadline = clock::now().checked_add(self.flow.timeout).unwrap_or_else(clock::now);
            let bounds = (self.flow.body_bytes_max, deadline);
            let mut run = Run::new(ex, &request.head, &self.slots, &self.parameters, bounds);
            run.recording = self.flow.tracer.answers().then(Recording::default);
            run.route = &self.route;
            let mut state = State::new(Message::request(&mut lines, body), lines);
            let ran = within(self.flow.timeout, pin!(self.steps(&run, &mut state)))
                .await
                .unwrap_or_else(|| Err(flow_timeout()));
            if let Some(recording) = run.recording {
                self.flow.tracer.leave(recording.done(&self.flow.name, ex.id.as_str()));
            }
            (ran, state, run.target.into_inner())
        };
        let fault = ran.as_ref().err().map(|fault| fault.kind.label());
        self.flow.metrics.record(ex.caller.worker, Duration::ZERO, Duration::ZERO, fault);
        if target.is_some() {
            ex.target = target;
        }
        if ran.is_err() {
            // The content type of SOAP 1.1 is that of any XML, and attachments may come with anything.
            let content = state.message.content();
            match (state.soap_format(), content.is_some_and(|content| content.has_attachments())) {
                (Some(format), _) => ex.notes().message_format = Some(format),
                (None, true) => ex.notes().message_format = None,
                (None, false) => {}
            }
        }
        ran.map(|()| state.message.into_reply())
    }

    async fn steps(&self, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
        if self.flow.any(Step::asks_request) {
            state.message.hold(run).await?;
            *run.request.borrow_mut() = state.message.content().map(Rc::clone);
        }
        self.flow.block.run(run, state).await.map(|_| ())
    }
}
