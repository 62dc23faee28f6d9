//! A hub on two nodes that share a store.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use delivery::{Cursor, Retries};
use kit::SharedAlarm;
use message::{Body, Protocol, Request, RequestHead};
use policy::{Caller, EndSignal, Exchange, Resident as _, ResidentWorker, Scheme};
use serde_json::Value;
use store::nodes::Nodes;
use store::{Change, Expect, Faults, Logs as _, Memory, Store};
use telemetry::Telemetry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, LocalSet};
use upstream::AddressRule;

use crate::admin::{ActionError, Page};
use crate::callback::Callback;
use crate::deliver::Deliveries;
use crate::feed::ReadBounds;
use crate::hub::{Hub, Parts};
use crate::hub_state::HubState;
use crate::jobs::Outcome;
use crate::positions::{self, Group, StoredPosition};
use crate::representation::Representation;
use crate::settings::{Delivery, HubSettings, Retention};
use crate::signature::Algorithm;
use crate::subscription::{Id, Subscription, Terms};

mod releases;

/// The lease of a node. It is short, since tests with sockets wait in real time, but long enough for a busy machine.
const LEASE: Duration = Duration::from_secs(3);
const WORKERS: usize = 2;

fn settings() -> HubSettings {
    HubSettings {
        name: "news".into(),
        topics: ["sports".into()].into(),
        scopes: [].into(),
        url: None,
        secret: None,
        signature: "x-hub-signature".into(),
        algorithm: Algorithm::Sha256,
        publish: ["/publish".into()].into(),
        lease_default: Duration::from_secs(3600),
        lease_max: Duration::from_secs(3600),
        subscriptions_max: 24,
        verify: false,
        delivery: Delivery {
            timeout: Duration::from_secs(10),
            retries: Retries {
                attempts: 1,
                initial: Duration::from_millis(10),
                factor_permille: 1000,
                max: Duration::from_secs(1),
            },
            dead_letter: true,
            concurrency: 1,
        },
        callbacks: AddressRule { allow: vec!["127.0.0.0/8".parse().unwrap()], public: true },
        retention: Retention { age: Duration::from_secs(3600), bytes: 1 << 30 },
        limits: None,
        log: None,
        event_bytes_max: 1 << 20,
    }
}

/// A process with the hub.
struct Node {
    hub: Arc<Hub>,
    tasks: Vec<JoinHandle<()>>,
}

impl Node {
    fn start(store: &Memory, name: &str) -> Node {
        Node::of(store, Nodes::shared(name, LEASE), settings())
    }

    fn of(store: &Memory, nodes: Nodes, settings: HubSettings) -> Node {
        let telemetry = Telemetry::new(WORKERS);
        let nodes = Arc::new(nodes);
        let parts = Parts {
            store: Arc::new(store.clone()) as Arc<dyn Store>,
            nodes: nodes.clone(),
            state: Arc::new(HubState::new(WORKERS)),
            tls: tls::Client::new(&tls::ClientSpec::default()).unwrap(),
            connections: telemetry.upstream("(callbacks)"),
            metrics: &|topic| telemetry.topic("news", topic),
        };
        let hub = Arc::new(Hub::new(settings, parts));
        let shared = store.clone();
        let mut tasks = vec![kit::spawn(async move { nodes.run(&shared).await })];
        for worker in 0..WORKERS {
            tasks.push(kit::spawn(hub.clone().live(place(worker))));
        }
        Node { hub, tasks }
    }

    /// Ends the process like a kill: none of its tasks run any more.
    fn kill(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }

    async fn ask(&self, mode: &str, callback: &str) -> u16 {
        let target = format!("/news?hub.mode={mode}&hub.topic=sports&hub.callback={callback}");
        let head = RequestHead::new(Protocol::Http11, b"POST", target.as_bytes());
        let mut request = Request { head, body: Body::Empty };
        let ex = Exchange::new(caller(0), SharedAlarm::default());
        let answered = self.hub.serve_subscriber(&ex, &mut request, "http://hub/news".to_owned());
        answered.await.map_or_else(|fault| fault.kind.status(), |reply| reply.head.status)
    }

    async fn publish(&self, text: &str) -> Result<u64, u16> {
        let topic = self.hub.topic(b"sports").unwrap();
        let body = Bytes::copy_from_slice(text.as_bytes());
        let representation =
            Representation { content_type: Bytes::from_static(b"text/plain"), lines: Bytes::new() };
        let published = self.hub.publish(topic, &representation, &body).await;
        published.map_err(|fault| fault.kind.status())
    }

    fn partitions(&self) -> usize {
        (0..store::nodes::PARTITIONS).filter(|partition| self.hub.nodes.has(*partition)).count()
    }
}

fn place(worker: usize) -> ResidentWorker {
    ResidentWorker {
        caller: caller(worker),
        workers: WORKERS,
        access_log: Rc::new(|| None),
        tracing: Rc::new(|| None),
        ending: Rc::<EndSignal>::default(),
    }
}

fn caller(worker: usize) -> Rc<Caller> {
    let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    Rc::new(Caller::new(nowhere, nowhere, Scheme::Http, worker))
}

/// The received requests: the callback's path, the event's id, the body.
type Got = Rc<RefCell<Vec<(String, u64, String)>>>;

/// A server of callbacks. It delays its answer to paths that end with `slow`, and answers paths that end with `no` with 500.
async fn callbacks() -> (SocketAddr, Got) {
    callbacks_with_gate(Rc::new(Cell::new(true))).await
}

/// Like [`callbacks`], but also delays its answer to paths that end with `gate` until the gate is open.
async fn callbacks_with_gate(gate: Rc<Cell<bool>>) -> (SocketAddr, Got) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, got) = (listener.local_addr().unwrap(), Got::default());
    let seen = got.clone();
    kit::spawn(async move {
        while let Ok((mut peer, _)) = listener.accept().await {
            let (seen, gate) = (seen.clone(), gate.clone());
            kit::spawn(async move {
                let mut bytes = Vec::new();
                loop {
                    let Some((path, id, text, used)) = parse(&bytes) else {
                        match peer.read_buf(&mut bytes).await {
                            Ok(read) if read > 0 => continue,
                            _ => return,
                        }
                    };
                    bytes.drain(..used);
                    let status = if path.ends_with("no") { "500 No" } else { "200 OK" };
                    let (is_slow, is_gated) = (path.ends_with("slow"), path.ends_with("gate"));
                    seen.borrow_mut().push((path, id, text));
                    if is_slow {
                        tokio::time::sleep(Duration::from_millis(30)).await;
                    }
                    while is_gated && !gate.get() {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    let reply = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                    if peer.write_all(reply.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, got)
}

fn parse(bytes: &[u8]) -> Option<(String, u64, String, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let header = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse::<u64>().ok())
    };
    let used = end + usize::try_from(header("content-length:")?).unwrap();
    let body = bytes.get(end..used)?;
    let path = head.split(' ').nth(1)?.to_owned();
    Some((path, header("x-hub-event-id:")?, String::from_utf8_lossy(body).into_owned(), used))
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = kit::clock::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn two(store: &Memory) -> (Node, Node) {
    let (a, b) = (Node::start(store, "a"), Node::start(store, "b"));
    until("both have half of the partitions", || a.partitions() == 8 && b.partitions() == 8).await;
    (a, b)
}

#[tokio::test]
async fn a_request_to_one_node_takes_effect_on_both() {
    LocalSet::new()
        .run_until(async {
            let (store, (address, got)) = (Memory::new(), callbacks().await);
            let (a, b) = two(&store).await;
            for n in 0..24 {
                let node = if n % 2 == 0 { &a } else { &b };
                assert_eq!(node.ask("subscribe", &format!("http://{address}/{n}")).await, 200);
            }
            for node in [&a, &b] {
                let reply = node.ask("subscribe", &format!("http://{address}/more")).await;
                assert_eq!(reply, 429, "the limit is that of both nodes");
                assert_eq!(node.hub.view().await.unwrap()["subscriptions"], 24);
            }
            let first = a.publish("one").await.unwrap();
            let second = b.publish("two").await.unwrap();
            assert!(second > first);
            until("all is delivered", || got.borrow().len() >= 48).await;
            for n in 0..24 {
                let path = format!("/{n}");
                let of: Vec<(u64, String)> = got
                    .borrow()
                    .iter()
                    .filter(|(to, ..)| *to == path)
                    .map(|(_, id, text)| (*id, text.clone()))
                    .collect();
                assert_eq!(of, [(first, "one".to_owned()), (second, "two".to_owned())], "{n}");
            }
            // Each is removed at the other node, and the next event has no subscriber.
            for n in 0..24 {
                let node = if n % 2 == 0 { &b } else { &a };
                assert_eq!(node.ask("unsubscribe", &format!("http://{address}/{n}")).await, 200);
            }
            until("both know it", || a.hub.state.count() == 0 && b.hub.state.count() == 0).await;
            assert_eq!(a.ask("subscribe", &format!("http://{address}/last")).await, 200);
            b.publish("three").await.unwrap();
            until("the last one has it", || got.borrow().len() >= 49).await;
            assert_eq!(got.borrow().len(), 49);
        })
        .await;
}

#[tokio::test]
async fn after_a_kill_all_events_are_delivered_and_only_those_in_progress_are_repeated() {
    LocalSet::new()
        .run_until(async {
            let (store, (address, got)) = (Memory::new(), callbacks().await);
            let (a, mut b) = two(&store).await;
            for n in 0..12 {
                let url = format!("http://{address}/{n}slow");
                assert_eq!(a.ask("subscribe", &url).await, 200);
            }
            let (mut ids, kills) = (Vec::new(), 3);
            for round in 0..kills {
                for n in 0..10 {
                    ids.push(a.publish(&format!("{round}-{n}")).await.unwrap());
                }
                let goal = got.borrow().len() + 40;
                until("some events are delivered", || got.borrow().len() >= goal).await;
                b.kill();
                until("the other has all partitions", || a.partitions() == 16).await;
                b = Node::start(&store, "b");
                until("both have half of the partitions", || {
                    a.partitions() == 8 && b.partitions() == 8
                })
                .await;
            }
            let path = |n: usize| format!("/{n}slow");
            let has_all = || {
                (0..12).all(|n| {
                    let got = got.borrow();
                    let of = got.iter().filter(|(to, ..)| *to == path(n));
                    let of: std::collections::BTreeSet<u64> = of.map(|(_, id, _)| *id).collect();
                    of.len() == ids.len()
                })
            };
            until("everything is delivered", has_all).await;
            for n in 0..12 {
                let of: Vec<u64> = got
                    .borrow()
                    .iter()
                    .filter(|(to, ..)| *to == path(n))
                    .map(|(_, id, _)| *id)
                    .collect();
                let mut once = of.clone();
                once.dedup();
                assert_eq!(once, ids, "in order, and a repeated event is the next one: {of:?}");
                assert!(
                    of.len() - once.len() <= kills,
                    "one delivery is in progress at a time: {of:?}"
                );
            }
        })
        .await;
}

/// Only one delivered event can lack a stored position, however many wait. Only that event is repeated after a kill.
#[tokio::test]
async fn only_an_event_that_was_answered_while_the_store_was_away_is_repeated() {
    for is_killed in [false, true] {
        let scene = async {
            let gate = Rc::new(Cell::new(false));
            let (store, (address, got)) = (Memory::new(), callbacks_with_gate(gate.clone()).await);
            let a = Node::start(&store, "a");
            until("it has all", || a.partitions() == 16).await;
            assert_eq!(a.ask("subscribe", &format!("http://{address}/gate")).await, 200);
            let mut ids = Vec::new();
            for n in 0..5 {
                ids.push(a.publish(&n.to_string()).await.unwrap());
            }
            let feed = a.hub.feed(a.hub.topic(b"sports").unwrap());
            until("the first is sent", || got.borrow().len() == 1).await;
            until("all can be begun", || feed.newest() == *ids.last().unwrap()).await;
            store.set_faults(Faults { away: true, ..Faults::default() });
            gate.set(true);
            until("the node stops", || a.partitions() == 0).await;
            assert_eq!(got.borrow().len(), 1);
            if is_killed {
                a.kill();
                let _b = Node::start(&store, "b");
                store.set_faults(Faults::default());
                ids.insert(0, ids[0]);
                until("the other node continues", || got.borrow().len() >= ids.len()).await;
            } else {
                store.set_faults(Faults::default());
                until("it continues", || got.borrow().len() >= ids.len()).await;
            }
            assert_eq!(got.borrow().iter().map(|(_, id, _)| *id).collect::<Vec<_>>(), ids);
        };
        LocalSet::new().run_until(scene).await;
    }
}

/// A slow store still counts as available, so everything else continues.
#[tokio::test]
async fn the_next_event_waits_until_the_end_of_the_one_before_is_written() {
    let scene = async {
        let gate = Rc::new(Cell::new(true));
        let (store, (address, got)) = (Memory::new(), callbacks_with_gate(gate.clone()).await);
        let Delivery { retries, .. } = settings().delivery;
        let retries = Retries { attempts: u32::MAX, ..retries };
        let delivery = Delivery { retries, ..settings().delivery };
        let node = Node::of(&store, Nodes::single(), HubSettings { delivery, ..settings() });
        let of = |path: &str| {
            let got = got.borrow();
            got.iter().filter(|(to, ..)| to == path).map(|(_, id, _)| *id).collect::<Vec<u64>>()
        };
        let feed = node.hub.feed(node.hub.topic(b"sports").unwrap());
        assert_eq!(node.ask("subscribe", &format!("http://{address}/gate")).await, 200);
        let zeroth = node.publish("zero").await.unwrap();
        until("one is delivered", || of("/gate").len() == 1 && feed.newest() == zeroth).await;
        gate.set(false);
        assert_eq!(node.ask("subscribe", &format!("http://{address}/no")).await, 200);
        let first = node.publish("one").await.unwrap();
        let last = node.publish("two").await.unwrap();
        until("both are attempted", || of("/gate").len() == 2 && !of("/no").is_empty()).await;
        until("the next can be started", || feed.newest() == last).await;
        store.set_faults(Faults { delay: Duration::from_secs(3600), ..Faults::default() });
        let tried = of("/no").len();
        gate.set(true);
        // Failed deliveries are retried without a write. By then the answer of the other has long been handled.
        until("the other is retried repeatedly", || of("/no").len() >= tried + 20).await;
        // The write in progress is still delayed. A new event causes a check of all subscriptions.
        store.set_faults(Faults::default());
        let newest = node.publish("three").await.unwrap();
        until("the event is known", || feed.newest() == newest).await;
        let tried = of("/no").len();
        until("and the subscriptions are checked", || of("/no").len() >= tried + 20).await;
        assert_eq!(of("/gate"), [zeroth, first]);
    };
    LocalSet::new().run_until(scene).await;
}

#[tokio::test]
async fn while_the_store_is_away_publishing_fails_and_deliveries_wait() {
    LocalSet::new()
        .run_until(async {
            let (store, (address, got)) = (Memory::new(), callbacks().await);
            let (a, b) = two(&store).await;
            for n in 0..8 {
                assert_eq!(a.ask("subscribe", &format!("http://{address}/{n}")).await, 200);
            }
            a.publish("before").await.unwrap();
            until("it is delivered", || got.borrow().len() == 8).await;
            store.set_faults(Faults { away: true, ..Faults::default() });
            assert_eq!(b.publish("during").await, Err(503));
            until("no node has a partition", || a.partitions() + b.partitions() == 0).await;
            store.set_faults(Faults::default());
            b.publish("after").await.unwrap();
            until("it continues", || got.borrow().len() >= 16).await;
            let texts: Vec<String> = got.borrow().iter().skip(8).map(|(.., t)| t.clone()).collect();
            assert_eq!(texts, vec!["after"; 8]);
        })
        .await;
}

#[tokio::test]
async fn only_one_of_two_concurrent_requests_sends_a_dead_event_again() {
    LocalSet::new()
        .run_until(async {
            let (store, (address, got)) = (Memory::new(), callbacks().await);
            let (a, b) = two(&store).await;
            assert_eq!(a.ask("subscribe", &format!("http://{address}/no")).await, 200);
            a.publish("dead").await.unwrap();
            let dead = || async {
                let view = b.hub.dead(Page { after: None }).await.unwrap();
                view["dead"].as_array().unwrap().clone()
            };
            let mut all: Vec<Value> = dead().await;
            for round in 1..4 {
                while all.is_empty() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    all = dead().await;
                }
                assert_eq!(got.borrow().len(), round);
                let id = all[0]["id"].as_str().unwrap().to_owned();
                let (one, other) = tokio::join!(a.hub.retry_dead(&id), b.hub.retry_dead(&id));
                assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
                all = Vec::new();
            }
            until("it is sent once each time", || got.borrow().len() == 4).await;
        })
        .await;
}

#[tokio::test]
async fn the_oldest_dead_events_above_the_limit_are_removed() {
    LocalSet::new()
        .run_until(async {
            let store = Memory::new();
            let node = Node::of(&store, Nodes::single(), settings());
            let hub = &node.hub;
            for number in 0..500_u64 {
                let dead = crate::subscription::Dead {
                    event: number,
                    subscription: "0".repeat(32),
                    callback: "http://a/".to_owned(),
                    attempts: 1,
                    last: "status 500".to_owned(),
                    topic: "sports".to_owned(),
                    // The events with the lowest keys are the newest.
                    died: 1000 - number,
                    failures: Vec::new(),
                };
                let key = format!("{number:05}");
                let change = hub.dead_change(&key, crate::subscription::stored(&dead));
                hub.store.change(vec![change], None).await.unwrap();
            }
            // Another version wrote this one.
            let other = hub.dead_change("00002x", Some(Bytes::from_static(b"{}")));
            hub.store.change(vec![other], None).await.unwrap();
            hub.sweep_dead(501).await.unwrap();
            let keys = async || {
                let rows = hub.rows_of(&hub.tables.dead, "").await.unwrap();
                rows.iter()
                    .map(|row| String::from_utf8_lossy(&row.key).into_owned())
                    .collect::<Vec<_>>()
            };
            assert_eq!(keys().await.len(), 501);
            hub.sweep_dead(4).await.unwrap();
            assert_eq!(keys().await, ["00000", "00001", "00002", "00002x"]);
            let retried = hub.retry_dead("00002x").await;
            assert!(matches!(retried, Err(ActionError::Conflict(_))), "{retried:?}");
            hub.remove_dead("00002x").await.unwrap();
            assert_eq!(keys().await.len(), 3);
            assert!(matches!(hub.remove_dead("00002x").await, Err(ActionError::Unknown(_))));
            node.kill();
        })
        .await;
}

#[tokio::test]
async fn operators_do_not_see_the_values_in_the_queries_of_callbacks() {
    LocalSet::new()
        .run_until(async {
            let (store, (address, _got)) = (Memory::new(), callbacks().await);
            let node = Node::of(&store, Nodes::single(), settings());
            let callback = format!("http://{address}/a?token=s3cret,no");
            assert_eq!(node.ask("subscribe", &callback).await, 200);
            node.publish("dead").await.unwrap();
            let dead = async || node.hub.dead(Page { after: None }).await.unwrap();
            while dead().await["dead"].as_array().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let subscriptions = node.hub.subscriptions(Page { after: None }).await.unwrap();
            let shown = format!("http://{address}/a?token=***");
            for list in [&subscriptions["subscriptions"], &dead().await["dead"]] {
                assert_eq!(list[0]["callback"], *shown, "{list}");
                assert!(!list.to_string().contains("s3cret"), "{list}");
            }
        })
        .await;
}

#[tokio::test]
async fn a_subscription_that_cannot_be_read_is_not_said_to_have_ended() {
    LocalSet::new()
        .run_until(async {
            let (store, (address, _got)) = (Memory::new(), callbacks().await);
            let node = Node::of(&store, Nodes::single(), settings());
            let callback = format!("http://{address}/a");
            assert_eq!(node.ask("subscribe", &callback).await, 200);
            let hub = &node.hub;
            let row = hub.rows_of(&hub.tables.subscriptions, "").await.unwrap().remove(0);
            let table = hub.tables.subscriptions.clone();
            let (key, expect) = (row.key.to_vec(), Expect::Anything);
            let spoilt = Change { table, key, value: Some(Bytes::from_static(b"{}")), expect };
            hub.store.change(vec![spoilt], None).await.unwrap();
            assert_eq!(node.ask("unsubscribe", &callback).await, 503);
            assert_eq!(node.ask("unsubscribe", &format!("http://{address}/other")).await, 200);
            assert_eq!(hub.rows_of(&hub.tables.subscriptions, "").await.unwrap().len(), 1);
        })
        .await;
}

#[tokio::test]
async fn events_that_cannot_be_read_are_passed_over() {
    LocalSet::new()
        .run_until(async {
            let (store, (address, got)) = (Memory::new(), callbacks().await);
            let node = Node::of(&store, Nodes::single(), settings());
            assert_eq!(node.ask("subscribe", &format!("http://{address}/a")).await, 200);
            let log = node.hub.topic(b"sports").unwrap().log.clone();
            node.kill();
            // Only those that follow are new to the feed of the next process.
            let newer = || Bytes::from_static(b"\x09 in the form of a later version");
            store.append(&log, vec![newer(), newer()], None).await.unwrap();
            let record = crate::event::record(&Representation::default(), b"one").unwrap();
            let first = *store.append(&log, vec![record], None).await.unwrap().end();
            let node = Node::of(&store, Nodes::single(), settings());
            let feed = node.hub.feed(node.hub.topic(b"sports").unwrap());
            let read = feed.read_log(first - 3, ReadBounds::ONE).await.unwrap();
            assert_eq!(read.iter().map(|event| event.id).collect::<Vec<_>>(), [first]);
            until("it is delivered", || got.borrow().len() == 1).await;
            assert!(feed.read_log(first, ReadBounds::ONE).await.unwrap().is_empty());
        })
        .await;
}

#[tokio::test]
async fn the_failures_of_an_event_are_forgotten_when_the_event_has_ended() {
    LocalSet::new()
        .run_until(async {
            let Delivery { retries, .. } = settings().delivery;
            let retries = Retries { attempts: 3, ..retries };
            let delivery = Delivery { retries, ..settings().delivery };
            let settings = HubSettings { delivery, ..settings() };
            let node = Node::of(&Memory::new(), Nodes::single(), settings);
            let hub = node.hub.clone();
            node.kill();
            let callback = Callback::parse("http://127.0.0.1/").unwrap();
            let id = Id::of("ann", "sports", &callback);
            for ended in [Outcome::Accepted, Outcome::Gone, Outcome::Expired] {
                let mut deliveries = Deliveries::new(hub.clone(), place(0));
                let subscription = Subscription {
                    subject: "ann".to_owned(),
                    plan: None,
                    topic: "sports".to_owned(),
                    callback: callback.to_string(),
                    until: Some(u64::MAX),
                    terms: Terms::default(),
                    from: 0,
                    intent: None,
                };
                deliveries.insert(id, 1, subscription, None);
                deliveries.members.get_mut(&id).unwrap().cursor.begin(1);
                let failed = Outcome::Failed { why: "status 503".to_owned(), retry_after: None };
                deliveries.delivered(id, 1, failed);
                deliveries.delivered(id, 1, ended);
                assert!(deliveries.failures.take(id, 1).is_empty());
            }
        })
        .await;
}

/// A gateway of a later version may have written the row, and its position must be there when that version runs again.
#[tokio::test]
async fn the_position_of_a_subscription_that_cannot_be_read_is_kept() {
    LocalSet::new()
        .run_until(async {
            let (store, (address, got)) = (Memory::new(), callbacks().await);
            let node = Node::of(&store, Nodes::single(), settings());
            let hub = node.hub.clone();
            let callback = Callback::parse(&format!("http://{address}/a")).unwrap();
            let (known, other) =
                (Id::of("", "sports", &callback), Id::of("ann", "sports", &callback));
            assert_eq!(node.ask("subscribe", &callback.to_string()).await, 200);
            node.kill();
            let set = async |table: &Arc<str>, key: Vec<u8>, value: Bytes| {
                let (table, expect) = (table.clone(), Expect::Anything);
                let change = Change { table, key, value: Some(value), expect };
                hub.store.change(vec![change], None).await.unwrap();
            };
            let group = Group { topic: 0, first: other.first() }.key("sports");
            let cursor = Cursor::after(77);
            let place = [(other, 5, (&cursor, true))];
            let value = positions::written(place.into_iter()).unwrap();
            set(&hub.tables.cursors, group.clone(), value).await;
            set(&hub.tables.subscriptions, other.key(), Bytes::from_static(b"{}")).await;
            let stored = async || {
                let row = hub.store.get(&hub.tables.cursors, &group).await.unwrap();
                let row = row.map(|row| positions::read(&row.value).collect::<Vec<_>>());
                row.unwrap_or_default()
            };
            let node = Node::of(&store, Nodes::single(), settings());
            let first = node.publish("one").await.unwrap();
            // The row is written with the position of the subscription that can be read.
            while !stored()
                .await
                .iter()
                .any(|(id, place)| *id == known && place.cursor.head == first)
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let kept = StoredPosition { from: 5, cursor, is_failing: true };
            assert!(stored().await.contains(&(other, kept)));
            // While the worker runs, another gateway writes a row that this one cannot read, and then one that it can.
            let row =
                hub.store.get(&hub.tables.subscriptions, &known.key()).await.unwrap().unwrap();
            for (value, text) in [(Bytes::from_static(b"{}"), "two"), (row.value, "three")] {
                set(&hub.tables.subscriptions, known.key(), value).await;
                set(&hub.tables.news, known.key(), Bytes::new()).await;
                while !hub.rows_of(&hub.tables.news, "").await.unwrap().is_empty() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                node.publish(text).await.unwrap();
            }
            until("all is delivered", || got.borrow().len() >= 3).await;
            let texts: Vec<String> = got.borrow().iter().map(|(.., text)| text.clone()).collect();
            assert_eq!(texts, ["one", "two", "three"]);
        })
        .await;
}
