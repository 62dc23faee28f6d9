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
use store::{Change, Error, Expect, Faults, Logs as _, Memory, ReadQuery, Store, Tables as _};
use telemetry::Telemetry;
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::sleep;

use crate::admin::ActionError;
use crate::dead::now;
use crate::queue::{CURSOR, Dead, key};
use crate::{DeadBounds, Entrance, Exhausted, Order, Queue, QueueSettings};

mod releases;

/// The runs in the order of their start: the node, the text of the message, and whether the run finished.
type Runs = Arc<Mutex<Vec<(&'static str, String, bool)>>>;

/// A flow that takes a second for each message, and fails for messages with the text `bad`. For `refused` and `busy` it replies with 404
/// and 429.
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
            let status = match &*text {
                text if text.contains("bad") => 500,
                "refused" => 404,
                "busy" => 429,
                _ => 200,
            };
            Ok(Reply::new(status, Body::Empty))
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
    QueueSettings {
        retries,
        exhausted: Exhausted::Dead,
        fault_on: None,
        dead_letter: true,
        dead,
        concurrency: 1,
        order: Order::Strict,
        interval: Duration::ZERO,
        is_paused: false,
    }
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

    /// The only node of its store, with these settings.
    fn single(store: &Memory, runs: &Runs, settings: QueueSettings) -> Node {
        Node::of(store, "a", runs, Nodes::single(), settings)
    }

    /// Ends the work of this node, as a reload does with that of the plan before.
    async fn end(self) {
        self.ending.ask();
        sleep(Duration::from_secs(5)).await;
        assert!(self.tasks[1].is_finished());
    }

    /// Returns the number of dead messages, and whether the queue is paused.
    async fn state(&self) -> (u64, bool) {
        let view = self.queue.view().await.unwrap();
        (view["dead"].as_u64().unwrap(), view.get("paused").is_some())
    }

    fn of(
        store: &Memory,
        name: &'static str,
        runs: &Runs,
        nodes: Nodes,
        settings: QueueSettings,
    ) -> Node {
        Node::moving_dead(store, (name, runs), nodes, settings, false)
    }

    /// With `moves_dead`, dead messages are put into the queue `failed`.
    fn moving_dead(
        store: &Memory,
        (name, runs): (&'static str, &Runs),
        nodes: Nodes,
        settings: QueueSettings,
        moves_dead: bool,
    ) -> Node {
        let shared: Arc<dyn Store> = Arc::new(store.clone());
        let nodes = Arc::new(nodes);
        let entrance = |name: &str| {
            Arc::new(Entrance::new(name, shared.clone(), Telemetry::new(1).queue(name)))
        };
        let (entrance, dead_entrance) = (entrance("work"), moves_dead.then(|| entrance("failed")));
        let flow = Slow { node: name, runs: runs.clone() };
        let taken = Arc::new(AtomicBool::new(false));
        let queue = Queue::new(settings, entrance, flow, taken, nodes.clone());
        let queue = Arc::new(queue.with_dead_entrance(dead_entrance));
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

#[tokio::test(start_paused = true)]
async fn what_an_operator_decides_counts_more_than_the_configuration() {
    LocalSet::new()
        .run_until(async {
            let (store, runs) = (Memory::new(), Runs::default());
            let paused = || QueueSettings { is_paused: true, ..settings() };
            let node = Node::single(&store, &runs, paused());
            node.put("0").await;
            sleep(Duration::from_secs(5)).await;
            assert_eq!((texts(&runs).len(), node.state().await), (0, (0, true)));
            node.queue.resume().await.unwrap();
            sleep(Duration::from_secs(5)).await;
            assert_eq!((texts(&runs), node.state().await), (vec!["0".to_owned()], (0, false)));
            node.end().await;
            // A reload does not undo that.
            let node = Node::single(&store, &runs, paused());
            node.put("1").await;
            sleep(Duration::from_secs(5)).await;
            assert_eq!((texts(&runs).len(), node.state().await), (2, (0, false)));
            node.queue.pause().await.unwrap();
            node.end().await;
            // Nor does the configuration resume what an operator paused.
            let node = Node::single(&store, &runs, settings());
            node.put("2").await;
            sleep(Duration::from_secs(5)).await;
            assert_eq!((texts(&runs).len(), node.state().await), (2, (0, true)));
            node.queue.resume().await.unwrap();
            sleep(Duration::from_secs(5)).await;
            assert_eq!((texts(&runs).len(), node.state().await), (3, (0, false)));
            node.end().await;
            // A resumption of a queue that nothing else paused is not kept.
            let node = Node::single(&store, &runs, paused());
            node.put("3").await;
            sleep(Duration::from_secs(5)).await;
            assert_eq!((texts(&runs).len(), node.state().await), (3, (0, true)));
            node.queue.resume().await.unwrap();
            node.end().await;
            // A configuration without the key ends the effect of the resumption.
            let node = Node::single(&store, &runs, settings());
            sleep(Duration::from_secs(5)).await;
            node.end().await;
            let node = Node::single(&store, &runs, paused());
            sleep(Duration::from_secs(1)).await;
            assert_eq!(node.state().await, (0, true));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_pauses_after_the_last_attempt_and_the_message_keeps_its_place() {
    LocalSet::new()
        .run_until(async {
            let (store, runs) = (Memory::new(), Runs::default());
            let stops = || QueueSettings {
                exhausted: Exhausted::Pause,
                fault_on: Some([(400, 499), (500, 599)].into()),
                ..settings()
            };
            let node = Node::single(&store, &runs, stops());
            for text in ["bad", "refused", "0"] {
                node.put(text).await;
            }
            sleep(Duration::from_secs(20)).await;
            assert_eq!((texts(&runs), node.state().await), (vec!["bad".to_owned(); 2], (0, true)));
            let waits = node.queue.messages(None).await.unwrap();
            assert_eq!(
                (&waits["messages"][0]["path"], &waits["messages"][0]["attempts"]),
                (&Value::from("bad"), &Value::from(0))
            );
            node.end().await;
            let node = Node::single(&store, &runs, stops());
            sleep(Duration::from_secs(5)).await;
            assert_eq!(texts(&runs).len(), 2, "the pause outlives a reload");
            node.queue.resume().await.unwrap();
            sleep(Duration::from_secs(20)).await;
            assert_eq!((texts(&runs), node.state().await), (vec!["bad".to_owned(); 4], (0, true)));
            node.end().await;
            // A message that would be dead at once also stops the queue.
            let node = Node::single(
                &store,
                &runs,
                QueueSettings { fault_on: Some([(404, 404)].into()), ..stops() },
            );
            node.queue.resume().await.unwrap();
            sleep(Duration::from_secs(20)).await;
            assert_eq!(texts(&runs)[4..], ["bad", "refused"]);
            assert_eq!(node.state().await, (0, true));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_statuses_that_are_failures_are_those_that_are_written() {
    for (fault_on, expected, dead) in [
        (None, vec!["bad", "bad", "refused", "busy", "0"], 1),
        (Some(&[][..]), vec!["bad", "refused", "busy", "0"], 0),
        (Some(&[(400, 499)][..]), vec!["bad", "refused", "busy", "busy", "0"], 2),
        (Some(&[(404, 404), (500, 500)][..]), vec!["bad", "bad", "refused", "busy", "0"], 2),
    ] {
        LocalSet::new()
            .run_until(async {
                let (store, runs) = (Memory::new(), Runs::default());
                let settings = QueueSettings { fault_on: fault_on.map(Box::from), ..settings() };
                let node = Node::single(&store, &runs, settings);
                for text in ["bad", "refused", "busy", "0"] {
                    node.put(text).await;
                }
                sleep(Duration::from_secs(60)).await;
                assert_eq!(texts(&runs), expected, "{fault_on:?}");
                assert_eq!(node.state().await, (dead, false), "{fault_on:?}");
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn dead_messages_are_put_into_another_queue_as_they_came() {
    LocalSet::new()
        .run_until(async {
            let (store, runs) = (Memory::new(), Runs::default());
            let node = Node::moving_dead(&store, ("a", &runs), Nodes::single(), settings(), true);
            node.put_with("bad", b"body").await;
            node.put("0").await;
            sleep(Duration::from_millis(1500)).await;
            // The store is not available when the message dies, which must not lose it.
            store.set_faults(Faults { away: true, ..Faults::default() });
            sleep(Duration::from_secs(30)).await;
            assert_eq!(texts(&runs), ["bad", "bad"]);
            store.set_faults(Faults::default());
            sleep(Duration::from_secs(10)).await;
            assert_eq!((texts(&runs).len(), node.state().await), (3, (0, false)));
            let moved = store.read("queue/failed", ReadQuery::after(0)).await.unwrap().records;
            let [moved] = &moved[..] else { panic!("one message: {}", moved.len()) };
            let request = crate::stored::request(&moved.bytes).unwrap();
            let Body::Whole(body, _) = request.body else { panic!("it has a body") };
            assert_eq!((request.head.target(), &*body), (&b"bad"[..], &b"body"[..]));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn first_attempts_keep_their_interval_and_others_do_not_wait_for_it() {
    LocalSet::new()
        .run_until(async {
            let (store, runs) = (Memory::new(), Runs::default());
            let interval = Duration::from_secs(10);
            let node = Node::single(&store, &runs, QueueSettings { interval, ..settings() });
            for text in ["bad", "1", "2"] {
                node.put(text).await;
            }
            for (seconds, count) in [(9, 2), (3, 3), (6, 3), (3, 4)] {
                sleep(Duration::from_secs(seconds)).await;
                assert_eq!(texts(&runs).len(), count, "{seconds}");
            }
            assert_eq!(texts(&runs), ["bad", "bad", "1", "2"]);
            // After a time without messages, one begins at once.
            sleep(Duration::from_secs(60)).await;
            node.put("3").await;
            sleep(Duration::from_secs(1)).await;
            assert_eq!(texts(&runs).len(), 5);
        })
        .await;
}
