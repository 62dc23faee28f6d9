//! Replies that need no upstream.

use bytes::Bytes;
use fault::{Fault, Kind};
use message::{Body, Headers, Reply, Request, RequestHead};
use policy::{
    Answer, Answerer, Escape, Exchange, Explanation, Flow, OnHead, Onward, Policy, Step, Template,
};
use serde_json::{Value, json};

/// A reply that needs no upstream.
pub struct FixedReply {
    pub status: u16,
    pub headers: Headers,
    pub body: Bytes,
    /// The parts that are filled in for each exchange, or `None` if the reply is always the same.
    pub filled: Option<Box<FilledReply>>,
}

/// The destination of a route whose policies answer every request.
pub struct NoDestination;

/// The parts of a fixed reply that depend on the exchange.
#[derive(Default)]
pub struct FilledReply {
    /// Header lines in addition to the fixed ones.
    pub lines: Vec<(String, Template)>,
    /// The body, and how values are escaped in it, or `None` if the fixed body is used.
    pub body: Option<(Template, Escape)>,
}

impl Answerer for FixedReply {
    fn answer<'a>(&'a self, ex: &'a mut Exchange, request: &'a mut Request) -> Answer<'a> {
        Answer::Ready(self.reply(ex, &request.head))
    }

    fn explained(&self, _parameters: &[&str]) -> Explanation {
        let body = if self.filled.as_ref().is_some_and(|filled| filled.body.is_some()) {
            "a body generated for each request".to_owned()
        } else {
            format!("{} bytes", self.body.len())
        };
        Explanation {
            what: format!("a fixed reply, status {}, {body}", self.status),
            how: Vec::new(),
        }
    }

    fn view(&self) -> Value {
        json!({ "respond": { "status": self.status, "body_bytes": self.body.len() } })
    }
}

impl Answerer for NoDestination {
    fn answer<'a>(&'a self, _ex: &'a mut Exchange, _request: &'a mut Request) -> Answer<'a> {
        let cause = "no policy has answered, and the route has no destination";
        Answer::Ready(Err(Fault::new(Kind::Internal, cause)))
    }

    fn explained(&self, _parameters: &[&str]) -> Explanation {
        let what = "no destination, because the policies answer every request".to_owned();
        Explanation { what, how: Vec::new() }
    }

    fn view(&self) -> Value {
        Value::Null
    }
}

/// A fixed reply for requests that have a header or a query parameter with this name.
struct TriggeredReply {
    name: String,
    reply: FixedReply,
}

/// Returns the policy that gives a fixed reply to requests that have a header or a query parameter with this name.
pub fn triggered(name: String, reply: FixedReply) -> Policy {
    let step = TriggeredReply { name, reply };
    Policy { name: "respond", request: Some(Step::Head(Box::new(step))), response: None }
}

impl OnHead<RequestHead> for TriggeredReply {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        // Harmless: a request may have no query.
        let mut pairs = kit::percent::pairs(head.query().unwrap_or_default());
        let is_there = head.headers.contains(&self.name)
            || pairs.any(|(name, _)| name.eq_ignore_ascii_case(self.name.as_bytes()));
        if is_there { Ok(Onward::Turn(self.reply.reply(ex, head)?)) } else { Ok(Onward::Next) }
    }
}

impl FixedReply {
    fn reply(&self, ex: &Exchange, head: &RequestHead) -> Result<Reply, Fault> {
        let filled = self.filled.as_deref();
        let made = filled.and_then(|filled| filled.body.as_ref());
        let body = match made {
            Some((body, escape)) => body.fill(ex, Some(head), *escape).into(),
            None => self.body.clone(),
        };
        let mut reply = Reply::new(self.status, Body::whole(body));
        reply.head.headers = self.headers.clone();
        // Harmless: a fixed reply may have no filled lines.
        for (name, value) in filled.map(|filled| filled.lines.as_slice()).unwrap_or_default() {
            let value = value.fill(ex, Some(head), Escape::Plain);
            reply.head.headers.add(name, value.trim_ascii()).map_err(|_| {
                let cause = format!(
                    "respond: the value made for `{name}` is not allowed in a header value"
                );
                Fault::new(Kind::ProcessingFailed, cause)
            })?;
        }
        Ok(reply)
    }
}
