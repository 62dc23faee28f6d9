//! Two gateways with one catalog: changes at one take effect at both within a second, without affecting other requests.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::catalog::{
    CATALOG, Client, application, basic, call, definition, form, in_database, log_in, publish,
    subscribe, token,
};
use crate::harness::{Gateway, Origin, PATIENCE, Postgres, until};

/// How often each change is made and undone.
const ROUNDS: usize = 5;

/// The time after which a change has effect on all gateways.
const EFFECT_MAX: Duration = Duration::from_secs(1);

/// An application whose requests all pass, on connections that stay open.
struct Bystander {
    is_over: AtomicBool,
    passed: AtomicUsize,
    refused: Mutex<Vec<String>>,
}

impl Bystander {
    fn ask(&self, gateway: &Gateway, target: &str, token: &str) {
        let mut wire = gateway.wire();
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n");
        while !self.is_over.load(Ordering::SeqCst) {
            let reply = wire.ask(&request);
            if reply.status() == 200 {
                self.passed.fetch_add(1, Ordering::SeqCst);
            } else {
                self.refused.lock().unwrap().push(format!("{target}: {reply:?}"));
            }
            if reply.lists("connection", "close") {
                wire = gateway.wire();
            }
            // The machine is for the gateways.
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Ends the bystanders, also where the test has failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The time until calls with a token have a status on all gateways.
#[track_caller]
fn effect(gateways: [&Gateway; 2], target: &str, token: &str, status: u16) -> Duration {
    let begin = Instant::now();
    for gateway in gateways {
        while call(gateway, target, token).status() != status {
            assert!(begin.elapsed() < PATIENCE, "{target}: it is not {status}");
            thread::sleep(Duration::from_millis(5));
        }
    }
    begin.elapsed()
}

fn plan(requests: u64) -> Value {
    json!({
        "policyName": "Some", "displayName": "Some", "stopOnQuotaReach": true,
        "defaultLimit": { "type": "REQUESTCOUNTLIMIT", "requestCount": { "timeUnit": "hour", "unitTime": 1, "requestCount": requests } },
    })
}

#[test]
fn what_is_changed_at_one_has_effect_on_both_within_a_second_and_no_other_request_notices() {
    let server = Postgres::start();
    let origin = Origin::saying("ok");
    let yaml = in_database(&CATALOG.replace("PAT", &"0".repeat(64)), &server);
    let (one, other) = (Gateway::start(&yaml), Gateway::start(&yaml));
    let both = [&one, &other];
    let client = log_in(&one, "admin", "admin");
    let plans = "/api/am/admin/v4/throttling/policies/subscription";
    let made = client.done("POST", plans, &plan(1_000_000), 201);
    let at_plan = format!("{plans}/{}", made["policyId"].as_str().unwrap());
    let (mut limited, free) = (definition("limited", &origin), definition("free", &origin));
    limited["policies"] = json!(["Some", "Unlimited"]);
    let (limited, free) = (publish(&client, &limited), publish(&client, &free));
    let access = |key: &str, secret: &str| {
        let told = token(&one, key, secret, "grant_type=client_credentials");
        told["access_token"].as_str().unwrap().to_owned()
    };
    // One application is changed. Another one is not affected, whatever it calls.
    let (id, key, secret) = application(&client, "changed", "Unlimited");
    let subscription = subscribe(&client, &limited, &id, "Some");
    let changed = access(&key, &secret);
    let (stays, own_key, own_secret) = application(&client, "stays", "Unlimited");
    subscribe(&client, &limited, &stays, "Unlimited");
    subscribe(&client, &free, &stays, "Unlimited");
    let own = access(&own_key, &own_secret);
    effect(both, "/limited/1.0.0/x", &changed, 200);
    effect(both, "/free/1.0.0/x", &own, 200);
    effect(both, "/limited/1.0.0/x", &own, 200);

    let bystander = Bystander {
        is_over: AtomicBool::new(false),
        passed: AtomicUsize::new(0),
        refused: Mutex::default(),
    };
    let mut times: [(&str, Vec<Duration>); 3] =
        ["plan", "subscription", "token"].map(|what| (what, Vec::new()));
    thread::scope(|scope| {
        let over = Over(&bystander.is_over);
        for gateway in both {
            for target in ["/limited/1.0.0/y", "/free/1.0.0/y"] {
                let (bystander, own) = (&bystander, &own);
                scope.spawn(move || bystander.ask(gateway, target, own));
            }
        }
        until("bystanders pass", || bystander.passed.load(Ordering::SeqCst) > 20);
        let there = Client { gateway: &other, authorization: client.authorization.clone() };
        for round in 0..ROUNDS {
            // The change is made at either gateway.
            let by = if round % 2 == 0 { &client } else { &there };
            let changes = |change: &dyn Fn(), status: u16| {
                change();
                effect(both, "/limited/1.0.0/x", &changed, status)
            };
            let set = |requests| {
                until("the plan can be changed", || {
                    by.ask("PUT", &at_plan, &plan(requests)).status() == 200
                });
            };
            times[0].1.push(changes(&|| set(1), 429));
            times[0].1.push(changes(&|| set(1_000_000), 200));
            let turn = |action: &str| {
                let target = format!(
                    "/api/am/publisher/v4/subscriptions/{action}?subscriptionId={subscription}"
                );
                until("the subscription can be changed", || {
                    by.ask("POST", &target, &Value::Null).status() == 200
                });
            };
            times[1].1.push(changes(&|| turn("block-subscription"), 401));
            times[1].1.push(changes(&|| turn("unblock-subscription"), 200));
            let gone = access(&key, &secret);
            effect(both, "/limited/1.0.0/x", &gone, 200);
            let revoked =
                form(by.gateway, &basic(&key, &secret), "/oauth2/revoke", &format!("token={gone}"));
            assert_eq!(revoked.status(), 200);
            times[2].1.push(effect(both, "/limited/1.0.0/x", &gone, 401));
        }
        drop(over);
    });
    let refused = bystander.refused.lock().unwrap();
    assert!(refused.is_empty(), "{} of others: {}", refused.len(), refused[0]);
    for (what, times) in &mut times {
        times.sort();
        println!("{what}: {times:?}");
        // The machine may be busy for a moment, so the median counts.
        assert!(times[times.len() / 2] < EFFECT_MAX, "{what}: {times:?}");
    }
    println!("{} requests of others passed", bystander.passed.load(Ordering::SeqCst));
}
