//! Two gateways with one database. One of them is repeatedly killed, while events are published and delivered, and messages stored
//! and processed. No acknowledged data is lost, everything is delivered in order, and only deliveries in flight are repeated.
//!
//! `scripts/soak.sh nodes` does it with fifty kills.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::Duration;

use crate::harness::{Gateway, Origin, PATIENCE, Postgres, until_at_last};
use crate::hubs::{bodies, poll};
use crate::websub::{repeats, subscribe};

const KILLS: usize = 2;
const CALLBACKS: usize = 12;
const QUEUES: usize = 4;
const PUBLISHERS: usize = 2;

/// The least number of deliveries and runs of both gateways between two kills.
const BETWEEN_KILLS: usize = 100;
/// Publishers wait while a callback lags by this many events.
const LAG_MAX: usize = 50;

/// The received data of each path in order: ids of events, texts of messages.
type EventsByPath = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

/// State shared by the publishers and the task that kills.
struct Scene {
    addresses: Mutex<[SocketAddr; 2]>,
    is_over: AtomicBool,
    /// Events that were acknowledged, with their ids, and messages, with their queues.
    events: Mutex<Vec<(String, String)>>,
    messages: Mutex<Vec<(usize, String)>>,
    /// Publishes without an acknowledgement.
    unanswered: AtomicUsize,
}

/// Ends the publishers, also where the test has failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn yaml(database: &str, origin: &Origin) -> String {
    let mut yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n\
         store: {{ postgres: \"{database}\" }}\n\
         hubs: {{ news: {{ topics: [sports], callbacks: {{ allow: [\"127.0.0.0/8\"] }}, delivery: {{ timeout: 60s }} }} }}\n\
         upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\n\
         routes:\n  news: {{ match: {{ path: \"/news/**\" }}, hub: news }}\n",
        origin.url()
    );
    let each = |yaml: &mut String, line: &dyn Fn(usize) -> String| {
        (0..QUEUES).for_each(|n| writeln!(yaml, "  {}", line(n)).unwrap());
    };
    each(&mut yaml, &|n| format!("in{n}: {{ match: {{ path: /in/{n} }}, flow: keep{n} }}"));
    yaml.push_str("queues:\n");
    each(&mut yaml, &|n| {
        format!("q{n}: {{ flow: send{n}, retry: {{ attempts: 1000, initial: 100ms, max: 1s }} }}")
    });
    yaml.push_str("flows:\n");
    each(&mut yaml, &|n| format!("keep{n}: [{{ store: {{ queue: q{n} }} }}]"));
    each(&mut yaml, &|n| {
        format!("send{n}: [{{ call: {{ upstream: origin, path: /queue/{n} }} }}]")
    });
    yaml
}

/// A service that confirms subscriptions and records requests.
fn service(came: EventsByPath) -> Origin {
    Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            let (path, query) = request.target().split_once('?').unwrap_or((request.target(), ""));
            let challenge = query.split('&').find_map(|pair| pair.strip_prefix("hub.challenge="));
            if challenge.is_none() {
                let what = request.get("x-hub-event-id").map(str::to_owned);
                let what = what.unwrap_or_else(|| request.text());
                came.lock().unwrap().entry(path.to_owned()).or_default().push(what);
            }
            let body = challenge.unwrap_or_default();
            let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            if !peer.try_send(reply) {
                return;
            }
        }
    })
}

/// Posts a text to a gateway that may end meanwhile. None if there was no complete answer.
fn post(address: SocketAddr, target: &str, text: &str) -> Option<(u16, String)> {
    let mut socket = TcpStream::connect(address).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    let length = text.len();
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n"
    );
    socket.write_all(format!("{head}{text}").as_bytes()).ok()?;
    let mut reply = String::new();
    socket.read_to_string(&mut reply).ok()?;
    let (head, body) = reply.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

fn random(below: u64) -> u64 {
    RandomState::new().build_hasher().finish() % below
}

impl Scene {
    /// Publishes and stores, at whichever gateway, until it is over. Each text is there once, and those of a publisher have its order.
    fn publish(&self, publisher: usize, came: &EventsByPath) {
        for number in 0.. {
            while !self.is_over.load(Ordering::SeqCst) && self.lag(came) > LAG_MAX {
                sleep(Duration::from_millis(20));
            }
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            let text = format!("{publisher}-{number}");
            let address = self.addresses.lock().unwrap()[usize::from(random(2) == 0)];
            let is_kept = match random(2) {
                0 => self.publish_event(address, text),
                _ => self.store_message(address, number % QUEUES, text),
            };
            if !is_kept {
                self.unanswered.fetch_add(1, Ordering::SeqCst);
            }
            sleep(Duration::from_millis(2));
        }
    }

    fn publish_event(&self, address: SocketAddr, text: String) -> bool {
        let Some((200, body)) = post(address, "/news/publish?topic=sports", &text) else {
            return false;
        };
        let reply: serde_json::Value = serde_json::from_str(&body).unwrap();
        self.events.lock().unwrap().push((reply["id"].as_str().unwrap().to_owned(), text));
        true
    }

    fn store_message(&self, address: SocketAddr, queue: usize, text: String) -> bool {
        let Some((202, _)) = post(address, &format!("/in/{queue}"), &text) else { return false };
        self.messages.lock().unwrap().push((queue, text));
        true
    }

    /// The number of events that the slowest callback has not received yet.
    fn lag(&self, came: &EventsByPath) -> usize {
        let came = came.lock().unwrap();
        let of = (0..CALLBACKS).map(|n| came.get(&format!("/{n}")).map_or(0, Vec::len));
        self.events.lock().unwrap().len().saturating_sub(of.min().unwrap_or_default())
    }
}

/// All events that there are, with their texts, in their order.
fn events(gateway: &Gateway) -> Vec<(String, String)> {
    let (mut all, mut after) = (Vec::new(), "0".to_owned());
    loop {
        let page = poll(gateway, &format!("?limit=100&after={after}"));
        let ids = page["events"].as_array().unwrap().iter().map(|event| event["id"].as_str());
        let ids: Vec<String> = ids.map(|id| id.unwrap().to_owned()).collect();
        let Some(last) = ids.last() else { return all };
        after.clone_from(last);
        all.extend(ids.into_iter().zip(bodies(&page).into_iter().map(str::to_owned)));
    }
}

#[test]
fn whatever_is_killed_nothing_is_lost_and_only_what_was_in_flight_comes_again() {
    let kills = std::env::var("TIDEGATE_SOAK_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let server = Postgres::start();
    let came = EventsByPath::default();
    let origin = service(came.clone());
    let yaml = yaml(&server.url(), &origin);
    let mut gateways = [Gateway::start(&yaml), Gateway::start(&yaml)];
    for n in 0..CALLBACKS {
        subscribe(&gateways[n % 2], &format!("{}/{n}", origin.url()), "");
    }
    let addresses = gateways.each_ref().map(|gateway| gateway.address("public"));
    let scene = Scene {
        addresses: Mutex::new(addresses),
        is_over: AtomicBool::new(false),
        events: Mutex::default(),
        messages: Mutex::default(),
        unanswered: AtomicUsize::new(0),
    };
    let count = || came.lock().unwrap().values().map(Vec::len).sum::<usize>();
    // A gateway that stood still for ten seconds, as on a machine that is too busy, has lost its work as if it had been killed.
    let mut losses = 0;
    let lost = |gateway: &Gateway| gateway.log().matches("this node joins again").count();
    thread::scope(|scope| {
        let over = Over(&scene.is_over);
        for publisher in 0..PUBLISHERS {
            let (scene, came) = (&scene, &came);
            scope.spawn(move || scene.publish(publisher, came));
        }
        for kill in 0..kills {
            if kill % 10 == 0 && kill > 0 {
                println!("{kill} kills, {} deliveries and runs", count());
            }
            let goal = count() + BETWEEN_KILLS;
            until_at_last("something is delivered", count, || count() >= goal);
            sleep(Duration::from_millis(random(300)));
            let which = usize::from(random(2) == 0);
            let gateway = &mut gateways[which];
            losses += lost(gateway);
            gateway.signal(rustix::process::Signal::KILL);
            gateway.wait_for_exit();
            *gateway = Gateway::start(&yaml);
            scene.addresses.lock().unwrap()[which] = gateway.address("public");
        }
        drop(over);
    });

    let published = events(&gateways[0]);
    let texts: HashSet<&str> = published.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts.len(), published.len(), "an event was written twice");
    let acknowledged = scene.events.lock().unwrap().clone();
    let known: BTreeSet<&(String, String)> = published.iter().collect();
    let lost_events: Vec<_> = acknowledged.iter().filter(|one| !known.contains(one)).collect();
    assert!(lost_events.is_empty(), "{lost_events:?}");

    let ids: Vec<String> = published.into_iter().map(|(id, _)| id).collect();
    let of = |path: &str| came.lock().unwrap().get(path).cloned().unwrap_or_default();
    let has_all = |n: usize| of(&format!("/{n}")).last() == ids.last();
    until_at_last("all events are delivered", count, || (0..CALLBACKS).all(has_all));
    let messages = scene.messages.lock().unwrap().clone();
    let is_done = |queue: usize| {
        let came: HashSet<String> = of(&format!("/queue/{queue}")).into_iter().collect();
        messages.iter().all(|(of, text)| *of != queue || came.contains(text))
    };
    until_at_last("all messages are processed", count, || (0..QUEUES).all(is_done));

    losses += gateways.iter().map(lost).sum::<usize>();
    let (mut again_events, mut again_messages) = (0, 0);
    for n in 0..CALLBACKS {
        let again = repeats(&of(&format!("/{n}")), &ids, losses > 0);
        assert!(again <= kills + losses, "callback {n}: {again} events came again");
        again_events += again;
    }
    for queue in 0..QUEUES {
        let came = of(&format!("/queue/{queue}"));
        let mut order: Vec<String> = Vec::new();
        came.iter().for_each(|text| {
            if !order.contains(text) {
                order.push(text.clone());
            }
        });
        let again = repeats(&came, &order, losses > 0);
        assert!(again <= kills + losses, "queue {queue}: {again} messages came again");
        again_messages += again;
        for publisher in 0..PUBLISHERS {
            let own = order.iter().filter_map(|text| {
                let (of, number) = text.split_once('-')?;
                (of == publisher.to_string()).then(|| number.parse::<u64>().unwrap())
            });
            assert!(own.is_sorted(), "queue {queue}: not in the order of publisher {publisher}");
        }
    }
    let unanswered = scene.unanswered.load(Ordering::SeqCst);
    println!(
        "{kills} kills, {losses} leases lost otherwise: {} events to {CALLBACKS} callbacks ({again_events} deliveries again), {} messages \
         ({again_messages} again), {unanswered} publishes without an acknowledgement",
        ids.len(),
        messages.len()
    );
}
