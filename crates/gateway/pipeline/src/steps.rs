//! Descending and ascending through the list of policies.

use kit::turns;
use message::{Body, Reply, Request};
use plan::Route;
use policy::{Exchange, Flow, Onward, Step, TracedHead};

use crate::head::Head;
use crate::{limited, problem, step, traced};

/// The result of a descent.
pub(crate) enum Descent {
    Through,
    /// The descent ended at `depth`, with the answer of the policy or with a fault. The policies above get the reply.
    Turned {
        depth: usize,
        reply: Reply,
    },
}

/// Runs the request steps from top to bottom. The size limit of the body is checked below the CORS policies at the top of the list, so that
/// a page can read the 413.
pub(crate) async fn descend(route: &Route, ex: &mut Exchange, request: &mut Request) -> Descent {
    if gather_twice(route.policies.iter().map(|policy| &policy.request)) {
        turns::in_turns(each_down(route, ex, request)).await
    } else {
        each_down(route, ex, request).await
    }
}

/// Runs the response steps from bottom to top, starting above the policy at `depth`.
pub(crate) async fn ascend(route: &Route, depth: usize, ex: &mut Exchange, reply: &mut Reply) {
    if gather_twice(route.policies.iter().map(|policy| &policy.response)) {
        turns::in_turns(each_up(route, depth, ex, reply)).await
    } else {
        each_up(route, depth, ex, reply).await
    }
}

/// True if more than one step needs a whole body. All steps then share one call of [`turns::in_turns`], which is cheaper than a call for
/// each such step (see [`step::run`]).
fn gather_twice<'a, H: 'a>(steps: impl Iterator<Item = &'a Option<Step<H>>>) -> bool {
    steps.filter(|step| matches!(step, Some(Step::Buffered(_)))).nth(1).is_some()
}

async fn each_down(route: &Route, ex: &mut Exchange, request: &mut Request) -> Descent {
    for depth in 0..=route.policies.len() {
        if depth == route.preflights.topmost
            && let Err(fault) = limited::limit(route, request)
        {
            return Descent::Turned { depth, reply: problem::reply(ex, route.errors, fault) };
        }
        let policy = route.policies.get(depth);
        let Some(step) = policy.and_then(|policy| policy.request.as_ref()) else { continue };
        ex.has_body = !request.body.is_empty();
        let ran = run_at(route, depth, step, ex, &mut request.head, &mut request.body).await;
        match ran {
            Ok(Onward::Next) => {}
            Ok(Onward::Turn(reply)) => return Descent::Turned { depth, reply },
            Err(fault) => {
                return Descent::Turned { depth, reply: problem::reply(ex, route.errors, fault) };
            }
        }
    }
    Descent::Through
}

async fn each_up(route: &Route, depth: usize, ex: &mut Exchange, reply: &mut Reply) {
    // Harmless: the policies at `depth` and below do not get the reply.
    for (depth, policy) in route.policies.iter().enumerate().take(depth).rev() {
        let Some(step) = &policy.response else { continue };
        match run_at(route, depth, step, ex, &mut reply.head, &mut reply.body).await {
            Ok(Onward::Next) => {}
            Ok(Onward::Turn(other)) => *reply = other,
            Err(fault) => *reply = problem::reply(ex, route.errors, fault),
        }
    }
}

/// Runs the step of the policy at `depth`, and traces it if an operator requested that.
async fn run_at<H: Head + TracedHead>(
    route: &Route,
    depth: usize,
    step: &Step<H>,
    ex: &mut Exchange,
    head: &mut H,
    body: &mut Body,
) -> Flow {
    if traced::is_asked(ex) {
        Box::pin(traced::run(route, depth, step, ex, head, body)).await
    } else {
        let name = route.policies.get(depth).map_or("", |policy| policy.name);
        step::run(name, step, ex, head, body).await
    }
}
