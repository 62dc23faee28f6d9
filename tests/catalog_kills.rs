//! Gateways of a catalog that are killed while objects are created: nothing acknowledged is lost, nothing is half there.
//!
//! `scripts/soak.sh nodes` does it with fifty kills of one of two gateways.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::catalog::{CATALOG, Client, address, basic, definition, in_database, publish, read};
use crate::harness::{Gateway, Message, Origin, PATIENCE, Postgres, until};

/// The kills of the short form; `TIDEGATE_SOAK_KILLS=50` makes it the long one.
const KILLS: usize = 3;

/// The number of concurrent creators.
const CREATORS: usize = 3;

const APPLICATIONS: &str = "/api/am/devportal/v3/applications";
const SUBSCRIPTIONS: &str = "/api/am/devportal/v3/subscriptions";
const APIS: &str = "/api/am/publisher/v4/apis";

fn kills() -> usize {
    std::env::var("TIDEGATE_SOAK_KILLS").ok().map_or(KILLS, |text| text.parse().unwrap())
}

/// The requested objects by number, and which of them were acknowledged.
#[derive(Debug, Clone, Default)]
struct Series {
    application: Option<String>,
    subscription: Option<String>,
    /// Consumer key and secret.
    keys: Option<(String, String)>,
    api: Option<String>,
    is_deployed: bool,
}

/// State shared by the creators and the task that kills.
struct Scene<'a> {
    origin: &'a Origin,
    /// The API to which all applications subscribe.
    api: String,
    next: AtomicUsize,
    known: Mutex<BTreeMap<usize, Series>>,
}

/// The addresses of a gateway.
#[derive(Debug, Clone, Copy)]
struct Site {
    catalog: SocketAddr,
    public: SocketAddr,
}

impl Site {
    fn of(gateway: &Gateway) -> Site {
        Site { catalog: address(gateway), public: gateway.address("public") }
    }

    /// Sends a request to the catalog, if the gateway answers it.
    fn ask(self, method: &str, target: &str, body: &Value) -> Option<Message> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\nContent-Type: application/json\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            basic("admin", "admin"),
            body.len()
        );
        answered(self.catalog, &request)
    }

    /// The body of a request that has this status.
    fn done(self, method: &str, target: &str, body: &Value, status: u16) -> Option<Value> {
        self.ask(method, target, body).filter(|reply| reply.status() == status).map(|r| read(&r))
    }

    /// All items of a list.
    fn all(self, path: &str) -> Option<Vec<Value>> {
        let mut found = Vec::new();
        loop {
            let at = format!("{path}?limit=1000&offset={}", found.len());
            let page = self.done("GET", &at, &Value::Null, 200)?["list"].as_array()?.clone();
            let is_last = page.len() < 1000;
            found.extend(page);
            if is_last {
                return Some(found);
            }
        }
    }

    /// The status of a call without a credential: 401 where an API is deployed, 404 where none is.
    fn called(self, name: &str) -> Option<u16> {
        let request =
            format!("GET /{name}/1.0.0/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        answered(self.public, &request).map(|reply| reply.status())
    }
}

/// The whole reply of a gateway that may end meanwhile.
fn answered(address: SocketAddr, request: &str) -> Option<Message> {
    let mut socket = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    socket.write_all(request.as_bytes()).ok()?;
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).ok()?;
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let mut message = Message::parse(&bytes[..end]);
    message.body = bytes[end..].to_vec();
    // An incomplete reply does not count.
    (message.length() == Some(message.body.len())).then_some(message)
}

fn text(object: &Value, key: &str) -> String {
    object[key].as_str().unwrap_or_else(|| panic!("{key} is missing: {object}")).to_owned()
}

fn keys_wish() -> Value {
    json!({ "keyType": "PRODUCTION", "grantTypesToBeSupported": ["client_credentials"] })
}

impl Scene<'_> {
    fn note(&self, number: usize, change: impl FnOnce(&mut Series)) {
        change(self.known.lock().unwrap().entry(number).or_default());
    }

    fn series(&self, number: usize) -> Series {
        self.known.lock().unwrap()[&number].clone()
    }

    /// Applications with their keys, and APIs that are deployed.
    fn acknowledged(&self) -> (usize, usize) {
        let known = self.known.lock().unwrap();
        let count = |is: fn(&Series) -> bool| known.values().filter(|one| is(one)).count();
        (count(|one| one.keys.is_some()), count(|one| one.is_deployed))
    }

    /// Waits until more is acknowledged.
    #[track_caller]
    fn wait_for_more(&self) {
        let (applications, apis) = self.acknowledged();
        until("some are created", || {
            let now = self.acknowledged();
            now.0 > applications + 2 && now.1 > apis
        });
    }

    /// Creates an application with a subscription and keys, and for some numbers an API that it deploys.
    fn create(&self, site: Site, number: usize) -> Option<()> {
        self.note(number, |_| ());
        let made = site.done("POST", APPLICATIONS, &json!({ "name": format!("app{number}") }), 201);
        let application = text(&made?, "applicationId");
        self.note(number, |known| known.application = Some(application.clone()));
        let made = site.done("POST", SUBSCRIPTIONS, &self.subscription(&application), 201)?;
        self.note(number, |known| known.subscription = Some(text(&made, "subscriptionId")));
        let at = format!("{APPLICATIONS}/{application}/generate-keys");
        let made = site.done("POST", &at, &keys_wish(), 200)?;
        let keys = (text(&made, "consumerKey"), text(&made, "consumerSecret"));
        self.note(number, |known| known.keys = Some(keys));
        if has_api(number) {
            let wish = definition(&format!("api{number}"), self.origin);
            let made = site.done("POST", APIS, &wish, 201)?;
            let api = text(&made, "id");
            self.note(number, |known| known.api = Some(api.clone()));
            let at = format!("{APIS}/{api}");
            let made = site.done("POST", &format!("{at}/revisions"), &json!({}), 201)?;
            let at = format!("{at}/deploy-revision?revisionId={}", text(&made, "id"));
            site.done("POST", &at, &json!([]), 201)?;
            self.note(number, |known| known.is_deployed = true);
        }
        Some(())
    }

    fn subscription(&self, application: &str) -> Value {
        json!({ "apiId": self.api, "applicationId": application, "throttlingPolicy": "Gold" })
    }

    /// Creates objects while `kill` runs, and until it has finished.
    fn create_during(&self, sites: &[Site], kill: impl FnOnce()) {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..CREATORS {
                scope.spawn(|| {
                    while !is_over.load(Ordering::SeqCst) {
                        let number = self.next.fetch_add(1, Ordering::SeqCst);
                        // Harmless: unacknowledged objects are checked afterwards.
                        let _ = self.create(sites[number % sites.len()], number);
                    }
                });
            }
            let over = Over(&is_over);
            kill();
            drop(over);
        });
    }

    /// Acknowledged objects that a gateway has lost, and incomplete ones.
    fn missing(&self, site: Site) -> Result<(), String> {
        let list = |path: &str| site.all(path).ok_or(format!("{path} does not answer"));
        let by = |all: Vec<Value>, key: &str| -> HashMap<String, Value> {
            all.into_iter().map(|one| (text(&one, key), one)).collect()
        };
        let applications = by(list(APPLICATIONS)?, "name");
        let subscriptions = by(list(SUBSCRIPTIONS)?, "subscriptionId");
        let apis = by(list(APIS)?, "name");
        for one in subscriptions.values() {
            if !one["applicationInfo"].is_object() || !one["apiInfo"].is_object() {
                return Err(format!("a subscription is not whole: {one}"));
            }
        }
        for (number, known) in &*self.known.lock().unwrap() {
            let lost = |what: &str| Err(format!("{what} of {number} is lost: {known:?}"));
            let found = applications.get(&format!("app{number}"));
            if known.application.is_some()
                && found.and_then(|one| one["applicationId"].as_str())
                    != known.application.as_deref()
            {
                return lost("the application");
            }
            if let Some(id) = &known.subscription {
                let found = subscriptions.get(id).map(|one| one["applicationId"].as_str());
                if found != Some(known.application.as_deref()) {
                    return lost("the subscription");
                }
            }
            let name = format!("api{number}");
            let found = apis.get(&name).and_then(|one| one["id"].as_str());
            if known.api.is_some() && found != known.api.as_deref() {
                return lost("the API");
            }
            if known.is_deployed && site.called(&name) != Some(401) {
                return lost("the deployment");
            }
        }
        Ok(())
    }

    /// Waits until a gateway knows all that was acknowledged.
    #[track_caller]
    fn look(&self, site: Site, when: &str) {
        let begin = Instant::now();
        while let Err(why) = self.missing(site) {
            assert!(begin.elapsed() < PATIENCE, "{when}: {why}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// An object that was requested but not acknowledged either exists completely, or can be created.
    #[track_caller]
    fn resolve(&self, number: usize, sites: &[Site]) {
        let site = sites[number % sites.len()];
        let name = format!("app{number}");
        if self.series(number).application.is_none() {
            until("an application is there, or can be created", || {
                let all = site.all(APPLICATIONS).unwrap();
                let found = all.into_iter().find(|one| one["name"] == *name);
                let made = || site.done("POST", APPLICATIONS, &json!({ "name": name }), 201);
                let Some(one) = found.or_else(made) else { return false };
                self.note(number, |known| known.application = Some(text(&one, "applicationId")));
                true
            });
        }
        let application = self.series(number).application.unwrap();
        let at = format!("{APPLICATIONS}/{application}");
        until("the application is whole", || {
            site.done("GET", &at, &Value::Null, 200).is_some_and(|one| one["name"] == *name)
        });
        if self.series(number).subscription.is_none() {
            until("a subscription is there, or can be made", || {
                let all = site.all(SUBSCRIPTIONS).unwrap();
                let found = all.into_iter().find(|one| one["applicationId"] == *application);
                let wish = self.subscription(&application);
                let made = || site.done("POST", SUBSCRIPTIONS, &wish, 201);
                let Some(one) = found.or_else(made) else { return false };
                self.note(number, |known| known.subscription = Some(text(&one, "subscriptionId")));
                true
            });
        }
        if self.series(number).keys.is_none() {
            // The secret of keys that were made and not shown is lost: another can be made.
            until("keys can be used", || {
                let made = site
                    .done("POST", &format!("{at}/generate-keys"), &keys_wish(), 200)
                    .or_else(|| {
                        let again = format!("{at}/keys/PRODUCTION/regenerate-secret");
                        site.done("POST", &again, &json!({}), 200)
                    });
                let Some(made) = made else { return false };
                let keys = (text(&made, "consumerKey"), text(&made, "consumerSecret"));
                self.note(number, |known| known.keys = Some(keys));
                true
            });
        }
        if has_api(number) {
            self.resolve_api(number, site, sites);
        }
    }

    #[track_caller]
    fn resolve_api(&self, number: usize, site: Site, sites: &[Site]) {
        let name = format!("api{number}");
        until("an API is there, or can be created", || {
            let found = site.all(APIS).unwrap().into_iter().find(|one| one["name"] == *name);
            let wish = definition(&name, self.origin);
            let Some(one) = found.or_else(|| site.done("POST", APIS, &wish, 201)) else {
                return false;
            };
            self.note(number, |known| known.api = Some(text(&one, "id")));
            true
        });
        let at = format!("{APIS}/{}", self.series(number).api.unwrap());
        // Either all gateways serve it, or none does and the store is consistent with that.
        until("an API is deployed everywhere or nowhere", || {
            sites.iter().all(|site| {
                let deployed = format!("{at}/revisions?query=deployed:true");
                let Some(all) = site.done("GET", &deployed, &Value::Null, 200) else {
                    return false;
                };
                let is_deployed = all["count"] != 0;
                if is_deployed {
                    self.note(number, |known| known.is_deployed = true);
                }
                site.called(&name) == Some(if is_deployed { 401 } else { 404 })
            })
        });
    }

    /// Keys that were acknowledged get tokens, and these are good for what their application has subscribed to.
    #[track_caller]
    fn call(&self, number: usize, gateway: &Gateway) {
        let (key, secret) = self.series(number).keys.unwrap();
        let body = "grant_type=client_credentials";
        let reply = crate::catalog::form(gateway, &basic(&key, &secret), "/oauth2/token", body);
        assert_eq!(reply.status(), 200, "{number}: {}", reply.text());
        let token = text(&read(&reply), "access_token");
        until("its call passes", || {
            crate::catalog::call(gateway, "/echo/1.0.0/x", &token).status() == 200
        });
    }
}

/// Two of four, so that both gateways get some.
fn has_api(number: usize) -> bool {
    number % 4 < 2
}

/// Ends the creators, also where the test has failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Kills one of the gateways while objects are created at all, starts it again, and looks at everything.
fn kill_and_look(mut gateways: Vec<Gateway>, rounds: usize) {
    let origin = Origin::saying("ok");
    let api = {
        let client = Client { gateway: &gateways[0], authorization: basic("admin", "admin") };
        publish(&client, &definition("echo", &origin))
    };
    let (next, known) = (AtomicUsize::new(0), Mutex::default());
    let scene = Scene { origin: &origin, api, next, known };
    for round in 0..rounds {
        let first = scene.next.load(Ordering::SeqCst);
        let sites: Vec<Site> = gateways.iter().map(Site::of).collect();
        let which = round % gateways.len();
        scene.create_during(&sites, || {
            scene.wait_for_more();
            // At another moment of the work each time.
            thread::sleep(Duration::from_millis(7 * (round as u64 % 11)));
            gateways[which].signal(Signal::KILL);
            if gateways.len() > 1 {
                scene.wait_for_more();
            }
        });
        gateways[which].wait_for_exit();
        gateways[which] = gateways[which].restart();
        let sites: Vec<Site> = gateways.iter().map(Site::of).collect();
        for site in &sites {
            until("it is ready", || site.all(APPLICATIONS).is_some());
            scene.look(*site, &format!("round {round}"));
        }
        let tried = first..scene.next.load(Ordering::SeqCst);
        // Harmless: a number that was taken and not used yet has nothing.
        let tried: Vec<usize> =
            tried.filter(|number| scene.known.lock().unwrap().contains_key(number)).collect();
        tried.iter().for_each(|number| scene.resolve(*number, &sites));
        sites.iter().for_each(|site| scene.look(*site, &format!("after round {round}")));
        for (gateway, number) in gateways.iter().zip(tried.iter().rev()) {
            scene.call(*number, gateway);
        }
    }
    let (applications, apis) = scene.acknowledged();
    println!(
        "{rounds} kills, {applications} applications with keys and a subscription, {apis} APIs"
    );
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_half_created() {
    kill_and_look(vec![Gateway::start(CATALOG.replace("PAT", &"0".repeat(64)))], kills());
}

#[test]
fn whichever_of_two_gateways_is_killed_both_have_all_that_was_acknowledged() {
    let server = Postgres::start();
    let yaml = in_database(&CATALOG.replace("PAT", &"0".repeat(64)), &server);
    kill_and_look(vec![Gateway::start(&yaml), Gateway::start(&yaml)], kills());
}
