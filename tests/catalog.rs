//! The catalog over its REST interface, by the steps of WSO2 API Manager's own scripts, and what its gateway does with it.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Authority, Gateway, Message, Origin, Postgres, Wire, tidegate, until};

pub(crate) const CATALOG: &str = r#"
listen: { public: { address: "127.0.0.1:0" }, other: { address: "127.0.0.1:0" } }
workers: 2
store: { path: store }
catalog:
  listen: { address: "127.0.0.1:0" }
  users:
    admin: { password: admin, roles: [admin] }
    pat: { password_sha256: "PAT", roles: [publisher] }
    dev: { password: "dev-password", roles: [developer] }
  issuer: "https://gateway.test"
  token: { algorithm: ES256 }
  gateway: public
"#;

/// The same configuration with a store in a database.
pub(crate) fn in_database(yaml: &str, server: &Postgres) -> String {
    yaml.replace("store: { path: store }", &format!("store: {{ postgres: {:?} }}", server.url()))
}

pub(crate) fn start() -> Gateway {
    // The SHA-256 of `pat`.
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, b"pat");
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Gateway::start(CATALOG.replace("PAT", &hex))
}

/// A client of the catalog that knows nothing but HTTP and JSON.
pub(crate) struct Client<'g> {
    pub(crate) gateway: &'g Gateway,
    pub(crate) authorization: String,
}

pub(crate) fn address(gateway: &Gateway) -> SocketAddr {
    gateway.wait_for_log(" catalog address=");
    let log = gateway.log();
    let after = log.rsplit(" catalog address=").next().unwrap();
    after.split_whitespace().next().unwrap().parse().unwrap()
}

pub(crate) fn basic(name: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{secret}")))
}

pub(crate) fn send(
    gateway: &Gateway,
    method: &str,
    target: &str,
    lines: &str,
    body: &str,
) -> Message {
    Wire::connect(address(gateway)).ask(format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

pub(crate) fn read(reply: &Message) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_default()
}

impl Client<'_> {
    pub(crate) fn ask(&self, method: &str, target: &str, body: &Value) -> Message {
        let lines =
            format!("Authorization: {}\r\nContent-Type: application/json\r\n", self.authorization);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        send(self.gateway, method, target, &lines, &body)
    }

    #[track_caller]
    pub(crate) fn done(&self, method: &str, target: &str, body: &Value, status: u16) -> Value {
        let reply = self.ask(method, target, body);
        assert_eq!(reply.status(), status, "{method} {target}: {}", reply.text());
        read(&reply)
    }
}

pub(crate) fn form(gateway: &Gateway, authorization: &str, target: &str, body: &str) -> Message {
    let lines = format!(
        "Authorization: {authorization}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    );
    send(gateway, "POST", target, &lines, body)
}

#[track_caller]
pub(crate) fn token(gateway: &Gateway, client: &str, secret: &str, body: &str) -> Value {
    let reply = form(gateway, &basic(client, secret), "/oauth2/token", body);
    assert_eq!(reply.status(), 200, "{}", reply.text());
    read(&reply)
}

/// A client with a token of this user, as WSO2 API Manager's scripts get one.
#[track_caller]
pub(crate) fn log_in<'g>(gateway: &'g Gateway, user: &str, password: &str) -> Client<'g> {
    let by_password = Client { gateway, authorization: basic(user, password) };
    let wish = json!({ "callbackUrl": "www.google.lk", "clientName": "rest_api", "owner": user, "grantType": "password refresh_token", "saasApp": true });
    let client = by_password.done("POST", "/client-registration/v0.17/register", &wish, 200);
    let (id, secret) =
        (client["clientId"].as_str().unwrap(), client["clientSecret"].as_str().unwrap());
    let scope = "apim:api_create apim:api_publish apim:api_view apim:api_manage apim:subscribe apim:app_manage apim:sub_manage apim:subscription_block apim:subscription_view apim:admin apim:tier_manage";
    let body = format!(
        "grant_type=password&username={user}&password={password}&scope={}",
        scope.replace(' ', "%20")
    );
    let token = token(gateway, id, secret, &body);
    Client { gateway, authorization: format!("Bearer {}", token["access_token"].as_str().unwrap()) }
}

pub(crate) fn definition(name: &str, origin: &Origin) -> Value {
    json!({
        "name": name,
        "context": format!("/{name}"),
        "version": "1.0.0",
        "policies": ["Unlimited", "Bronze", "Gold"],
        "endpointConfig": { "endpoint_type": "http", "production_endpoints": { "url": format!("{}/back", origin.url()) } },
        "operations": [
            { "target": "/*", "verb": "GET", "throttlingPolicy": "Unlimited", "authType": "Application & Application User", "scopes": [] },
            { "target": "/*", "verb": "POST", "throttlingPolicy": "Unlimited", "authType": "Application & Application User", "scopes": [] },
        ],
    })
}

/// An API that was created, deployed and published; its id.
#[track_caller]
pub(crate) fn publish(client: &Client<'_>, definition: &Value) -> String {
    let api = client.done("POST", "/api/am/publisher/v4/apis", definition, 201);
    let id = api["id"].as_str().unwrap().to_owned();
    let revision = client.done(
        "POST",
        &format!("/api/am/publisher/v4/apis/{id}/revisions"),
        &json!({ "description": "first" }),
        201,
    );
    let revision = revision["id"].as_str().unwrap();
    let target = format!("/api/am/publisher/v4/apis/{id}/deploy-revision?revisionId={revision}");
    client.done(
        "POST",
        &target,
        &json!([{ "name": "Default", "vhost": "localhost", "displayOnDevportal": true }]),
        201,
    );
    let target = format!("/api/am/publisher/v4/apis/change-lifecycle?action=Publish&apiId={id}");
    client.done("POST", &target, &Value::Null, 200);
    id
}

/// An application with its consumer key and secret.
#[track_caller]
pub(crate) fn application(client: &Client<'_>, name: &str, plan: &str) -> (String, String, String) {
    let wish =
        json!({ "name": name, "throttlingPolicy": plan, "description": "", "tokenType": "JWT" });
    let application = client.done("POST", "/api/am/devportal/v3/applications", &wish, 201);
    let id = application["applicationId"].as_str().unwrap().to_owned();
    let missing = client.ask(
        "GET",
        &format!("/api/am/devportal/v3/applications/{id}/keys/PRODUCTION"),
        &Value::Null,
    );
    assert_eq!((missing.status(), read(&missing)["code"].as_u64()), (404, Some(404)));
    let wish = json!({ "keyType": "PRODUCTION", "grantTypesToBeSupported": ["client_credentials", "password", "refresh_token"], "callbackUrl": "", "validityTime": 3600 });
    let keys = client.done(
        "POST",
        &format!("/api/am/devportal/v3/applications/{id}/generate-keys"),
        &wish,
        200,
    );
    let text = |name: &str| keys[name].as_str().unwrap().to_owned();
    assert!(keys["token"]["accessToken"].is_string(), "{keys}");
    (id, text("consumerKey"), text("consumerSecret"))
}

#[track_caller]
pub(crate) fn subscribe(client: &Client<'_>, api: &str, application: &str, plan: &str) -> String {
    let wish = json!({ "apiId": api, "applicationId": application, "throttlingPolicy": plan });
    let made = client.done("POST", "/api/am/devportal/v3/subscriptions", &wish, 201);
    made["subscriptionId"].as_str().unwrap().to_owned()
}

pub(crate) fn call(gateway: &Gateway, target: &str, token: &str) -> Message {
    gateway
        .wire()
        .ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"))
}

#[track_caller]
pub(crate) fn is_refused(reply: &Message, status: u16, code: &str) {
    let body = read(reply);
    assert_eq!((reply.status(), body["code"].as_str()), (status, Some(code)), "{reply:?}");
    assert!(body["message"].is_string() && body["description"].is_string(), "{body}");
}

#[test]
fn the_references_performance_setup_runs_and_its_api_is_called() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let api = publish(&client, &definition("echo", &origin));
    let found = client.done("GET", "/api/am/publisher/v4/apis?query=name:echo$", &Value::Null, 200);
    assert_eq!((found["count"].as_u64(), found["list"][0]["id"].as_str()), (Some(1), Some(&*api)));
    let (id, key, secret) = application(&client, "PerformanceTestAPP", "Unlimited");
    let shown = client.done(
        "GET",
        &format!("/api/am/devportal/applications/{id}/keys/PRODUCTION"),
        &Value::Null,
        200,
    );
    assert_eq!(shown["consumerKey"].as_str(), Some(&*key));
    assert!(shown.get("consumerSecret").is_none(), "{shown}");
    let token = token(&gateway, &key, &secret, "grant_type=client_credentials")["access_token"]
        .as_str()
        .unwrap()
        .to_owned();
    is_refused(&call(&gateway, "/echo/1.0.0/a", &token), 403, "900908");
    let subscription = subscribe(&client, &api, &id, "Unlimited");
    let reply = call(&gateway, "/echo/1.0.0/a?b=c", &token);
    assert_eq!((reply.status(), reply.text().as_str()), (200, "ok"), "{reply:?}");
    let seen = origin.request();
    assert_eq!((seen.target(), seen.get("authorization")), ("/back/a?b=c", None));
    is_refused(&gateway.wire().get("/echo/1.0.0/a"), 401, "900902");
    assert_eq!(
        Wire::connect(gateway.address("other")).get("/echo/1.0.0/a").status(),
        404,
        "another listener"
    );
    // Changes by the publisher and the developer take effect at once.
    let block = |action: &str, state: &str| {
        client.done(
            "POST",
            &format!(
                "/api/am/publisher/v4/subscriptions/{action}?subscriptionId={subscription}{state}"
            ),
            &Value::Null,
            200,
        );
    };
    block("block-subscription", "&blockState=BLOCKED");
    is_refused(&call(&gateway, "/echo/1.0.0/a", &token), 401, "900907");
    block("unblock-subscription", "");
    assert_eq!(call(&gateway, "/echo/1.0.0/a", &token).status(), 200);
    let lifecycle = |action: &str| {
        client.done(
            "POST",
            &format!("/api/am/publisher/v4/apis/change-lifecycle?action={action}&apiId={api}"),
            &Value::Null,
            200,
        );
    };
    lifecycle("Block");
    is_refused(&gateway.wire().get("/echo/1.0.0/a"), 503, "700700");
    lifecycle("Re-Publish");
    assert_eq!(call(&gateway, "/echo/1.0.0/a", &token).status(), 200);
    assert_eq!(
        client.ask("DELETE", &format!("/api/am/publisher/v4/apis/{api}"), &Value::Null).status(),
        409
    );
    client.done("DELETE", &format!("/api/am/devportal/v3/applications/{id}"), &Value::Null, 200);
    is_refused(&call(&gateway, "/echo/1.0.0/a", &token), 401, "900901");
    client.done("DELETE", &format!("/api/am/publisher/v4/apis/{api}"), &Value::Null, 200);
    until("the API is gone", || gateway.wire().get("/echo/1.0.0/a").status() == 404);
}

#[test]
fn everything_survives_a_restart_and_revoked_tokens_stay_revoked() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let api = publish(&client, &definition("echo", &origin));
    let (id, key, secret) = application(&client, "app", "Unlimited");
    subscribe(&client, &api, &id, "Gold");
    let new = || {
        token(&gateway, &key, &secret, "grant_type=client_credentials")["access_token"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (kept, gone) = (new(), new());
    assert_eq!(call(&gateway, "/echo/1.0.0/", &gone).status(), 200);
    let revoked = form(&gateway, &basic(&key, &secret), "/oauth2/revoke", &format!("token={gone}"));
    assert_eq!(revoked.status(), 200);
    is_refused(&call(&gateway, "/echo/1.0.0/", &gone), 401, "900901");
    gateway.signal(Signal::TERM);
    gateway.wait_for_exit();
    let again = gateway.restart();
    assert_eq!(call(&again, "/echo/1.0.0/", &kept).status(), 200);
    is_refused(&call(&again, "/echo/1.0.0/", &gone), 401, "900901");
    let client = Client { gateway: &again, authorization: client.authorization.clone() };
    let found = client.done("GET", "/api/am/devportal/v3/applications", &Value::Null, 200);
    assert_eq!(found["list"][0]["name"], "app");
}

#[test]
fn plans_of_the_catalog_hold_and_change() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let plan = |count: u64| {
        json!({
            "policyName": "Three", "displayName": "Three", "stopOnQuotaReach": true,
            "defaultLimit": { "type": "REQUESTCOUNTLIMIT", "requestCount": { "timeUnit": "hour", "unitTime": 1, "requestCount": count } },
        })
    };
    let made =
        client.done("POST", "/api/am/admin/v4/throttling/policies/subscription", &plan(3), 201);
    let made = made["policyId"].as_str().unwrap();
    let mut wanted = definition("few", &origin);
    wanted["policies"] = json!(["Three"]);
    let api = publish(&client, &wanted);
    let (id, key, secret) = application(&client, "app", "50PerMin");
    subscribe(&client, &api, &id, "Three");
    let token = token(&gateway, &key, &secret, "grant_type=client_credentials")["access_token"]
        .as_str()
        .unwrap()
        .to_owned();
    let passed = |of: usize| {
        (0..of).filter(|_| call(&gateway, "/few/1.0.0/x", &token).status() == 200).count()
    };
    assert_eq!(passed(5), 3);
    let refused = call(&gateway, "/few/1.0.0/x", &token);
    is_refused(&refused, 429, "900804");
    assert!(refused.get("retry-after").is_some());
    client.done(
        "PUT",
        &format!("/api/am/admin/v4/throttling/policies/subscription/{made}"),
        &plan(5),
        200,
    );
    assert_eq!(passed(5), 2, "three were used");
    let used = client.ask(
        "DELETE",
        &format!("/api/am/admin/v4/throttling/policies/subscription/{made}"),
        &Value::Null,
    );
    assert_eq!(used.status(), 409, "{}", used.text());
}

/// The path of the administrators' plans in the folder of a gateway.
const PLANS: &str = "var/catalog/catalog-plans/tidegate.yaml";

#[test]
fn a_plan_with_which_the_configuration_is_refused_is_not_stored() {
    let yaml = CATALOG.replace("PAT", &"0".repeat(64));
    let gateway = Gateway::start(format!("{yaml}plans: {{ Mine: {{ requests: 3, per: 1h }} }}\n"));
    let client = log_in(&gateway, "admin", "admin");
    let target = "/api/am/admin/v4/throttling/policies/subscription";
    let plan = |name: &str| {
        json!({
            "policyName": name, "displayName": name, "stopOnQuotaReach": true,
            "defaultLimit": { "type": "REQUESTCOUNTLIMIT", "requestCount": { "timeUnit": "hour", "unitTime": 1, "requestCount": 3 } },
        })
    };
    let refused = client.ask("POST", target, &plan("Mine"));
    assert_eq!(refused.status(), 400, "{}", refused.text());
    let made = client.done("POST", target, &plan("Other"), 201);
    let known = client.done("GET", target, &Value::Null, 200).to_string();
    assert!(known.contains("Other") && !known.contains("Mine"), "{known}");
    let made = made["policyId"].as_str().unwrap();
    client.done("DELETE", &format!("{target}/{made}"), &Value::Null, 200);
    let placed = std::fs::read_to_string(gateway.path(PLANS)).unwrap();
    assert!(!placed.contains("Other"), "{placed}");
}

#[test]
fn the_last_plan_goes_out_of_service_even_if_it_was_removed_while_the_gateway_was_away() {
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let target = "/api/am/admin/v4/throttling/policies/subscription";
    let plan = json!({
        "policyName": "Three", "displayName": "Three", "stopOnQuotaReach": true,
        "defaultLimit": { "type": "REQUESTCOUNTLIMIT", "requestCount": { "timeUnit": "hour", "unitTime": 1, "requestCount": 3 } },
    });
    let made = client.done("POST", target, &plan, 201);
    let placed = std::fs::read_to_string(gateway.path(PLANS)).unwrap();
    assert!(placed.contains("Three"), "{placed}");
    let id = made["policyId"].as_str().unwrap();
    client.done("DELETE", &format!("{target}/{id}"), &Value::Null, 200);
    gateway.signal(Signal::TERM);
    gateway.wait_for_exit();
    // As in the folder of a gateway that was stopped before another one removed the plan.
    std::fs::write(gateway.path(PLANS), placed).unwrap();
    let again = gateway.restart();
    until("the plan is gone", || {
        !std::fs::read_to_string(again.path(PLANS)).unwrap_or_default().contains("Three")
    });
}

#[test]
fn refresh_tokens_are_good_once_and_a_replay_ends_the_family() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let api = publish(&client, &definition("echo", &origin));
    let (id, key, secret) = application(&client, "app", "Unlimited");
    subscribe(&client, &api, &id, "Gold");
    let first =
        token(&gateway, &key, &secret, "grant_type=password&username=dev&password=dev-password");
    let refresh = |text: &Value| {
        let body = format!("grant_type=refresh_token&refresh_token={}", text.as_str().unwrap());
        form(&gateway, &basic(&key, &secret), "/oauth2/token", &body)
    };
    let second = refresh(&first["refresh_token"]);
    assert_eq!(second.status(), 200, "{}", second.text());
    let second = read(&second);
    let access = second["access_token"].as_str().unwrap();
    assert_eq!(call(&gateway, "/echo/1.0.0/", access).status(), 200);
    let replayed = refresh(&first["refresh_token"]);
    assert_eq!(
        (replayed.status(), read(&replayed)["error"].as_str()),
        (400, Some("invalid_grant"))
    );
    assert_eq!(refresh(&second["refresh_token"]).status(), 400, "the family is over");
    is_refused(&call(&gateway, "/echo/1.0.0/", access), 401, "900901");
    let other = application(&client, "other", "Unlimited");
    let third =
        token(&gateway, &key, &secret, "grant_type=password&username=dev&password=dev-password");
    let stolen = form(
        &gateway,
        &basic(&other.1, &other.2),
        "/oauth2/token",
        &format!(
            "grant_type=refresh_token&refresh_token={}",
            third["refresh_token"].as_str().unwrap()
        ),
    );
    assert_eq!(stolen.status(), 400, "it is another client's");
    assert_eq!(refresh(&third["refresh_token"]).status(), 200);
}

#[test]
fn whoever_guesses_a_secret_has_to_wait() {
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let (_, key, secret) = application(&client, "app", "Unlimited");
    let (_, other, right) = application(&client, "other", "Unlimited");
    let ask = |key: &str, secret: &str| {
        form(&gateway, &basic(key, secret), "/oauth2/token", "grant_type=client_credentials")
    };
    for _ in 0..10 {
        let reply = ask(&key, "wrong");
        assert_eq!((reply.status(), read(&reply)["error"].as_str()), (401, Some("invalid_client")));
    }
    let reply = ask(&key, &secret);
    assert_eq!((reply.status(), read(&reply)["error"].as_str()), (429, Some("slow_down")));
    assert!(reply.get("retry-after").is_some());
    assert_eq!(ask(&other, &right).status(), 200);
}

#[test]
fn roles_bound_what_tokens_may_do_and_applications_may_nothing() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let (publisher, developer) =
        (log_in(&gateway, "pat", "pat"), log_in(&gateway, "dev", "dev-password"));
    let wish = definition("echo", &origin);
    let refused = developer.ask("POST", "/api/am/publisher/v4/apis", &wish);
    assert_eq!(refused.status(), 401, "{}", refused.text());
    let api = publish(&publisher, &wish);
    assert_eq!(
        publisher
            .ask("POST", "/api/am/devportal/v3/applications", &json!({ "name": "x" }))
            .status(),
        401
    );
    let (id, key, secret) = application(&developer, "mine", "10PerMin");
    subscribe(&developer, &api, &id, "Gold");
    let of_application =
        token(&gateway, &key, &secret, "grant_type=client_credentials&scope=apim:admin");
    assert_eq!(of_application["scope"], "default");
    let stranger = Client {
        gateway: &gateway,
        authorization: format!("Bearer {}", of_application["access_token"].as_str().unwrap()),
    };
    assert_eq!(
        stranger.ask("GET", "/api/am/devportal/v3/applications", &Value::Null).status(),
        401
    );
    let nobody = Client { gateway: &gateway, authorization: "Bearer a.b.c".to_owned() };
    assert_eq!(nobody.ask("GET", "/api/am/publisher/v4/apis", &Value::Null).status(), 401);
    assert_eq!(
        publisher.ask("GET", "/api/am/publisher/v4/api-products", &Value::Null).status(),
        501
    );
    assert_eq!(publisher.ask("GET", "/api/am/no/such/thing", &Value::Null).status(), 501);
}

#[test]
fn what_is_wrong_is_refused_with_all_mistakes_and_makes_nothing() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let refuse = |change: &dyn Fn(&mut Value), what: &str| {
        let mut wish = definition("echo", &origin);
        change(&mut wish);
        let reply = client.ask("POST", "/api/am/publisher/v4/apis", &wish);
        assert_eq!(reply.status(), 400, "{what}: {}", reply.text());
        assert!(reply.text().contains(what), "{what}: {}", reply.text());
    };
    refuse(&|wish| wish["name"] = json!("<script>"), "name");
    refuse(&|wish| wish["name"] = json!("x".repeat(10_000)), "name");
    refuse(&|wish| wish["context"] = json!("/a/../b"), "context");
    refuse(&|wish| wish["version"] = json!("1/2"), "version");
    refuse(&|wish| wish["policies"] = json!(["Glod"]), "Glod");
    refuse(
        &|wish| wish["endpointConfig"]["production_endpoints"]["url"] = json!("file:///etc/passwd"),
        "endpoint",
    );
    refuse(&|wish| wish["operations"][0]["verb"] = json!("FETCH"), "FETCH");
    assert_eq!(client.done("GET", "/api/am/publisher/v4/apis", &Value::Null, 200)["count"], 0);
    client.done("POST", "/api/am/publisher/v4/apis", &definition("echo", &origin), 201);
    assert_eq!(
        client.ask("POST", "/api/am/publisher/v4/apis", &definition("echo", &origin)).status(),
        409
    );
    let mut negative = json!({ "policyName": "Bad", "defaultLimit": { "type": "REQUESTCOUNTLIMIT", "requestCount": { "timeUnit": "min", "unitTime": 1, "requestCount": -5 } } });
    let target = "/api/am/admin/v4/throttling/policies/subscription";
    assert_eq!(client.ask("POST", target, &negative).status(), 400);
    negative["defaultLimit"]["type"] = json!("NOTHING");
    assert_eq!(client.ask("POST", target, &negative).status(), 400);
}

#[test]
fn requests_are_what_the_interface_describes() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let applications = "/api/am/devportal/v3/applications";
    for (method, target, allowed) in [
        ("PATCH", "/api/am/publisher/v4/apis", "GET, POST"),
        ("DELETE", "/api/am/devportal/applications", "GET, POST"),
        ("GET", "/oauth2/token", "POST"),
    ] {
        let reply = client.ask(method, target, &Value::Null);
        assert_eq!((reply.status(), reply.get("allow")), (405, Some(allowed)), "{method} {target}");
    }
    // Resources of WSO2 API Manager that the catalog does not have.
    for (method, target) in [
        ("POST", "/api/am/publisher/v4/apis/validate-openapi"),
        ("POST", "/api/am/devportal/v3/applications/import"),
    ] {
        assert_eq!(client.ask(method, target, &Value::Null).status(), 501, "{method} {target}");
    }
    // All mistakes are told, with their places.
    let wish = json!({ "name": 5, "throttlingPolicy": ["Gold"], "description": "x".repeat(513) });
    let refused = client.ask("POST", applications, &wish);
    let told = read(&refused)["error"].as_array().cloned().unwrap_or_default();
    assert_eq!((refused.status(), told.len()), (400, 3), "{}", refused.text());
    for place in ["/name", "/throttlingPolicy", "/description"] {
        let is_of = |one: &Value| one["message"].as_str().unwrap().starts_with(place);
        assert!(told.iter().any(is_of), "{place}: {told:?}");
    }
    // Clients of WSO2 API Manager send null for absent members, and additional members.
    let wish = json!({ "name": "app", "throttlingPolicy": null, "description": null, "attributes": null, "groups": [], "tokenType": "JWT" });
    client.done("POST", applications, &wish, 201);
    let mut wish = definition("echo", &origin);
    (wish["type"], wish["apiThrottlingPolicy"], wish["other"]) =
        (Value::Null, Value::Null, json!(1));
    let api = publish(&client, &wish);
    let at = format!("/api/am/publisher/v4/apis/{api}/deploy-revision?revisionId={api}");
    assert_eq!(client.ask("POST", &at, &json!({})).status(), 400, "it is not a list");
    // The body of an unauthenticated request is not read.
    let stranger = Client { gateway: &gateway, authorization: "Bearer a.b.c".to_owned() };
    for target in [applications, "/api/am/publisher/v4/apis"] {
        assert_eq!(stranger.ask("POST", target, &json!({ "name": 5 })).status(), 401, "{target}");
    }
    let pages = ["limit=-1", "limit=x", "offset=1e9", "limit=99999999999"];
    for query in pages {
        let reply = client.ask("GET", &format!("{applications}?{query}"), &Value::Null);
        assert_eq!(reply.status(), 400, "{query}");
    }
}

#[test]
fn api_keys_open_what_their_application_has_subscribed_to() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let mut wish = definition("echo", &origin);
    wish["securityScheme"] = json!(["oauth2", "api_key"]);
    let api = publish(&client, &wish);
    let (id, ..) = application(&client, "app", "Unlimited");
    subscribe(&client, &api, &id, "Gold");
    let new = |properties: Value| {
        let target = format!("/api/am/devportal/v3/applications/{id}/api-keys/PRODUCTION/generate");
        let made = client.done(
            "POST",
            &target,
            &json!({ "validityPeriod": 3600, "additionalProperties": properties }),
            200,
        );
        made["apikey"].as_str().unwrap().to_owned()
    };
    let ask = |key: &str, more: &str| {
        gateway
            .wire()
            .ask(format!("GET /echo/1.0.0/a HTTP/1.1\r\nHost: a\r\napikey: {key}\r\n{more}\r\n"))
    };
    let key = new(json!({}));
    assert_eq!(ask(&key, "").status(), 200);
    assert_eq!(origin.request().get("apikey"), None);
    is_refused(&call(&gateway, "/echo/1.0.0/a", &key), 401, "900901");
    assert_eq!(ask(&new(json!({ "permittedIP": "127.0.0.0/8" })), "").status(), 200);
    is_refused(&ask(&new(json!({ "permittedIP": "192.0.2.1" })), ""), 403, "900901");
    let bound = new(json!({ "permittedReferer": "www.a.test/*" }));
    is_refused(&ask(&bound, ""), 403, "900901");
    assert_eq!(ask(&bound, "Referer: https://www.a.test/x\r\n").status(), 200);
    let target = format!("/api/am/devportal/v3/applications/{id}/api-keys/PRODUCTION/revoke");
    client.done("POST", &target, &json!({ "apikey": key }), 200);
    is_refused(&ask(&key, ""), 401, "900901");
}

#[test]
fn an_openapi_document_becomes_an_api() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let document = "openapi: 3.0.1\ninfo: { title: Pets, version: 2.0.0 }\npaths:\n  /pets/{id}: { get: { parameters: [{ name: id, in: path, required: true, schema: { type: string } }], responses: { '200': { description: ok } } } }\n";
    let more = json!({ "name": "Zoo", "context": "/zoo/{version}/api", "policies": ["Gold"], "endpointConfig": { "production_endpoints": { "url": origin.url() } } });
    let body = format!(
        "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.yaml\"\r\n\r\n{document}\r\n--b\r\nContent-Disposition: form-data; name=\"additionalProperties\"\r\n\r\n{more}\r\n--b--\r\n"
    );
    let lines = format!(
        "Authorization: {}\r\nContent-Type: multipart/form-data; boundary=b\r\n",
        client.authorization
    );
    let reply = send(&gateway, "POST", "/api/am/publisher/v4/apis/import-openapi", &lines, &body);
    assert_eq!(reply.status(), 201, "{}", reply.text());
    let made = read(&reply);
    assert_eq!(
        (made["name"].as_str(), made["version"].as_str(), made["operations"][0]["target"].as_str()),
        (Some("Zoo"), Some("2.0.0"), Some("/pets/{id}"))
    );
    let id = made["id"].as_str().unwrap();
    let revision =
        client.done("POST", &format!("/api/am/publisher/v4/apis/{id}/revisions"), &json!({}), 201);
    client.done(
        "POST",
        &format!(
            "/api/am/publisher/v4/apis/{id}/deploy-revision?revisionId={}",
            revision["id"].as_str().unwrap()
        ),
        &json!([]),
        201,
    );
    let target = format!("/api/am/publisher/v4/apis/change-lifecycle?action=Publish&apiId={id}");
    client.done("POST", &target, &Value::Null, 200);
    let (application, key, secret) = application(&client, "app", "Unlimited");
    subscribe(&client, id, &application, "Gold");
    let token = token(&gateway, &key, &secret, "grant_type=client_credentials")["access_token"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(call(&gateway, "/zoo/2.0.0/api/pets/7", &token).status(), 200);
    assert_eq!(origin.request().target(), "/pets/7");
    assert_eq!(call(&gateway, "/zoo/2.0.0/api/cats", &token).status(), 404);
}

#[test]
fn the_keys_of_the_catalog_are_published_and_rotated() {
    let gateway = Gateway::start(
        CATALOG
            .replace("PAT", &"0".repeat(64))
            .replace("algorithm: ES256", "algorithm: ES256, rotate: 1s"),
    );
    let keys =
        || read(&send(&gateway, "GET", "/oauth2/jwks", "", ""))["keys"].as_array().unwrap().len();
    assert_eq!(keys(), 1);
    let discovery = read(&send(&gateway, "GET", "/.well-known/openid-configuration", "", ""));
    assert_eq!(discovery["issuer"], "https://gateway.test");
    assert!(discovery["jwks_uri"].as_str().unwrap().ends_with("/oauth2/jwks"), "{discovery}");
    let client = log_in(&gateway, "admin", "admin");
    std::thread::sleep(std::time::Duration::from_secs(2));
    gateway.signal(Signal::TERM);
    gateway.wait_for_exit();
    let again = gateway.restart();
    until("a new key is there", || {
        read(&send(&again, "GET", "/oauth2/jwks", "", ""))["keys"].as_array().unwrap().len() >= 2
    });
    let client = Client { gateway: &again, authorization: client.authorization.clone() };
    client.done("GET", "/api/am/publisher/v4/apis", &Value::Null, 200);
}

#[test]
fn gateways_with_one_database_see_each_others_changes() {
    let server = Postgres::start();
    let origin = Origin::saying("ok");
    let yaml = in_database(&CATALOG.replace("PAT", &"0".repeat(64)), &server);
    let (one, other) = (Gateway::start(&yaml), Gateway::start(&yaml));
    let client = log_in(&one, "admin", "admin");
    let api = publish(&client, &definition("echo", &origin));
    let (id, key, secret) = application(&client, "app", "Unlimited");
    let subscription = subscribe(&client, &api, &id, "Gold");
    let new = |gateway: &Gateway| {
        token(gateway, &key, &secret, "grant_type=client_credentials")["access_token"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (first, second) = (new(&one), new(&one));
    let status = |gateway: &Gateway, token: &str| call(gateway, "/echo/1.0.0/", token).status();
    until("the other gateway has the API and the subscription", || status(&other, &first) == 200);
    assert_eq!(status(&other, &new(&other)), 200, "it knows the secret too");
    let revoked = form(&other, &basic(&key, &secret), "/oauth2/revoke", &format!("token={first}"));
    assert_eq!(revoked.status(), 200);
    until("a token that the other has revoked is refused here", || status(&one, &first) == 401);
    assert_eq!(status(&one, &second), 200);
    let target = format!(
        "/api/am/publisher/v4/subscriptions/block-subscription?subscriptionId={subscription}"
    );
    client.done("POST", &target, &Value::Null, 200);
    until("a subscription that was blocked here is refused there", || {
        status(&other, &second) == 401
    });
    let there = Client { gateway: &other, authorization: client.authorization.clone() };
    there.done(
        "DELETE",
        &format!("/api/am/devportal/v3/subscriptions/{subscription}"),
        &Value::Null,
        200,
    );
    until("a subscription that was removed there is gone here", || status(&one, &second) == 403);
    until("it can be removed here", || {
        client.ask("DELETE", &format!("/api/am/publisher/v4/apis/{api}"), &Value::Null).status()
            == 200
    });
    until("an API that was removed here is gone there", || status(&other, &second) == 404);
}

#[test]
fn applications_of_the_configuration_get_tokens_and_the_interface_is_described() {
    let origin = Origin::saying("ok");
    let more = format!(
        "upstreams: {{ origin: {{ targets: [{:?}] }} }}\n\
         applications: {{ mobile: {{ keys: {{ consumer_key: m, consumer_secret: geheim }}, subscriptions: {{ all: Gold }} }} }}\n\
         routes: {{ all: {{ match: {{ path: /file/** }}, upstream: origin, errors: wso2, policies: [{{ jwt: {{ issuers: [catalog] }} }}, {{ subscription: {{}} }}] }} }}\n",
        origin.url()
    );
    let gateway = Gateway::start(format!("{}{more}", CATALOG.replace("PAT", &"0".repeat(64))));
    let ask = |secret: &str| {
        form(&gateway, &basic("m", secret), "/oauth2/token", "grant_type=client_credentials")
    };
    assert_eq!(ask("falsch").status(), 401);
    let token = read(&ask("geheim"));
    assert_eq!(call(&gateway, "/file/x", token["access_token"].as_str().unwrap()).status(), 200);
    let described = read(&send(&gateway, "GET", "/openapi.json", "", ""));
    let paths = described["paths"].as_object().unwrap();
    for (path, methods) in paths.iter().filter(|(path, _)| path.starts_with("/api/am/")) {
        for (method, operation) in
            methods.as_object().unwrap().iter().filter(|(method, _)| *method == "get")
        {
            let target = path.replace("{level}", "subscription");
            let target = target.replace("{adminLevel}", "subscription").replace(['{', '}'], "");
            let reply = send(&gateway, &method.to_uppercase(), &target, "", "");
            let asks = operation.get("security").is_some();
            assert!(
                asks == (reply.status() == 401) && reply.status() != 501,
                "{target}: {reply:?}"
            );
        }
    }
}

#[test]
fn the_socket_speaks_tls_and_needs_it_where_others_can_reach_it() {
    let authority = Authority::new();
    let identity = authority.issue("localhost");
    let yaml = CATALOG.replace("PAT", &"0".repeat(64));
    let with = yaml.replace(
        "listen: { address: \"127.0.0.1:0\" }\n  users",
        "listen: { address: \"127.0.0.1:0\", tls: { certificate: cert.pem, key: key.pem } }\n  users",
    );
    let files = [("cert.pem", &*identity.certificate), ("key.pem", &*identity.key)];
    let gateway = Gateway::start_beside(with, &files);
    let mut wire = Wire::connect_tls(address(&gateway), "localhost", &authority.trust());
    let reply = wire.ask("GET /oauth2/jwks HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(reply.status(), 200, "{reply:?}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    std::fs::write(
        &path,
        yaml.replace(
            "listen: { address: \"127.0.0.1:0\" }\n  users",
            "listen: { address: \"0.0.0.0:0\" }\n  users",
        ),
    )
    .unwrap();
    let run = tidegate(&["check", path.to_str().unwrap()]);
    assert!(run.code == Some(1) && run.stderr.contains("plain text"), "{run:?}");
}
