//! Several gateways with one database: shared data, the division of work, and failures of a gateway or the database.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Gate, Gateway, Origin, Postgres, tidegate, until, until_at_last};
use crate::hubs::{hub, publish};
use crate::telemetry::metric;
use crate::websub::{LOOPBACK, form, repeats, send_form, subscribe};

/// Ids of the events that came at each path, in their order.
type EventsByPath = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

const PARTITIONS: &str = "tidegate_store_partitions";

fn yaml(server: &Postgres, keys: &str) -> String {
    format!("{}store: {{ postgres: \"{}\" }}\n", hub(&format!("{LOOPBACK}{keys}")), server.url())
}

/// Two gateways, each with its half of the work.
fn two(yaml: &str) -> (Gateway, Gateway) {
    let (first, second) = (Gateway::start(yaml), Gateway::start(yaml));
    until("both have a half", || {
        [&first, &second].iter().all(|gateway| metric(gateway, PARTITIONS) == Some(8.0))
    });
    (first, second)
}

/// Callbacks that confirm, and answer an event once the gate of their path is open.
fn callbacks(
    came: &EventsByPath,
    gate: impl Fn(&str) -> Option<Gate> + Send + Sync + 'static,
) -> Origin {
    let came = came.clone();
    Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            let (path, query) = request.target().split_once('?').unwrap_or((request.target(), ""));
            let challenge = query.split('&').find_map(|pair| pair.strip_prefix("hub.challenge="));
            if let Some(id) = request.get("x-hub-event-id") {
                came.lock().unwrap().entry(path.to_owned()).or_default().push(id.to_owned());
                if let Some(gate) = gate(path) {
                    gate.wait();
                }
            }
            let body = challenge.unwrap_or_default();
            let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            if !peer.try_send(reply) {
                return;
            }
        }
    })
}

/// How often others took over the work of a gateway. A machine that is suspended for ten seconds may cause that too.
fn losses(gateway: &Gateway) -> f64 {
    metric(gateway, "tidegate_store_lease_losses_total").unwrap()
}

fn of(came: &EventsByPath, path: &str) -> Vec<String> {
    came.lock().unwrap().get(path).cloned().unwrap_or_default()
}

fn admin(gateway: &Gateway, path: &str) -> Value {
    let reply = gateway.admin_get(path);
    assert_eq!(reply.status(), 200, "{reply:?}");
    serde_json::from_slice(&reply.body).unwrap()
}

/// The callbacks' paths with whether this gateway delivers to them.
fn delivers(gateway: &Gateway) -> BTreeMap<String, bool> {
    let nodes = admin(gateway, "/hubs")["nodes"].as_array().unwrap().clone();
    let own = nodes.iter().find(|node| node["this"] == true).unwrap()["name"].clone();
    let all =
        admin(gateway, "/hubs/news/subscriptions")["subscriptions"].as_array().unwrap().clone();
    let path = |url: &str| format!("/{}", url.rsplit('/').next().unwrap());
    all.iter().map(|one| (path(one["callback"].as_str().unwrap()), one["node"] == own)).collect()
}

/// Subscribes paths of a service until both gateways have some to deliver to, and gives which ones this gateway has.
fn subscribe_both(gateway: &Gateway, other: &Gateway, origin: &Origin) -> BTreeMap<String, bool> {
    for n in 0.. {
        subscribe(if n % 2 == 0 { gateway } else { other }, &format!("{}/{n}", origin.url()), "");
        let delivers = delivers(gateway);
        if n >= 7 && delivers.values().any(|own| *own) && delivers.values().any(|own| !own) {
            return delivers;
        }
    }
    unreachable!("there are 16 partitions")
}

/// A gateway is suspended for longer than its lease, with an event in flight to each callback. The other one continues with these,
/// and the suspended one delivers no more and changes no position after it resumes.
#[test]
fn a_gateway_that_stands_still_is_replaced_and_fenced_when_it_wakes_up() {
    let server = Postgres::start();
    let (came, gate) = (EventsByPath::default(), Gate::default());
    let held = gate.clone();
    let origin = callbacks(&came, move |_| Some(held.clone()));
    let (first, second) = two(&yaml(&server, ", delivery: { timeout: 120s }"));
    let is_firsts = subscribe_both(&first, &second, &origin);
    let mut published: Vec<String> =
        (0..10).map(|n| publish(&second, "sports", &n.to_string())).collect();
    let all = |count: usize| is_firsts.keys().all(|path| of(&came, path).len() >= count);
    until("the first event is in flight everywhere", || all(1));

    first.signal(Signal::STOP);
    until("the other has all", || metric(&second, PARTITIONS) == Some(16.0));
    let firsts = || is_firsts.iter().filter(|(_, own)| **own).map(|(path, _)| path);
    until("what was in flight is sent again", || firsts().all(|path| of(&came, path).len() >= 2));
    gate.open();
    let has_all = |published: &[String]| {
        is_firsts.keys().all(|path| of(&came, path).last() == published.last())
    };
    let count = || came.lock().unwrap().values().map(Vec::len).sum();
    until_at_last("the other delivers all", count, || has_all(&published));
    // After the last event, without a failure, and with nothing open.
    let place = format!("{:016x}{:010x}", published.last().unwrap().parse::<u64>().unwrap(), 0);
    let are_written = |text: &str| text.matches(&place).count() == is_firsts.len();
    until("all is written down", || are_written(&server.sql(CURSORS)));
    let before = server.sql(CURSORS);

    // It gets the answers to its deliveries in flight, but must not store them.
    first.signal(Signal::CONT);
    first.wait_for_log("another node has taken over the work of this node");
    assert_eq!(losses(&first), 1.0);
    until("it has its half again", || metric(&first, PARTITIONS) == Some(8.0));
    assert_eq!(server.sql(CURSORS), before, "it has moved a place");
    published.extend((10..20).map(|n| publish(&first, "sports", &n.to_string())));
    until_at_last("both deliver", count, || has_all(&published));
    let is_as_it_was = losses(&first) == 1.0 && losses(&second) == 0.0;
    for (path, was_firsts) in &is_firsts {
        let again = repeats(&of(&came, path), &published, !is_as_it_was);
        assert!(again == usize::from(*was_firsts) || !is_as_it_was, "{:?}", of(&came, path));
    }
}

/// The position of each subscription.
const CURSORS: &str = "select encode(key, 'escape'), encode(value, 'hex') from tidegate.rows \
     where name = 'hub/news/cursors'::bytea order by key";

#[test]
fn subscriptions_and_limits_count_over_both_gateways() {
    let server = Postgres::start();
    let came = EventsByPath::default();
    let origin = callbacks(&came, |_| None);
    let limits = ", limits: { events: 31, per: 1h, by: subject, subscriptions: 30 }";
    let (first, second) = two(&yaml(&server, limits));
    let paths = subscribe_both(&first, &second, &origin);
    for n in paths.len()..30 {
        subscribe(if n % 2 == 0 { &first } else { &second }, &format!("{}/{n}", origin.url()), "");
    }
    for gateway in [&first, &second] {
        let more = format!("{}/more", origin.url());
        assert_eq!(send_form(gateway, &form("subscribe", "sports", &more, "")).status(), 429);
        assert_eq!(admin(gateway, "/hubs")["hubs"][0]["subscriptions"], 30);
    }
    publish(&first, "sports", "one");
    publish(&second, "sports", "two");
    let sum = |outcome: &str| {
        let name = format!(
            "tidegate_hub_deliveries_total{{hub=\"news\",topic=\"sports\",outcome=\"{outcome}\"}}"
        );
        [&first, &second].iter().filter_map(|gateway| metric(gateway, &name)).sum::<f64>()
    };
    until("all have ended", || sum("success") + sum("limited") >= 60.0);
    assert_eq!((sum("success"), sum("limited")), (31.0, 29.0));
    assert_eq!(came.lock().unwrap().values().map(Vec::len).sum::<usize>(), 31);
}

#[test]
fn a_schedule_runs_on_one_gateway_at_a_time_and_goes_on_after_a_kill() {
    let server = Postgres::start();
    let origin = Origin::saying("ok");
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n\
         upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\n\
         flows:\n  tick: [{{ call: {{ upstream: origin, path: /tick }} }}, {{ respond: {{}} }}]\n\
         schedules: {{ beat: {{ cron: \"* * * * * *\", flow: tick }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, respond: {{}} }} }}\n\
         store: {{ postgres: \"{}\" }}\n",
        origin.url(),
        server.url()
    );
    let (first, second) = two(&yaml);
    let runs = |gateway: &Gateway| {
        let name = "tidegate_schedule_runs_total{schedule=\"beat\",result=\"success\"}";
        metric(gateway, name).unwrap_or_default()
    };
    let sum = || runs(&first) + runs(&second);
    let grown = loop {
        let (before, lost) = ([runs(&first), runs(&second)], losses(&first) + losses(&second));
        let goal = sum() + 4.0;
        until("it runs", || sum() >= goal);
        let grown = [runs(&first) > before[0], runs(&second) > before[1]];
        if losses(&first) + losses(&second) == lost {
            break grown;
        }
    };
    assert!(grown[0] != grown[1], "it runs on both: {grown:?}");
    let (owner, other) = if grown[0] { (first, second) } else { (second, first) };
    let had = runs(&other);
    owner.signal(Signal::KILL);
    owner.wait_for_exit();
    let seen = origin.requests().len();
    until("the other runs it", || runs(&other) >= had + 2.0 && origin.requests().len() >= seen + 2);
}

/// While the database is unavailable, publishers are refused and all other requests are served. Acknowledged events are delivered
/// once and in order, and so are later ones.
#[test]
fn while_the_database_is_away_all_waits_and_nothing_is_lost() {
    let mut server = Postgres::start();
    let (came, gate) = (EventsByPath::default(), Gate::default());
    let held = gate.clone();
    let origin = callbacks(&came, move |_| Some(held.clone()));
    let (first, second) = two(&yaml(&server, ", delivery: { timeout: 120s }"));
    let paths = subscribe_both(&first, &second, &origin);
    let mut published: Vec<String> =
        (0..10).map(|n| publish(&second, "sports", &n.to_string())).collect();
    until("an event is in flight everywhere", || {
        paths.keys().all(|path| of(&came, path).len() == 1)
    });

    server.kill();
    for gateway in [&first, &second] {
        let head =
            "POST /news/publish?topic=sports HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n.";
        until("publishes are refused", || gateway.wire().ask(head).status() == 503);
        until("it is told", || metric(gateway, "tidegate_store_away") == Some(1.0));
        // It serves all that needs no store, and no other gateway would do better.
        let ready = admin(gateway, "/readyz");
        assert_eq!((&ready["status"], &ready["store"]), (&"ready".into(), &"away".into()));
    }
    gate.open();
    // Longer than leases last, so no gateway may start work.
    until("nobody has any work", || {
        [&first, &second].iter().all(|gateway| metric(gateway, PARTITIONS) == Some(0.0))
    });
    assert!(paths.keys().all(|path| of(&came, path).len() == 1), "{came:?}");

    server.start_again();
    for gateway in [&first, &second] {
        until("the database is back", || metric(gateway, "tidegate_store_away") == Some(0.0));
        assert_eq!(admin(gateway, "/readyz").get("store"), None);
    }
    published.extend((10..20).map(|n| publish(&first, "sports", &n.to_string())));
    let has_all = || paths.keys().all(|path| of(&came, path).last() == published.last());
    let count = || came.lock().unwrap().values().map(Vec::len).sum();
    until_at_last("all is delivered", count, has_all);
    let is_as_it_was = losses(&first) + losses(&second) == 0.0;
    for path in paths.keys() {
        let again = repeats(&of(&came, path), &published, !is_as_it_was);
        assert!(again == 0 || !is_as_it_was, "{:?}", of(&came, path));
    }
}

#[test]
fn operators_see_which_gateway_has_what() {
    let server = Postgres::start();
    let origin = callbacks(&EventsByPath::default(), |_| None);
    let queue = "queues: { work: { flow: send } }\nflows: { send: [{ respond: {} }] }\n";
    let (first, second) = two(&format!("{}{queue}", yaml(&server, "")));
    subscribe(&first, &origin.url(), "");
    let mut names = Vec::new();
    for gateway in [&first, &second] {
        until("both are seen", || {
            admin(gateway, "/hubs")["nodes"].as_array().is_some_and(|nodes| {
                let all = nodes.iter().filter_map(|node| node["partitions"].as_array());
                all.map(Vec::len).collect::<Vec<_>>() == [8, 8]
            })
        });
        let shown = admin(gateway, "/hubs")["nodes"].as_array().unwrap().clone();
        let own = shown.iter().filter(|node| node["this"] == true).collect::<Vec<_>>();
        assert_eq!(own.len(), 1, "{shown:?}");
        names.push(own[0]["name"].clone());
        assert_eq!(metric(gateway, "tidegate_store_nodes"), Some(2.0));
    }
    assert_ne!(names[0], names[1]);
    let explained = tidegate(&["explain", first.path("tidegate.yaml").to_str().unwrap()]);
    assert!(explained.stdout.contains("# Store: postgres://127.0.0.1"), "{explained:?}");
    assert!(explained.stdout.contains("for a lease of 10s"), "{explained:?}");
    assert!(!explained.stdout.contains("geheim"), "{explained:?}");
    for path in ["/queues", "/hubs/news/subscriptions"] {
        let of = |gateway| {
            let shown = admin(gateway, path);
            shown[path.rsplit('/').next().unwrap()][0]["node"].clone()
        };
        assert!(names.contains(&of(&first)), "{path}: {}", of(&first));
        assert_eq!(of(&first), of(&second), "{path}");
    }
}
