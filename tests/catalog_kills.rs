//! Gateways of a catalog that are killed while objects are created: nothing acknowledged is lost, nothing is half there.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::catalog::{CATALOG, Client, address, basic, definition, read};
use crate::harness::{Gateway, Message, Origin, PATIENCE, Wire, until};

/// The kills of the short form; `TIDEGATE_SOAK_KILLS=50` makes it the long one.
const KILLS: usize = 4;

fn kills() -> usize {
    std::env::var("TIDEGATE_SOAK_KILLS").ok().map_or(KILLS, |text| text.parse().unwrap())
}

/// What was acknowledged.
#[derive(Default)]
struct Acknowledged {
    /// Applications by their names, with their ids.
    applications: HashMap<String, String>,
    /// Subscriptions, with their applications.
    subscriptions: HashMap<String, String>,
    /// Consumer keys and secrets.
    keys: HashMap<String, String>,
    /// APIs by their names, with their ids.
    apis: HashMap<String, String>,
}

/// Sends a request, if the gateway answers it.
fn ask(gateway: &Gateway, method: &str, target: &str, body: &Value) -> Option<Message> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\nContent-Type: application/json\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        basic("admin", "admin"),
        body.len()
    );
    let socket = std::net::TcpStream::connect_timeout(&address(gateway), PATIENCE).ok()?;
    answered(socket, &request)
}

fn answered(mut socket: std::net::TcpStream, request: &str) -> Option<Message> {
    use std::io::{Read as _, Write as _};
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    socket.write_all(request.as_bytes()).ok()?;
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).ok()?;
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let mut message = Message::parse(&bytes[..end]);
    message.body = bytes[end..].to_vec();
    // A reply that was cut is none.
    (message.length() == Some(message.body.len())).then_some(message)
}

fn created(reply: Option<Message>, status: u16) -> Option<Value> {
    reply.filter(|reply| reply.status() == status).map(|reply| read(&reply))
}

/// Creates an application with keys, a subscription, and sometimes an API.
fn create(
    gateway: &Gateway,
    api: &str,
    origin: &Origin,
    number: usize,
    known: &Mutex<Acknowledged>,
) {
    let name = format!("app{number}");
    let at = "/api/am/devportal/v3/applications";
    let Some(made) = created(ask(gateway, "POST", at, &json!({ "name": name })), 201) else {
        return;
    };
    let id = made["applicationId"].as_str().unwrap().to_owned();
    known.lock().unwrap().applications.insert(name.clone(), id.clone());
    let wish = json!({ "apiId": api, "applicationId": id, "throttlingPolicy": "Gold" });
    if let Some(made) =
        created(ask(gateway, "POST", "/api/am/devportal/v3/subscriptions", &wish), 201)
    {
        let subscription = made["subscriptionId"].as_str().unwrap().to_owned();
        known.lock().unwrap().subscriptions.insert(subscription, id.clone());
    }
    let wish =
        json!({ "keyType": "PRODUCTION", "grantTypesToBeSupported": ["client_credentials"] });
    if let Some(made) =
        created(ask(gateway, "POST", &format!("{at}/{id}/generate-keys"), &wish), 200)
    {
        let text = |key: &str| made[key].as_str().unwrap().to_owned();
        known.lock().unwrap().keys.insert(text("consumerKey"), text("consumerSecret"));
    }
    if number.is_multiple_of(5) {
        let name = format!("api{number}");
        let reply = ask(gateway, "POST", "/api/am/publisher/v4/apis", &definition(&name, origin));
        if let Some(made) = created(reply, 201) {
            known.lock().unwrap().apis.insert(name, made["id"].as_str().unwrap().to_owned());
        }
    }
}

/// Kills a gateway while objects are created, starts it again, and looks at everything.
fn kill_and_look(mut gateway: Gateway, rounds: usize) {
    let origin = Origin::saying("ok");
    let client = Client { gateway: &gateway, authorization: basic("admin", "admin") };
    let api = crate::catalog::publish(&client, &definition("echo", &origin));
    let known = Mutex::new(Acknowledged::default());
    let next = AtomicUsize::new(0);
    for round in 0..rounds {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::SeqCst) {
                        create(
                            &gateway,
                            &api,
                            &origin,
                            next.fetch_add(1, Ordering::SeqCst),
                            &known,
                        );
                    }
                });
            }
            let had = known.lock().unwrap().applications.len();
            until("some are created", || known.lock().unwrap().applications.len() > had + 2);
            // At another moment of the work each time.
            thread::sleep(Duration::from_millis(7 * (round as u64 % 11)));
            gateway.signal(Signal::KILL);
            stop.store(true, Ordering::SeqCst);
        });
        gateway.wait_for_exit();
        gateway = gateway.restart();
        look(&gateway, &api, &known.lock().unwrap(), &format!("round {round}"));
    }
}

#[track_caller]
fn look(gateway: &Gateway, api: &str, known: &Acknowledged, round: &str) {
    let client = Client { gateway, authorization: basic("admin", "admin") };
    let begin = Instant::now();
    while ask(gateway, "GET", "/api/am/devportal/v3/applications", &Value::Null)
        .is_none_or(|reply| reply.status() != 200)
    {
        assert!(begin.elapsed() < PATIENCE, "{round}: it is not ready");
    }
    let all = |path: &str| {
        let mut found = Vec::new();
        loop {
            let at = format!("{path}?limit=1000&offset={}", found.len());
            let page =
                client.done("GET", &at, &Value::Null, 200)["list"].as_array().unwrap().clone();
            let is_last = page.len() < 1000;
            found.extend(page);
            if is_last {
                return found;
            }
        }
    };
    let names: HashMap<String, String> = all("/api/am/devportal/v3/applications")
        .iter()
        .map(|one| {
            (
                one["name"].as_str().unwrap().to_owned(),
                one["applicationId"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    for (name, id) in &known.applications {
        assert_eq!(names.get(name), Some(id), "{round}: {name}");
    }
    let subscriptions = all("/api/am/devportal/v3/subscriptions");
    for (subscription, application) in &known.subscriptions {
        let found = subscriptions.iter().find(|one| one["subscriptionId"] == **subscription);
        assert_eq!(
            found.map(|one| one["applicationId"].as_str()),
            Some(Some(&**application)),
            "{round}"
        );
    }
    // Whatever is there is whole.
    for one in &subscriptions {
        assert!(one["applicationInfo"].is_object() && one["apiInfo"].is_object(), "{round}: {one}");
    }
    for (name, id) in &known.apis {
        let found =
            client.done("GET", &format!("/api/am/publisher/v4/apis/{id}"), &Value::Null, 200);
        assert_eq!(found["name"].as_str(), Some(&**name), "{round}");
        let again = ask(gateway, "POST", "/api/am/publisher/v4/apis", &found).unwrap();
        assert_eq!(again.status(), 409, "{round}: the name of an API is taken");
    }
    // The last keys work, and what is published answers.
    for (key, secret) in known.keys.iter().take(3) {
        let body = "grant_type=client_credentials";
        let reply = crate::catalog::form(gateway, &basic(key, secret), "/oauth2/token", body);
        assert_eq!(reply.status(), 200, "{round}: {}", reply.text());
        let token = read(&reply)["access_token"].as_str().unwrap().to_owned();
        let status = crate::catalog::call(gateway, "/echo/1.0.0/x", &token).status();
        assert!([200, 403].contains(&status), "{round}: {status}");
    }
    client.done("GET", &format!("/api/am/publisher/v4/apis/{api}"), &Value::Null, 200);
    let _closed = Wire::connect(address(gateway));
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_half_created() {
    kill_and_look(Gateway::start(CATALOG.replace("PAT", &"0".repeat(64))), kills());
}
