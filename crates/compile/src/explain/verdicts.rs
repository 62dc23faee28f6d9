//! The verdict of each policy of a route on one request. The policies themselves are asked, as in service. No other service is
//! asked: a verdict that depends on a body or on another service stays open.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

use message::RequestHead;
use plan::{Policy, Route};
use policy::{Caller, Decision, Exchange, Onward, Parameters, Scheme, Step};

/// The request and its client.
pub(super) struct RequestFacts {
    pub(super) client: IpAddr,
    pub(super) scheme: Scheme,
    /// With the path that was matched.
    pub(super) head: RequestHead,
}

/// The point that a request reaches.
pub(super) enum Outcome {
    /// Past all that was asked.
    Clear,
    /// To this policy, whose decision is not known, and so nothing below it.
    Open(&'static str),
    /// To a policy that answers.
    Ended,
}

/// Walks a request down the policies of its route: the name of each with its verdict in words.
pub(super) fn walk(
    route: &Route,
    parameters: Parameters,
    asking: RequestFacts,
) -> (Vec<(&'static str, String)>, Outcome) {
    let RequestFacts { client, scheme, mut head } = asking;
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut caller = Caller::new(SocketAddr::new(client, 0), here, scheme, 0);
    caller.tls = (scheme == Scheme::Https).then_some("TLSv1.3");
    let mut ex = Exchange::new(Rc::new(caller), Default::default());
    ex.parameters = parameters;
    let mut way = Outcome::Clear;
    let mut verdicts = Vec::with_capacity(route.policies.len());
    for policy in &route.policies {
        let verdict = match way {
            Outcome::Clear => {
                let verdict;
                (verdict, way) = ask(policy, &mut ex, &mut head);
                verdict
            }
            Outcome::Open(above) => format!("depends on `{above}`"),
            Outcome::Ended => "not reached".to_owned(),
        };
        verdicts.push((policy.name, verdict));
    }
    (verdicts, way)
}

/// The verdict of a policy, and the point that the request reaches by it.
fn ask(policy: &Policy, ex: &mut Exchange, head: &mut RequestHead) -> (String, Outcome) {
    let clear = |said: &str| (said.to_owned(), Outcome::Clear);
    let open = |why: &str| (why.to_owned(), Outcome::Open(policy.name));
    let flow = match &policy.request {
        None if policy.response.is_some() => return clear("runs on the reply only"),
        None => return clear("nothing to do"),
        Some(Step::Head(step)) => step.on_head(ex, head),
        Some(Step::Call(step)) => match step.on_call(ex, head) {
            Decision::Ready(flow) => flow,
            Decision::Waits(_) => {
                return open("depends on a call to another service, which is not made here");
            }
        },
        Some(Step::Streamed(_)) => return clear("streams the body"),
        Some(Step::Buffered(step)) => match step.wants(ex, head) {
            Ok(true) => return open("depends on the body, which is not given"),
            wanted => wanted.map(|_| Onward::Next),
        },
    };
    match flow {
        Ok(Onward::Next) => clear("passes"),
        Ok(Onward::Turn(reply)) => (format!("answers with {}", reply.head.status), Outcome::Ended),
        Err(fault) => {
            (format!("refuses with {}: {}", fault.kind.status(), fault.cause), Outcome::Ended)
        }
    }
}
