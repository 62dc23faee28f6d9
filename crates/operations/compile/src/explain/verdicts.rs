//! Determines the verdict of each policy of a route on one request. The policies themselves run, as in service, but no other service is
//! called. A verdict that depends on a missing body or on another service is reported as open.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

use bytes::Bytes;
use message::{GatheredBody, RequestHead, Trailers};
use plan::{Policy, Route};
use policy::{
    Caller, Decision, Exchange, Flow, MessageBefore, OnBuffered, Onward, Parameters, Scheme, Step,
};

/// The request and its client.
pub(super) struct RequestFacts {
    pub(super) client: IpAddr,
    pub(super) scheme: Scheme,
    /// The head, with the path as it was matched.
    pub(super) head: RequestHead,
    /// The body, or `None` if it is not given.
    pub(super) body: Option<Bytes>,
}

/// The verdict of a policy, in words.
pub(super) struct Verdict {
    pub(super) name: &'static str,
    /// The place of the policy in the configuration.
    pub(super) place: Box<str>,
    pub(super) decision: String,
    /// The changes that the policy makes, one line each.
    pub(super) changes: Vec<String>,
    /// The body that the policy produced, if any.
    pub(super) body: Option<Box<str>>,
}

/// How far a request gets.
pub(super) enum Outcome {
    /// It passes all policies walked so far.
    Clear,
    /// It reaches this policy, whose decision is unknown. Nothing below can be decided.
    Open(&'static str),
    /// It is answered by a policy.
    Ended,
}

/// Runs a request through the policies of its route and returns the verdict of each.
pub(super) fn walk(
    route: &Route,
    parameters: Parameters,
    prefix: usize,
    asking: RequestFacts,
) -> (Vec<Verdict>, Outcome) {
    let RequestFacts { client, scheme, mut head, mut body } = asking;
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut caller = Caller::new(SocketAddr::new(client, 0), here, scheme, 0);
    caller.tls = (scheme == Scheme::Https).then_some("TLSv1.3");
    let mut ex = Exchange::new(Rc::new(caller), Default::default());
    ex.parameters = parameters;
    ex.prefix = prefix;
    let mut way = Outcome::Clear;
    let mut verdicts = Vec::with_capacity(route.policies.len());
    for (depth, policy) in route.policies.iter().enumerate() {
        let place: Box<str> = route.places.get(depth).cloned().unwrap_or_else(|| "".into());
        let open = |decision: &str, place| {
            let (changes, body) = (Vec::new(), None);
            Verdict { name: policy.name, place, decision: decision.to_owned(), changes, body }
        };
        verdicts.push(match way {
            Outcome::Open(above) => open(&format!("depends on `{above}`"), place),
            Outcome::Ended => open("not reached", place),
            Outcome::Clear => {
                ex.has_body = body.as_ref().is_some_and(|body| !body.is_empty());
                let before = MessageBefore::of(&ex, &head, body.clone());
                match ask(policy, &mut ex, &mut head, &mut body) {
                    RunResult::Done(flow) => {
                        let made = body.clone();
                        let traced = before.after(policy.name, &place, &ex, &head, made, &flow);
                        if !matches!(flow, Ok(Onward::Next)) {
                            way = Outcome::Ended;
                        }
                        let (decision, changes) = (traced.verdict.into(), traced.changes);
                        Verdict { name: policy.name, place, decision, changes, body: traced.body }
                    }
                    RunResult::Passes(decision) => open(decision, place),
                    RunResult::TooLarge(max) => {
                        way = Outcome::Ended;
                        open(&format!("refuses with 413: the body is over {max} bytes"), place)
                    }
                    RunResult::Open(why) => {
                        way = Outcome::Open(policy.name);
                        open(why, place)
                    }
                }
            }
        });
    }
    (verdicts, way)
}

/// The result of running one policy.
enum RunResult {
    Done(Flow),
    /// The policy is not run, for this reason, and the request goes on.
    Passes(&'static str),
    /// The body exceeds the policy's bound, which is given in bytes.
    TooLarge(usize),
    /// The result can only be known in service, for this reason.
    Open(&'static str),
}

const CALLS: &str = "depends on a call to another service, which is not made here";

fn ask(
    policy: &Policy,
    ex: &mut Exchange,
    head: &mut RequestHead,
    body: &mut Option<Bytes>,
) -> RunResult {
    match &policy.request {
        None if policy.response.is_some() => RunResult::Passes("runs on the reply only"),
        None => RunResult::Passes("nothing to do"),
        Some(Step::Head(step)) => RunResult::Done(step.on_head(ex, head)),
        Some(Step::Call(step)) => match step.on_call(ex, head) {
            Decision::Ready(flow) => RunResult::Done(flow),
            Decision::Waits(_) => RunResult::Open(CALLS),
        },
        Some(Step::Streamed(_)) => RunResult::Passes("streams the body"),
        Some(Step::Buffered(step)) => match (step.wants(ex, head), body) {
            (Ok(true), None) => RunResult::Open("depends on the body, which is not given"),
            (Ok(true), Some(body)) => buffered(&**step, ex, head, body),
            (wanted, _) => RunResult::Done(wanted.map(|_| Onward::Next)),
        },
    }
}

/// Returns the verdict of a step that gets the buffered body.
fn buffered(
    step: &dyn OnBuffered<RequestHead>,
    ex: &mut Exchange,
    head: &mut RequestHead,
    body: &mut Bytes,
) -> RunResult {
    let bytes_max = step.bytes_max();
    if body.len() > bytes_max {
        return RunResult::TooLarge(bytes_max);
    }
    let mut gathered = GatheredBody::new(body.clone(), Trailers::new());
    let flow = match step.on_buffered(ex, head, &mut gathered) {
        Decision::Ready(flow) => flow,
        Decision::Waits(_) => return RunResult::Open(CALLS),
    };
    *body = gathered.bytes.clone();
    RunResult::Done(flow)
}
