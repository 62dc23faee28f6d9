//! Faults, deadlines and statuses for gRPC clients. The service is scripted in HTTP/1.

use std::thread::sleep;
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use http_body_util::channel::Channel;
use hyper::Request;
use serde_json::{Value, json};

use crate::harness::{Gate, Gateway, H2, Origin, Plain, frames, full, until, whole};
use crate::telemetry::metric;
use crate::tokens::{EC, jwks, now};

const LOG: &str =
    "admin: { address: \"127.0.0.1:0\" }\ntelemetry: { access_log: { path: access.log } }";

/// The reply to a call: HTTP status, `grpc-status`, `grpc-message`, each wherever it came, and the body.
struct CallReply {
    http: u16,
    status: String,
    message: String,
    body: Vec<u8>,
    in_head: bool,
    has_length: bool,
    content_type: String,
}

fn call(gateway: &Gateway, path: &str, lines: &[(&str, &str)], body: &str) -> CallReply {
    let client = H2::connect(gateway.address("public"));
    let mut request = Request::post(format!("http://a.test{path}"))
        .header("te", "trailers")
        .header("content-type", "application/grpc");
    for (name, value) in lines {
        request = request.header(*name, *value);
    }
    let reply = client.ask(request.body(full(body.to_owned())).unwrap());
    let text = |name: &str| {
        let value = reply.headers.get(name).or(reply.trailers.get(name));
        value.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    CallReply {
        http: reply.status,
        status: text("grpc-status"),
        message: text("grpc-message"),
        in_head: reply.headers.contains_key("grpc-status"),
        has_length: reply.headers.contains_key("content-length"),
        content_type: text("content-type"),
        body: reply.body.to_vec(),
    }
}

fn lines(gateway: &Gateway, count: usize) -> Vec<Value> {
    let read = || std::fs::read_to_string(gateway.path("access.log")).unwrap_or_default();
    until("the lines are there", || read().lines().count() >= count);
    read().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn faults_of_the_gateway_are_a_head_that_is_the_trailers() {
    let origin = Origin::saying("no call");
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
upstreams:
  origin: {{ targets: ["{}"] }}
  gone: {{ targets: ["http://127.0.0.1:1"] }}
routes:
  keys: {{ match: {{ path: "/a.Keys/**" }}, upstream: origin, policies: [api_key: {{ header: apikey, keys: {{ alice: sesame }} }}] }}
  rules: {{ match: {{ path: "/a.Rules/**" }}, upstream: origin, policies: [authorize: {{ rule: "false" }}] }}
  once: {{ match: {{ path: "/a.Once/**" }}, upstream: origin, policies: [rate_limit: {{ requests: 1, per: 1h }}] }}
  small: {{ match: {{ path: "/a.Small/**" }}, upstream: origin, limits: {{ body_bytes_max: 4B }} }}
  gone: {{ match: {{ path: "/a.Gone/**" }}, upstream: gone, errors: wso2 }}
{LOG}
"#,
        origin.url()
    ));
    // The first one passes. Its reply has no gRPC status, so the client has to derive one.
    assert_eq!(call(&gateway, "/a.Once/Call", &[], "").status, "");
    for (path, lines, body, status, message) in [
        ("/a.Keys/Call", &[][..], "", "16", "Credentials are required."),
        ("/a.Keys/Call", &[("apikey", "x")], "", "16", "Valid credentials are required."),
        ("/a.Rules/Call", &[], "", "7", "This is not allowed with these credentials."),
        ("/a.Once/Call", &[], "", "8", "Too many requests."),
        ("/a.Small/Call", &[], "12345", "8", "The request body is too large."),
        ("/a.Gone/Call", &[], "", "14", "The upstream cannot be reached."),
        ("/a.Nobody/Call", &[], "", "12", "No route matches this request."),
        (
            "/a.Gone/Call",
            &[("grpc-timeout", "1d")],
            "",
            "3",
            "`grpc-timeout` must be one to eight digits and a unit.",
        ),
    ] {
        let told = call(&gateway, path, lines, body);
        assert_eq!((told.http, &*told.status, &*told.message), (200, status, message), "{path}");
        assert!(told.in_head && told.body.is_empty() && !told.has_length, "{path}");
        assert_eq!(told.content_type, "application/grpc", "{path}");
    }
    let logged = lines(&gateway, 9);
    let of = |line: &Value| line["grpc_status"].as_str().unwrap_or_default().to_owned();
    let statuses: Vec<String> = logged.iter().map(of).collect();
    assert_eq!(statuses, ["2", "16", "16", "7", "8", "8", "14", "12", "3"]);
    assert_eq!(
        (&logged[6]["fault"], &logged[6]["status"]),
        (&"connect_failure".into(), &200.into())
    );
    for (route, status, count) in
        [("keys", "16", 2.0), ("once", "2", 1.0), ("once", "8", 1.0), ("(none)", "12", 1.0)]
    {
        let name =
            format!("tidegate_grpc_calls_total{{route=\"{route}\",grpc_status=\"{status}\"}}");
        assert_eq!(metric(&gateway, &name), Some(count), "{name}");
    }
}

/// Policies do not apply to such a request, except for the format of its status.
#[test]
fn a_head_that_is_refused_is_told_as_a_status() {
    let origin = Origin::silent();
    let listener = "limits: { headers_max: 20, head_bytes_max: 8KiB, target_bytes_max: 100B }";
    let gateway = Plain { listener, more: LOG, ..Plain::default() }.start(&origin);
    let names: Vec<String> = (0..30).map(|n| format!("x-{n}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "y")).collect();
    let long = "y".repeat(20_000);
    let path = format!("/a.B/{}", "c".repeat(100));
    for (path, lines, status) in
        [("/a.B/C", &many[..], "8"), ("/a.B/C", &[("x-a", &long)], "8"), (&path, &[], "8")]
    {
        let told = call(&gateway, path, lines, "");
        assert_eq!((told.http, &*told.status), (200, status));
        assert!(told.in_head && !told.message.is_empty());
        assert_eq!(told.content_type, "application/grpc");
    }
    let logged = lines(&gateway, 3);
    assert_eq!(logged[1]["grpc_status"], "8");
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn others_get_the_problems_they_read() {
    let origin = Origin::saying("no call");
    let gateway = Plain { route: "policies: [authorize: { rule: \"false\" }]", ..Plain::default() }
        .start(&origin);
    for content_type in ["application/json", "application/grpcx", "text/plain"] {
        let reply = gateway.wire().ask(format!(
            "POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\nContent-Length: 0\r\n\r\n"
        ));
        assert_eq!(reply.status(), 403, "{content_type}");
        assert_eq!(reply.get("content-type"), Some("application/problem+json"));
    }
}

#[test]
fn deadlines_end_calls_and_are_sent_on() {
    let origin = Origin::silent();
    let gateway = Plain { more: LOG, ..Plain::default() }.start(&origin);
    let told = call(&gateway, "/a.B/C", &[("grpc-timeout", "150m")], "");
    assert_eq!((told.http, &*told.status), (200, "4"));
    assert_eq!(told.message, "The deadline of the call has passed.");
    assert!(told.in_head);
    let request = origin.requests().pop().unwrap();
    let left = request.get("grpc-timeout").unwrap();
    let micros: u32 = left.strip_suffix('u').unwrap().parse().unwrap();
    assert!((1..=150_000).contains(&micros), "{left}");
    assert_eq!(request.all("grpc-timeout").len(), 1);
    // After its deadline, no request is sent.
    let told = call(&gateway, "/a.B/C", &[("grpc-timeout", "0n")], "");
    assert_eq!((&*told.status, origin.requests().len()), ("4", 1));
    let logged = lines(&gateway, 2);
    assert_eq!(logged[0]["fault"], "deadline_exceeded");
    assert!(logged[0]["duration_ms"].as_f64().unwrap() >= 150.0, "{}", logged[0]);
    assert_eq!(
        (&logged[1]["fault"], &logged[1]["grpc_status"]),
        (&"deadline_exceeded".into(), &"4".into())
    );
}

const HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A service that sends one message, and then nothing or its end.
fn one_message(closes: bool) -> Origin {
    Origin::start(move |peer| {
        while peer.request().is_some() {
            peer.send(format!("{HEAD}7\r\n\0\0\0\0\u{2}ok\r\n"));
            if closes {
                return;
            }
        }
    })
}

#[test]
fn faults_behind_the_head_are_trailers() {
    for (closes, timeout, status, fault) in
        [(true, "9S", "14", "upstream_reset"), (false, "1500m", "4", "deadline_exceeded")]
    {
        let origin = one_message(closes);
        let gateway = Plain { more: LOG, ..Plain::default() }.start(&origin);
        let told = call(&gateway, "/a.B/C", &[("grpc-timeout", timeout)], "");
        assert_eq!((told.http, &*told.status), (200, status), "{fault}");
        assert_eq!(told.body, b"\0\0\0\0\x02ok", "{fault}");
        assert!(!told.in_head && !told.message.is_empty(), "{fault}");
        let line = lines(&gateway, 1).remove(0);
        assert_eq!((&line["fault"], &line["grpc_status"]), (&fault.into(), &status.into()));
    }
}

/// It is unknown when a call will end, so it continues until its drain is over, and then gets a status.
#[test]
fn calls_that_get_too_old_end_with_a_status() {
    let origin = one_message(false);
    let route = "policies: [grpc_web: {}], streams: { max_age: 1500ms, drain: 200ms }";
    let gateway = Plain { route, more: LOG, ..Plain::default() }.start(&origin);
    let told = call(&gateway, "/a.B/C", &[], "");
    assert_eq!((told.http, &*told.status, told.in_head), (200, "14", false));
    assert_eq!((&*told.body, &*told.message), (&b"\0\0\0\0\x02ok"[..], "The stream was closed."));
    let web = gateway.wire().ask(
        "POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc-web\r\nContent-Length: 0\r\n\r\n",
    );
    let trailers = "grpc-status:14\r\ngrpc-message:The stream was closed.\r\n";
    let text = web.text();
    assert!(text.starts_with("\0\0\0\0\u{2}ok") && text.ends_with(trailers), "{text:?}");
    for line in lines(&gateway, 2) {
        assert_eq!((&line["fault"], &line["grpc_status"]), (&"stream_cut".into(), &"14".into()));
        assert!(line["duration_ms"].as_f64().unwrap() >= 500.0, "{line}");
    }
    until("the service is left", || origin.open() == 0);
    let open = metric(&gateway, "tidegate_streams_open{route=\"all\",kind=\"grpc\"}");
    assert_eq!(open, Some(0.0));
}

#[test]
fn calls_without_a_reply_get_too_old_as_well() {
    let origin = Origin::silent();
    let route = "policies: [grpc_web: {}], streams: { max_age: 300ms, drain: 200ms }";
    let gateway = Plain { route, more: LOG, ..Plain::default() }.start(&origin);
    let told = call(&gateway, "/a.B/C", &[], "");
    assert_eq!((told.http, &*told.status, told.in_head), (200, "14", true));
    assert_eq!(told.message, "The stream was closed.");
    let web = gateway.wire().ask(
        "POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc-web\r\nContent-Length: 0\r\n\r\n",
    );
    assert_eq!((web.status(), web.get("grpc-status")), (200, Some("14")));
    for line in lines(&gateway, 2) {
        assert_eq!((&line["fault"], &line["grpc_status"]), (&"stream_cut".into(), &"14".into()));
        assert!(line["duration_ms"].as_f64().unwrap() >= 500.0, "{line}");
    }
    until("the service is left", || origin.open() == 0);
}

/// A call in progress when its route is removed ends normally.
#[test]
fn calls_end_as_they_would_have_until_their_drain_is_over() {
    let gate = Gate::default();
    let opens = gate.clone();
    let origin = Origin::start(move |peer| {
        if peer.request().is_some() {
            peer.send(format!("{HEAD}7\r\n\0\0\0\0\u{2}ok\r\n"));
            opens.wait();
            peer.send("0\r\ngrpc-status: 0\r\n\r\n");
        }
    });
    let route = "streams: { max_age: 1ms, drain: 10m }";
    let gateway = Plain { route, more: LOG, ..Plain::default() }.start(&origin);
    let told = std::thread::scope(|scope| {
        let calling = scope.spawn(|| call(&gateway, "/a.B/C", &[], ""));
        origin.wait_for_requests(1);
        sleep(Duration::from_millis(50));
        gate.open();
        calling.join().unwrap()
    });
    assert_eq!((&*told.status, &*told.body), ("0", &b"\0\0\0\0\x02ok"[..]));
}

#[test]
fn statuses_of_services_are_counted_wherever_they_come() {
    for (reply, status) in [
        (format!("{HEAD}0\r\ngrpc-status: 5\r\n\r\n"), "5"),
        (format!("{HEAD}1\r\nx\r\n0\r\nGrpc-Status: 0\r\n\r\n"), "0"),
        (format!("{HEAD}1\r\nx\r\n0\r\ngrpc-status: 99\r\n\r\n"), "other"),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\ngrpc-status: 7\r\nContent-Length: 0\r\n\r\n"
                .to_owned(),
            "7",
        ),
        ("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_owned(), "14"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned(), "2"),
    ] {
        let origin = Origin::answering(&reply);
        let gateway = Plain { more: LOG, ..Plain::default() }.start(&origin);
        let _ = call(&gateway, "/a.B/C", &[], "");
        assert_eq!(lines(&gateway, 1)[0]["grpc_status"], status, "{reply}");
        let name = format!("tidegate_grpc_calls_total{{route=\"all\",grpc_status=\"{status}\"}}");
        assert_eq!(metric(&gateway, &name), Some(1.0));
    }
}

/// Statuses that count as failures of the target, like HTTP statuses.
#[test]
fn targets_are_ejected_for_the_statuses_of_calls() {
    for (status, is_fault) in [
        ("14", true),
        ("13", true),
        ("4", true),
        ("2", true),
        ("0", false),
        ("5", false),
        ("8", false),
        ("99", false),
    ] {
        let telling = |status: &'static str| {
            Origin::start(move |peer| {
                peer.greet(&[]);
                while let Some((stream, _)) = peer.whole_stream() {
                    let lines = [
                        (":status", "200"),
                        ("content-type", "application/grpc"),
                        ("grpc-status", status),
                    ];
                    peer.try_send(frames::head(stream, frames::END, &lines));
                }
            })
        };
        let (bad, good) = (telling(status), telling("0"));
        let upstream = "protocol: http2, outlier: { consecutive_faults: 2, eject: 1h }";
        let targets = [bad.url(), good.url()];
        let gateway =
            Plain { upstream, targets: &targets, more: LOG, ..Plain::default() }.start(&bad);
        for _ in 0..10 {
            let _ = call(&gateway, "/a.B/C", &[], "");
        }
        let asked = bad.requests().len();
        assert_eq!(asked, if is_fault { 2 } else { 5 }, "{status}");
    }
}

/// The remaining time is forwarded to the services that a flow calls, whatever the limit of the flow.
#[test]
fn calls_of_flows_have_the_deadline_of_their_client() {
    let origin = Origin::silent();
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes:
  all: {{ match: {{ path: "/a.B/**" }}, flow: main }}
  bare: {{ match: {{ path: "/a.Bare/**" }}, flow: bare }}
flows:
  main: [{{ header: {{ set: {{ x-a: b }} }} }}, {{ call: origin }}]
  bare: [{{ call: {{ upstream: origin, headers: {{ remove: [grpc-timeout] }} }} }}]
{LOG}
"#,
        origin.url()
    ));
    let told = call(&gateway, "/a.B/C", &[("grpc-timeout", "300m")], "");
    assert_eq!((&*told.status, &*told.message), ("4", "The deadline of the call has passed."));
    let request = origin.requests().pop().unwrap();
    assert_eq!(request.all("grpc-timeout").len(), 1);
    let left = request.get("grpc-timeout").unwrap();
    let micros: u32 = left.strip_suffix('u').unwrap().parse().unwrap();
    assert!((1..=300_000).contains(&micros), "{left}");
    let told = call(&gateway, "/a.Bare/C", &[("grpc-timeout", "300m")], "");
    assert_eq!(told.status, "4");
    assert_eq!(origin.requests()[1].get("grpc-timeout"), None);
    let told = call(&gateway, "/a.B/C", &[("grpc-timeout", "0n")], "");
    assert_eq!((&*told.status, origin.requests().len()), ("4", 2));
    let logged = lines(&gateway, 3);
    assert!(logged.iter().all(|line| line["fault"] == "deadline_exceeded"), "{logged:?}");
}

#[test]
fn a_client_that_goes_has_cancelled() {
    let origin = Origin::silent();
    let gateway = Plain { more: LOG, ..Plain::default() }.start(&origin);
    let client = H2::connect(gateway.address("public"));
    let mut sender = client.sender.clone();
    let request = Request::post("http://a.test/a.B/C").header("content-type", "application/grpc");
    let request = request.body(full("")).unwrap();
    let asking = client.spawn(async move { sender.send_request(request).await.is_ok() });
    origin.wait_for_requests(1);
    let open = || metric(&gateway, "tidegate_streams_open{route=\"all\",kind=\"grpc\"}");
    assert_eq!(open(), Some(1.0));
    // Dropping the future resets the stream.
    asking.abort();
    assert!(client.block_on(asking).unwrap_err().is_cancelled());
    drop(client);
    assert_eq!(lines(&gateway, 1)[0]["grpc_status"], "1");
    until("it is open no more", || open() == Some(0.0));
}

/// A service that sends messages with these pauses before each, and then ends the call well.
fn messages(pauses: &'static [u64]) -> Origin {
    Origin::start(move |peer| {
        if peer.request_head().is_none() {
            return;
        }
        peer.send(HEAD);
        for pause in pauses {
            sleep(Duration::from_millis(*pause));
            if !peer.try_send("7\r\n\0\0\0\0\u{2}ok\r\n") {
                return;
            }
        }
        peer.try_send("0\r\ngrpc-status: 0\r\n\r\n");
    })
}

/// A call whose client sends a byte this many times, every 100 ms, without ending its side. Returns its status and duration.
fn open_call(gateway: &Gateway, lines: &[(&str, &str)], times: u32) -> (String, Duration) {
    let h2 = H2::connect(gateway.address("public"));
    let (mut says, body) = Channel::<_, std::io::Error>::new(4);
    let mut request = Request::post("http://a.test/a.B/Watch")
        .header("te", "trailers")
        .header("content-type", "application/grpc");
    for (name, value) in lines {
        request = request.header(*name, *value);
    }
    let began = Instant::now();
    let asked = h2.sender.clone().send_request(request.body(body.boxed()).unwrap());
    let speaks = h2.spawn(async move {
        for _ in 0..times {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if says.send_data("x".into()).await.is_err() {
                break;
            }
        }
        // It stays open until the call is over.
        std::future::pending::<()>().await;
        drop(says);
    });
    let reply = h2.block_on(asked).unwrap();
    let reply = h2.block_on(whole(reply)).unwrap();
    speaks.abort();
    let status = reply.headers.get("grpc-status").or(reply.trailers.get("grpc-status"));
    (status.unwrap().to_str().unwrap().to_owned(), began.elapsed())
}

/// Watches and push streams are like this: once the reply has begun, pauses of either side are allowed.
#[test]
fn a_call_goes_on_while_its_client_or_its_service_is_quiet() {
    // Only the service sends; then the service is silent too.
    for pauses in [&[100; 9][..], &[0, 1000]] {
        let origin = messages(pauses);
        let listener = "timeout: { body: 300ms }";
        let upstream = "timeout: { response: 300ms }";
        let gateway = Plain { listener, upstream, ..Plain::default() }.start(&origin);
        let (status, took) = open_call(&gateway, &[], 0);
        assert_eq!(status, "0", "{pauses:?}");
        assert!(took >= Duration::from_millis(900), "{took:?}");
    }
}

#[test]
fn a_call_in_which_nothing_passes_for_too_long_is_unavailable() {
    let route = "streams: { idle: 1500ms, drain: 1h }";
    let origin = messages(&[0, 5_000]);
    let gateway = Plain { route, more: LOG, ..Plain::default() }.start(&origin);
    let (status, took) = open_call(&gateway, &[], 0);
    assert_eq!(status, "14");
    assert!(took >= Duration::from_millis(1500) && took < Duration::from_secs(5), "{took:?}");
    // Data from the client counts too.
    let (status, took) = open_call(&gateway, &[], 10);
    assert_eq!(status, "14");
    assert!(took >= Duration::from_millis(2500), "{took:?}");
    for line in lines(&gateway, 2) {
        assert_eq!((&line["fault"], &line["grpc_status"]), (&"stream_cut".into(), &"14".into()));
    }
    // Data from the service counts too.
    let origin = messages(&[400; 6]);
    let gateway = Plain { route, ..Plain::default() }.start(&origin);
    assert_eq!(open_call(&gateway, &[], 0).0, "0");
}

#[test]
fn a_call_ends_with_the_token_that_opened_it() {
    // With a reply that has begun, and without one.
    for origin in [messages(&[0, 5_000]), Origin::silent()] {
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\n{LOG}\nworkers: 1\n\
             upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\n\
             issuers: {{ main: {{ issuer: \"https://idp.test\", keys: [all.jwks], leeway: 0s }} }}\n\
             routes: {{ all: {{ match: {{ path: \"/**\" }}, policies: [{{ jwt: {{ issuers: [main] }} }}], \
             streams: {{ drain: 1h }}, upstream: origin }} }}\n",
            origin.url()
        );
        let gateway = Gateway::start_beside(yaml, &[("all.jwks", jwks(&[&EC]).leak())]);
        let claims = json!({ "iss": "https://idp.test", "sub": "alice", "exp": now() + 4 });
        let bearer = format!("Bearer {}", EC.token(&claims));
        let (status, took) = open_call(&gateway, &[("authorization", &bearer)], 0);
        assert_eq!(status, "16", "UNAUTHENTICATED");
        assert!(took < Duration::from_secs(10), "{took:?}");
        assert_eq!(lines(&gateway, 1)[0]["fault"], "credential_expired");
        until("the service is left", || origin.open() == 0);
    }
}
