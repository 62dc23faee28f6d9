//! Tests of the API over a socket, byte for byte.

use super::*;
use control::Publish;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

const CONFIG: &str = "\
listen:
  public: { address: \"127.0.0.1:0\" }
workers: 2
upstreams:
  orders: { targets: [\"http://127.0.0.1:9\"] }
routes:
  orders: { match: { path: \"/orders/**\", methods: [GET] }, upstream: orders }
  hello: { match: { path: /hello }, respond: { body: \"hi\" } }
  flow: { match: { path: /flow }, flow: mediate }
  moved: { match: { path: /moved }, policies: [{ redirect: { to: / } }] }
flows:
  mediate: [{ respond: {} }]
";

struct Api {
    address: SocketAddr,
    control: Arc<Control>,
    folder: TempDir,
    stop: oneshot::Sender<()>,
    stopped: tokio::task::JoinHandle<io::Result<()>>,
}

struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Api {
    #[allow(clippy::disallowed_methods, reason = "a test's server has no worker to run on")]
    async fn start() -> Api {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tidegate.yaml");
        fs::write(&path, CONFIG).unwrap();
        let publish: Publish = Box::new(|_| Box::pin(async { Ok(()) }));
        let control = Control::start(&path, publish).unwrap_or_else(|report| panic!("{report}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stops) = oneshot::channel();
        let more = crate::MorePaths::new();
        let served = serve(listener, control.clone(), more, async { drop(stops.await) });
        Api { address, control, folder, stop, stopped: tokio::spawn(served) }
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> Reply {
        let headers = format!("Host: {}\r\nContent-Length: {}", self.address, body.len());
        self.send(&format!(
            "{method} {path} HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n{body}"
        ))
        .await
    }

    async fn send(&self, request: &str) -> Reply {
        self.send_bytes(request.as_bytes()).await
    }

    async fn send_bytes(&self, request: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    async fn json(&self, path: &str) -> Value {
        let reply = self.ask("GET", path, "").await;
        assert_eq!(reply.status, 200, "{path}");
        serde_json::from_str(&reply.body).unwrap()
    }
}

impl Reply {
    /// The problem. Every error of this API has this format.
    fn problem(&self) -> Value {
        assert!(self.head.contains("content-type: application/problem+json"), "{}", self.head);
        let problem: Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!(problem["status"], self.status);
        problem
    }
}

#[tokio::test]
async fn the_configuration_in_service_is_shown() {
    let api = Api::start().await;
    assert_eq!(api.json("/healthz").await["status"], "ok");
    assert_eq!(api.json("/readyz").await["generation"], 1);
    let plan = api.json("/plan").await;
    assert_eq!((&plan["generation"], &plan["workers"]), (&1.into(), &2.into()));
    assert_eq!(plan["configuration"]["last_failed"], Value::Null);
    let routes = api.json("/routes").await;
    assert_eq!((&routes[0]["name"], &routes[1]["name"]), (&"orders".into(), &"hello".into()));
    assert_eq!(api.json("/upstreams").await[0]["targets"][0]["health"], "unknown");
    assert!(api.json("/schema.json").await.to_string().contains("strip_prefix"));
    assert_eq!(api.ask("GET", "/config", "").await.body, CONFIG);

    let metrics = api.ask("GET", "/metrics", "").await;
    assert!(metrics.head.contains("content-type: text/plain; version=0.0.4"), "{}", metrics.head);
    assert!(metrics.body.contains("\ntidegate_workers 2\n") && !metrics.body.contains("# EOF"));

    let page = api.ask("GET", "/", "").await;
    assert!(
        page.head.contains("text/html")
            && page.head.contains("content-security-policy: default-src 'none'")
    );
    let script = api.ask("GET", "/dashboard/app.js", "").await;
    assert!(script.status == 200 && script.head.contains("content-type: text/javascript"));
    assert_eq!(api.ask("GET", "/dashboard/nosuch.js", "").await.status, 404);
}

#[tokio::test]
async fn a_draining_gateway_is_alive_but_not_ready() {
    let api = Api::start().await;
    api.control.set_draining();
    assert_eq!(api.ask("GET", "/healthz", "").await.status, 200);
    let reply = api.ask("GET", "/readyz", "").await;
    assert_eq!((reply.status, &reply.problem()["detail"]), (503, &"draining".into()));
}

#[tokio::test]
async fn a_put_configuration_goes_into_service_and_is_written() {
    let api = Api::start().await;
    let changed = CONFIG.replace("hi", "ho");
    let reply = api.ask("PUT", "/config", &changed).await;
    let result: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(
        (reply.status, &result["generation"], &result["changed"]),
        (200, &2.into(), &true.into())
    );
    assert_eq!(api.ask("GET", "/config", "").await.body, changed);
    assert_eq!(fs::read_to_string(api.folder.path().join("tidegate.yaml")).unwrap(), changed);

    let again = api.ask("PUT", "/config", &changed).await;
    let result: Value = serde_json::from_str(&again.body).unwrap();
    assert_eq!(
        (again.status, &result["generation"], &result["changed"]),
        (200, &2.into(), &false.into())
    );
}

#[tokio::test]
async fn every_complaint_comes_back_with_its_place() {
    let api = Api::start().await;
    let wrong = CONFIG.replace("respond", "resond").replace("workers: 2", "workers: many");
    for (method, path) in [("PUT", "/config"), ("POST", "/config/check"), ("POST", "/config/diff")]
    {
        let reply = api.ask(method, path, &wrong).await;
        assert_eq!(reply.status, 422);
        let problem = reply.problem();
        let complaints = problem["complaints"].as_array().unwrap();
        let at = |line: u64| complaints.iter().find(|complaint| complaint["line"] == line).unwrap();
        assert_eq!(at(3)["column"], 10);
        assert!(at(8)["message"].as_str().unwrap().contains("resond"), "{problem}");
        assert!(complaints.iter().all(|c| c["file"].as_str().unwrap().ends_with("tidegate.yaml")));
        assert!(
            complaints.iter().all(|c| c["severity"] == "error" && c["help"].is_string()),
            "{problem}"
        );
    }
    assert_eq!(api.json("/plan").await["generation"], 1);
    assert!(
        api.json("/plan").await["configuration"]["last_failed"]["why"]
            .as_str()
            .unwrap()
            .contains("resond")
    );
    assert_eq!(api.ask("GET", "/readyz", "").await.status, 200, "the old plan is in service");
}

#[tokio::test]
async fn a_check_says_that_all_is_well_and_changes_nothing() {
    let api = Api::start().await;
    let reply = api.ask("POST", "/config/check", &CONFIG.replace("hi", "ho")).await;
    let result: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!((reply.status, &result["usable"]), (200, &true.into()));
    assert_eq!(api.ask("GET", "/config", "").await.body, CONFIG);
}

#[tokio::test]
async fn invalid_requests_get_problems() {
    let api = Api::start().await;
    let nothing = api.ask("GET", "/nothing", "").await;
    assert_eq!(nothing.status, 404);
    assert!(nothing.problem()["detail"].as_str().unwrap().contains("/nothing"));
    let delete = api.ask("DELETE", "/config", "").await;
    assert_eq!(delete.status, 405);
    delete.problem();
    assert!(delete.head.contains("allow: get,head,put"), "{}", delete.head);

    let host = format!("Host: {}", api.address);
    let large = format!(
        "PUT /config HTTP/1.1\r\n{host}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        BODY_BYTES_MAX + 1
    );
    let large = api.send(&large).await;
    assert_eq!(large.status, 413);
    large.problem();

    let binary = format!(
        "PUT /config HTTP/1.1\r\n{host}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\n"
    );
    let binary = api.send_bytes(&[binary.as_bytes(), b"\xff\r\n0\r\n\r\n"].concat()).await;
    assert_eq!(binary.status, 400);
    binary.problem();
}

/// The clock is paused: it jumps to the next deadline whenever every task waits.
#[tokio::test(start_paused = true)]
async fn slow_clients_time_out() {
    let api = Api::start().await;
    let host = format!("Host: {}", api.address);
    let body = format!(
        "PUT /config HTTP/1.1\r\n{host}\r\nContent-Length: 10\r\nConnection: close\r\n\r\nlis"
    );
    assert_eq!(api.send(&body).await.status, 408);

    let mut stream = TcpStream::connect(api.address).await.unwrap();
    stream.write_all(b"GET /healthz HTT").await.unwrap();
    let mut bytes = Vec::new();
    // Closed, with or without a last reply.
    drop(stream.read_to_end(&mut bytes).await);
}

#[tokio::test]
async fn pages_of_other_sites_are_refused() {
    let api = Api::start().await;
    let address = api.address;
    let requests = [
        "GET /config HTTP/1.1\r\nHost: evil.example:9901".to_owned(),
        format!(
            "PUT /config HTTP/1.1\r\nHost: {address}\r\nOrigin: https://evil.example\r\nContent-Length: 0"
        ),
        format!(
            "POST /config/check HTTP/1.1\r\nHost: {address}\r\nSec-Fetch-Site: cross-site\r\nContent-Length: 0"
        ),
    ];
    for request in requests {
        let reply = api.send(&format!("{request}\r\nConnection: close\r\n\r\n")).await;
        assert_eq!(reply.status, 403, "{request}");
        reply.problem();
        assert!(!reply.head.contains("access-control"), "{}", reply.head);
    }
    let own = format!(
        "PUT /config HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(api.send(&own).await.status, 422, "allowed, but an empty configuration is invalid");
    let scrape = "GET /metrics HTTP/1.1\r\nHost: tidegate.svc\r\nConnection: close\r\n\r\n";
    assert_eq!(api.send(scrape).await.status, 200);
}

#[tokio::test]
async fn the_description_has_exactly_the_existing_paths_and_methods() {
    let api = Api::start().await;
    let document = api.json("/openapi.json").await;
    let described = document["paths"].as_object().unwrap();
    let paths: BTreeSet<&str> = paths::all().map(|(path, _)| path).collect();
    assert_eq!(described.keys().map(String::as_str).collect::<BTreeSet<_>>(), paths);
    let mut ids = BTreeSet::new();
    for (path, methods) in described {
        for method in ["get", "put", "post", "delete", "patch"] {
            let status = api.ask(&method.to_ascii_uppercase(), path, "").await.status;
            match methods.get(method) {
                Some(operation) => {
                    let declared = operation["responses"].get(status.to_string());
                    assert!(declared.is_some(), "{method} {path} gave {status}");
                    assert!(
                        ids.insert(operation["operationId"].as_str().unwrap().to_owned()),
                        "{path}"
                    );
                }
                None => assert_eq!(status, 405, "{method} {path}"),
            }
        }
    }
}

#[tokio::test]
async fn each_operation_is_described_with_what_it_refuses() {
    let api = Api::start().await;
    let document = api.json("/openapi.json").await;
    let statuses = |method: &str, path: &str| -> Vec<String> {
        let responses = document["paths"][path][method]["responses"].as_object().unwrap();
        responses.keys().cloned().collect()
    };
    for (method, path, expected) in [
        ("put", "/config", "200 400 401 403 408 409 412 413 422"),
        ("post", "/config/check", "200 400 401 403 408 409 413 422"),
        ("post", "/config/diff", "200 400 401 403 408 409 413 422"),
        ("post", "/config/history/{generation}/rollback", "200 400 401 403 404 409 412 422"),
        ("patch", "/upstreams/{name}/targets/{id}", "200 400 401 403 404 408 413 422 503"),
        ("get", "/upstreams/{name}", "200 401 403 404"),
        ("get", "/traffic/{route}", "200 401 403 404"),
        ("get", "/schedules", "200 401 403"),
        ("post", "/schedules/{name}/run", "202 401 403 404 409 503"),
        ("get", "/hubs", "200 401 403 503"),
        ("get", "/hubs/{name}/dead", "200 400 401 403 404 503"),
        ("post", "/queues/{name}/dead/{id}/retry", "202 401 403 404 409 503"),
    ] {
        let mut found = statuses(method, path);
        found.sort();
        assert_eq!(found.join(" "), expected, "{method} {path}");
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let takes_body = operation.get("requestBody").is_some();
            for status in ["408", "413"] {
                let is_described = operation["responses"].get(status).is_some();
                assert_eq!(is_described, takes_body, "{method} {path}: {status}");
            }
        }
    }
    let missing = &document["paths"]["/flows/{name}"]["get"]["responses"]["404"]["description"];
    assert_eq!(missing, "There is no such flow");
}

#[tokio::test]
async fn stopping_ends_the_server() {
    let api = Api::start().await;
    assert_eq!(api.ask("GET", "/healthz", "").await.status, 200);
    api.stop.send(()).unwrap();
    api.stopped.await.unwrap().unwrap();
    assert!(TcpStream::connect(api.address).await.is_err());
}

/// A client that connected before the stop gets a reply to its first request.
#[tokio::test]
async fn a_request_on_its_way_is_answered_after_the_stop() {
    let api = Api::start().await;
    let mut early = TcpStream::connect(api.address).await.unwrap();
    // Connections are accepted in their order.
    assert_eq!(api.ask("GET", "/healthz", "").await.status, 200);
    api.stop.send(()).unwrap();
    while TcpStream::connect(api.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", api.address);
    early.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    early.read_to_string(&mut reply).await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
    api.stopped.await.unwrap().unwrap();
}

/// A listener with one place that is never stopped.
fn one_place(listener: TcpListener) -> BoundedListener {
    let (listener, _) =
        BoundedListener::new(listener, 1, Box::new(|| None), std::future::pending());
    listener
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut bounded = one_place(listener);
    let (first, _) =
        (TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap());
    let (held, _) = axum::serve::Listener::accept(&mut bounded).await;
    let mut second = Box::pin(axum::serve::Listener::accept(&mut bounded));
    let waits =
        std::future::poll_fn(|cx| std::task::Poll::Ready(second.as_mut().poll(cx).is_pending()))
            .await;
    assert!(waits);
    drop((held, first));
    second.await;
}

/// New connections do not wait until those that send nothing or half a head have been silent for too long.
#[tokio::test(start_paused = true)]
async fn silent_connections_do_not_keep_new_ones_out() {
    let api = Api::start().await;
    let began = kit::clock::now();
    let mut silent = Vec::new();
    for at in 0..CONNECTIONS_MAX + 32 {
        let mut stream = TcpStream::connect(api.address).await.unwrap();
        if at % 2 == 0 {
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHo").await.unwrap();
        }
        silent.push(stream);
    }
    for _ in 0..3 {
        assert_eq!(api.ask("GET", "/healthz", "").await.status, 200);
    }
    assert!(began.elapsed() < bounded::QUIET_MAX, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_busy_connection_keeps_its_place_until_its_request_is_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut bounded = one_place(listener);
    let mut client = TcpStream::connect(address).await.unwrap();
    let (mut held, _) = axum::serve::Listener::accept(&mut bounded).await;
    let request = b"GET / HTTP/1.1\r\n\r\n";
    client.write_all(request).await.unwrap();
    let mut bytes = [0; 64];
    let read = held.read(&mut bytes).await.unwrap();
    assert_eq!(&bytes[..read], request);

    let _second = TcpStream::connect(address).await.unwrap();
    let second = axum::serve::Listener::accept(&mut bounded);
    tokio::pin!(second);
    let waited = tokio::time::timeout(bounded::BUSY_MIN / 2, async {
        tokio::select! {
            _ = &mut second => panic!("a place that is in use was given away"),
            read = held.read(&mut bytes) => panic!("the connection was left: {read:?}"),
        }
    });
    assert!(waited.await.is_err());

    held.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
    let left = tokio::select! {
        _ = &mut second => panic!("a place that is in use was given away"),
        read = held.read(&mut bytes) => read,
    };
    assert_eq!(left.unwrap_err().kind(), io::ErrorKind::TimedOut);
    drop(held);
    second.await;
}
