//! Plans of streams: those that are ready, several windows at once, and quotas that several gateways share.

use serde_json::{Value, json};

use crate::harness::{Gateway, Message, Origin, Peer, Plain, until};
use crate::shared_limits::Redis;
use crate::telemetry::metric;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Sends this many events of nine bytes, and ends.
fn events(count: usize) -> Origin {
    let body = "data: x\n\n".repeat(count);
    Origin::start(move |peer: &mut Peer| {
        while peer.request().is_some() {
            let reply = format!("{HEAD}{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
            if !peer.try_send(reply) {
                return;
            }
        }
    })
}

fn ask(gateway: &Gateway, key: &str) -> Message {
    gateway.wire().ask(format!("GET / HTTP/1.1\r\nHost: a\r\nx-api-key: {key}\r\n\r\n"))
}

/// The events that a client gets.
fn count(gateway: &Gateway, key: &str) -> usize {
    let reply = ask(gateway, key);
    assert_eq!(reply.status(), 200, "{reply:?}");
    reply.text().matches("data: x\n\n").count()
}

fn start(origin: &Origin, policies: &str, more: &str) -> Gateway {
    let route = format!("errors: wso2, policies: [{policies}]");
    Plain { route: &route, more, ..Plain::default() }.start(origin)
}

#[test]
fn the_ready_plans_have_the_limits_of_their_names() {
    let day = 86_400;
    let many = 50_010;
    let origin = events(many);
    for (plan, allowed, per) in [
        ("AsyncGold", 50_000, day),
        ("AsyncSilver", 25_000, day),
        ("AsyncBronze", 5_000, day),
        ("AsyncSubscriptionless", 10_000, day),
        ("AsyncWHGold", 10_000, 30 * day),
        ("AsyncWHSilver", 5_000, 30 * day),
        ("AsyncWHBronze", 1_000, 30 * day),
        ("AsyncUnlimited", many, 0),
        ("AsyncWHUnlimited", many, 0),
    ] {
        let gateway = start(&origin, &format!("{{ sse: {{ plans: true, default: {plan} }} }}"), "");
        assert_eq!(count(&gateway, ""), allowed, "{plan}");
        if per == 0 {
            continue;
        }
        let refused = ask(&gateway, "");
        assert_eq!(refused.status(), 429, "{plan}");
        let body: Value = serde_json::from_slice(&refused.body).unwrap();
        assert_eq!(body["code"], "900807", "{plan}: {body}");
        let wait: u64 = refused.get("retry-after").unwrap().parse().unwrap();
        assert!((per - 600..=per).contains(&wait), "{plan}: {wait}");
    }
}

#[test]
fn a_clients_plan_decides_and_one_of_the_configuration_replaces_a_ready_one() {
    let origin = events(40);
    let keys = "api_key: { header: x-api-key, keys: { ann: { key: a, tier: AsyncGold }, bob: { key: b, tier: Mine }, cid: c, dan: { key: d, tier: Requests } } }";
    let plans = "plans: { AsyncGold: { events: 30, per: 1h }, Mine: { events: 35, per: 1h, windows: [{ bytes: 100B, per: 1m }] }, Requests: { requests: 5, per: 1m } }";
    let policies = format!("{{ {keys} }}, {{ sse: {{ plans: true, events: 7, per: 1h }} }}");
    let gateway = start(&origin, &policies, plans);
    assert_eq!(count(&gateway, "a"), 30);
    assert_eq!(count(&gateway, "b"), 11, "99 bytes");
    assert_eq!(count(&gateway, "c"), 7, "without a plan");
    assert_eq!(count(&gateway, "d"), 7, "a plan of requests says nothing of events");
    for key in ["a", "c", "d"] {
        assert_eq!(ask(&gateway, key).status(), 429, "{key}");
    }
    // One byte is left, and no event fits in it.
    assert_eq!(count(&gateway, "b"), 0);
}

#[test]
fn a_plan_of_events_does_not_bound_requests() {
    let origin = Origin::saying("ok");
    let keys = "api_key: { header: x-api-key, keys: { ann: { key: a, tier: Both }, bob: { key: b, tier: Events } } }";
    let plans =
        "plans: { Both: { requests: 3, events: 1, per: 1h }, Events: { events: 1, per: 1h } }";
    let policies =
        format!("{{ {keys} }}, {{ rate_limit: {{ plans: true, requests: 2, per: 1h }} }}");
    let gateway = start(&origin, &policies, plans);
    for (key, passes) in [("a", 3), ("b", 2)] {
        let passed = (0..5).filter(|_| ask(&gateway, key).status() == 200).count();
        assert_eq!(passed, passes, "{key}");
    }
}

#[test]
fn gateways_with_a_store_share_the_quota_of_a_client() {
    let redis = Redis::start();
    let origin = events(4);
    let policies = "{ sse: { events: 10, per: 1h, windows: [{ bytes: 1MiB, per: 1m }], by: route, shared: ours } }";
    let [one, other] = [(); 2].map(|()| start(&origin, policies, &redis.stores()));
    // A new stream waits for the counts of others, which are reported a moment after the events.
    assert_eq!(count(&one, ""), 4);
    assert_eq!(count(&one, ""), 4);
    assert_eq!(count(&one, ""), 2, "ten in all");
    until("the other knows that none is left", || {
        let fresh = start(&origin, policies, &redis.stores());
        ask(&fresh, "").status() == 429
    });
    assert_eq!(ask(&other, "").status(), 429, "it has let none through, and knows");
    assert_eq!(ask(&one, "").status(), 429);
}

#[test]
fn a_hub_has_so_many_subscriptions_of_a_subject() {
    let callback = Origin::saying("ok");
    let folder = "store: { path: var }\nadmin: { address: \"127.0.0.1:0\" }";
    let hub = |limits: &str| {
        Gateway::start(format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\n{folder}\n\
             plans: {{ Two: {{ events: 3, per: 1h, subscriptions: 2 }} }}\n\
             hubs: {{ news: {{ topics: [sports], verify: false, callbacks: {{ allow: [\"127.0.0.0/8\"] }}, limits: {{ {limits} }} }} }}\n\
             routes: {{ news: {{ match: {{ path: \"/news/**\" }}, hub: news, errors: wso2, policies: [{{ api_key: {{ header: x-api-key, keys: {{ ann: {{ key: a, tier: Two }}, bob: {{ key: b, tier: AsyncWHUnlimited }}, cid: c }} }} }}] }} }}\n"
        ))
    };
    let subscribe = |gateway: &Gateway, key: &str, number: usize| {
        let callback =
            format!("{}/{key}{number}", callback.url()).replace(':', "%3A").replace('/', "%2F");
        let target = format!("/news?hub.mode=subscribe&hub.topic=sports&hub.callback={callback}");
        gateway.wire().ask(format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nx-api-key: {key}\r\nContent-Length: 0\r\n\r\n"
        ))
    };
    let gateway = hub("plans: true, default: AsyncWHGold");
    for (key, most) in [("a", 2), ("b", 5), ("c", 5)] {
        let passed = (0..5).filter(|n| subscribe(&gateway, key, *n).status() == 200).count();
        assert_eq!(passed, most, "{key}");
    }
    let refused = subscribe(&gateway, "a", 4);
    let body: Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!((refused.status(), &body["code"]), (429, &json!("900808")), "{body}");
    assert_eq!(subscribe(&gateway, "a", 0).status(), 200, "a renewal");
    // Three events to two callbacks: the plan lets three deliveries through. Those of the others are within theirs.
    for _ in 0..3 {
        let publish = "POST /news/publish?topic=sports HTTP/1.1\r\nHost: a\r\nx-api-key: c\r\nContent-Length: 1\r\n\r\nx";
        assert_eq!(gateway.wire().ask(publish).status(), 200);
    }
    let outcomes = |outcome: &str| {
        let name = format!(
            "tidegate_hub_deliveries_total{{hub=\"news\",topic=\"sports\",outcome=\"{outcome}\"}}"
        );
        metric(&gateway, &name).unwrap_or_default()
    };
    until("all are sent or dropped", || outcomes("success") + outcomes("limited") == 36.0);
    assert_eq!(outcomes("limited"), 3.0);

    let gateway = hub("subscriptions: 1, events: 5, bytes: 1KiB, per: 1h");
    let statuses: Vec<u16> = (0..2).map(|n| subscribe(&gateway, "b", n).status()).collect();
    assert_eq!(statuses, [200, 429]);
}
