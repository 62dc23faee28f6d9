//! APIs of streams and topics in the catalog: event streams, WebSockets and hubs, each with subscriptions, scopes and quotas.

use serde_json::{Value, json};

use crate::catalog::{
    CATALOG, Client, basic, form as post_form, is_refused, log_in, publish, read, start,
};
use crate::catalog_imports::{form, serve, subscribed};
use crate::harness::{Gateway, Message, Origin, Peer, Wire, until};
use crate::websocket::{SWITCH, frame, read as read_frame};
use crate::websub::{confirming, delivered, escape, texts};

/// A plan of events that the catalog gets.
#[track_caller]
fn plan(client: &Client<'_>, name: &str, events: u64, subscribers: u64) {
    let plan = json!({
        "policyName": name, "displayName": name, "subscriberCount": subscribers,
        "defaultLimit": { "type": "EVENTCOUNTLIMIT", "eventCount": { "timeUnit": "hour", "unitTime": 1, "eventCount": events } },
    });
    client.done("POST", "/api/am/admin/v4/throttling/policies/subscription", &plan, 201);
}

/// An API of an AsyncAPI document, deployed and published.
#[track_caller]
fn import(client: &Client<'_>, document: &str, more: &Value) -> String {
    let more = more.to_string();
    let parts = [("file", document.as_bytes()), ("additionalProperties", more.as_bytes())];
    let reply = form(client, "POST", "/api/am/publisher/v4/apis/import-asyncapi", &parts);
    assert_eq!(reply.status(), 201, "{}", reply.text());
    let id = read(&reply)["id"].as_str().unwrap().to_owned();
    serve(client, &id);
    id
}

/// Sends a number of events, and waits for the end of its client.
fn events(count: usize) -> Origin {
    Origin::start(move |peer: &mut Peer| {
        while peer.request().is_some() {
            let body = "data: x\n\n".repeat(count);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
            if !peer.try_send(format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len())) {
                return;
            }
        }
    })
}

fn get(gateway: &Gateway, target: &str, token: &str) -> Message {
    gateway
        .wire()
        .ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"))
}

#[test]
fn event_streams_have_topics_with_scopes_and_the_quota_of_the_subscription() {
    let origin = events(3);
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    plan(&client, "FiveEvents", 5, 0);
    let document = format!(
        "asyncapi: 2.6.0\ninfo: {{ title: Ticks, version: 1.0.0 }}\nservers: {{ production: {{ url: '{}/back', protocol: sse }} }}\n\
         channels:\n  open: {{ subscribe: {{}} }}\n  /stocks/{{id}}: {{ subscribe: {{ x-scopes: [stocks], x-uri-mapping: '/s/{{id}}' }} }}\n",
        origin.url()
    );
    let api = import(
        &client,
        &document,
        &json!({ "context": "/ticks", "policies": ["FiveEvents", "AsyncUnlimited"] }),
    );
    let shown = client.done("GET", &format!("/api/am/publisher/v4/apis/{api}"), &Value::Null, 200);
    assert_eq!((shown["type"].as_str(), shown["name"].as_str()), (Some("SSE"), Some("Ticks")));
    let described =
        client.done("GET", &format!("/api/am/publisher/v4/apis/{api}/asyncapi"), &Value::Null, 200);
    assert_eq!(described["asyncapi"], "2.6.0");
    let plain = subscribed(&client, &api, "AsyncUnlimited", "");
    assert_eq!(get(&gateway, "/ticks/1.0.0/open", &plain).text(), "data: x\n\n".repeat(3));
    assert_eq!(origin.request().target(), "/back/open");
    is_refused(&get(&gateway, "/ticks/1.0.0/stocks/7", &plain), 403, "900910");
    assert_eq!(get(&gateway, "/ticks/1.0.0/none", &plain).status(), 404);
    is_refused(&get(&gateway, "/ticks/1.0.0/open", "a.b.c"), 401, "900901");
    // Browsers send no header with an event stream.
    assert_eq!(
        gateway.wire().get(&format!("/ticks/1.0.0/open?access_token={plain}")).status(),
        200
    );
    assert!(!origin.requests().iter().any(|seen| seen.target().contains("access_token")));
    let scoped = subscribed(&client, &api, "FiveEvents", "&scope=stocks");
    let counted = |target: &str| get(&gateway, target, &scoped).text().matches("data: x").count();
    assert_eq!(counted("/ticks/1.0.0/stocks/7"), 3);
    assert_eq!(origin.requests().last().unwrap().target(), "/back/s/7");
    assert_eq!(counted("/ticks/1.0.0/open"), 2, "both topics count for the subscription");
    is_refused(&get(&gateway, "/ticks/1.0.0/open", &scoped), 429, "900807");
}

/// Sends each message back, and the target as the first.
fn sockets() -> Origin {
    Origin::start(|peer: &mut Peer| {
        let Some(request) = peer.request() else { return };
        peer.send(SWITCH);
        peer.send(frame(0x81, request.target().as_bytes(), false));
        while let Some((first, payload)) = read_frame(peer, true) {
            if !peer.try_send(frame(first, &payload, false)) {
                return;
            }
        }
    })
}

fn open(gateway: &Gateway, target: &str) -> (Message, Wire) {
    let mut wire = gateway.wire();
    wire.send(format!(
        "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ));
    let mut head = wire.read_head();
    if head.status() != 101 {
        let length = head.length().unwrap_or(0);
        head.body = wire.read_exact(length).unwrap();
    }
    (head, wire)
}

#[track_caller]
fn text(wire: &mut Wire) -> String {
    let (first, payload) = read_frame(wire, false).expect("a frame");
    assert_eq!(first, 0x81, "{payload:?}");
    String::from_utf8(payload).unwrap()
}

#[test]
fn websockets_have_topics_with_directions_scopes_and_the_quota_of_the_subscription() {
    let origin = sockets();
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    plan(&client, "FourMessages", 4, 0);
    let document = format!(
        "asyncapi: 3.0.0\ninfo: {{ title: Chat, version: 1.0.0 }}\nservers: {{ production: {{ host: '{}', pathname: /ws, protocol: ws }} }}\n\
         channels:\n  room: {{ address: '/room/{{id}}' }}\n  news: {{ address: /news }}\n\
         operations:\n  out: {{ action: send, channel: {{ $ref: '#/channels/room' }} }}\n  \
         in: {{ action: receive, channel: {{ $ref: '#/channels/room' }}, x-scopes: [write], x-uri-mapping: '/r/{{id}}' }}\n  \
         news: {{ action: send, channel: {{ $ref: '#/channels/news' }} }}\n",
        origin.url().trim_start_matches("http://")
    );
    let api = import(
        &client,
        &document,
        &json!({ "context": "/chat", "policies": ["FourMessages", "AsyncUnlimited"] }),
    );
    let plain = subscribed(&client, &api, "AsyncUnlimited", "");
    let writer = subscribed(&client, &api, "FourMessages", "&scope=write");
    is_refused(&open(&gateway, "/chat/1.0.0/news").0, 401, "900902");
    is_refused(&open(&gateway, "/chat/1.0.0/news?access_token=a.b.c").0, 401, "900901");
    let at = |topic: &str, token: &str| format!("/chat/1.0.0{topic}?access_token={token}");
    assert_eq!(open(&gateway, &at("/none", &plain)).0.status(), 404);
    // Clients must not send to a topic of news, and need the scope to send to a room.
    for topic in ["/news", "/room/7"] {
        let (head, mut wire) = open(&gateway, &at(topic, &plain));
        assert_eq!(head.status(), 101, "{topic}");
        text(&mut wire);
        wire.send(frame(0x81, b"hello", true));
        let (first, payload) = read_frame(&mut wire, false).expect("a frame");
        assert_eq!((first, &payload[..2]), (0x88, &4007_u16.to_be_bytes()[..]), "{topic}");
    }
    let (head, mut wire) = open(&gateway, &at("/room/7", &writer));
    assert_eq!(head.status(), 101);
    assert_eq!(text(&mut wire), "/ws/r/7", "the first of four messages");
    wire.send(frame(0x81, b"one", true));
    assert_eq!(text(&mut wire), "one");
    wire.send(frame(0x81, b"two", true));
    let told = text(&mut wire);
    assert!(told.contains("4008") || told == "two", "{told}");
    let (_, mut again) = open(&gateway, &at("/room/8", &writer));
    again.send(frame(0x81, b"three", true));
    let told = text(&mut again);
    assert!(told.contains("4008"), "other connections of the subscription count too: {told}");
}

const NEWS: &str = "asyncapi: 2.6.0\ninfo: { title: News, version: 1.0.0 }\nservers: { production: { url: 'http://hub.test', protocol: websub } }\nchannels: { sports: { subscribe: {} }, 'weather/today': { subscribe: {} } }\n";

/// A gateway whose hubs may call loopback.
fn hubs() -> Gateway {
    let more = "  callbacks: { allow: [\"127.0.0.0/8\"] }\n";
    Gateway::start(format!(
        "{}{more}",
        CATALOG.replace("PAT", &"0".repeat(64)).trim_end_matches(' ')
    ))
}

fn ask(gateway: &Gateway, target: &str, token: &str, body: &str) -> Message {
    let authorization =
        if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    gateway.wire().ask(format!(
        "POST {target} HTTP/1.1\r\nHost: hub.test\r\n{authorization}Content-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

fn subscribe_at(topic: &str, callback: &Origin) -> String {
    format!(
        "hub.mode=subscribe&hub.topic={}&hub.secret=s3cret&hub.callback={}",
        escape(topic),
        escape(&format!("{}/hook", callback.url()))
    )
}

#[test]
fn a_hub_delivers_to_subscribers_within_their_plan() {
    let callback = confirming();
    let gateway = hubs();
    let client = log_in(&gateway, "admin", "admin");
    plan(&client, "TwoEvents", 2, 1);
    let api = import(
        &client,
        NEWS,
        &json!({ "context": "/news", "policies": ["TwoEvents", "AsyncWHGold"] }),
    );
    let token = subscribed(&client, &api, "TwoEvents", "");
    is_refused(
        &ask(&gateway, "/news/1.0.0", "", &subscribe_at("sports", &callback)),
        401,
        "900902",
    );
    let reply = ask(&gateway, "/news/1.0.0", &token, &subscribe_at("none", &callback));
    assert_eq!(reply.status(), 404, "{}", reply.text());
    let reply = ask(&gateway, "/news/1.0.0", &token, &subscribe_at("sports", &callback));
    assert_eq!(reply.status(), 202, "{}", reply.text());
    until("the intent is verified", || {
        callback.requests().iter().any(|seen| seen.target().contains("hub.challenge"))
    });
    let other = confirming();
    until("a second subscription is over the plan", || {
        let reply = ask(&gateway, "/news/1.0.0", &token, &subscribe_at("weather/today", &other));
        reply.status() == 429 && read(&reply)["code"] == "900808"
    });
    let publisher = subscribed(&client, &api, "AsyncWHGold", "");
    is_refused(&ask(&gateway, "/news/1.0.0/publish?topic=sports", "", "x"), 401, "900902");
    for (at, event) in
        [("webhooks_events_receiver_resource", "one"), ("publish", "two"), ("publish", "three")]
    {
        let reply = ask(&gateway, &format!("/news/1.0.0/{at}?topic=sports"), &publisher, event);
        assert_eq!(reply.status(), 200, "{}", reply.text());
    }
    until("what the plan has is delivered", || texts(&callback) == ["one", "two"]);
    assert!(delivered(&callback)[0].get("x-hub-signature").unwrap().starts_with("sha1="));
    let read_on = get(&gateway, "/news/1.0.0/topics/sports?after=0", &publisher);
    assert_eq!(read(&read_on)["events"].as_array().unwrap().len(), 3);
    is_refused(&get(&gateway, "/news/1.0.0/topics/sports?after=0", "a.b.c"), 401, "900901");
}

#[test]
fn topics_of_a_hub_have_scopes_of_their_own() {
    let callback = confirming();
    let gateway = hubs();
    let client = log_in(&gateway, "admin", "admin");
    let document =
        NEWS.replace("today': { subscribe: {} }", "today': { subscribe: { x-scopes: [weather] } }");
    let more = json!({ "context": "/news", "policies": ["AsyncWHGold", "AsyncWHUnlimited"] });
    let api = import(&client, &document, &more);
    let stranger = subscribed(&client, &api, "AsyncWHGold", "");
    let reader = subscribed(&client, &api, "AsyncWHUnlimited", "&scope=weather");
    let subscribe = |topic: &str, token: &str| {
        ask(&gateway, "/news/1.0.0", token, &subscribe_at(topic, &callback))
    };
    assert_eq!(subscribe("sports", &stranger).status(), 202);
    assert_eq!(subscribe("sports", &reader).status(), 202);
    is_refused(&subscribe("weather/today", &stranger), 403, "900910");
    assert_eq!(subscribe("weather/today", &reader).status(), 202);
    let publish = "/news/1.0.0/publish?topic=weather/today";
    is_refused(&ask(&gateway, publish, &stranger, "rain"), 403, "900910");
    assert_eq!(ask(&gateway, publish, &reader, "sun").status(), 200);
    let events = "/news/1.0.0/topics?topic=weather/today&after=0";
    is_refused(&get(&gateway, events, &stranger), 403, "900910");
    let found = read(&get(&gateway, events, &reader));
    assert_eq!(found["events"].as_array().map(Vec::len), Some(1), "{found}");
    until("it is delivered to permitted subscribers", || texts(&callback) == ["sun"]);
    // A client that lost the scope may still unsubscribe.
    let leave = subscribe_at("weather/today", &callback).replace("=subscribe", "=unsubscribe");
    assert_eq!(ask(&gateway, "/news/1.0.0", &stranger, &leave).status(), 202);
}

#[test]
fn publishers_sign_where_the_api_says_so_and_callbacks_stay_public_unless_allowed() {
    let callback = confirming();
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let api = json!({
        "name": "Signed", "version": "2", "context": "/signed", "type": "WEBSUB", "policies": ["AsyncWHUnlimited"],
        "enableSubscriberVerification": true,
        "websubSubscriptionConfiguration": { "enable": true, "secret": "geheim", "signingAlgorithm": "SHA256", "signatureHeader": "x-sig" },
        "operations": [{ "target": "/orders", "verb": "SUBSCRIBE" }],
    });
    let id = publish(&client, &api);
    let token = subscribed(&client, &id, "AsyncWHUnlimited", "");
    let reply = ask(&gateway, "/signed/2", &token, &subscribe_at("orders", &callback));
    assert_eq!(reply.status(), 400, "loopback is not public: {}", reply.text());
    let sign = |secret: &str, body: &str| {
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret.as_bytes());
        let tag = aws_lc_rs::hmac::sign(&key, body.as_bytes());
        let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let target = "/signed/2/webhooks_events_receiver_resource?topic=orders";
        gateway.wire().ask(format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nx-sig: sha256={hex}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    assert_eq!(sign("geheim", "event").status(), 200);
    assert_eq!(sign("falsch", "event").status(), 401);
    assert_eq!(ask(&gateway, "/signed/2/publish?topic=orders", "", "x").status(), 401);
    assert_eq!(
        read(&get(&gateway, "/signed/2/topics/orders?after=0", &token))["events"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let body = "grant_type=client_credentials";
    assert_eq!(post_form(&gateway, &basic("nobody", "x"), "/oauth2/token", body).status(), 401);
}

#[test]
fn documents_that_cannot_be_served_are_refused() {
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let refuse = |document: &str, more: Value, what: &str| {
        let more = more.to_string();
        let parts = [("file", document.as_bytes()), ("additionalProperties", more.as_bytes())];
        let reply = form(&client, "POST", "/api/am/publisher/v4/apis/import-asyncapi", &parts);
        assert_eq!(reply.status(), 400, "{what}: {}", reply.text());
        assert!(reply.text().contains(what), "{what}: {}", reply.text());
    };
    let good = json!({ "context": "/x" });
    refuse("{", good.clone(), "document");
    refuse("openapi: 3.0.0\npaths: {}\n", good.clone(), "AsyncAPI");
    refuse("asyncapi: 2.6.0\nchannels: { a: {} }\n", good.clone(), "type is missing");
    refuse(NEWS, json!({ "context": "/x", "type": "HTTP" }), "type must be");
    refuse(NEWS, json!({}), "context");
    refuse(&NEWS.replace("subscribe: {}", "subscribe: { x-auth-type: None }"), good, "credential");
    let differ = json!({
        "name": "Differ", "version": "1", "context": "/x", "type": "WEBSUB",
        "operations": [
            { "target": "/a", "verb": "SUBSCRIBE", "scopes": ["a"] },
            { "target": "/a", "verb": "PUBLISH", "scopes": ["b"] },
        ],
    });
    let reply = client.ask("POST", "/api/am/publisher/v4/apis", &differ);
    assert!(reply.status() == 400 && reply.text().contains("same scopes"), "{}", reply.text());
    assert_eq!(client.done("GET", "/api/am/publisher/v4/apis", &Value::Null, 200)["count"], 0);
}
