//! Many applications and subscriptions in memory, and many tokens at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::catalog::{
    CATALOG, Client, address, application, basic, call, definition, form, in_database, log_in,
    publish, read, subscribe, token,
};
use crate::harness::{Gateway, Origin, PATIENCE, Postgres, Wire, until};

/// The subscriptions of the short form; `TIDEGATE_SOAK_SUBSCRIPTIONS=1000000` makes it the long one.
const SUBSCRIPTIONS: usize = 20_000;

/// The subscriptions of each application.
const EACH: usize = 10;

/// The most memory for each subscription, with its share of an application, where there are many.
const BYTES_MAX: usize = 250;

/// From this number on, the gateway's own memory is negligible.
const MANY: usize = 500_000;

/// Memory counts as stable if it changes by less than this within some seconds.
const STILL_BYTES: usize = 256 << 10;

/// The resident memory of a gateway that has read everything, which the call shows, once what reading took was given back.
#[track_caller]
fn settled(gateway: &Gateway, keys: &(String, String), still: Duration) -> usize {
    let body = "grant_type=client_credentials";
    let mut token = String::new();
    let begin = Instant::now();
    while token.is_empty() {
        assert!(begin.elapsed() < PATIENCE * 10, "it is not ready");
        let reply = form(gateway, &basic(&keys.0, &keys.1), "/oauth2/token", body);
        token = read(&reply)["access_token"].as_str().unwrap_or("").to_owned();
        thread::sleep(Duration::from_millis(100));
    }
    until("its call passes", || call(gateway, "/api0/1.0.0/x", &token).status() == 200);
    // The first check of other gateways' changes reads all rows again.
    let (mut known, mut since) = (gateway.resident_bytes(), Instant::now());
    until("its memory stands still", || {
        thread::sleep(Duration::from_millis(100));
        let now = gateway.resident_bytes();
        if now.abs_diff(known) > STILL_BYTES {
            (known, since) = (now, Instant::now());
        }
        since.elapsed() > still
    });
    gateway.resident_bytes()
}

/// The calls of one round, and the rounds of each kind, where the CPU time of a call counts.
const CALLS: u32 = 10_000;
const ROUNDS: usize = 10;

/// The CPU time of the gateway for calls of `target`, one after another.
fn cpu_of_calls(gateway: &Gateway, target: &str, token: &str) -> Duration {
    let mut wire = gateway.wire();
    let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n");
    let before = gateway.cpu_time();
    for _ in 0..CALLS {
        assert_eq!(wire.ask(&head).status(), 200);
    }
    gateway.cpu_time() - before
}

/// Prints what a call with a subscription costs beside a call whose token is checked alone.
fn compare_calls(gateway: &Gateway, key: &str, secret: &str) {
    let token = token(gateway, key, secret, "grant_type=client_credentials");
    let token = token["access_token"].as_str().unwrap();
    let mut sums = [Duration::ZERO; 2];
    for round in 0..=ROUNDS {
        for (sum, target) in sums.iter_mut().zip(["/checked/x", "/subscribed/x"]) {
            let took = cpu_of_calls(gateway, target, token);
            // The first round warms up.
            *sum += if round == 0 { Duration::ZERO } else { took };
        }
    }
    let [checked, subscribed] = sums.map(|sum| sum / CALLS / u32::try_from(ROUNDS).unwrap());
    println!(
        "a subscribed call takes {subscribed:?} of CPU, a call with jwt alone {checked:?}: {:.3}",
        subscribed.as_secs_f64() / checked.as_secs_f64()
    );
}

#[test]
fn subscriptions_take_little_memory() {
    let number = std::env::var("TIDEGATE_SOAK_SUBSCRIPTIONS");
    let number: usize = number.map_or(SUBSCRIPTIONS, |text| text.parse().unwrap());
    let still = Duration::from_secs(if number < MANY { 3 } else { 15 });
    let server = Postgres::start_with(&["fsync=off", "max_wal_size=8GB"]);
    let origin = Origin::saying("ok");
    let routes = format!(
        "upstreams: {{ origin: {{ targets: [{:?}] }} }}\n\
         routes:\n  \
           checked: {{ match: {{ path: /checked/** }}, upstream: origin, policies: [{{ jwt: {{ issuers: [catalog] }} }}] }}\n  \
           subscribed: {{ match: {{ path: /subscribed/** }}, upstream: origin, policies: [{{ jwt: {{ issuers: [catalog] }} }}, {{ subscription: {{ api: \"api0 1.0.0\" }} }}] }}\n",
        origin.url()
    );
    let yaml = in_database(&CATALOG.replace("PAT", &"0".repeat(64)), &server) + &routes;
    let gateway = Gateway::start(&yaml);
    let client = Client { gateway: &gateway, authorization: basic("admin", "admin") };
    let apis: Vec<String> =
        (0..EACH).map(|at| publish(&client, &definition(&format!("api{at}"), &origin))).collect();
    let (id, key, secret) = application(&client, "measured", "Unlimited");
    subscribe(&client, &apis[0], &id, "Unlimited");
    let keys = (key, secret);
    let stop = |gateway: &Gateway| {
        gateway.signal(rustix::process::Signal::TERM);
        gateway.wait_for_exit();
    };
    stop(&gateway);
    let gateway = gateway.restart();
    let little = settled(&gateway, &keys, still);
    stop(&gateway);

    let row = format!(
        "select convert_from(value, 'UTF8')::json -> 'keys' -> 0 ->> 'secret_hash' from tidegate.rows where key = convert_to('application/{id}', 'UTF8')"
    );
    let hash = server.sql(&row);
    let list: Vec<String> = apis.iter().map(|api| format!("'{api}'")).collect();
    let rows = include_str!("../bench/catalog.sql")
        .replace("APPLICATIONS", &(number / EACH).to_string())
        .replace("EACH", &EACH.to_string())
        .replace("APIS", &list.join(", "))
        .replace("HASH", hash.trim());
    server.sql(&rows);
    let gateway = gateway.restart();
    let much = settled(&gateway, &keys, still);
    let each = much.saturating_sub(little) / number;
    println!(
        "{number} subscriptions of {} applications: {each} bytes for each, {little} without",
        number / EACH
    );
    let client = Client { gateway: &gateway, authorization: basic("admin", "admin") };
    let found = client.done(
        "GET",
        &format!("/api/am/publisher/v4/subscriptions?apiId={}&limit=5", apis[3]),
        &Value::Null,
        200,
    );
    assert_eq!(found["pagination"]["total"], json!(number / EACH));
    // Rows written by the test equal those of the catalog: a repeated subscription is a conflict.
    let one = &found["list"][0]["applicationInfo"]["applicationId"];
    let wish = json!({ "apiId": apis[3], "applicationId": one, "throttlingPolicy": "Gold" });
    let again = client.ask("POST", "/api/am/devportal/v3/subscriptions", &wish);
    assert_eq!(again.status(), 409, "{}", again.text());
    assert!(number < MANY || each <= BYTES_MAX, "{each} bytes for each subscription");
    if number >= MANY {
        compare_calls(&gateway, &keys.0, &keys.1);
    }
}

/// The tokens of the short form; `TIDEGATE_SOAK_TOKENS=20000` makes it the long one, which needs a program that is optimized.
const TOKENS: u32 = 300;

/// From this number on, the time for tokens is measured.
const MANY_TOKENS: u32 = 10_000;

/// Tokens are requested at this rate, over this many connections.
const PER_SECOND: u32 = 1000;
const CONNECTIONS: u32 = 4;

/// The 99th percentile of the times of calls, made one after another until `is_over`.
fn slow_calls(gateway: &Gateway, token: &str, is_over: impl Fn() -> bool) -> (usize, Duration) {
    let mut wire = gateway.wire();
    let mut times = Vec::new();
    while !is_over() || times.len() < 100 {
        let begin = Instant::now();
        let head = format!(
            "GET /api0/1.0.0/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        assert_eq!(wire.ask(head).status(), 200);
        times.push(begin.elapsed());
        thread::sleep(Duration::from_millis(1));
    }
    times.sort_unstable();
    (times.len(), times[times.len() * 99 / 100])
}

/// A gateway with an API, and an application that calls it.
struct Issuer {
    gateway: Gateway,
    keys: (String, String),
    token: String,
}

impl Issuer {
    fn start(origin: &Origin) -> Issuer {
        let yaml = CATALOG.replace("PAT", &"0".repeat(64)).replace("ES256", "RS256");
        let gateway = Gateway::start(&yaml);
        let client = log_in(&gateway, "admin", "admin");
        let api = publish(&client, &definition("api0", origin));
        let (id, key, secret) = application(&client, "asking", "Unlimited");
        subscribe(&client, &api, &id, "Unlimited");
        let token = token(&gateway, &key, &secret, "grant_type=client_credentials");
        let token = token["access_token"].as_str().unwrap().to_owned();
        Issuer { gateway, keys: (key, secret), token }
    }
}

/// Calls `called` while `asked`, which may be the same, issues tokens. The number of calls with their 99th percentile.
fn calls_beside_tokens(called: &Issuer, asked: &Issuer, number: u32) -> (usize, Duration) {
    let begin = Instant::now();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let Issuer { gateway, keys: (key, secret), .. } = asked;
        let calls = scope.spawn(|| {
            slow_calls(&called.gateway, &called.token, || is_over.load(Ordering::SeqCst))
        });
        let askers: Vec<_> = (0..CONNECTIONS)
            .map(|asker| {
                scope.spawn(move || {
                    let mut wire = Wire::connect(address(gateway));
                    let body = "grant_type=client_credentials";
                    let head = format!(
                        "POST /oauth2/token HTTP/1.1\r\nHost: a\r\nAuthorization: {}\r\n\
                         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
                        basic(key, secret),
                        body.len()
                    );
                    for at in (asker..number).step_by(CONNECTIONS as usize) {
                        let due = begin + Duration::from_secs(1) * at / PER_SECOND;
                        thread::sleep(due.saturating_duration_since(Instant::now()));
                        let reply = wire.ask(&head);
                        assert_eq!(reply.status(), 200, "{}", reply.text());
                        assert!(read(&reply)["access_token"].as_str().unwrap().contains('.'));
                    }
                })
            })
            .collect();
        askers.into_iter().for_each(|asker| asker.join().unwrap());
        is_over.store(true, Ordering::SeqCst);
        calls.join().unwrap()
    })
}

#[test]
fn a_thousand_tokens_a_second_take_one_core_and_calls_do_not_wait_for_them() {
    let number = std::env::var("TIDEGATE_SOAK_TOKENS");
    let number: u32 = number.map_or(TOKENS, |text| text.parse().unwrap());
    let origin = Origin::saying("ok");
    let (issuer, other) = (Issuer::start(&origin), Issuer::start(&origin));
    let alone_until = Instant::now() + Duration::from_secs(u64::from(number / PER_SECOND));
    let (alone, alone_p99) =
        slow_calls(&issuer.gateway, &issuer.token, || Instant::now() > alone_until);
    // Issuing tokens keeps the cores busy. What that costs calls shows where another process issues them.
    let (_, other_p99) = calls_beside_tokens(&issuer, &other, number);

    let (cpu, begin) = (issuer.gateway.cpu_time(), Instant::now());
    let (beside, beside_p99) = calls_beside_tokens(&issuer, &issuer, number);
    let (took, cpu) = (begin.elapsed(), issuer.gateway.cpu_time() - cpu);
    println!(
        "{number} tokens in {took:?}: {:?} of CPU each, with {beside} calls beside them, of which the 99th percentile is {beside_p99:?}; \
         {other_p99:?} where another process issues the tokens; {alone_p99:?} of {alone} calls alone",
        cpu / number
    );
    if number >= MANY_TOKENS {
        assert!(cpu <= took.min(Duration::from_millis(1) * number), "{cpu:?} of CPU in {took:?}");
        assert!(took <= Duration::from_secs(1) * number / PER_SECOND * 11 / 10, "{took:?}");
        // The variation on a shared machine is larger than the effect of the tokens.
        assert!(beside_p99 <= other_p99 + Duration::from_millis(1), "{beside_p99:?}");
    }
}
