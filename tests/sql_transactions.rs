//! The step `transaction` of flows, over PostgreSQL, MariaDB and SQLite.

use std::time::{Duration, Instant};

use crate::harness::{Gateway, MariaDb, Message, Postgres, tidegate, until};

/// The flows, which are the same for all databases.
const FLOWS: &str = r#"
  both: { steps: [
      { transaction: { database: shop, steps: [
          { sql: { database: shop, query: "insert into accounts (name, amount) values ($1, 1)", arguments: [$path.id], into: one } },
          { sql: { database: shop, query: "insert into accounts (name, amount) values ($1, $2)", arguments: [$body.other, $body.amount], into: two } },
          { filter: { when: { cel: "default(body.stop, false)" }, then: [{ fault: { reason: stop, status: 409 } }] } } ] } },
      { respond: { json: '{ "one": {{ $one.affected }}, "two": {{ $two.affected }} }' } } ] }
  each: { steps: [
      { transaction: { database: shop, steps: [
          { foreach: { over: $body.rows, steps: [
              { sql: { database: shop, query: "insert into accounts (name, amount) values ($1, $2)", arguments: [$body.name, $body.amount], into: done } } ] } },
          { respond: { text: all } } ] } } ] }
  sees: { steps: [
      { transaction: { database: shop, steps: [
          { sql: { database: shop, query: "insert into accounts (name, amount) values ($1, 5)", arguments: [$path.id], into: done } },
          { sequence: inner },
          { fault: { reason: undone, status: 418 } } ] } } ],
      catch: [{ sql: { database: shop, query: "select count(*) as n from accounts", into: after } }, { respond: { json: '{ "inside": {{ $inside[0].n }}, "after": {{ $after[0].n }} }' } }] }
  inner: { steps: [
      { transaction: { database: shop, steps: [
          { sql: { database: shop, query: "select count(*) as n from accounts", into: inside } } ] } } ] }
  goes_on: { steps: [
      { transaction: { database: shop, steps: [
          { filter: { when: { cel: "true" }, then: [{ sequence: fails }] } },
          { sql: { database: shop, query: "insert into accounts (name, amount) values ('late', 1)", into: done } } ] } },
      { respond: { text: wrong } } ],
      catch: [{ respond: { text: '{{ $error.kind }}' } }] }
  fails: { steps: [{ sql: { database: shop, query: "insert into accounts (name, amount) values ('a', 1)", into: done } },
      { sql: { database: shop, query: "insert into accounts (name, amount) values ('a', 1)", into: done } }],
      catch: [{ set: { caught: '$error.kind' } }] }
  parallel: { steps: [
      { transaction: { database: shop, steps: [
          { scatter: { branches: [
              [{ sql: { database: shop, query: "insert into accounts (name, amount) values ('p', 1)", into: done } }],
              [{ sql: { database: shop, query: "insert into accounts (name, amount) values ('q', 1)", into: done } }] ], gather: {} } } ] } },
      { respond: { text: done } } ] }
  late: { timeout: 300ms, steps: [
      { transaction: { database: shop, steps: [
          { sql: { database: shop, query: "insert into accounts (name, amount) values ('late', 1)", into: done } },
          { call: { upstream: silent } } ] } } ] }
  left: { steps: [
      { transaction: { database: shop, steps: [
          { sql: { database: shop, query: "insert into accounts (name, amount) values ('left', 1)", into: done } },
          { call: { upstream: silent, timeout: 60s } } ] } } ] }
"#;

fn start(url: &str, silent: u16) -> Gateway {
    let mut text = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 2\ndatabases: {{ shop: {{ url: \"{url}\", connections: 2, timeout: 20s }} }}\nupstreams: {{ silent: {{ targets: [\"http://127.0.0.1:{silent}\"] }} }}\nroutes:\n"
    );
    for name in ["both", "each", "sees", "goes_on", "parallel", "late", "left"] {
        text += &format!("  {name}: {{ match: {{ path: \"/{name}/{{id}}\" }}, flow: {name} }}\n");
    }
    Gateway::start(text + "flows:" + FLOWS)
}

fn post(gateway: &Gateway, path: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

/// Statements of a transaction take effect together or not at all. `count` counts the accounts beside the gateway.
fn takes_effect_as_a_whole(url: &str, count: &dyn Fn() -> String) {
    // A service that takes connections, and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gateway = start(url, silent.local_addr().unwrap().port());
    let counted = |expected: &str| until("the count", || count() == expected);
    let reply = post(&gateway, "/both/a", r#"{"other": "b", "amount": 2}"#);
    assert_eq!(reply.text(), r#"{ "one": 1, "two": 1 }"#);
    assert_eq!(count(), "2");
    // A step that fails, a value that a constraint refuses, and a name that is there already.
    for (body, status) in [
        (r#"{"other": "d", "amount": 2, "stop": true}"#, 409),
        (r#"{"other": "d", "amount": -2}"#, 500),
        (r#"{"other": "a", "amount": 2}"#, 500),
    ] {
        let reply = post(&gateway, "/both/c", body);
        assert_eq!(reply.status(), status, "{body}: {}", reply.text());
        assert_eq!(count(), "2", "{body}");
    }
    let rows = |last: &str| {
        let rows: String =
            (0..20).map(|at| format!(r#"{{"name": "r{at}", "amount": {at}}}, "#)).collect();
        format!(r#"{{"rows": [{rows}{{"name": "{last}", "amount": 1}}]}}"#)
    };
    assert_eq!(post(&gateway, "/each/1", &rows("a")).status(), 500);
    assert_eq!(count(), "2");
    assert_eq!(post(&gateway, "/each/1", &rows("z")).text(), "all");
    assert_eq!(count(), "23");
    // Steps inside see what was written, a transaction inside is a part of the outer one, and the `catch` sees nothing of it.
    assert_eq!(post(&gateway, "/sees/s", "{}").text(), r#"{ "inside": 24, "after": 23 }"#);
    // A failure that was caught inside does not let half of the transaction through.
    assert_eq!(post(&gateway, "/goes_on/1", "{}").text(), "statement_failed");
    assert_eq!(count(), "23");
    let reply = post(&gateway, "/parallel/1", "{}");
    assert_eq!(reply.text(), "done");
    assert_eq!(count(), "25");
    assert_eq!(post(&gateway, "/late/1", "{}").status(), 504);
    counted("25");
    let mut wire = gateway.wire();
    wire.send("GET /left/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    std::thread::sleep(Duration::from_millis(300));
    wire.reset();
    // The pool has both connections again, whose transactions are over.
    let began = Instant::now();
    for at in 0..4 {
        let body = format!(r#"{{"other": "y{at}", "amount": 1}}"#);
        assert_eq!(post(&gateway, &format!("/both/x{at}"), &body).status(), 200);
    }
    assert!(began.elapsed() < Duration::from_secs(15));
    assert_eq!(count(), "33");
}

const TABLE: &str =
    "create table accounts (name varchar(20) primary key, amount int check (amount >= 0))";

#[test]
fn transactions_of_postgresql_take_effect_as_a_whole() {
    let server = Postgres::start();
    server.sql(TABLE);
    takes_effect_as_a_whole(&server.url(), &|| server.sql("select count(*) from accounts"));
}

#[test]
fn transactions_of_mysql_take_effect_as_a_whole() {
    let server = MariaDb::start();
    server.sql(&format!("use shop; {TABLE}"));
    takes_effect_as_a_whole(&server.url(), &|| server.sql("select count(*) from shop.accounts"));
}

#[test]
fn transactions_of_sqlite_take_effect_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("accounts.db");
    let url = format!("sqlite:{}", file.display());
    let reader = Gateway::start(format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\ndatabases: {{ shop: {{ url: \"{url}\" }} }}\nroutes: {{ make: {{ match: {{ path: /make }}, flow: make }}, count: {{ match: {{ path: /count }}, flow: count }} }}\nflows:\n  make: [sql: {{ database: shop, query: \"{TABLE}\", into: done }}, respond: {{ text: made }}]\n  count: [sql: {{ database: shop, query: 'select count(*) as n from accounts', into: n }}, respond: {{ text: '{{{{ $n[0].n }}}}' }}]\n"
    ));
    assert_eq!(reader.wire().get("/make").text(), "made");
    takes_effect_as_a_whole(&url, &|| reader.wire().get("/count").text());
}

/// The connection is lost in the middle: a fault, nothing took effect, and the next transaction has another connection.
#[test]
fn a_transaction_ends_with_its_connection() {
    let server = Postgres::start();
    server.sql(TABLE);
    let gateway = Gateway::start(format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\ndatabases: {{ shop: {{ url: \"{}\", connections: 1 }} }}\nroutes: {{ all: {{ match: {{ path: \"/{{id}}\" }}, flow: all }} }}\nflows:\n  all: [transaction: {{ database: shop, steps: [sql: {{ database: shop, query: 'insert into accounts values ($1, 1)', arguments: [$path.id], into: one }}, sql: {{ database: shop, query: 'select pg_sleep(case when $1 = 1 then 600 else 0 end)::text', arguments: [$query.sleeps], into: two }}] }}, respond: {{ text: done }}]\n",
        server.url()
    ));
    assert_eq!(gateway.wire().get("/a?sleeps=0").text(), "done");
    let mut wire = gateway.wire();
    wire.send("GET /b?sleeps=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'tidegate' and state = 'active'";
    until("it is ended", || server.sql(end) == "1");
    let lost = wire.read_reply();
    assert!(lost.status() == 503 && lost.text().contains("database_away"), "{}", lost.text());
    assert_eq!(gateway.wire().get("/c?sleeps=0").text(), "done");
    // So is a connection that was lost while it was idle, which no message notices.
    server.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'tidegate'");
    assert_eq!(gateway.wire().get("/d?sleeps=0").text(), "done");
    assert_eq!(server.sql("select string_agg(name, ' ' order by name) from accounts"), "a c d");
}

/// MySQL tells the number that it generated, and PostgreSQL and SQLite return it as a row.
#[test]
fn generated_keys_are_told() {
    let flow = |query: &str| {
        format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nroutes: {{ add: {{ match: {{ path: /add }}, flow: add }} }}\nflows:\n  add: [sql: {{ database: shop, query: \"{query}\", into: done }}, respond: {{ json: '{{{{ $done }}}}' }}]\n"
        )
    };
    let server = MariaDb::start();
    server.sql("use shop; create table things (id int auto_increment primary key, name varchar(9)); create table plain (name varchar(9))");
    let databases = format!("databases: {{ shop: {{ url: \"{}\" }} }}\n", server.url());
    let add = "insert into things (name) values ('a'), ('b')";
    let gateway = Gateway::start(databases.clone() + &flow(add));
    assert_eq!(gateway.wire().get("/add").text(), r#"{"affected":2,"key":1}"#);
    assert_eq!(gateway.wire().get("/add").text(), r#"{"affected":2,"key":3}"#);
    for query in ["insert into plain values ('a')", "update things set name = 'c' where id = 1"] {
        let gateway = Gateway::start(databases.clone() + &flow(query));
        assert_eq!(gateway.wire().get("/add").text(), r#"{"affected":1}"#, "{query}");
    }
    let server = Postgres::start();
    server.sql("create table things (id serial primary key, name text)");
    let databases = format!("databases: {{ shop: {{ url: \"{}\" }} }}\n", server.url());
    let gateway = Gateway::start(databases + &flow(&format!("{add} returning id")));
    assert_eq!(gateway.wire().get("/add").text(), r#"[{"id":1},{"id":2}]"#);
}

#[test]
fn what_cannot_be_a_transaction_is_refused() {
    let head = "listen: { public: { address: \"127.0.0.1:0\" } }\ndatabases: { shop: { url: \"sqlite:shop.db\" } }\nroutes: { all: { match: { path: / }, flow: all } }\nflows:\n  all: ";
    for (steps, complaint) in [
        ("[transaction: { database: shop, steps: [] }]", "a transaction needs steps"),
        ("[transaction: { database: shp, steps: [drop: {}] }]", "shop"),
        ("[transaction: { steps: [drop: {}] }]", "database"),
        (
            "[transaction: { database: shop, steps: [sql: { database: shop, query: begin }] }]",
            "a flow cannot run this statement",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tidegate.yaml");
        std::fs::write(&file, format!("{head}{steps}\n")).unwrap();
        let checked = tidegate(&["check", file.to_str().unwrap()]);
        assert_eq!(checked.code, Some(1), "{steps}: {}", checked.stderr);
        let said = checked.stdout + &checked.stderr;
        assert!(said.contains(complaint), "{steps}: {said}");
    }
}

/// A case answers each statement of a transaction. What it refuses fails the transaction.
#[test]
fn a_case_answers_the_statements_of_a_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidegate.yaml");
    let text = "listen: { public: { address: \"127.0.0.1:0\" } }\ndatabases: { shop: { url: \"sqlite:shop.db\" } }\nroutes: { all: { match: { path: / }, flow: all } }\nflows:\n  all: [transaction: { database: shop, steps: [sql: { database: shop, query: 'insert into a values (1)', into: one }, sql: { database: shop, query: 'insert into b values (2)', into: two }] }, respond: { json: '[{{ $one.affected }}, {{ $two.affected }}]' }]\n";
    for (last, reply) in
        [("{ body: '3' }", "{ status: 200, json: [1, 3] }"), ("{ status: 400 }", "{ status: 500 }")]
    {
        let case = format!(
            "cases:\n  all:\n    request: {{ path: / }}\n    calls:\n    - {{ database: shop, expect: {{ json: {{ query: insert into a values (1), arguments: [] }} }}, reply: {{ body: '1' }} }}\n    - {{ database: shop, expect: {{ json: {{ query: insert into b values (2), arguments: [] }} }}, reply: {last} }}\n    reply: {reply}\n"
        );
        std::fs::write(&file, format!("{text}{case}")).unwrap();
        let ran = tidegate(&["test", file.to_str().unwrap()]);
        assert_eq!(ran.code, Some(0), "{reply}: {}{}", ran.stdout, ran.stderr);
    }
}
