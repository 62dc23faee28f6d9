//! The step `sql` of flows, over a MariaDB server of the test's own, and over servers that lie.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::harness::{Authority, Gateway, MariaDb, Message, tidegate, until};

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
        text += &format!("  {name}: {steps}\n");
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

/// The number of statements that sleep at the server.
fn running(server: &MariaDb) -> u32 {
    let asked = "select count(*) from information_schema.processlist where user = 'tester' and info like '%sleep(%'";
    server.sql(asked).parse().unwrap()
}

const TYPES: &str = "select cast(-2 as signed) as `whole`, 18446744073709551615 as `large`, \
    cast(1234567890123456789.0123456789 as decimal(40,10)) as exact, 1e300 as wide, true as yes, null as nothing, 'a\"\\nb' as said, \
    x'00ff' as raw, b'101' + 0 as bits, date '2024-02-29' as day, timestamp '2024-02-29 13:14:15.5' as local, time '101:02:03' as clock";

#[test]
fn rows_are_json() {
    let server = MariaDb::start();
    server.sql(
        "use shop; create table t (a tinyint, b bit(3), c enum('glad','sad'), d json, e blob, f varbinary(4), g text, h timestamp(1) null, i year, j float, k geometry); set time_zone='+01:00'; insert into t values (-1, b'101', 'glad', '{\"a\": 1.10}', x'00ff', x'01', 'é', '2024-02-29 13:14:15.5', 2024, 0.5, point(1,2))",
    );
    for url in [server.url(), server.socket_url()] {
        let gateway = start(
            &format!("url: \"{url}\""),
            &[
                ("types", &format!("[sql: {{ database: shop, query: {TYPES:?} }}]")),
                (
                    "own",
                    "[sql: { database: shop, query: 'select a, b, c, d, e, f, g, h, i, j from t' }]",
                ),
                ("point", "[sql: { database: shop, query: 'select k from t' }]"),
            ],
        );
        let reply = gateway.wire().get("/types/1");
        assert_eq!(reply.get("content-type"), Some("application/json"));
        let text = reply.text();
        assert!(text.contains("\"exact\":1234567890123456789.0123456789,"), "{text}");
        assert!(text.contains("\"large\":18446744073709551615,"), "{text}");
        let row = &json_of(&reply)[0];
        for (name, value) in [
            ("whole", json!(-2)),
            ("wide", json!(1e300)),
            ("yes", json!(1)),
            ("nothing", json!(null)),
            ("said", json!("a\"\nb")),
            ("raw", json!("AP8=")),
            ("bits", json!(5)),
            ("day", json!("2024-02-29")),
            ("local", json!("2024-02-29T13:14:15.5")),
            ("clock", json!("101:02:03")),
        ] {
            assert_eq!(row[name], value, "{name}: {text}");
        }
        let own = json!([{
            "a": -1, "b": 5, "c": "glad", "d": "{\"a\": 1.10}", "e": "AP8=", "f": "AQ==", "g": "\u{e9}",
            "h": "2024-02-29T12:14:15.5Z", "i": 2024, "j": 0.5,
        }]);
        assert_eq!(json_of(&gateway.wire().get("/own/1")), own);
        let unfit = gateway.wire().get("/point/1");
        assert!(unfit.status() == 500 && unfit.text().contains("statement_failed"), "{unfit:?}");
    }
}

/// Arguments of every kind are returned unchanged, and are never interpreted as part of the statement.
#[test]
fn arguments_are_values_and_never_text() {
    let server = MariaDb::start();
    server.sql("use shop; create table users (id int primary key, name varchar(100), price decimal(10,2)); insert into users values (1, 'ann', 1.10), (2, 'o''brien', 2)");
    let gateway = start(
        &format!("url: \"{}\", connections: 1", server.url()),
        &[
            (
                "put",
                "[sql: { database: shop, query: 'insert ignore into users values ($1, $2, $3)', arguments: [$body.id, $body.name, $body.price], into: done }, respond: { json: '{{ $done }}' }]",
            ),
            (
                "name",
                "[sql: { database: shop, query: 'select id, name, price from users where name = $1', arguments: [$body.name] }]",
            ),
            (
                "both",
                "[sql: { database: shop, query: 'select $2 as b, $1 as a, $2 as c', arguments: [$path.id, two] }]",
            ),
            (
                "missing",
                "[sql: { database: shop, query: 'select coalesce($1, $2) as v', arguments: [$body.none, { text: '$literal' }] }]",
            ),
        ],
    );
    let attacks = [
        "'; drop table users; --",
        "\\' or 1=1 -- ",
        "x' or '1'='1",
        "a\u{0}b",
        "\u{1f600}",
        "$1 ? `",
    ];
    for (number, attack) in attacks.iter().enumerate() {
        let body = json!({ "id": number + 10, "name": attack, "price": 0.25 });
        assert_eq!(json_of(&post(&gateway, "/put/1", &body.to_string())), json!({ "affected": 1 }));
        assert_eq!(json_of(&post(&gateway, "/put/1", &body.to_string())), json!({ "affected": 0 }));
        let found = json_of(&post(&gateway, "/name/1", &body.to_string()));
        assert_eq!(found, json!([{ "id": number + 10, "name": attack, "price": 0.25 }]));
    }
    assert_eq!(server.sql("select count(*) from shop.users"), "8");
    let both = json_of(&gateway.wire().get("/both/one"));
    assert_eq!(both, json!([{ "b": "two", "a": "one", "c": "two" }]));
    assert_eq!(json_of(&post(&gateway, "/missing/1", "{}")), json!([{ "v": "$literal" }]));
}

#[test]
fn a_statement_is_bounded_and_cancelled_at_the_server() {
    let server = MariaDb::start();
    let gateway = start(
        &format!("url: \"{}\", connections: 2, timeout: 500ms, rows_max: 3", server.url()),
        &[
            ("slow", "[sql: { database: shop, query: 'select sleep(30) as a' }]"),
            ("fast", "[sql: { database: shop, query: 'select 1 as a' }]"),
            (
                "many",
                "[sql: { database: shop, query: 'select 1 as a union all select 2 union all select 3 union all select 4' }]",
            ),
            (
                "wide",
                "{ limits: { body_bytes_max: 1KiB }, steps: [sql: { database: shop, query: \"select repeat('a', 2000) as a\" }] }",
            ),
            ("long", "[sql: { database: shop, query: 'select sleep(30) as a', timeout: 60s }]"),
            ("wrong", "[sql: { database: shop, query: 'select nix from nowhere' }]"),
            ("twice", "[sql: { database: shop, query: 'select 1 as a, 2 as a' }]"),
        ],
    );
    for _ in 0..3 {
        let late = gateway.wire().get("/slow/1");
        assert!(late.status() == 504 && late.text().contains("database_timeout"), "{late:?}");
    }
    until("the statements are cancelled", || running(&server) == 0);
    for (path, why) in
        [("/many/1", "over 3 rows"), ("/wide/1", "bytes"), ("/wrong/1", "1146"), ("/twice/1", "")]
    {
        let refused = gateway.wire().get(path);
        assert!(
            refused.status() == 500 && refused.text().contains("statement_failed"),
            "{refused:?}"
        );
        gateway.wait_for_log(why);
    }
    // A client that goes takes its statement with it.
    let mut wire = gateway.wire();
    wire.send("GET /long/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    until("it runs", || running(&server) == 1);
    drop(wire);
    until("it is cancelled", || running(&server) == 0);
    assert_eq!(json_of(&gateway.wire().get("/fast/1")), json!([{ "a": 1 }]));
}

#[test]
fn a_server_that_is_away_is_503_and_its_password_is_not_shown() {
    let mut server = MariaDb::start();
    let flows = [("fast", "[sql: { database: shop, query: 'select 1 as a' }]")];
    let wrong = start(&format!("url: \"{}\"", server.url().replace("geheim", "falsch")), &flows);
    let away = wrong.wire().get("/fast/1");
    assert!(away.status() == 503 && away.text().contains("database_away"), "{away:?}");
    wrong.wait_for_log("1045");
    assert!(!wrong.log().contains("falsch"));
    let gateway = start(&format!("url: \"{}\"", server.url()), &flows);
    assert_eq!(gateway.wire().get("/fast/1").status(), 200);
    server.sql("kill user tester");
    // A connection that was lost is replaced, unless a statement may have run over it.
    until("a new connection is open", || gateway.wire().get("/fast/1").status() == 200);
    server.kill();
    until("it is away", || gateway.wire().get("/fast/1").status() == 503);
    assert!(!gateway.log().contains("geheim"));
}

#[test]
fn tls_is_verified_where_the_url_asks_for_it() {
    let authority = Authority::new();
    let server = MariaDb::start_tls(&authority.issue("127.0.0.1"));
    server.sql(
        "create user safe@'%' identified by 'geheim' require ssl; grant all on *.* to safe@'%'",
    );
    let folder = tempfile::tempdir().unwrap();
    let (good, other) = (folder.path().join("ca.pem"), folder.path().join("other.pem"));
    std::fs::write(&good, authority.pem()).unwrap();
    std::fs::write(&other, Authority::new().pem()).unwrap();
    let flows = [("fast", "[sql: { database: shop, query: \"show status like 'ssl_cipher'\" }]")];
    let url = server.url().replace("tester", "safe");
    for (mode, ca, works) in [
        ("require", Some(&good), true),
        ("verify-full", Some(&good), true),
        ("require", Some(&other), false),
        ("require", None, false),
        ("prefer", None, true),
        ("disable", None, false),
    ] {
        let tls = ca.map(|ca| format!(", tls: {{ ca: \"{}\" }}", ca.display())).unwrap_or_default();
        let gateway = start(&format!("url: \"{url}?sslmode={mode}\"{tls}"), &flows);
        let reply = gateway.wire().get("/fast/1");
        assert_eq!(reply.status(), if works { 200 } else { 503 }, "{mode} {ca:?}: {reply:?}");
        if works {
            let cipher = json_of(&reply);
            assert_ne!(cipher[0]["Value"], json!(""), "{cipher}");
        }
    }
    // A server without TLS.
    let plain = MariaDb::start();
    for (mode, works) in [("prefer", true), ("require", false)] {
        let gateway = start(&format!("url: \"{}?sslmode={mode}\"", plain.url()), &flows);
        let status = gateway.wire().get("/fast/1").status();
        assert_eq!(status, if works { 200 } else { 503 }, "{mode}");
    }
}

#[test]
fn what_cannot_work_is_a_complaint() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    for (url, query, part) in [
        ("mysql://u:hunter2@h/d?sslmode=maybe", "select 1", "`sslmode` must be"),
        ("mysql://h/d", "select 1", "it names no user"),
        ("oracle://u:hunter2@h/d", "select 1", "not supported"),
        ("mysql://u:hunter2@h/d", "select ?", "`?` is not a placeholder"),
        ("mysql://u:hunter2@h/d", "select /*!50000 1 */", "that MySQL executes"),
        ("mysql://u:hunter2@h/d", "set names latin1", "changes the connection"),
        ("mysql://u:hunter2@h/d", "use other", "changes the connection"),
        ("mysql://u:hunter2@h/d", "select $1", "takes 1 arguments, but gets 0"),
    ] {
        let flow = format!("[sql: {{ database: shop, query: {query:?} }}]");
        std::fs::write(&file, yaml(&format!("url: \"{url}\""), &[("a", &flow)])).unwrap();
        let run = tidegate(&["check", file.to_str().unwrap()]);
        assert_eq!(run.code, Some(1), "{url} {query}: {run:?}");
        assert!(run.stderr.contains(part) && !run.stderr.contains("hunter2"), "{query}: {run:?}");
    }
}

/// The results of procedures, the number of changed rows, and the lengths of texts.
#[test]
fn statements_of_every_kind_have_their_results() {
    let server = MariaDb::start();
    server.sql("use shop; create table t (id int primary key auto_increment, a longtext); insert into t (a) values ('x')");
    server.sql(
        "use shop\ndelimiter //\n\
         create procedure one(n int) select n as a//\n\
         create procedure two() begin select 1 as a; select 2 as b; end//\n\
         create procedure none() update t set a = concat(a, 'y')//\n\
         create procedure two_kinds() begin update t set a = 'z'; select 3 as a; end//\n",
    );
    let sql = |query: &str| {
        format!(
            "[sql: {{ database: shop, query: \"{query}\", into: r }}, respond: {{ json: '{{{{ $r }}}}' }}]"
        )
    };
    let long = "{ limits: { body_bytes_max: 64MiB }, steps: [sql: { database: shop, query: 'select $1 as a, length($1) as n', arguments: [$body.a] }] }";
    let flows = [
        ("one", sql("call one(7)")),
        ("two", sql("call two()")),
        ("none", sql("call none()")),
        ("both", sql("call two_kinds()")),
        ("same", sql("update t set id = id")),
        ("many", sql("select 1; drop table t")),
        ("twice", sql("insert into t (id) values (1)")),
        ("long", long.to_owned()),
    ];
    let flows: Vec<(&str, &str)> = flows.iter().map(|(name, flow)| (*name, &**flow)).collect();
    let gateway =
        start(&format!("url: \"{}\", connections: 1, timeout: 60s", server.url()), &flows);
    let get = |name: &str| gateway.wire().get(&format!("/{name}/1"));
    // Twice, so that the connection and its prepared statements are used again.
    for _ in 0..2 {
        assert_eq!(json_of(&get("one")), json!([{ "a": 7 }]));
        assert_eq!(json_of(&get("both")), json!([{ "a": 3 }]));
        assert_eq!(json_of(&get("same")), json!({ "affected": 1 }));
        assert_eq!(json_of(&get("none")), json!({ "affected": 1 }));
        for (name, why) in [
            ("two", "several lists of rows"),
            ("many", "1064"),
            ("twice", "Duplicate entry for key"),
        ] {
            let refused = get(name);
            let kind = refused.text();
            assert!(refused.status() == 500 && kind.contains("statement_failed"), "{name}: {kind}");
            gateway.wait_for_log(why);
        }
    }
    assert_eq!(server.sql("select count(*) from shop.t"), "1");
    // Around the length of a frame of the protocol.
    for length in [0, 250, 251, 65_536, (1 << 24) - 20] {
        let body = json!({ "a": "a".repeat(length) });
        let reply = json_of(&post(&gateway, "/long/1", &body.to_string()));
        assert_eq!(reply[0]["n"], json!(length));
        assert_eq!(reply[0]["a"].as_str().map(str::len), Some(length));
    }
}

#[test]
fn fifty_users_share_two_connections_and_get_their_own_answers() {
    let server = MariaDb::start();
    let query = "select $1 as who, sleep(0.002) as s";
    let gateway = start(
        &format!("url: \"{}\", connections: 2, timeout: 60s", server.url()),
        &[(
            "one",
            &format!("[sql: {{ database: shop, query: {query:?}, arguments: [$path.id] }}]"),
        )],
    );
    thread::scope(|scope| {
        for user in 0..50 {
            let gateway = &gateway;
            scope.spawn(move || {
                let mut wire = gateway.wire();
                for round in 0..5 {
                    let who = format!("{user}-{round}");
                    let reply = json_of(&wire.get(&format!("/one/{who}")));
                    assert_eq!(reply, json!([{ "who": who, "s": 0 }]));
                }
            });
        }
    });
    let connections = server
        .sql("select count(*) from information_schema.processlist where user = 'tester'")
        .parse::<u32>();
    assert!(connections.clone().is_ok_and(|count| count <= 2), "{connections:?}");
}

/// A server that answers each packet of a client with the next of its replies, and then does not answer any more.
struct Liar {
    port: u16,
    /// All that clients have sent.
    heard: Arc<Mutex<Vec<u8>>>,
}

/// The packets of one reply.
type Packets = Vec<Vec<u8>>;

impl Liar {
    fn start(greeting: Packets, replies: Vec<Packets>) -> Liar {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = heard.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (greeting, replies, hears) = (greeting.clone(), replies.clone(), hears.clone());
                thread::spawn(move || Liar::talk(stream, &greeting, &replies, &hears));
            }
        });
        Liar { port, heard }
    }

    fn talk(
        mut stream: TcpStream,
        greeting: &Packets,
        replies: &[Packets],
        heard: &Mutex<Vec<u8>>,
    ) -> Option<()> {
        Liar::send(&mut stream, greeting, 0)?;
        for reply in replies {
            let mut header = [0; 4];
            stream.read_exact(&mut header).ok()?;
            let [a, b, c, number] = header;
            let mut packet = vec![0; usize::try_from(u32::from_le_bytes([a, b, c, 0])).unwrap()];
            stream.read_exact(&mut packet).ok()?;
            heard.lock().unwrap().extend(packet);
            Liar::send(&mut stream, reply, number.wrapping_add(1))?;
        }
        // Until the client goes.
        stream.read_to_end(&mut Vec::new()).ok().map(|_| ())
    }

    fn send(stream: &mut TcpStream, packets: &Packets, first: u8) -> Option<()> {
        let mut number = first;
        for packet in packets {
            let [a, b, c, _] = u32::try_from(packet.len()).unwrap().to_le_bytes();
            stream.write_all(&[a, b, c, number]).ok()?;
            stream.write_all(packet).ok()?;
            number = number.wrapping_add(1);
        }
        Some(())
    }

    /// The first packet of a server, which proves passwords by this method.
    fn greeting(method: &str) -> Vec<u8> {
        let mut bytes = b"\x0a8.0.99\0\x01\0\0\x0012345678\0".to_vec();
        // No TLS; protocol 4.1, secure connection, plugins.
        bytes.extend([0x01, 0x82, 45, 2, 0, 0x08, 0, 21]);
        bytes.extend([0; 10]);
        bytes.extend(b"901234567890\0");
        bytes.extend(method.as_bytes());
        bytes.push(0);
        bytes
    }

    fn url(&self) -> String {
        format!("mysql://u:geheim@127.0.0.1:{}/shop?sslmode=prefer", self.port)
    }
}

const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
const END: &[u8] = &[0xFE, 0, 0, 2, 0];
/// Statement 1 without parameters, of a column.
const PREPARED: &[u8] = &[0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
/// The column `a`, a `bigint`.
const COLUMN: &[u8] = b"\x03def\0\0\0\x01a\x01a\x0c\x3f\0\x14\0\0\0\x08\x81\0\0\0\0";
const ROW: &[u8] = &[0, 0, 7, 0, 0, 0, 0, 0, 0, 0];

fn packets(packets: &[&[u8]]) -> Packets {
    packets.iter().map(|packet| packet.to_vec()).collect()
}

/// Invalid answers to a statement.
#[test]
fn a_server_that_lies_or_stalls_is_a_fault() {
    let many = vec![ROW.to_vec(); 600_000];
    let with = |rows: Packets| [packets(&[&[1], COLUMN, END]), rows].concat();
    for (what, reply, status, kind) in [
        ("the truth", with(packets(&[ROW, END])), 200, "{\"a\":7}"),
        ("columns without number", packets(&[&[0xFE; 9]]), 503, "database_away"),
        ("a wish for a file", packets(&[b"\xfb/etc/passwd"]), 503, "database_away"),
        ("a short row", with(packets(&[&ROW[..9]])), 503, "database_away"),
        ("a long row", with(packets(&[&[ROW, &[0]].concat()])), 503, "database_away"),
        ("no column", packets(&[&[1], END]), 503, "database_away"),
        ("half a column", packets(&[&[1], &COLUMN[..20]]), 503, "database_away"),
        ("a type that is not one", packets(&[&[1], &type_of(0x77), END]), 503, "database_away"),
        ("nothing", packets(&[&[]]), 503, "database_away"),
        ("half an error", packets(&[&[0xFF, 1]]), 503, "database_away"),
        ("half an OK", packets(&[&[0, 0xFC]]), 503, "database_away"),
        ("an error", packets(&[b"\xff\x7a\x04#42S02no such table"]), 500, "statement_failed"),
        (
            "an error among rows",
            with(packets(&[ROW, b"\xff\x28\x04#70100stop"])),
            500,
            "statement_failed",
        ),
        ("rows without end", with(many), 500, "statement_failed"),
        ("silence", Vec::new(), 504, "database_timeout"),
        ("silence in a row", with(packets(&[ROW])), 504, "database_timeout"),
    ] {
        let replies =
            vec![packets(&[OK]), packets(&[OK]), packets(&[PREPARED, COLUMN, END]), reply];
        let liar = Liar::start(vec![Liar::greeting("mysql_native_password")], replies);
        let gateway = start(
            &format!("url: \"{}\", timeout: 3s, rows_max: 1000000", liar.url()),
            &[(
                "one",
                "{ limits: { body_bytes_max: 100KiB }, steps: [sql: { database: shop, query: 'select a' }] }",
            )],
        );
        let reply = gateway.wire().get("/one/1");
        let text = reply.text();
        assert!(
            reply.status() == status && text.contains(kind),
            "{what}: {} {text}",
            reply.status()
        );
        assert!(!gateway.log().contains("panicked"), "{what}");
    }
}

/// The column `a` of this type.
fn type_of(kind: u8) -> Vec<u8> {
    let mut column = COLUMN.to_vec();
    let at = column.len() - 6;
    column[at] = kind;
    column
}

/// A fake server cannot get a usable password, and may send any greeting.
#[test]
fn a_server_that_lies_at_login_gets_no_password() {
    let greet = |method: &str| vec![Liar::greeting(method)];
    let native = || greet("mysql_native_password");
    let switch = |method: &str| {
        packets(&[&[b"\xfe", method.as_bytes(), b"\0", b"12345678901234567890\0"].concat()])
    };
    let mut long_nonce = Liar::greeting("mysql_native_password");
    long_nonce[8 + 4 + 9 + 7] = 0x80;
    for (what, greeting, replies, status, why) in [
        ("nothing", vec![], vec![], 504, ""),
        ("no packet", vec![vec![]], vec![], 503, "handshake"),
        ("another protocol", vec![b"HTTP/1.1 400 Bad Request".to_vec()], vec![], 503, "handshake"),
        ("a nonce that is too long", vec![long_nonce], vec![], 503, "handshake"),
        ("an error", vec![b"\xff\x10\x04Too many connections".to_vec()], vec![], 503, "Too many"),
        ("a clear password", native(), vec![switch("mysql_clear_password")], 503, "sent only over"),
        (
            "a clear password at once",
            greet("mysql_clear_password"),
            vec![switch("sha256_password")],
            503,
            "sent only over",
        ),
        ("an old password", native(), vec![packets(&[&[0xFE]])], 503, "mysql_old_password"),
        ("a method of its own", native(), vec![switch("telepathy")], 503, "telepathy"),
        (
            "a short nonce",
            native(),
            vec![packets(&[b"\xfemysql_native_password\0short\0"])],
            503,
            "challenge",
        ),
        (
            "to see the password",
            greet("caching_sha2_password"),
            vec![packets(&[&[1, 4]])],
            503,
            "sent only over",
        ),
        (
            "no end",
            native(),
            vec![switch("mysql_native_password"); 20],
            503,
            "too many authentication packets",
        ),
        (
            "the truth, by a newer method",
            greet("caching_sha2_password"),
            vec![
                packets(&[&[1, 3], OK]),
                packets(&[OK]),
                packets(&[PREPARED, COLUMN, END]),
                packets(&[&[1], COLUMN, END, ROW, END]),
            ],
            200,
            "",
        ),
    ] {
        let liar = Liar::start(greeting, replies);
        let gateway = start(
            &format!("url: \"{}\", timeout: 1s", liar.url()),
            &[("one", "[sql: { database: shop, query: 'select a' }]")],
        );
        let reply = gateway.wire().get("/one/1");
        assert_eq!(reply.status(), status, "{what}: {}", reply.text());
        if status == 503 {
            gateway.wait_for_log(why);
        }
        let heard = liar.heard.lock().unwrap().clone();
        assert!(!heard.windows(6).any(|bytes| bytes == b"geheim"), "{what}");
        assert!(!gateway.log().contains("panicked") && !gateway.log().contains("geheim"), "{what}");
    }
}
