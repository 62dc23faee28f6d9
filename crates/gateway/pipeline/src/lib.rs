//! The path of one exchange: find its route, run the request steps of the policies, ask the destination, run the
//! response steps.
//!
//! This is the only code that runs policies, and the only place where a fault becomes a reply. A request enters through
//! [`serve`] and always leaves as a reply: any failure, even a panic, ends only this exchange. No socket is used here.
#![forbid(unsafe_code)]

mod account;
mod arrive;
mod gather;
mod grpc_call;
mod head;
mod hops;
mod limited;
mod line_fields;
mod passing;
mod problem;
mod server_span;
mod step;
mod steps;
#[cfg(test)]
mod tests;
mod traced;

pub use account::{Account, Recorders};
pub use grpc_call::{CallLifetime, CallStart};

use std::pin::pin;
use std::sync::Arc;

use fault::{Fault, Kind};
use kit::memory;
use message::{Body, Reply, Request, no_room};
use plan::{Errors, Listener, Plan, Route};
use policy::Exchange;
use upstream::forward;

use crate::steps::{Descent, ascend, descend};

/// Answers one request. Afterwards the account has the route and the fault, if any.
pub async fn serve(
    plan: &Plan,
    listener: &Listener,
    account: &mut Account,
    request: &mut Request,
    lifetime: &dyn CallLifetime,
) -> Reply {
    account.begin_trace();
    let answered = {
        let answering = pin!(answer(plan, listener, account, request, lifetime));
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
    hops::finish_reply(&account.ex, &mut reply);
    account.replied(&reply);
    account.end_trace();
    reply
}

/// Answers a request that could not be read: its head is malformed, too large or late.
pub fn refuse(account: &mut Account, fault: Fault) -> Reply {
    let mut reply = problem::reply(&mut account.ex, Errors::Problem, fault);
    hops::finish_reply(&account.ex, &mut reply);
    account.replied(&reply);
    reply
}

/// Like [`refuse`], for a request whose content type could be read, so that a gRPC client gets the fault in its own format.
pub fn refuse_typed(account: &mut Account, content_type: Option<&[u8]>, fault: Fault) -> Reply {
    account.ex.grpc = grpc_call::of_type(content_type).map(Box::new);
    refuse(account, fault)
}

async fn answer(
    plan: &Plan,
    listener: &Listener,
    account: &mut Account,
    request: &mut Request,
    lifetime: &dyn CallLifetime,
) -> Reply {
    if let Err(fault) = grpc_call::arrive(&mut account.ex, &request.head) {
        return problem::reply(&mut account.ex, Errors::Problem, fault);
    }
    let held = match arrive::arrive(plan, listener, &mut account.ex, &mut request.head) {
        Ok(route) => route,
        Err(fault) => return unrouted(plan, listener, account, request, fault),
    };
    account.routed(&held);
    account.begin_asked_trace(&request.head);
    let (route, ex) = (&*held, &mut account.ex);
    grpc_call::count(ex, route);
    if let Some(split) = &route.split {
        // The share is drawn before the policies run, because a policy may override it, and a cache keeps the replies of the shares
        // separate.
        ex.notes().divert = split.at(fastrand::u32(..split.total()));
    }
    if !route.policies.is_empty() {
        forward::drop_named(&mut request.head.headers);
    }
    problem::note_message_format(route.errors, ex, &request.head);
    if request.head.method() == b"HEAD" {
        ex.notes().asked_head = true;
    }
    let mut depth = route.policies.len();
    let mut reply = match descend(route, ex, request).await {
        Descent::Through => across(plan, listener, &held, ex, request, lifetime).await,
        Descent::Turned { depth: turned, reply } => {
            depth = turned;
            note_refusal(route, turned, ex);
            if traced::is_asked(ex) {
                traced::not_reached(route, turned, ex);
            }
            reply
        }
    };
    ascend(route, depth, ex, &mut reply).await;
    if !route.policies.is_empty() {
        reply.body.guard_trailers(&reply.head.headers);
        reply.body.forget_view();
    }
    reply
}

/// Records which policy refused the request, if one did.
fn note_refusal(route: &Route, depth: usize, ex: &mut Exchange) {
    let policy = route.policies.get(depth).filter(|_| ex.fault.is_some());
    if let Some(policy) = policy {
        ex.notes().refused_by = Some(policy.name);
    }
}

/// Answers a request for which no route was found. If routes accept the path with other methods, an `OPTIONS` gets their list in `Allow`
/// (RFC 9110, 9.3.7), and any other method gets 405 or 501.
fn unrouted(
    plan: &Plan,
    listener: &Listener,
    account: &mut Account,
    request: &Request,
    fault: Fault,
) -> Reply {
    if fault.kind == Kind::NoRoute {
        if let Some(allow) = arrive::options(plan, listener, &account.ex, &request.head) {
            return allowing(&allow);
        }
        let found = arrive::method_not_allowed(plan, listener, &account.ex, &request.head);
        if let Some((fault, route)) = found {
            problem::note_message_format(route.errors, &mut account.ex, &request.head);
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
    plan: &Plan,
    listener: &Listener,
    route: &HeldRoute,
    ex: &mut Exchange,
    request: &mut Request,
    lifetime: &dyn CallLifetime,
) -> Reply {
    let destination = route.destination(ex.notes.as_ref().and_then(|notes| notes.divert));
    if destination.upstream().is_some() && hops::ends_here(&mut request.head) {
        let methods = arrive::options(plan, listener, ex, &request.head);
        return allowing(methods.as_deref().unwrap_or("OPTIONS"));
    }
    hops::conditions(ex, &mut request.head);
    if !route.policies.is_empty() {
        request.body.guard_trailers(&request.head.headers);
    }
    if destination.upstream().is_some() {
        // Steps no longer read the request, and an upstream may take long to answer.
        request.body.forget_view();
    }
    let kept = if problem::keeps_body(route.errors, ex, &request.head) {
        let keeping = problem::keep_body(&mut request.body, &ex.totals.client_wait);
        match Box::pin(keeping).await {
            Ok(kept) => kept,
            Err(fault) => return problem::reply(ex, route.errors, fault),
        }
    } else {
        None
    };
    let call = ex.grpc.as_ref().map(|_| CallStart::of(ex));
    let answered = {
        let answering = pin!(destination.answer(ex, request));
        let answering = pin!(grpc_call::unless_over(answering, route, call, lifetime));
        match memory::watch(answering).await {
            (answered, false) => answered,
            (_, true) => Err(no_room()),
        }
    };
    match answered {
        Ok(mut reply) => {
            grpc_call::watch(ex, &mut reply);
            reply
        }
        Err(fault) => {
            if let Some(body) = kept {
                problem::note_format_of(ex, &body);
            }
            problem::reply(ex, route.errors, fault)
        }
    }
}

/// A route, held for as long as the exchange lasts.
pub(crate) type HeldRoute = Arc<Route>;
