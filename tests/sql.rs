//! The step `sql` of flows, over a PostgreSQL server of the test's own and over files of SQLite.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Authority, Gateway, Message, Postgres, Wire, tidegate, until};

/// A gateway whose routes run flows of their names: `/one/7` runs `one`, with `$path.id`.
#[track_caller]
fn start(database: &str, flows: &[(&str, &str)]) -> Gateway {
    Gateway::start(yaml(database, flows))
}

fn yaml(database: &str, flows: &[(&str, &str)]) -> String {
    let mut text = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 2\ndatabases: {{ shop: {{ {database} }} }}\nroutes:\n"
    );
    for (name, _) in flows {
        text += &format!("  {name}: {{ match: {{ path: \"/{name}/{{id}}\" }}, flow: {name} }}\n");
    }
    text += "flows:\n";
    for (name, steps) in flows {
        text += &format!("  {name}: {}\n", steps.replace('\n', "\n    "));
    }
    text
}

#[track_caller]
fn json_of(reply: &Message) -> Value {
    assert_eq!(reply.status(), 200, "{}", reply.text());
    serde_json::from_str(&reply.text()).unwrap()
}

#[track_caller]
fn post(gateway: &Gateway, path: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

/// The number of statements that the gateway has running at the server.
fn running(postgres: &Postgres) -> u32 {
    let asked = "select count(*) from pg_stat_activity where application_name = 'tidegate' and state = 'active'";
    postgres.sql(asked).parse().unwrap()
}

const TYPES: &str = "select 1::int2 as small, -2 as whole, 9223372036854775807::int8 as large, \
    1234567890123456789.0123456789::numeric as exact, 0.1::float4 as short, 1e300::float8 as wide, 'NaN'::numeric as nan, \
    true as yes, null::text as nothing, E'a\"\\nb' as said, 'x  '::char(3) as padded, '\\x00ff'::bytea as raw, \
    '{\"a\": 1.10, \"b\": [null]}'::jsonb as doc, '[1,  2]'::json as written, date '2024-02-29' as day, \
    timestamp '2024-02-29 13:14:15.5' as local, timestamptz '2024-02-29 13:14:15+01' as instant, time '01:02:03' as clock, \
    interval '1 year 2 days 3 hours' as span, 'c0ffee00-0000-4000-8000-000000000000'::uuid as id, \
    array[[1,null],[3,4]] as grid, array['a,b','c\"d'] as names, array[]::int[] as none";

#[test]
fn rows_of_postgresql_are_json() {
    let postgres = Postgres::start();
    postgres.sql("create type mood as enum ('glad'); create domain score as int; create table moods (m mood, s score); insert into moods values ('glad', 7)");
    for url in [postgres.url(), postgres.socket_url()] {
        let gateway = start(
            &format!("url: \"{url}\""),
            &[
                ("types", &format!("[sql: {{ database: shop, query: {TYPES:?} }}]")),
                ("own", "[sql: { database: shop, query: 'select * from moods' }]"),
                ("point", "[sql: { database: shop, query: 'select point(1,2) as p' }]"),
            ],
        );
        let reply = gateway.wire().get("/types/1");
        assert_eq!(reply.get("content-type"), Some("application/json"));
        assert_eq!(
            reply.text(),
            r#"[{"small":1,"whole":-2,"large":9223372036854775807,"exact":1234567890123456789.0123456789,"short":0.1,"wide":1"#.to_owned()
                + &"0".repeat(300)
                + r#","nan":"NaN","yes":true,"nothing":null,"said":"a\"\nb","padded":"x  ","raw":"AP8=","doc":{"a": 1.10, "b": [null]},"written":[1,  2],"day":"2024-02-29","local":"2024-02-29T13:14:15.5","instant":"2024-02-29T12:14:15Z","clock":"01:02:03","span":"P1Y2DT3H","id":"c0ffee00-0000-4000-8000-000000000000","grid":[[1,null],[3,4]],"names":["a,b","c\"d"],"none":[]}]"#
        );
        assert_eq!(json_of(&gateway.wire().get("/own/1")), json!([{ "m": "glad", "s": 7 }]));
        let unfit = gateway.wire().get("/point/1");
        assert!(unfit.status() == 500 && unfit.text().contains("statement_failed"));
        gateway.wait_for_log("write `::text` after it");
    }
}

/// Arguments of every kind are returned unchanged, and are never interpreted as part of the statement.
#[test]
fn arguments_are_values_and_never_text() {
    let postgres = Postgres::start();
    postgres.sql("create table users (id int primary key, name text)");
    postgres.sql("insert into users values (1, 'ann'), (2, $$o'brien$$)");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.db");
    for url in [postgres.url(), format!("sqlite:{}", file.display())] {
        let gateway = start(
            &format!("url: \"{url}\", connections: 1"),
            &[
                (
                    "make",
                    "[sql: { database: shop, query: 'create table if not exists users (id int primary key, name text)' }, respond: { text: made }]",
                ),
                (
                    "put",
                    "[sql: { database: shop, query: 'insert into users values ($1, $2) on conflict do nothing', arguments: [$body.id, $body.name], into: done }, respond: { json: '{{ $done }}' }]",
                ),
                (
                    "name",
                    "[sql: { database: shop, query: 'select id, name from users where name = $1', arguments: [$body.name] }]",
                ),
                (
                    "id",
                    "[sql: { database: shop, query: 'select name from users where id = $1', arguments: [$path.id], into: rows }, respond: { json: '{{ $rows }}' }]",
                ),
                (
                    "count",
                    "[sql: { database: shop, query: 'select count(*) as n from users', into: rows }, respond: { text: '{{ $rows[0].n }}' }]",
                ),
                (
                    "missing",
                    "[sql: { database: shop, query: 'select coalesce($1, $2) as v', arguments: [$body.none, { text: '$literal' }] }]",
                ),
            ],
        );
        assert_eq!(gateway.wire().get("/make/1").text(), "made");
        let put = |body: &str| json_of(&post(&gateway, "/put/1", body));
        let is_there = url.starts_with("postgres");
        let changed = json!({ "affected": u8::from(!is_there) });
        assert_eq!(put(r#"{"id":1,"name":"ann"}"#), changed);
        assert_eq!(put(r#"{"id":2,"name":"o'brien"}"#), changed);
        for attempt in [
            "' or '1'='1",
            "'; drop table users; --",
            "\\'; drop table users; --",
            "$1",
            "$$;drop table users;$$",
            "ann' union select 1, 'x' --",
            "\u{2019} or 1=1",
        ] {
            let body = json!({ "name": attempt }).to_string();
            assert_eq!(json_of(&post(&gateway, "/name/1", &body)), json!([]), "{attempt}");
        }
        let found = post(&gateway, "/name/1", r#"{"name":"o'brien"}"#);
        assert_eq!(json_of(&found), json!([{ "id": 2, "name": "o'brien" }]));
        for attempt in ["1%20or%201=1", "1)%20or%20(1=1", "1'--", "-"] {
            let reply = gateway.wire().get(&format!("/id/{attempt}"));
            let nothing = reply.status() == 500 || reply.text() == "[]";
            assert!(nothing, "{attempt}: {}", reply.text());
        }
        assert_eq!(gateway.wire().get("/id/1").text(), r#"[{"name":"ann"}]"#);
        assert_eq!(gateway.wire().get("/count/1").text(), "2");
        assert_eq!(json_of(&post(&gateway, "/missing/1", "{}")), json!([{ "v": "$literal" }]));
    }
}

#[test]
fn values_of_every_type_go_in_and_come_back() {
    let postgres = Postgres::start();
    let query = "select $1::numeric as n, $2::jsonb as j, $3::bytea as b, $4::timestamptz as t, $5::int[] as a, $6::bool as y, $7::text as s";
    let arguments = "[$body.n, $body.j, $body.b, $body.t, $body.a, $body.y, $body.s]";
    let gateway = start(
        &format!("url: \"{}\"", postgres.url()),
        &[(
            "all",
            &format!("[sql: {{ database: shop, query: {query:?}, arguments: {arguments} }}]"),
        )],
    );
    for text in [
        r#"{"n":12345678901234567890.10,"j":{"x": [1.0]},"b":"AP8=","t":"2024-01-02T03:04:05Z","a":[1,2],"y":false,"s":"ü\u0001"}"#,
        r#"{"n":null,"j":null,"b":null,"t":null,"a":null,"y":null,"s":null}"#,
    ] {
        let reply = post(&gateway, "/all/1", text).text();
        assert_eq!(reply.replace("\"a\":{1,2}", "\"a\":[1,2]"), format!("[{text}]"));
    }
    let bad = post(&gateway, "/all/1", r#"{"n":"many","b":"%"}"#);
    assert_eq!(bad.status(), 500);
    gateway.wait_for_log("the argument $3");
}

/// A hanging statement ends at its time, at the server too; so does one whose client has gone.
#[test]
fn statements_end_in_time_and_with_their_clients() {
    let postgres = Postgres::start();
    let gateway = start(
        &format!("url: \"{}\", connections: 1, timeout: 600s", postgres.url()),
        &[
            ("late", "[sql: { database: shop, query: 'select pg_sleep(600)', timeout: 200ms }]"),
            (
                "caught",
                "{ steps: [sql: { database: shop, query: 'select pg_sleep(600)', timeout: 200ms }], catch: [respond: { text: '{{ $error.kind }}' }] }",
            ),
            ("long", "[sql: { database: shop, query: 'select pg_sleep(600)' }]"),
            (
                "flow",
                "{ timeout: 300ms, steps: [sql: { database: shop, query: 'select pg_sleep(600)' }] }",
            ),
            ("quick", "[sql: { database: shop, query: 'select 1 as n' }]"),
        ],
    );
    let late = gateway.wire().get("/late/1");
    assert!(late.status() == 504 && late.text().contains("database_timeout"), "{}", late.text());
    assert_eq!(gateway.wire().get("/caught/1").text(), "database_timeout");
    let flow = gateway.wire().get("/flow/1");
    assert!(flow.status() == 504 && flow.text().contains("flow_timeout"), "{}", flow.text());
    until("all are cancelled", || running(&postgres) == 0);
    let mut wire = gateway.wire();
    wire.send("GET /long/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    until("it runs", || running(&postgres) == 1);
    wire.reset();
    until("it is cancelled", || running(&postgres) == 0);
    assert_eq!(json_of(&gateway.wire().get("/quick/1")), json!([{ "n": 1 }]));
}

/// A server that stops in the middle, is unavailable, and restarts.
#[test]
fn a_server_that_is_away_is_a_fault_until_it_is_back() {
    let mut postgres = Postgres::start();
    postgres.sql("create table seen (n int)");
    let gateway = start(
        &format!("url: \"{}\", connections: 2, timeout: 60s", postgres.url()),
        &[
            ("sleep", "[sql: { database: shop, query: 'select pg_sleep(600)' }]"),
            (
                "add",
                "[sql: { database: shop, query: 'insert into seen values (1)', into: done }, respond: { json: '{{ $done }}' }]",
            ),
        ],
    );
    assert_eq!(json_of(&gateway.wire().get("/add/1")), json!({ "affected": 1 }));
    let mut wire = gateway.wire();
    wire.send("GET /sleep/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    until("it runs", || running(&postgres) == 1);
    postgres.kill();
    let cut = wire.read_reply();
    assert!(cut.status() == 503 && cut.text().contains("database_away"), "{}", cut.text());
    let away = gateway.wire().get("/add/1");
    assert!(away.status() == 503 && away.text().contains("database_away"), "{}", away.text());
    assert!(!away.text().contains("127.0.0.1") && !away.text().contains("refused"));
    gateway.wait_for_log("connecting to 127.0.0.1");
    postgres.start_again();
    // Idle connections are gone, which no message notices.
    for _ in 0..4 {
        assert_eq!(json_of(&gateway.wire().get("/add/1")), json!({ "affected": 1 }));
    }
    assert_eq!(postgres.sql("select count(*) from seen"), "5");
    postgres.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'tidegate'");
    assert_eq!(json_of(&gateway.wire().get("/add/1")), json!({ "affected": 1 }));
    postgres.sql("alter table seen add m int; alter table seen rename n to k");
    assert_eq!(gateway.wire().get("/add/1").status(), 200);
}

#[test]
fn fifty_users_share_two_connections_and_get_their_own_answers() {
    const USERS: usize = 50;
    const ROUNDS: usize = 10;
    let postgres = Postgres::start();
    let query = "select $1::text as who, pg_sleep(0.002)::text as s";
    let gateway = start(
        &format!("url: \"{}\", connections: 2, timeout: 60s", postgres.url()),
        &[(
            "one",
            &format!("[sql: {{ database: shop, query: {query:?}, arguments: [$path.id] }}]"),
        )],
    );
    std::thread::scope(|scope| {
        let users: Vec<_> = (0..USERS)
            .map(|user| {
                let mut wire = gateway.wire();
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let who = format!("{user}-{round}");
                        let reply = wire.get(&format!("/one/{who}"));
                        assert_eq!(reply.text(), format!(r#"[{{"who":"{who}","s":""}}]"#));
                    }
                })
            })
            .collect();
        let asked = "select count(*) from pg_stat_activity where application_name = 'tidegate'";
        while !users.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            let open: usize = postgres.sql(asked).parse().unwrap();
            assert!(open <= 2, "{open}");
        }
    });
}

/// A request that waits too long for a connection gets a fault, and the others get their answers.
#[test]
fn a_pool_in_use_is_a_fault_of_its_own() {
    let postgres = Postgres::start();
    let gateway = start(
        &format!("url: \"{}\", connections: 1, timeout: 60s", postgres.url()),
        &[
            ("sleep", "[sql: { database: shop, query: 'select pg_sleep(600)' }]"),
            ("quick", "[sql: { database: shop, query: 'select 1', timeout: 100ms }]"),
        ],
    );
    let mut wire = gateway.wire();
    wire.send("GET /sleep/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    until("it runs", || running(&postgres) == 1);
    let busy = gateway.wire().get("/quick/1");
    assert!(busy.text().contains("database_busy") || busy.text().contains("database_timeout"));
    assert!(matches!(busy.status(), 503 | 504));
    wire.reset();
}

#[test]
fn answers_are_bounded_in_rows_and_bytes() {
    let postgres = Postgres::start();
    let folder = tempfile::tempdir().unwrap();
    let sqlite = format!("sqlite:{}", folder.path().join("a.db").display());
    let many = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) select i from n";
    let endless =
        "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";
    for (url, long) in [
        (postgres.url(), "select repeat('x', 100000000) as x"),
        (sqlite, "select hex(zeroblob(9000000)) as x"),
    ] {
        let gateway = start(
            &format!("url: \"{url}\", rows_max: 999, connections: 1"),
            &[
                ("many", &format!("[sql: {{ database: shop, query: {many:?} }}]")),
                (
                    "enough",
                    &format!(
                        "[sql: {{ database: shop, query: {many:?}, rows_max: 1000 }}, respond: {{ text: ok }}]"
                    ),
                ),
                ("long", &format!("[sql: {{ database: shop, query: {long:?} }}]")),
                (
                    "endless",
                    &format!("[sql: {{ database: shop, query: {endless:?}, timeout: 300ms }}]"),
                ),
            ],
        );
        for (path, status, kind) in [
            ("/many/1", 500, "statement_failed"),
            ("/long/1", 500, "statement_failed"),
            ("/endless/1", 504, "database_timeout"),
        ] {
            let reply = gateway.wire().get(path);
            assert!(
                reply.status() == status && reply.text().contains(kind),
                "{url} {path}: {}",
                reply.text()
            );
        }
        gateway.wait_for_log("over 999 rows");
        gateway.wait_for_log("bytes");
        assert_eq!(gateway.wire().get("/enough/1").text(), "ok");
    }
}

#[test]
fn files_of_sqlite_are_asked_beside_the_workers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let gateway = start(
        &format!("url: \"sqlite:{}\", timeout: 600s", file.display()),
        &[
            (
                "make",
                "[sql: { database: shop, query: 'create table t (n integer, x real, s text, b blob, y boolean, j json)' }, respond: { text: made }]",
            ),
            (
                "put",
                "[sql: { database: shop, query: 'insert into t values ($1, $2, $3, $4, $5, $6) returning n', arguments: [$body.n, $body.x, $body.s, $body.b, $body.y, $body.j] }]",
            ),
            ("get", "[sql: { database: shop, query: 'select * from t' }]"),
            (
                "bad",
                "{ steps: [sql: { database: shop, query: \"select\\n  nme from t\" }], catch: [respond: { text: '{{ $error.detail }}' }] }",
            ),
            (
                "twice",
                "{ steps: [sql: { database: shop, query: 'select n, x as n from t' }], catch: [respond: { text: '{{ $error.detail }}' }] }",
            ),
            (
                "endless",
                "[scatter: { branches: [{ sql: { database: shop, query: 'with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n' } }, { payload: { json: '{}' } }], gather: { into: { json: [] }, complete: 1 } }, respond: {}]",
            ),
        ],
    );
    assert_eq!(gateway.wire().get("/make/1").text(), "made");
    let row = r#"{"n":7,"x":0.5,"s":"a'b","b":null,"y":true,"j":{"k": [1.10]}}"#;
    assert_eq!(json_of(&post(&gateway, "/put/1", row)), json!([{ "n": 7 }]));
    assert_eq!(gateway.wire().get("/get/1").text(), format!("[{row}]"));
    let twice = gateway.wire().get("/twice/1").text();
    assert!(twice.contains("two columns of the result have the name \"n\""), "{twice}");
    let bad = gateway.wire().get("/bad/1").text();
    assert!(
        bad.contains("no such column: nme") && bad.contains("at 2:3 of the statement"),
        "{bad}"
    );
    // An abandoned statement is stopped. Otherwise the program would compute for ten minutes before it ends.
    assert_eq!(gateway.wire().get("/endless/1").status(), 200);
    gateway.signal(rustix::process::Signal::TERM);
    assert!(gateway.wait_for_exit().success());
}

#[test]
fn tls_is_spoken_as_the_url_says() {
    let authority = Authority::new();
    let postgres = Postgres::start_tls(&authority.issue("127.0.0.1"));
    let ca = tempfile::tempdir().unwrap();
    let (ours, others) = (ca.path().join("ca.pem"), ca.path().join("other.pem"));
    fs::write(&ours, authority.pem()).unwrap();
    fs::write(&others, Authority::new().pem()).unwrap();
    let flow = "[sql: { database: shop, query: 'select ssl from pg_stat_ssl where pid = pg_backend_pid()', into: r }, respond: { text: '{{ $r[0].ssl }}' }]";
    for (mode, tls, said) in [
        ("disable", String::new(), "false"),
        ("prefer", String::new(), "true"),
        ("require", format!("tls: {{ ca: {} }}", ours.display()), "true"),
        ("verify-full", format!("tls: {{ ca: {} }}", others.display()), "database_away"),
        ("require", String::new(), "database_away"),
    ] {
        let database = format!("url: \"{}?sslmode={mode}\", {tls}", postgres.url());
        let gateway = start(&database, &[("tls", flow)]);
        let text = gateway.wire().get("/tls/1").text();
        assert!(text.contains(said), "{mode} {tls}: {text}");
    }
}

#[test]
fn check_says_what_is_wrong_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.yaml");
    let check = |database: &str, step: &str| {
        let flow = format!("[sql: {{ {step} }}]");
        fs::write(&path, yaml(database, &[("main", &flow)])).unwrap();
        let run = tidegate(&["check", &path.display().to_string()]);
        let said = run.stdout + &run.stderr;
        assert!(!said.contains("hunter2"), "{said}");
        (run.code, said)
    };
    let good = "url: \"postgres://u:hunter2@db.local/shop\"";
    for (database, step, said) in [
        (good, "database: shp, query: select 1", "did you mean `shop`?"),
        (good, "database: shop, query: 'select $1'", "takes 1 arguments, but gets 0"),
        (
            good,
            "database: shop, query: 'select 1', arguments: [$body]",
            "takes 0 arguments, but gets 1",
        ),
        (
            good,
            "database: shop, query: 'select $2', arguments: [$body]",
            "but not all placeholders before it",
        ),
        (good, "database: shop, query: begin", "`BEGIN` changes the connection"),
        (good, "database: shop, query: \"select 'a\"", "is not terminated"),
        (good, "database: shop, query: select 1, into: body", "`body` is reserved"),
        (
            "url: \"oracle://u:hunter2@db/shop\"",
            "database: shop, query: select 1",
            "databases of oracle are not supported",
        ),
        (
            "url: \"postgres://u:hunter2@db/shop?sslmode=on\"",
            "database: shop, query: select 1",
            "`sslmode` must be",
        ),
        ("url: \"postgres://u:hunter2@db:x/shop\"", "database: shop, query: select 1", "malformed"),
        ("url: \"sqlite:none/a.db\"", "database: shop, query: select 1", "there is no folder"),
        ("url: \"sqlite:a.db\"", "database: shop, query: selekt 1", "syntax error"),
    ] {
        let (code, text) = check(database, step);
        assert!(
            code == Some(1) && text.contains(said) && text.contains("a.yaml:"),
            "{step}: {text}"
        );
    }
    let (code, text) = check(good, "database: shop, query: 'select $1', arguments: [$path.id]");
    assert_eq!(code, Some(0), "{text}");
    for command in ["explain", "diff"] {
        let file = path.display().to_string();
        let files =
            if command == "diff" { vec![command, &file, &file] } else { vec![command, &file] };
        let run = tidegate(&files);
        assert!(!(run.stdout + &run.stderr).contains("hunter2"), "{command}");
    }
    assert!(!folder.path().join("a.db").exists());
}

/// Cases answer statements as listed. No database is used, and no file is opened.
#[test]
fn cases_answer_for_databases() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.yaml");
    let flow = "[sql: { database: shop, query: 'select name from users where id = $1', arguments: [$path.id], into: rows }, sql: { database: shop, query: 'delete from users where id = $1', arguments: [$path.id], into: gone }, respond: { json: '{\"name\": {{ $rows[0].name }}, \"gone\": {{ $gone.affected }}}' }]";
    let cases = |id: &str| {
        format!(
            r#"
cases:
  one:
    request: {{ path: /main/7 }}
    calls:
      - database: shop
        expect: {{ json: {{ query: "select name from users where id = $1", arguments: ["{id}"] }} }}
        reply: {{ body: '[{{"name": "ann"}}]' }}
      - {{ database: shop, reply: {{ body: "3" }} }}
    reply: {{ json: {{ name: ann, gone: 3 }} }}
"#
        )
    };
    let run = |text: String| {
        fs::write(&path, text).unwrap();
        tidegate(&["test", &path.display().to_string()])
    };
    let file = folder.path().join("a.db");
    for url in [format!("sqlite:{}", file.display()), "postgres://u:p@127.0.0.1:1/a".to_owned()] {
        let base = yaml(&format!("url: \"{url}\""), &[("main", flow)]);
        let good = run(format!("{base}{}", cases("7")));
        assert_eq!(good.code, Some(0), "{}{}", good.stdout, good.stderr);
        let bad = run(format!("{base}{}", cases("8")));
        assert!(bad.code == Some(1) && bad.stdout.contains("database shop"), "{}", bad.stdout);
        let twice = run(format!(
            "{base}{}",
            cases("7").replace("database: shop, reply", "database: shop, upstream: a, reply")
        ));
        assert!(twice.code == Some(1) || twice.code == Some(2), "{:?}", twice.code);
    }
    assert!(!file.exists());
}

/// A reload keeps the connections of a database that did not change.
#[test]
fn a_reload_keeps_connections() {
    let postgres = Postgres::start();
    let flow = "[sql: { database: shop, query: 'select pg_backend_pid() as pid', into: r }, respond: { text: '{{ $r[0].pid }}' }]";
    let database = format!("url: \"{}\", connections: 1", postgres.url());
    let configuration = yaml(&database, &[("main", flow)]);
    let gateway = Gateway::start(&configuration);
    let pid = |wire: &mut Wire| wire.get("/main/1").text();
    let before = pid(&mut gateway.wire());
    gateway.rewrite(format!("{configuration}plans: {{ Gold: {{ requests: 1, per: 1s }} }}\n"));
    gateway.wait_for_log("generation=2");
    assert_eq!(pid(&mut gateway.wire()), before);
    gateway.rewrite(configuration.replace("connections: 1", "connections: 3"));
    gateway.wait_for_log("generation=3");
    assert_ne!(pid(&mut gateway.wire()), before);
    until("the old connection is closed", || {
        postgres.sql("select count(*) from pg_stat_activity where application_name = 'tidegate'")
            == "1"
    });
    assert!(!gateway.log().contains("geheim"));
}
