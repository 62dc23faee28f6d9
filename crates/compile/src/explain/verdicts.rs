//! What each policy of a route says to one request. The policies themselves are asked, so that it is what they would say in
//! service; nobody outside is, so that what hangs on a body or on another service stays open.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

use message::RequestHead;
use plan::{Policy, Route};
use policy::{Caller, Exchange, Flow, Onward, Parameters, Scheme, Step};

/// Who asks for what.
pub(super) struct Asking {
    pub(super) client: IpAddr,
    pub(super) scheme: Scheme,
    /// With the path that was matched.
    pub(super) head: RequestHead,
}

/// How far a request comes.
pub(super) enum Way {
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
    asking: Asking,
) -> (Vec<(&'static str, String)>, Way) {
    let Asking { client, scheme, mut head } = asking;
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut caller = Caller::new(SocketAddr::new(client, 0), here, scheme, 0);
    caller.tls = (scheme == Scheme::Https).then_some("TLSv1.3");
    let mut ex = Exchange::new(Rc::new(caller), Default::default());
    ex.parameters = parameters;
    let mut way = Way::Clear;
    let verdicts = route.policies.iter().map(|policy| {
        let verdict = match way {
            Way::Clear => ask(policy, &mut ex, &mut head, &mut way),
            Way::Open(above) => format!("hangs on `{above}`"),
            Way::Ended => "not reached".to_owned(),
        };
        (policy.name, verdict)
    });
    (verdicts.collect(), way)
}

fn ask(policy: &Policy, ex: &mut Exchange, head: &mut RequestHead, way: &mut Way) -> String {
    let (flow, wants) = match &policy.request {
        None if policy.response.is_some() => return "sees the reply alone".to_owned(),
        None => return "nothing to do".to_owned(),
        Some(Step::Head(step)) => (Some(step.on_head(ex, head)), ""),
        Some(Step::Call(step)) => {
            (step.at_once(ex, head), "waits for an answer from elsewhere, which is not asked here")
        }
        Some(Step::Frames(_)) => return "lets the body pass through it".to_owned(),
        Some(Step::Whole(_)) => (None, "decides by the body, which is not here"),
    };
    match flow {
        None => {
            *way = Way::Open(policy.name);
            wants.to_owned()
        }
        Some(flow) => told(flow, way),
    }
}

fn told(flow: Flow, way: &mut Way) -> String {
    let said = match flow {
        Ok(Onward::Next) => return "passes".to_owned(),
        Ok(Onward::Turn(reply)) => format!("answers with {}", reply.head.status),
        Err(fault) => format!("refuses with {}: {}", fault.kind.status(), fault.cause),
    };
    *way = Way::Ended;
    said
}
