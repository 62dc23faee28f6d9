//! The way of one exchange: find its route, walk down the policies, go across to the destination, walk up again.
//!
//! The only loop that runs policies, and the only place where a fault becomes a reply. A request enters by [`serve`] and
//! leaves as a reply, always: whatever goes wrong, a panic included, ends this exchange and no other. It touches no
//! socket.
#![forbid(unsafe_code)]

mod account;
mod arrive;
mod forward;
mod gather;
mod limited;
mod mirror;
mod problem;
mod steps;

pub use account::{Account, Books};

use std::pin::pin;
use std::sync::Arc;

use fault::{Fault, Kind};
use message::{Body, Reply, Request, RequestHead};
use plan::{Destination, Errors, FixedReply, Forward, Listener, Plan, Route};
use policy::{Escape, Exchange};

use crate::arrive::Arrived;
use crate::steps::{Descent, ascend, descend};

/// Answers one request. The account then knows the route, and every fault that became the reply.
pub async fn serve(
    plan: &Plan,
    listener: &Listener,
    account: &mut Account,
    request: &mut Request,
) -> Reply {
    let answered = {
        let answering = pin!(answer(plan, listener, account, request));
        kit::task::contain(answering).await
    };
    let mut reply = match answered {
        Ok(reply) => reply,
        Err(panic) => {
            account.panicked();
            let fault = Fault::new(Kind::Internal, format!("panic: {panic}"));
            let errors = account.errors();
            problem::reply(&mut account.ex, errors, fault)
        }
    };
    forward::finish_reply(&account.ex, &mut reply);
    account.replied(&reply);
    reply
}

/// Answers a request that never became one: its head is malformed, too large or late.
pub fn refuse(account: &mut Account, fault: Fault) -> Reply {
    let mut reply = problem::reply(&mut account.ex, Errors::Problem, fault);
    forward::finish_reply(&account.ex, &mut reply);
    account.replied(&reply);
    reply
}

async fn answer(
    plan: &Plan,
    listener: &Listener,
    account: &mut Account,
    request: &mut Request,
) -> Reply {
    let arrived = match arrive::arrive(plan, listener, &mut account.ex, &mut request.head) {
        Ok(arrived) => arrived,
        Err(fault) => return unrouted((plan, listener), account, request, fault),
    };
    account.routed(&arrived.route);
    let (route, ex) = (&*arrived.route, &mut account.ex);
    if let Destination::Upstream(Forward { split: Some(split), .. }) = &route.destination {
        // Before the policies: what they say of another way holds, and a cache keeps apart what comes by each.
        ex.notes().divert = split.at(fastrand::u32(..split.total()));
    }
    if !route.policies.is_empty() {
        forward::drop_named(&mut request.head.headers);
    }
    problem::note_speech(route.errors, ex, &request.head);
    if request.head.method() == b"HEAD" {
        ex.notes().asked_head = true;
    }
    let (depth, mut reply) = match descend(route, ex, request).await {
        Descent::Through => {
            (route.policies.len(), across((plan, listener), &arrived, ex, request).await)
        }
        Descent::Turned { depth, reply } => (depth, reply),
    };
    ascend(route, depth, ex, &mut reply).await;
    if !route.policies.is_empty() {
        reply.body.guard_trailers(&reply.head.headers);
    }
    reply
}

/// No route takes the request. What `OPTIONS` asks can be said all the same, where others are taken (RFC 9110, 9.3.7), and what
/// else may be asked.
fn unrouted(
    (plan, listener): (&Plan, &Listener),
    account: &mut Account,
    request: &Request,
    fault: Fault,
) -> Reply {
    if fault.kind == Kind::NoRoute {
        if let Some(allow) = arrive::options(plan, listener, &request.head) {
            return allowing(&allow);
        }
        if let Some((fault, route)) = arrive::misdirected(plan, listener, &request.head) {
            problem::note_speech(route.errors, &mut account.ex, &request.head);
            return problem::reply(&mut account.ex, route.errors, fault);
        }
    }
    problem::reply(&mut account.ex, Errors::Problem, fault)
}

fn allowing(methods: &str) -> Reply {
    let mut reply = Reply::new(204, Body::Empty);
    reply.head.headers.add_known("Allow", methods.as_bytes());
    reply
}

async fn across(
    (plan, listener): (&Plan, &Listener),
    arrived: &Arrived,
    ex: &mut Exchange,
    request: &mut Request,
) -> Reply {
    match &arrived.route.destination {
        Destination::Respond(fixed) => match fixed_reply(fixed, ex, &request.head) {
            Ok(reply) => reply,
            Err(fault) => problem::reply(ex, arrived.route.errors, fault),
        },
        Destination::Upstream(_) if forward::ends_here(&mut request.head) => {
            let methods = arrive::options(plan, listener, &request.head);
            allowing(methods.as_deref().unwrap_or("OPTIONS"))
        }
        Destination::Upstream(forward) => match send(forward, arrived, ex, request).await {
            Ok(reply) => reply,
            Err(fault) => problem::reply(ex, arrived.route.errors, fault),
        },
    }
}

async fn send(
    forward: &Forward,
    arrived: &Arrived,
    ex: &mut Exchange,
    request: &mut Request,
) -> Result<Reply, Fault> {
    forward::conditions(ex, &mut request.head);
    // A request that was written for the last time has no lines left to be looked at.
    let protocol = forward::request(ex, &mut request.head)?;
    if !arrived.route.policies.is_empty() {
        request.body.guard_trailers(&request.head.headers);
    }
    let (diverted, target) =
        ex.notes.as_ref().map_or((None, None), |n| (n.divert, n.target.as_deref()));
    match target {
        Some(target) => request.head.set_target(&[target]),
        None => arrived.set_path(&forward.path, ex, &mut request.head)?,
    }
    if let Some(mirror) = &forward.mirror
        && protocol.is_none()
    {
        mirror::copy(mirror, ex, request);
    }
    let upstream = arrived.route.upstream(diverted).unwrap_or(&forward.upstream);
    let mut reply = upstream.send(ex, request, &forward.host).await?;
    forward::upgraded(protocol.as_deref(), &reply)?;
    forward::reply(&mut reply);
    Ok(reply)
}

fn fixed_reply(fixed: &FixedReply, ex: &Exchange, head: &RequestHead) -> Result<Reply, Fault> {
    let filled = fixed.filled.as_deref();
    let made = filled.and_then(|filled| filled.body.as_ref());
    let body = match made {
        Some((body, escape)) => body.fill(ex, Some(head), *escape).into(),
        None => fixed.body.clone(),
    };
    let mut reply = Reply::new(fixed.status, Body::whole(body));
    reply.head.headers = fixed.headers.clone();
    for (name, value) in filled.map(|filled| filled.lines.as_slice()).unwrap_or_default() {
        let value = value.fill(ex, Some(head), Escape::Plain);
        reply.head.headers.add(name, value.trim_ascii()).map_err(|_| {
            let cause = format!("respond: the value made for `{name}` cannot stand in a line");
            Fault::new(Kind::ProcessingFailed, cause)
        })?;
    }
    Ok(reply)
}

/// A route, held for as long as the exchange lasts.
pub(crate) type HeldRoute = Arc<Route>;
