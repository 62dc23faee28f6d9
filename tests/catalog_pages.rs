//! The catalog's pages, in Chromium and in bytes.

use std::cell::Cell;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::catalog::{CATALOG, application, basic, definition, log_in, publish, read};
use crate::harness::{Gateway, Message, Origin, Program, Wire, until};
use crate::stream_clients::chromium;
use crate::websocket::{frame, read as read_frame};

fn start() -> Gateway {
    Gateway::start(format!(
        "admin: {{ address: \"127.0.0.1:0\" }}\n{}",
        CATALOG.replace("PAT", &"0".repeat(64))
    ))
}

fn ask(
    gateway: &Gateway,
    method: &str,
    target: &str,
    authorization: &str,
    body: &Value,
) -> Message {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let lines = if authorization.is_empty() {
        String::new()
    } else {
        format!("Authorization: {authorization}\r\n")
    };
    Wire::connect(gateway.admin()).ask(format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

/// A page in Chromium, by the protocol of its developer tools.
struct Browser {
    _process: Program,
    _profile: tempfile::TempDir,
    tools: std::cell::RefCell<Wire>,
    last: Cell<u64>,
}

impl Browser {
    fn open(url: &str) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let mut command = chromium();
        command
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--no-proxy-server", "--disable-background-networking"])
            // In narrow windows, a button hides the dashboard's links.
            .arg("--window-size=1280,800")
            .args(["--remote-debugging-port=0", "--remote-allow-origins=*"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(url)
            .stderr(Stdio::null());
        let process = Program::start(&mut command);
        let file = profile.path().join("DevToolsActivePort");
        let port = || std::fs::read_to_string(&file).ok()?.lines().next()?.parse::<u16>().ok();
        until("the browser listens", || port().is_some());
        let address: std::net::SocketAddr = ([127, 0, 0, 1], port().unwrap()).into();
        let mut path = None;
        until("the page is there", || {
            // It answers to its address alone.
            let request = format!("GET /json/list HTTP/1.1\r\nHost: {address}\r\n\r\n");
            let list = Wire::connect(address).ask(request);
            let pages = read(&list);
            let found = pages.as_array().into_iter().flatten().find(|one| one["type"] == "page");
            path = found.and_then(|one| one["webSocketDebuggerUrl"].as_str()).map(str::to_owned);
            path.is_some()
        });
        let path = path.unwrap();
        let at = path.find("/devtools").unwrap();
        let mut tools = Wire::connect(address);
        tools.send(format!(
            "GET {} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            &path[at..]
        ));
        assert_eq!(tools.read_head().status(), 101);
        Browser { _process: process, _profile: profile, tools: tools.into(), last: Cell::new(0) }
    }

    /// The value of an expression in the page.
    fn run(&self, script: &str) -> Value {
        let id = self.last.get() + 1;
        self.last.set(id);
        let wish = json!({ "id": id, "method": "Runtime.evaluate", "params": { "expression": script, "returnByValue": true, "awaitPromise": true } });
        let mut tools = self.tools.borrow_mut();
        tools.send(frame(0x81, wish.to_string().as_bytes(), true));
        loop {
            let (_, payload) = read_frame(&mut tools, false).expect("the browser answers");
            let told: Value = serde_json::from_slice(&payload).unwrap();
            if told["id"] == id {
                return told["result"]["result"]["value"].clone();
            }
        }
    }

    fn text(&self) -> String {
        self.run("document.body.innerText").as_str().unwrap_or("").to_owned()
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        until(&format!("the page shows {text:?}: {}", self.text()), || self.text().contains(text));
    }

    fn fill(&self, id: &str, value: &str) {
        let (id, value) = (json!(id), json!(value));
        self.run(&format!("{{ const field = document.getElementById({id}); field.value = {value}; field.dispatchEvent(new Event('input')) }}"));
    }

    fn submit(&self, id: &str) {
        self.run(&format!("document.getElementById({}).requestSubmit()", json!(id)));
    }
}

#[test]
fn a_person_finds_an_api_gets_keys_subscribes_and_tries_it() {
    let origin = Origin::saying("the reply of the service");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let mut wish = definition("pets", &origin);
    wish["description"] = json!("<img src=x onerror=document.title='broken'>");
    let api = publish(&client, &wish);
    let browser = Browser::open(&format!("http://{}/catalog/", gateway.admin()));
    browser.shows("Log in");
    browser.fill("user", "admin");
    browser.fill("password", "wrong");
    browser.submit("login");
    browser.shows("password is wrong");
    browser.fill("password", "admin");
    browser.submit("login");
    browser.shows("Unlimited, Bronze, Gold");

    browser.run("location.hash = '#/applications'");
    browser.shows("New application");
    browser.fill("name", "<b>mobile</b>");
    browser.submit("create");
    browser.shows("<b>mobile</b>");
    browser.run("document.querySelector('main td a').click()");
    browser.shows("Generate keys");
    browser.run("document.getElementById('generatePRODUCTION').click()");
    browser.shows("consumer secret");

    browser.run(&format!("location.hash = '#/apis/{api}'"));
    browser.shows("1000 requests in 60 s");
    let operations = browser.run("document.querySelectorAll('#document .operation').length");
    assert_eq!(operations, 2, "GET and POST of the document");
    assert!(browser.text().contains("<img src=x"), "markup is text");
    browser.run("document.getElementById('plan').value = 'Gold'");
    browser.submit("subscribe");
    browser.shows("Subscribed on the plan Gold");
    browser.run("document.getElementById('getToken').click()");
    until("there is a token", || {
        browser.run("document.getElementById('token').value.length").as_u64() > Some(20)
    });
    browser.fill("path", "/pets/1.0.0/cats?x=1");
    let shown = browser.run("document.getElementById('request').textContent");
    assert!(shown.as_str().unwrap().starts_with("curl -i -X GET"), "{shown}");
    browser.submit("try");
    browser.shows("the reply of the service");
    let request = browser.run("document.getElementById('request').textContent");
    assert!(
        request.as_str().unwrap().starts_with("GET /pets/1.0.0/cats?x=1 HTTP/1.0"),
        "{request}"
    );
    assert_eq!(origin.request().target(), "/back/cats?x=1");
    assert_ne!(browser.run("document.title"), "broken");
}

#[test]
fn the_dashboard_leads_to_the_pages_and_back_where_there_is_a_catalog() {
    let gateway = start();
    let without = Gateway::start(
        "listen: { public: { address: \"127.0.0.1:0\" } }\nadmin: { address: \"127.0.0.1:0\" }\nroutes: {}\n",
    );
    let browser = Browser::open(&format!("http://{}/", gateway.admin()));
    browser.shows("APIs and applications");
    browser.run("[...document.querySelectorAll('nav a')].find((one) => one.innerText === 'APIs and applications').click()");
    browser.shows("Log in");
    assert_eq!(browser.run("location.pathname"), "/catalog/");
    browser.run("document.getElementById('dashboard').click()");
    browser.shows("Requests a second");
    assert_eq!(browser.run("location.pathname"), "/");
    browser.run(&format!("location.href = 'http://{}/'", without.admin()));
    until("the other dashboard is there", || {
        browser.run("location.host") == without.admin().to_string()
            && browser.text().contains("Requests a second")
    });
    assert!(!browser.text().contains("APIs and applications"), "{}", browser.text());
}

#[test]
fn the_pages_tell_strangers_nothing_and_send_nothing_elsewhere() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let api = publish(&client, &definition("pets", &origin));
    application(&client, "app", "Unlimited");
    for target in [
        "/catalog/rest/api/am/devportal/v3/apis",
        "/catalog/rest/api/am/devportal/v3/applications",
        "/catalog/rest/openapi.json",
    ] {
        assert_eq!(ask(&gateway, "GET", target, "", &Value::Null).status(), 401, "{target}");
    }
    let wish = |path: &str, headers: Value| json!({ "apiId": api, "method": "GET", "path": path, "headers": headers, "body": "" });
    let send = |authorization: &str, wish: &Value| {
        ask(&gateway, "POST", "/catalog/rest/try", authorization, wish)
    };
    let admin = basic("admin", "admin");
    assert_eq!(send("", &wish("/pets/1.0.0/", json!([]))).status(), 401);
    assert_eq!(send(&basic("admin", "wrong"), &wish("/pets/1.0.0/", json!([]))).status(), 401);
    let reply = send(&admin, &wish("/pets/1.0.0/", json!([])));
    assert_eq!(
        (reply.status(), read(&reply)["status"].as_u64()),
        (200, Some(401)),
        "{}",
        reply.text()
    );
    for (path, headers) in [
        ("http://other.test/pets/1.0.0/", json!([])),
        ("/pets/1.0.0/../../x", json!([["Host", "other"]])),
        ("/other", json!([])),
        ("/pets/1.0.0/\r\nx: y", json!([])),
        ("/pets/1.0.0/", json!([["x", "a\r\nb: c"]])),
    ] {
        assert_eq!(send(&admin, &wish(path, headers)).status(), 400, "{path}");
    }
    let page = ask(&gateway, "GET", "/catalog/", "", &Value::Null);
    assert_eq!(page.status(), 200);
    assert!(page.get("content-security-policy").unwrap().contains("default-src 'none'"));
    assert!(
        !page.text().contains("http://") && !page.text().contains("https://"),
        "nothing is loaded from elsewhere"
    );
    assert_eq!(ask(&gateway, "GET", "/catalog/none.js", "", &Value::Null).status(), 404);
    assert_eq!(
        ask(&gateway, "GET", "/catalog", "", &Value::Null).get("location"),
        Some("/catalog/")
    );
}
