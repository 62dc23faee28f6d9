//! `call`: the message goes to an upstream, and the reply takes its place.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use expression::{Expression, Slot, Template};
use fault::{Fault, Kind};
use kit::clock::{self, Instant};
use message::{Body, Protocol, Reply, Request, RequestHead};
use policy::Fetch;

use crate::message::Message;
use crate::state::{Run, State, Variable};
use crate::steps::payload;

/// A call of an upstream.
pub struct Call {
    pub to: Arc<dyn Fetch>,
    /// The upstream's name.
    pub upstream: Box<str>,
    /// The request's if absent.
    pub method: Option<Box<str>>,
    /// The path, perhaps with a query; as the route forwards it if absent.
    pub path: Option<Template>,
    /// The request's if absent, and none with a path of its own.
    pub query: Option<Query>,
    pub set: Vec<(Box<str>, Template)>,
    pub remove: Vec<Box<str>>,
    /// The message's if absent.
    pub body: Option<Expression>,
    pub timeout: Option<Duration>,
    /// The number of the variable that takes the reply.
    pub into: Option<u32>,
    /// The first and the last status of ranges that are faults.
    pub fault_on: Vec<(u16, u16)>,
}

/// The query of a call.
pub enum Query {
    Whole(Template),
    /// Names with their values, neither of them encoded.
    Parameters(Vec<(Box<str>, Template)>),
}

impl Call {
    /// The templates of its parts.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &Template> {
        let query: Vec<&Template> = match &self.query {
            None => Vec::new(),
            Some(Query::Whole(template)) => vec![template],
            Some(Query::Parameters(all)) => all.iter().map(|(_, template)| template).collect(),
        };
        let set = self.set.iter().map(|(_, template)| template);
        self.path.iter().chain(query).chain(set)
    }

    pub(crate) fn slots(&self) -> Vec<Slot> {
        let templates = self.templates().flat_map(Template::slots);
        templates.chain(self.body.iter().flat_map(Expression::slots)).collect()
    }

    /// The upstream, if the message is sent there as it is.
    pub(crate) fn plain(&self) -> Option<&str> {
        let is_plain = self.method.is_none()
            && self.path.is_none()
            && self.query.is_none()
            && self.set.is_empty()
            && self.remove.is_empty()
            && self.body.is_none()
            && self.timeout.is_none()
            && self.into.is_none()
            && self.fault_on.is_empty();
        is_plain.then_some(&*self.upstream)
    }

    fn request(&self, run: &Run<'_>, state: &mut State) -> Result<Request, Fault> {
        let target = self.target(run, state)?;
        let method = self.method.as_deref().map_or(run.head.method(), str::as_bytes);
        let mut head = RequestHead::new(Protocol::Http11, method, &target);
        let lines = &mut head.headers;
        lines.add_all(&state.request_lines);
        let mut body = match &self.body {
            None => {
                state.message.add_lines_of_body(lines);
                state.message.body()
            }
            Some(expression) => {
                let value = run.value(state, expression)?;
                let (bytes, content_type) = payload::bytes_of(&value, run)?;
                lines.add_known("Content-Type", content_type.as_bytes());
                Body::whole(bytes)
            }
        };
        if let Some(call) = run.ex.grpc.as_ref().filter(|_| lines.contains("grpc-timeout")) {
            call.send_on(lines)?;
        }
        self.remove.iter().for_each(|name| lines.remove(name));
        for (name, template) in &self.set {
            let value = run.fill(state, template)?;
            super::header::set(lines, name, &value)?;
        }
        body.forget_view();
        if self.into.is_none() {
            // The reply takes its place. Only steps for a fault look at it, or whoever makes the answer of one, at its envelope.
            state.message.forget_view(if state.keeps { run.levels } else { Some(0) });
        }
        Ok(Request { head, body })
    }

    fn target(&self, run: &Run<'_>, state: &State) -> Result<Vec<u8>, Fault> {
        let mut target = match &self.path {
            Some(path) => run.fill(state, path)?.into_bytes(),
            None => run.head.path().to_vec(),
        };
        if !target.starts_with(b"/") {
            target.insert(0, b'/');
        }
        let query = match &self.query {
            Some(query) => Some(query.fill(run, state)?.into_bytes()),
            None if self.path.is_none() => run.head.query().map(<[u8]>::to_vec),
            None => None,
        };
        if let Some(query) = query.filter(|query| !query.is_empty()) {
            target.push(if target.contains(&b'?') { b'&' } else { b'?' });
            target.extend_from_slice(&query);
        }
        Ok(target)
    }
}

impl Query {
    fn fill(&self, run: &Run<'_>, state: &State) -> Result<String, Fault> {
        match self {
            Query::Whole(template) => run.fill(state, template),
            Query::Parameters(all) => {
                let mut out = String::new();
                for (name, template) in all {
                    let joint = if out.is_empty() { "" } else { "&" };
                    out.push_str(joint);
                    push_encoded(name, &mut out);
                    out.push('=');
                    push_encoded(&run.fill(state, template)?, &mut out);
                }
                Ok(out)
            }
        }
    }
}

/// Appends a text as a part of a query: all but unreserved characters (RFC 3986, 2.3) as percent escapes.
fn push_encoded(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
}

/// Calls, and takes the reply: in the message's place, or into a variable.
pub(crate) async fn call(call: &Call, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
    let mut began = run.began.take().unwrap_or_else(clock::now);
    if state.left_at(began).is_zero() {
        return Err(flow_timeout());
    }
    if state.keeps && call.body.is_none() {
        let arrives = state.message.arrives();
        state.hold(run).await?;
        if arrives {
            began = clock::now();
        }
    }
    let request = call.request(run, state)?;
    // Its client gives the whole call up then, whatever the flow allows.
    let deadline = run.ex.grpc.as_ref().and_then(|call| call.deadline);
    let mut beside = run.ex.call_beside(deadline);
    let mut target = None;
    beside.target = Some(&mut target);
    let left = state.left_at(began);
    let given = deadline.map(|deadline| deadline.saturating_duration_since(began));
    let limit = call.timeout.into_iter().chain(given).fold(left, Duration::min);
    let late = || match () {
        () if given == Some(limit) => {
            Fault::new(Kind::DeadlineExceeded, "the time that the client gave the call is over")
        }
        () if limit < left => {
            Fault::new(Kind::UpstreamTimeout, format!("upstream {}: {CALL_OVER}", call.upstream))
        }
        () => flow_timeout(),
    };
    if limit.is_zero() {
        return Err(late());
    }
    let taken = within_from(
        began,
        limit,
        pin!(async {
            let reply = call.to.fetch(beside, request).await?;
            let status = reply.head.status;
            let refused = call.refuse(&reply);
            // A step may read it later, in the time of the call.
            let rest =
                |timeout: Duration| timeout.saturating_sub(clock::now().duration_since(began));
            let time = call.timeout.map(rest);
            let mut message = Message::reply(reply, time);
            if call.into.is_some() && refused.is_ok() {
                message.hold(run, left).await?;
            }
            Ok((status, refused.map(|()| message)))
        }),
    )
    .await
    .unwrap_or_else(|| Err(late()));
    let ended = clock::now();
    run.waited.set(ended.duration_since(began));
    run.ended.set(Some(ended));
    *run.target.borrow_mut() = target;
    let (status, message) = taken?;
    state.status = Some(status);
    let message = message?;
    match call.into {
        Some(number) => state.set(number, Variable::Reply(Rc::new(message))),
        None => state.message = message,
    }
    Ok(())
}

impl Call {
    /// A status that the operator calls a fault.
    fn refuse(&self, reply: &Reply) -> Result<(), Fault> {
        let status = reply.head.status;
        match self.fault_on.iter().any(|(first, last)| (*first..=*last).contains(&status)) {
            false => Ok(()),
            true => {
                let cause = format!("upstream {} replied with status {status}", self.upstream);
                Err(Fault::new(Kind::UpstreamStatus, cause))
            }
        }
    }
}

const CALL_OVER: &str = "the call's timeout is over";

/// The time of a call ended while a step read its reply.
pub(crate) fn call_timeout() -> Fault {
    Fault::new(Kind::UpstreamTimeout, CALL_OVER)
}

pub(crate) fn flow_timeout() -> Fault {
    Fault::new(Kind::FlowTimeout, "the flow's timeout is over")
}

/// Waits for a future as long as the limit allows. None: it was too long. It is borrowed, since a large future is moved at a cost.
pub(crate) async fn within<T>(
    limit: Duration,
    work: Pin<&mut (impl Future<Output = T> + ?Sized)>,
) -> Option<T> {
    within_from(clock::now(), limit, work).await
}

/// The same with a limit that runs from a moment on.
pub(crate) async fn within_from<T>(
    began: Instant,
    limit: Duration,
    mut work: Pin<&mut (impl Future<Output = T> + ?Sized)>,
) -> Option<T> {
    let alarm = kit::alarm::take();
    alarm.borrow_mut().set(began, limit);
    let done = poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => alarm.borrow_mut().poll(cx).map(|()| None),
    })
    .await;
    kit::alarm::give(alarm);
    done
}
