//! A queue on two nodes that share a store, with a paused clock.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delivery::Retries;
use message::{Body, Protocol, Reply, Request, RequestHead};
use policy::{
    Answer, Answerer, Caller, EndSignal, Exchange, Explanation, Resident as _, ResidentWorker,
    Scheme,
};
use serde_json::Value;
use store::nodes::{LEASE, Nodes, partition};
use store::{Change, Error, Expect, Faults, Memory, Store, Tables as _};
use telemetry::Telemetry;
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::sleep;

use crate::admin::ActionError;
use crate::dead::now;
use crate::queue::{CURSOR, Dead, key};
use crate::{DeadBounds, Entrance, Order, Queue, QueueSettings};

/// The runs in the order of their start: the node, the text of the message, and whether the run finished.
type Runs = Arc<Mutex<Vec<(&'static str, String, bool)>>>;

/// A flow that takes a second for each message, and fails for messages with the text `bad`.
struct Slow {
    node: &'static str,
    runs: Runs,
}

impl Answerer for Slow {
    fn answer<'a>(&'a self, _ex: &'a mut Exchange, request: &'a mut Request) -> Answer<'a> {
        let text = String::from_utf8_lossy(request.head.target()).into_owned();
        Answer::Wait(Box::pin(async move {
            let at = {
                let mut runs = self.runs.lock().unwrap();
                runs.push((self.node, text.clone(), false));
                runs.len() - 1
            };
            sleep(Duration::from_secs(1)).await;
            self.runs.lock().unwrap()[at].2 = true;
            Ok(Reply::new(if text.contains("bad") { 500 } else { 200 }, Body::Empty))
        }))
    }

    fn explained(&self, _parameters: &[&str]) -> Explanation {
        Explanation::default()
    }

    fn view(&self) -> Value {
        Value::Null
    }
}

struct Node {
    queue: Arc<Queue>,
    tasks: Vec<JoinHandle<()>>,
    ending: Rc<EndSignal>,
}

fn settings() -> QueueSettings {
    let retries = Retries {
        attempts: 2,
        // Pauses use the wall clock, which does not advance while the clock is paused.
        initial: Duration::ZERO,
        factor_permille: 1000,
        max: Duration::ZERO,
    };
    let dead = DeadBounds { messages_max: 100, bytes_max: 1 << 20, age_max: Duration::MAX };
    QueueSettings { retries, dead_letter: true, dead, concurrency: 1, order: Order::Strict }
}

impl Node {
    fn start(store: &Memory, name: &'static str, runs: &Runs) -> Node {
        Node::of(store, name, runs, Nodes::shared(name, LEASE), settings())
    }

    /// The only node of its store, with a queue in free order that processes two messages at a time.
    fn alone(store: &Memory, runs: &Runs) -> Node {
        let settings = QueueSettings { concurrency: 2, order: Order::Free, ..settings() };
        Node::of(store, "a", runs, Nodes::single(), settings)
    }

    fn of(
        store: &Memory,
        name: &'static str,
        runs: &Runs,
        nodes: Nodes,
        settings: QueueSettings,
    ) -> Node {
        let shared: Arc<dyn Store> = Arc::new(store.clone());
        let nodes = Arc::new(nodes);
        let entrance = Entrance::new("work", shared, Telemetry::new(1).queue("work"));
        let flow = Slow { node: name, runs: runs.clone() };
        let taken = Arc::new(AtomicBool::new(false));
        let queue = Arc::new(Queue::new(settings, Arc::new(entrance), flow, taken, nodes.clone()));
        let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let ending = Rc::<EndSignal>::default();
        let place = ResidentWorker {
            caller: Rc::new(Caller::new(nowhere, nowhere, Scheme::Http, 0)),
            workers: 1,
            access_log: Rc::new(|| None),
            tracing: Rc::new(|| None),
            ending: ending.clone(),
        };
        let store = store.clone();
        let tasks = vec![
            kit::spawn(async move { nodes.run(&store).await }),
            kit::spawn(queue.clone().live(place)),
        ];
        Node { queue, tasks, ending }
    }

    fn has_queue(&self) -> bool {
        self.queue.nodes.has(partition("work"))
    }

    async fn put(&self, text: &str) -> u16 {
        self.put_with(text, b"").await
    }

    async fn put_with(&self, text: &str, body: &[u8]) -> u16 {
        let head = RequestHead::new(Protocol::Http11, b"POST", text.as_bytes());
        self.queue.entrance.put(&head, body).await.map_or_else(|f| f.kind.status(), |_| 202)
    }
}

fn texts(runs: &Runs) -> Vec<String> {
    runs.lock().unwrap().iter().map(|(_, text, _)| text.clone()).collect()
}

/// Two nodes: the owner of the queue, and the other one.
async fn two(store: &Memory, runs: &Runs) -> (Node, Node) {
    let (a, b) = (Node::start(store, "a", runs), Node::start(store, "b", runs));
    sleep(Duration::from_millis(100)).await;
    assert!(a.has_queue() != b.has_queue());
    if a.has_queue() { (a, b) } else { (b, a) }
}

#[tokio::test(start_paused = true)]
async fn a_queue_continues_on_another_node_in_order() {
    LocalSet::new()
        .run_until(async {
            let (store, runs) = (Memory::new(), Runs::default());
            let (owner, other) = two(&store, &runs).await;
            for n in 0..6 {
                let node = if n % 2 == 0 { &owner } else { &other };
                assert_eq!(node.put(&n.to_string()).await, 202);
            }
            sleep(Duration::from_millis(2500)).await;
            assert_eq!(texts(&runs), ["0", "1", "2"], "one node runs messages, one at a time");
            owner.tasks.iter().for_each(JoinHandle::abort);
            sleep(LEASE / 2).await;
            assert_eq!(texts(&runs).len(), 3, "the lease has not expired");
            sleep(LEASE / 2 + Duration::from_secs(6)).await;
            assert_eq!(texts(&runs), ["0", "1", "2", "2", "3", "4", "5"]);
            let whole = runs.lock().unwrap().iter().filter(|(.., is_over)| *is_over).count();
            assert_eq!(whole, 6, "the stopped run had not finished");
            // A node that stops releases the queue at once, after its run has ended.
            let more = Node::start(&store, "c", &runs);
            sleep(Duration::from_millis(100)).await;
            let (owner, other) = if other.has_queue() { (other, more) } else { (more, other) };
            other.put("6").await;
            other.put("7").await;
            sleep(Duration::from_millis(100)).await;
            owner.ending.ask();
            sleep(Duration::from_secs(1)).await;
            owner.queue.nodes.leave().await;
            sleep(Duration::from_millis(1500)).await;
            assert_eq!(texts(&runs)[7..], ["6", "7"]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_lost_its_lease_writes_and_starts_nothing() {
    LocalSet::new()
        .run_until(async {
            let (store, runs) = (Memory::new(), Runs::default());
            let (owner, other) = two(&store, &runs).await;
            for n in 0..3 {
                owner.put(&n.to_string()).await;
            }
            sleep(Duration::from_millis(500)).await;
            // Only the task that renews the lease stops. This is the worst case, since the worker continues.
            owner.tasks[0].abort();
            sleep(LEASE + Duration::from_secs(20)).await;
            assert_eq!(
                texts(&runs),
                ["0", "1", "2"],
                "all runs had ended and were stored before the lease expired"
            );
            assert!(other.has_queue() && !owner.has_queue());
            for text in ["3", "4"] {
                owner.put(text).await;
            }
            sleep(Duration::from_secs(5)).await;
            let of: Vec<_> = runs.lock().unwrap().iter().map(|run| run.0).collect();
            assert_eq!(of, [of[0], of[0], of[0], of[3], of[3]]);
            assert!(of[0] != of[3], "the node without a lease starts nothing: {of:?}");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_waits_for_a_store_that_is_away() {
    LocalSet::new()
        .run_until(async {
            let (store, runs) = (Memory::new(), Runs::default());
            let (owner, other) = two(&store, &runs).await;
            for text in ["0", "1", "2"] {
                owner.put(text).await;
            }
            sleep(Duration::from_millis(1500)).await;
            store.set_faults(Faults { away: true, ..Faults::default() });
            assert_eq!(other.put("lost").await, 503);
            sleep(Duration::from_secs(60)).await;
            assert_eq!(texts(&runs), ["0", "1"], "its outcome is not stored yet");
            store.set_faults(Faults::default());
            sleep(Duration::from_secs(10)).await;
            assert_eq!(texts(&runs), ["0", "1", "2"], "nothing is repeated");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn only_one_of_two_concurrent_requests_puts_a_dead_message_back() {
    LocalSet::new()
        .run_until(async {
            let (store, runs) = (Memory::new(), Runs::default());
            let (owner, other) = two(&store, &runs).await;
            owner.put("bad").await;
            sleep(Duration::from_secs(10)).await;
            assert_eq!(texts(&runs).len(), 2);
            let dead = owner.queue.dead(None).await.unwrap();
            let id = dead["dead"][0]["id"].as_str().unwrap().to_owned();
            let done = Cell::new(0);
            let retry = async |node: &Node| {
                if node.queue.retry_dead(&id).await.is_ok() {
                    done.set(done.get() + 1);
                }
            };
            tokio::join!(retry(&owner), retry(&other));
            assert_eq!(done.get(), 1);
            sleep(Duration::from_secs(10)).await;
            assert_eq!(texts(&runs).len(), 4, "two more attempts");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn rows_that_cannot_be_read_are_reported() {
    LocalSet::new()
        .run_until(async {
            let (store, runs) = (Memory::new(), Runs::default());
            let (owner, _other) = two(&store, &runs).await;
            owner.put("bad").await;
            sleep(Duration::from_secs(10)).await;
            let queue = &owner.queue;
            let id = queue.dead(None).await.unwrap()["dead"][0]["id"].as_str().unwrap().to_owned();
            let spoil = async |mut change: Change| {
                (change.value, change.expect) = (Some("?".into()), Expect::Anything);
                queue.entrance.store.change(vec![change], None).await.unwrap();
            };
            let (table, expect) = (queue.tables.dead.clone(), Expect::Anything);
            let key = key(id.parse().unwrap());
            spoil(Change { table, key, value: None, expect }).await;
            let dead = queue.dead(None).await.unwrap();
            assert_eq!(dead["dead"][0]["id"].as_str(), Some(&*id));
            assert!(dead["dead"][0]["last"].as_str().unwrap().contains("cannot be read"));
            queue.retry_dead(&id).await.unwrap();
            sleep(Duration::from_secs(10)).await;
            assert_eq!(texts(&runs).len(), 4, "it was put back");
            // A position of an unknown version does not count as the beginning.
            let (table, expect) = (queue.tables.cursor.clone(), Expect::Anything);
            spoil(Change { table, key: CURSOR.to_vec(), value: None, expect }).await;
            let messages = queue.messages(None).await;
            assert!(matches!(messages, Err(ActionError::Store(Error::Corrupt(_)))));
            assert!(matches!(queue.dead(Some("x")).await, Err(ActionError::Unknown)));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn runs_continue_while_the_store_is_away_or_slow() {
    for faults in [
        Faults { away: true, ..Faults::default() },
        Faults { delay: Duration::from_secs(60), ..Faults::default() },
    ] {
        LocalSet::new()
            .run_until(async {
                let (store, runs) = (Memory::new(), Runs::default());
                let node = Node::alone(&store, &runs);
                node.put("0").await;
                sleep(Duration::from_millis(100)).await;
                assert_eq!(texts(&runs), ["0"]);
                // The next message is there, and cannot be read now.
                node.put("1").await;
                store.set_faults(faults);
                sleep(Duration::from_secs(10)).await;
                assert_eq!(*runs.lock().unwrap(), [("a", "0".to_owned(), true)], "{faults:?}");
                store.set_faults(Faults::default());
                sleep(Duration::from_secs(200)).await;
                assert_eq!(texts(&runs), ["0", "1"], "{faults:?}");
                assert!(runs.lock().unwrap().iter().all(|(.., is_over)| *is_over));
            })
            .await;
    }
}

/// The timer used to ring at once, again and again, and no other task of the worker ran. With a paused clock the test then never ends.
#[tokio::test(start_paused = true)]
async fn a_retry_that_is_due_during_the_end_of_the_worker_lets_other_tasks_run() {
    LocalSet::new()
        .run_until(async {
            let (store, runs) = (Memory::new(), Runs::default());
            let node = Node::alone(&store, &runs);
            node.put("bad").await;
            sleep(Duration::from_millis(500)).await;
            node.put("slow").await;
            sleep(Duration::from_millis(100)).await;
            node.ending.ask();
            sleep(Duration::from_secs(5)).await;
            assert!(node.tasks[1].is_finished());
            assert_eq!(texts(&runs), ["bad", "slow"]);
            assert!(runs.lock().unwrap().iter().all(|(.., is_over)| *is_over));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn messages_beyond_the_bytes_of_one_read_are_on_the_next_page() {
    LocalSet::new()
        .run_until(async {
            let (store, runs) = (Memory::new(), Runs::default());
            let node = Node::alone(&store, &runs);
            node.queue.pause().await.unwrap();
            sleep(Duration::from_secs(2)).await;
            for n in 0..30 {
                assert_eq!(node.put_with(&format!("/{n}"), &[b'x'; 100 << 10]).await, 202);
            }
            let (mut paths, mut after) = (Vec::new(), None::<String>);
            for _page in 0..30 {
                let page = node.queue.messages(after.as_deref()).await.unwrap();
                let messages = page["messages"].as_array().unwrap().iter();
                paths.extend(messages.map(|message| message["path"].as_str().unwrap().to_owned()));
                after = page["next"].as_str().map(str::to_owned);
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(paths, (0..30).map(|n| format!("/{n}")).collect::<Vec<_>>());
            assert_eq!(node.queue.held().await.unwrap().len(), 30);
            node.queue.resume().await.unwrap();
            sleep(Duration::from_secs(60)).await;
            let page = node.queue.messages(None).await.unwrap();
            assert_eq!(page["next"], Value::Null, "the log is empty, but had records: {page}");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_message_that_cannot_be_put_back_is_not_reported_as_missing() {
    LocalSet::new()
        .run_until(async {
            let (store, runs) = (Memory::new(), Runs::default());
            let node = Node::alone(&store, &runs);
            for (message, returning) in [(7, now()), (8, 0)] {
                let dead = Dead {
                    message,
                    attempts: 2,
                    last: "status 500".to_owned(),
                    failures: Vec::new(),
                    stored: 1,
                    died: now(),
                    bytes: 1,
                    returning,
                };
                let [dead, record] = node.queue.dead_changes(&dead, "x".into());
                // Another request has just claimed the first one, and the record of the second is missing.
                let changes = if message == 7 { vec![dead, record] } else { vec![dead] };
                store.change(changes, None).await.unwrap();
            }
            for id in ["7", "8"] {
                let retried = node.queue.retry_dead(id).await;
                assert!(matches!(retried, Err(ActionError::Conflict(_))), "{id}: {retried:?}");
            }
            assert!(matches!(node.queue.retry_dead("9").await, Err(ActionError::Unknown)));
        })
        .await;
}
