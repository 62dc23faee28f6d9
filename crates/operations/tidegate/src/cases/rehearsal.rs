//! Sends one request through a whole gateway in a thread: the real listener, pipeline, policies and upstreams, without a
//! network.
//!
//! The stand-ins replace connections, not calls: a stand-in for an upstream uses HTTP over an in-process wire. So all
//! code above the socket is the code in production: framing, hop-by-hop headers, timeouts, retries, breakers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use compile::CompiledPlan;
use fault::{Fault, Kind};
use kit::SharedAlarm;
use listen::UnboundListener;
use message::Reply;
use plan::{Arrival, Listener, Plan};
use policy::{Caller, Exchange, Scheme};
use telemetry::Telemetry;
use telemetry::trace::PolicyTrace;
use tokio::io::AsyncWriteExt as _;
use tokio::runtime::{Builder, LocalOptions};

use super::message::{Message, MessageKind, WireReader};
use super::recorded::RecordedRequest;
use super::sent_request::SentRequest;
use super::services::{ReceivedCall, Services, WIRE_BYTES};

/// What the gateway is to do.
pub(super) enum Task {
    /// A client sends a request.
    Request(SentRequest),
    /// The flow of this queue processes the message.
    Message(String, SentRequest),
    /// The flow of this schedule runs.
    Schedule(String),
}

/// The result of a task.
pub(super) struct Rehearsed {
    /// The reply, or the fault that the flow of a queue or a schedule ended with.
    pub(super) end: Result<Message, Fault>,
    /// The messages in each queue, by its name.
    pub(super) queues: Vec<(String, Vec<Message>)>,
}

/// The largest reply of a flow that is read to its end.
const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A client address for documentation (RFC 5737), which no policy treats as internal.
const CLIENT: (Ipv4Addr, u16) = (Ipv4Addr::new(198, 51, 100, 7), 40_000);
const LOCAL: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 100), 8080);

/// The time limit for a reply. Flows take at most a minute by default, and listed delays at most as long.
const REPLY_MAX: Duration = Duration::from_secs(150);

/// The time limit for fetching key sets, which happens before the request, as in a gateway before it serves.
const BACKGROUND_MAX: Duration = Duration::from_secs(5);

/// The time limit for calls of mirrors that were not made yet.
const LATE_MAX: Duration = Duration::from_millis(500);

/// How often to check whether separate work has ended.
const BESIDE_EVERY: Duration = Duration::from_millis(2);

/// The number of times that other tasks run before a call counts as not made.
const ROUNDS: usize = 16;

/// Runs a task on a gateway that serves `compiled`, with `services` as upstreams. Uses the current thread.
pub(super) fn run(
    compiled: CompiledPlan,
    telemetry: Arc<Telemetry>,
    services: &Services,
    task: &Task,
) -> anyhow::Result<Rehearsed> {
    services.stand_in();
    // Socket events are needed for the programs of `script`. No connection leaves the machine.
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let plan = Arc::new(compiled.plan);
    let rehearsed = rehearse(plan, telemetry, services, task);
    runtime.context("no runtime for a case")?.block_on(rehearsed)
}

/// Sends recorded requests one after the other through a gateway that serves `compiled`. Uses the current thread.
///
/// Returns what `outcome` keeps of each reply, of the policies that ran, and of the calls of upstreams.
pub(super) fn replay<T>(
    compiled: CompiledPlan,
    telemetry: Arc<Telemetry>,
    services: &Services,
    requests: &[RecordedRequest],
    outcome: fn(anyhow::Result<Message>, Option<PolicyTrace>, Vec<ReceivedCall>) -> T,
) -> anyhow::Result<Vec<T>> {
    services.stand_in();
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let plan = Arc::new(compiled.plan);
    runtime.context("no runtime for a replay")?.block_on(async {
        plan.store.iter().for_each(|store| store.open_in_memory());
        begin(&plan, services).await;
        let mut outcomes = Vec::new();
        for RecordedRequest { sent, reply, client, .. } in requests {
            services.set_reply(reply);
            services.take_received();
            telemetry.tracer().ask_policies();
            let client = client.map_or(CLIENT.into(), |client| SocketAddr::new(client, CLIENT.1));
            let reply = exchange(plan.clone(), client, telemetry.clone(), services, sent).await;
            let policies = telemetry.tracer().take_policies();
            outcomes.push(outcome(reply, policies, services.take_received()));
        }
        Ok(outcomes)
    })
}

async fn rehearse(
    plan: Arc<Plan>,
    telemetry: Arc<Telemetry>,
    services: &Services,
    task: &Task,
) -> anyhow::Result<Rehearsed> {
    // The data of a case is dropped with it.
    plan.store.iter().for_each(|store| store.open_in_memory());
    begin(&plan, services).await;
    let end = match task {
        Task::Request(sent) => {
            Ok(exchange(plan.clone(), CLIENT.into(), telemetry, services, sent).await?)
        }
        Task::Message(queue, sent) => processed(&plan, queue, sent).await?,
        Task::Schedule(schedule) => scheduled(&plan, schedule).await?,
    };
    settle(services).await;
    let mut queues = Vec::new();
    for queue in &plan.queues {
        let held = queue.held().await;
        let held = held.map_err(|why| anyhow!("the queue `{}`: {why}", queue.name()))?;
        let messages = held.into_iter().map(|(head, body)| Message::of_request(&head, body));
        queues.push((queue.name().to_owned(), messages.collect()));
    }
    Ok(Rehearsed { end, queues })
}

/// Waits for separate work: taps, whose calls have the same time limit as those of a request, and mirrors.
async fn settle(services: &Services) {
    let beside = async {
        while kit::task::has_side_work() {
            tokio::time::sleep(BESIDE_EVERY).await;
        }
    };
    // Harmless: a tap that runs longer keeps what it has produced.
    let _ = tokio::time::timeout(REPLY_MAX, beside).await;
    for _ in 0..ROUNDS {
        kit::task::yield_to_ready().await;
    }
    // Harmless: a call that was not made is reported as missing.
    let _ = tokio::time::timeout(LATE_MAX, services.settled()).await;
}

/// The result of a queue's flow for a message.
async fn processed(
    plan: &Plan,
    name: &str,
    sent: &SentRequest,
) -> anyhow::Result<Result<Message, Fault>> {
    let queue = plan.queues.iter().find(|queue| queue.name() == name);
    let queue = queue.with_context(|| format!("there is no queue `{name}`"))?;
    let ended = queue.rehearse(nowhere(), &sent.head(), &sent.body).await;
    Ok(ended.map(|(head, body)| Message::of_reply(&head, body)))
}

/// The result of a schedule's flow.
async fn scheduled(plan: &Plan, name: &str) -> anyhow::Result<Result<Message, Fault>> {
    let schedule = plan.schedules.iter().find(|schedule| schedule.name == name);
    let schedule = schedule.with_context(|| format!("there is no schedule `{name}`"))?;
    let mut ex = Exchange::new(nowhere(), SharedAlarm::default());
    let mut request = schedule.request();
    let ended = async {
        let Reply { head, body, .. } = schedule.destination.answer(&mut ex, &mut request).await?;
        let body = body.gather(REPLY_BYTES_MAX, Kind::ReplyTooLarge).await?;
        Ok(Message::of_reply(&head, body))
    };
    Ok(ended.await)
}

/// The caller of flows that no client requested.
fn nowhere() -> Rc<Caller> {
    let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    Rc::new(Caller::new(nowhere, nowhere, Scheme::Http, 0))
}

async fn exchange(
    plan: Arc<Plan>,
    client: SocketAddr,
    telemetry: Arc<Telemetry>,
    services: &Services,
    sent: &SentRequest,
) -> anyhow::Result<Message> {
    let listener = listener(&plan, sent, client.ip()).context("there is no listener")?;
    let unbound = Rc::new(UnboundListener::new(plan, listener, telemetry));
    let (near, far) = tokio::io::duplex(WIRE_BYTES);
    let (serving, wire) = (unbound.clone(), kit::Wire::Wrapped(Box::new(far)));
    let served = kit::spawn(async move { serving.serve(wire, client, LOCAL.into()).await });
    let (read, mut write) = tokio::io::split(near);
    let bytes = sent.bytes();
    // The reply may arrive before the whole request is written. The sending half stays open, since closing it would abort the exchange.
    let writing = kit::spawn(async move {
        // Harmless: the gateway may answer before it has read all.
        let _ = write.write_all(&bytes).await;
        write
    });
    let mut incoming = WireReader::new(read);
    let reply = incoming.next(MessageKind::Reply { to_head: sent.method == "HEAD" });
    let reply = tokio::time::timeout(REPLY_MAX, reply).await;
    let reply = reply.map_err(|_| anyhow!("no reply within {REPLY_MAX:?}"))?;
    let reply = reply.map_err(|why| anyhow!("the reply cannot be read: {why}"))?;
    settle(services).await;
    unbound.close();
    drop(incoming);
    writing.abort();
    served.abort();
    reply.context("the connection was closed without a reply")
}

/// Runs one round of the background work. Its calls may be listed, but need not be.
async fn begin(plan: &Plan, services: &Services) {
    let local = SocketAddr::from(LOCAL);
    let caller = Rc::new(Caller::new(local, local, Scheme::Http, 0));
    for background in &plan.background {
        // Harmless: late work is missing, as in a gateway that has just started.
        let _ = tokio::time::timeout(BACKGROUND_MAX, background.round(&caller)).await;
    }
    services.forget_unlisted();
}

/// The first listener that has a route for the request of this client, or else the first one.
fn listener(plan: &Plan, sent: &SentRequest, client: IpAddr) -> Option<Arc<Listener>> {
    let head = sent.head();
    let takes = |listener: &&Arc<Listener>| {
        let resolved = plan::path::resolve(head.path(), listener.paths);
        let arrival = Arrival { listener: &listener.name, client, server_name: None };
        resolved.is_ok_and(|path| plan.table.find(arrival, &head, &path.path).is_some())
    };
    plan.listeners.iter().find(takes).or(plan.listeners.first()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_arrives_at_the_listener_that_has_a_route_for_its_client() {
        let text = "listen: { a: { address: \"127.0.0.1:0\" }, b: { address: \"127.0.0.1:0\" } }\n\
                    routes: { r: { match: { path: /x, listener: b, source: [10.0.0.0/8] }, respond: { status: 204 } } }\n";
        let loaded = config::parse(text, std::path::Path::new("tidegate.yaml"));
        let compiled = compile::compile(&loaded, None, &Telemetry::new(1));
        let plan = compiled.unwrap_or_else(|report| panic!("{report}")).plan;
        let sent = SentRequest {
            method: "GET".to_owned(),
            target: "/x".to_owned(),
            lines: Vec::new(),
            body: Vec::new(),
        };
        for (client, expected) in [([10_u8, 1, 1, 1], "b"), ([198, 51, 100, 7], "a")] {
            let found = listener(&plan, &sent, client.into()).unwrap();
            assert_eq!(&*found.name, expected, "{client:?}");
        }
    }
}
