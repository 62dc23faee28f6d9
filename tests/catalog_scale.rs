//! The memory of many applications and subscriptions.

use serde_json::{Value, json};

use crate::catalog::{
    CATALOG, Client, application, basic, call, definition, form, in_database, publish, read,
    subscribe,
};
use crate::harness::{Gateway, Origin, PATIENCE, Postgres, until};

/// The subscriptions of the short form; `TIDEGATE_SOAK_SUBSCRIPTIONS=1000000` makes it the long one.
const SUBSCRIPTIONS: usize = 20_000;

/// The subscriptions of each application.
const EACH: usize = 10;

/// The most memory for each subscription, with its share of an application, where there are many.
const BYTES_MAX: usize = 250;

/// From this number on what a gateway takes anyway does not count.
const MANY: usize = 500_000;

/// The resident memory of a gateway that has read everything, which the call shows.
#[track_caller]
fn settled(gateway: &Gateway, keys: &(String, String)) -> usize {
    let body = "grant_type=client_credentials";
    let mut token = String::new();
    let begin = std::time::Instant::now();
    while token.is_empty() {
        assert!(begin.elapsed() < PATIENCE * 10, "it is not ready");
        let reply = form(gateway, &basic(&keys.0, &keys.1), "/oauth2/token", body);
        token = read(&reply)["access_token"].as_str().unwrap_or("").to_owned();
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    until("its call passes", || call(gateway, "/api0/1.0.0/x", &token).status() == 200);
    gateway.resident_bytes()
}

#[test]
fn subscriptions_take_little_memory() {
    let number = std::env::var("TIDEGATE_SOAK_SUBSCRIPTIONS");
    let number: usize = number.map_or(SUBSCRIPTIONS, |text| text.parse().unwrap());
    let server = Postgres::start_with(&["fsync=off", "max_wal_size=8GB"]);
    let origin = Origin::saying("ok");
    let yaml = in_database(&CATALOG.replace("PAT", &"0".repeat(64)), &server);
    let gateway = Gateway::start(&yaml);
    let client = Client { gateway: &gateway, authorization: basic("admin", "admin") };
    let apis: Vec<String> =
        (0..EACH).map(|at| publish(&client, &definition(&format!("api{at}"), &origin))).collect();
    let (id, key, secret) = application(&client, "measured", "Unlimited");
    subscribe(&client, &apis[0], &id, "Gold");
    let keys = (key, secret);
    let stop = |gateway: &Gateway| {
        gateway.signal(rustix::process::Signal::TERM);
        gateway.wait_for_exit();
    };
    stop(&gateway);
    let gateway = gateway.restart();
    let little = settled(&gateway, &keys);
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
    let much = settled(&gateway, &keys);
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
    // What was written by hand is what the catalog writes: one more subscription of the same is a conflict.
    let one = &found["list"][0]["applicationInfo"]["applicationId"];
    let wish = json!({ "apiId": apis[3], "applicationId": one, "throttlingPolicy": "Gold" });
    let again = client.ask("POST", "/api/am/devportal/v3/subscriptions", &wish);
    assert_eq!(again.status(), 409, "{}", again.text());
    assert!(number < MANY || each <= BYTES_MAX, "{each} bytes for each subscription");
}
