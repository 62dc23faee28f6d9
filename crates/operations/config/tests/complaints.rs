//! Tests of complaints about values that cannot be read.

use std::path::Path;

use config::Report;
use expect_test::{Expect, expect};

fn read(text: &str) -> Report {
    let report = config::parse(text, Path::new("gate.yaml")).report;
    assert!(report.has_errors(), "this should not be readable");
    report
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&read(text).to_string());
}

#[test]
fn ten_mistakes_are_ten_complaints() {
    check(
        r#"listen:
  public: { adress: "0.0.0.0:8080" }
  secure:
    address: "0.0.0.0"
    http2: "yes"
    timeout: { head: 10 }
    limits: { head_bytes_max: 64kb }
upstreams:
  orders:
    targets: ["http://10.0.0.1:8080/v1", { url: "ftp://10.0.0.2", weight: 0 }]
    balance: roundrobin
routes:
  orders:
    match: { path: "/orders/**" }
    policies:
      - header: {}
    upstream: orders
workers: many
zebra: {}
"#,
        expect![[r#"
            gate.yaml:2:13: unknown key `adress`; did you mean `address`?
              help: the keys here are `address`, `tls`, `http2`, `proxy_protocol`, `trusted_proxies`, `pass_untrusted_headers`, `paths`, `limits` and `timeout`
            gate.yaml:4:14: `0.0.0.0` is not an address and a port
              help: write an address and a port in quotes: "0.0.0.0:8080", "127.0.0.1:0", "[::]:8080"
            gate.yaml:5:12: expected `true` or `false`, found the text `yes`
              help: write `true` or `false` without quotes
            gate.yaml:6:22: the duration `10` has no unit
              help: write a whole number and its unit: `250ms`, `1s`, `5m`, `2h` or `10d`
            gate.yaml:7:31: the size `64kb` has the unknown unit `kb`
              help: write a whole number and its unit: `512B`, `64KiB`, `1MiB`, `10MB` or `1GiB`
            gate.yaml:10:15: the target `http://10.0.0.1:8080/v1` has something after its host and port
              help: write `http://HOST:PORT` or `https://HOST:PORT`, or `srv+http://_SERVICE._tcp.DOMAIN` for SRV records; paths are changed on the route
            gate.yaml:10:49: the target `ftp://10.0.0.2` is neither http nor https
              help: write `http://HOST:PORT` or `https://HOST:PORT`, or `srv+http://_SERVICE._tcp.DOMAIN` for SRV records; paths are changed on the route
            gate.yaml:11:14: unknown value `roundrobin`; did you mean `round_robin`?
              help: write `round_robin`, `least_requests`, `failover` or `hash`
            gate.yaml:16:9: unknown policy `header`; did you mean `headers`?
              help: the policies are `api_key`, `authenticate`, `authorize`, `backend_jwt`, `basic`, `hmac`, `jwks`, `jwt`, `key_type`, `mutual_tls`, `headers`, `transform`, `redirect`, `rate_limit`, `for`, `subscription`, `concurrency`, `sse`, `websocket`, `correlation`, `canary`, `cors`, `cache`, `compress`, `grpc_json`, `grpc_web`, `forward_auth`, `ip_filter`, `interceptor`, `openapi`, `json_schema`, `mock`, `soap`, `soap_rest`, `user_agent`, `use`, `ws_security`, `xpath_route` and `xslt`
            gate.yaml:18:10: expected a whole number from 1 to 256, found `many`
              help: write a whole number from 1 to 256 without quotes
            gate.yaml:19:1: unknown key `zebra`
              help: the keys here are `listen`, `admin`, `status`, `workers`, `limits`, `shutdown`, `upgrade`, `drain`, `upstreams`, `issuers`, `routes`, `flows`, `databases`, `endpoints`, `hubs`, `queues`, `schedules`, `cases`, `plans`, `applications`, `catalog`, `stores`, `store`, `control`, `policy_sets`, `defaults`, `apis`, `bundles`, `saxon` and `telemetry`
        "#]],
    );
}

#[test]
fn the_line_is_quoted_on_request() {
    let text = "listen:\n  public: { adress: \"0.0.0.0:8080\" }\n";
    let report = read(text);
    expect![[r#"
        gate.yaml:2:13: unknown key `adress`; did you mean `address`?
            |   public: { adress: "0.0.0.0:8080" }
            |             ^
          help: the keys here are `address`, `tls`, `http2`, `proxy_protocol`, `trusted_proxies`, `pass_untrusted_headers`, `paths`, `limits` and `timeout`
    "#]].assert_eq(&format!("{report:#}"));
}

#[test]
fn failures_of_health_checks_that_count_for_nothing() {
    let upstream = |after: &str| {
        format!(
            "upstreams: {{ u: {{ targets: [\"http://h\"], health: {{ unhealthy_after: {after} }} }} }}\n"
        )
    };
    check(
        &upstream("{ connection: 0, status: 0 }"),
        expect![[r#"
            gate.yaml:1:69: no failure would make a target unhealthy
              help: write one of `connection`, `timeout` and `status` above 0
        "#]],
    );
    check(
        &upstream("{ timeout: 256, status: 1 }"),
        expect![[r#"
            gate.yaml:1:80: expected a whole number from 0 to 255, found `256`
              help: write a whole number from 0 to 255 without quotes
        "#]],
    );
    check(
        &upstream("0"),
        expect![[r#"
            gate.yaml:1:69: expected a whole number from 1 to 100, found `0`
              help: write a whole number from 1 to 100 without quotes
        "#]],
    );
}

#[test]
fn keys_that_are_there_twice() {
    check(
        "listen:\n  a: { address: \"[::]:1\" }\n  a: { address: \"[::]:2\" }\nlisten: {}\n",
        expect![[r#"
            gate.yaml:3:3: the key `a` appears twice; the first is on line 2
              help: remove one of the two, or give it another name
            gate.yaml:4:1: the key `listen` appears twice; the first is on line 1
              help: remove one of the two, or give it another name
        "#]],
    );
}

#[test]
fn nothing_where_something_has_to_be() {
    check(
        "",
        expect![[r#"
        gate.yaml:1:1: the file is empty
          help: write at least `listen: { public: { address: "0.0.0.0:8080" } }`
    "#]],
    );
    check(
        "# only a comment\n",
        expect![[r#"
        gate.yaml:1:1: the file is empty
          help: write at least `listen: { public: { address: "0.0.0.0:8080" } }`
    "#]],
    );
    check(
        "listen:\nroutes:\n  a:\n    match:\n",
        expect![[r#"
        gate.yaml:1:1: expected a map from names to values, found nothing
          help: write it with its keys indented below, `{}` for an empty one, or remove the key
        gate.yaml:4:5: expected a map, found nothing
          help: write it with its keys indented below, `{}` for an empty one, or remove the key
    "#]],
    );
    check(
        "- a\n- b\n",
        expect![[r#"
        gate.yaml:1:1: expected a map, found a list
          help: write `{ key: value }`, or one `key: value` on each line
    "#]],
    );
}

#[test]
fn not_yaml() {
    check(
        "listen: { public: { address: \"a\" }\n",
        expect![[r#"
        gate.yaml:2:1: this is not YAML: while parsing a flow mapping, did not find expected ',' or '}'
          help: check the indentation, colons and brackets here; write `"${NAME}"` in quotes inside `{ }` and `[ ]`
    "#]],
    );
    check(
        "listen:\n\tpublic: 1\n",
        expect![[r#"
            gate.yaml:2:2: there is a tab where YAML allows only spaces
              help: indent with spaces; most editors can insert them for the tab key
        "#]],
    );
    check(
        "listen: { a: { address: ${HOST} } }\n",
        expect![[r#"
        gate.yaml:1:26: this is not YAML: while parsing a flow mapping, did not find expected ',' or '}'
          help: check the indentation, colons and brackets here; write `"${NAME}"` in quotes inside `{ }` and `[ ]`
    "#]],
    );
    check(
        "listen: *nowhere\n",
        expect![[r#"
        gate.yaml:1:9: this is not YAML: while parsing node, found unknown anchor
          help: check the indentation, colons and brackets here; write `"${NAME}"` in quotes inside `{ }` and `[ ]`
    "#]],
    );
    check(
        "listen: {}\n---\nlisten: {}\n",
        expect![[r#"
        gate.yaml:2:1: a second document starts here
          help: write one document; remove the `---`, or make a folder with one file each
    "#]],
    );
    check(
        "listen: !private { ? [a] : b }\n",
        expect![[r#"
        gate.yaml:1:9: the tag `!private` has no meaning here
          help: write the value without a tag
        gate.yaml:1:22: a key must be text
          help: write a name before the colon
    "#]],
    );
}

#[test]
fn values_of_the_wrong_shape() {
    check(
        r#"listen: { a: { address: "localhost:http", http2: 1, trusted_proxies: [10.0.0.0/33, x] } }
admin: "127.0.0.1:9901"
workers: 0
shutdown: { drain: soon }
upstreams:
  a:
    targets: [http://u:p@h, "http://[::g]", "h:80", "http://h:0", "http://h_x:99999"]
    balance: { hash: { by: "head:x" } }
    timeout: { connect: 0s, response: 99999999999d, idle: [] }
    retry: { attempts: 11, on: [refused, 404, 503] }
    health: { statuses: [99, 300-200, 200-399] }
    tls: { verify: maybe }
  b: { balance: hash }
routes:
  a:
    match: { path: [[a]], headers: { x: { present: false }, y: [1] }, query: { z: } }
    limits: { body_bytes_max: 10 }
    policies: [cors, { a: 1, b: 2 }, {}]
    respond: { status: 100, body: {}, headers: { a: {} } }
telemetry: { access_log: { format: jsn, path: "" } }
"#,
        expect![[r#"
            gate.yaml:1:25: `localhost:http` is not an address and a port
              help: write an address and a port in quotes: "0.0.0.0:8080", "127.0.0.1:0", "[::]:8080"
            gate.yaml:1:50: expected `true` or `false`, found `1`
              help: write `true` or `false` without quotes
            gate.yaml:1:71: `10.0.0.0/33` is not a network
              help: write a network like `10.0.0.0/8` or `fd00::/8`, or one address
            gate.yaml:1:84: `x` is not a network
              help: write a network like `10.0.0.0/8` or `fd00::/8`, or one address
            gate.yaml:2:8: expected a map, found the text `127.0.0.1:9901`
              help: write `{ key: value }`, or one `key: value` on each line
            gate.yaml:3:10: expected a whole number from 1 to 256, found `0`
              help: write a whole number from 1 to 256 without quotes
            gate.yaml:4:20: `soon` is not a duration
              help: write a whole number and its unit: `250ms`, `1s`, `5m`, `2h` or `10d`
            gate.yaml:7:15: a target cannot have a user name or password
              help: write `http://HOST:PORT` or `https://HOST:PORT`, or `srv+http://_SERVICE._tcp.DOMAIN` for SRV records; paths are changed on the route
            gate.yaml:7:29: the target `http://[::g]` has a bad IPv6 address
              help: write `http://HOST:PORT` or `https://HOST:PORT`, or `srv+http://_SERVICE._tcp.DOMAIN` for SRV records; paths are changed on the route
            gate.yaml:7:45: the target `h:80` has no scheme
              help: write `http://HOST:PORT` or `https://HOST:PORT`, or `srv+http://_SERVICE._tcp.DOMAIN` for SRV records; paths are changed on the route
            gate.yaml:7:53: the target `http://h:0` has a bad port
              help: write `http://HOST:PORT` or `https://HOST:PORT`, or `srv+http://_SERVICE._tcp.DOMAIN` for SRV records; paths are changed on the route
            gate.yaml:7:67: the target `http://h_x:99999` has a bad port
              help: write `http://HOST:PORT` or `https://HOST:PORT`, or `srv+http://_SERVICE._tcp.DOMAIN` for SRV records; paths are changed on the route
            gate.yaml:8:28: `head:x` cannot be hashed
              help: write `client`, `consumer`, `path`, `header:NAME`, `cookie:NAME`, `query:NAME` or `capture:NAME`
            gate.yaml:9:25: the time must not be zero
              help: write at least `1ms`; for no practical limit, write a long time such as `10d`
            gate.yaml:9:39: the duration `99999999999d` is too large
              help: write a whole number and its unit: `250ms`, `1s`, `5m`, `2h` or `10d`
            gate.yaml:9:59: expected a duration, found a list
              help: write a whole number and its unit: `250ms`, `1s`, `5m`, `2h` or `10d`
            gate.yaml:10:24: expected a whole number from 0 to 10, found `11`
              help: write a whole number from 0 to 10 without quotes
            gate.yaml:10:33: unknown value `refused`
              help: write a status from 500 to 599, `connect_failure`, `reset`, `timeout`, `cancelled`, `deadline_exceeded`, `internal`, `resource_exhausted` or `unavailable`
            gate.yaml:10:42: the status `404` is not a failure of the service
              help: only a status from 500 to 599 means that the service failed
            gate.yaml:11:26: `99` is not a status from 100 to 599, nor a range
              help: write a status like `200`, or a range like `200-399`
            gate.yaml:11:30: `300-200` is not a status from 100 to 599, nor a range
              help: write a status like `200`, or a range like `200-399`
            gate.yaml:12:20: expected `true` or `false`, found `maybe`
              help: write `true` or `false` without quotes
            gate.yaml:13:3: the key `targets` is missing
              help: add `targets`: Targets of the service: URLs like `http://10.0.0.1:8080`, or `{ url: ..., weight: 2 }`; or one like
            gate.yaml:16:21: expected text, found a list
              help: write a text; quote it where YAML would misread it
            gate.yaml:16:52: expected `present: true`, found `false`
              help: write the exact value, `{ any: [a, b] }`, `{ regex: "a.*" }` or `{ present: true }`
            gate.yaml:16:64: expected a value, found a list
              help: write the exact value, `{ any: [a, b] }`, `{ regex: "a.*" }` or `{ present: true }`
            gate.yaml:16:81: expected a value, found nothing
              help: write the exact value, `{ any: [a, b] }`, `{ regex: "a.*" }` or `{ present: true }`
            gate.yaml:17:31: the size `10` has no unit
              help: write a whole number and its unit: `512B`, `64KiB`, `1MiB`, `10MB` or `1GiB`
            gate.yaml:18:16: expected a policy, found `cors`
              help: write `- NAME: { ... }`, one item for each policy, keys indented below its name
            gate.yaml:18:30: one item of the list has two policies, `a` and `b`
              help: write `- NAME: { ... }`, one item for each policy, keys indented below its name
            gate.yaml:18:38: a policy needs a name
              help: write `- NAME: { ... }`, one item for each policy, keys indented below its name
            gate.yaml:19:24: expected a whole number from 200 to 599, found `100`
              help: write a whole number from 200 to 599 without quotes
            gate.yaml:19:35: expected text, found a map
              help: write a text; quote it where YAML would misread it
            gate.yaml:19:53: expected text, found a map
              help: write a text; quote it where YAML would misread it
            gate.yaml:20:36: `jsn` is neither `json` nor a template with fields
              help: write `json`, or a template like "{client} {method} {path} {status}"
            gate.yaml:20:47: the path must not be empty
              help: write the path of a file, such as `tls/key.pem`; a relative one starts at this file's folder
        "#]],
    );
}

#[test]
fn an_alias_bomb_is_a_complaint() {
    let mut text = String::from("a: &a [x, x, x, x, x, x, x, x, x, x]\n");
    for (one, before) in ('b'..='j').zip('a'..) {
        let items = vec![format!("*{before}"); 10].join(", ");
        text.push_str(&format!("{one}: &{one} [{items}]\n"));
    }
    check(
        &text,
        expect![[r#"
        gate.yaml:7:8: the file is too large here: more than 2000000 values or 67108864 bytes of text with its aliases written out
          help: use fewer aliases, or split the configuration into a folder of files
    "#]],
    );

    let long = "x".repeat(1_000_000);
    let text = format!("a: &a \"{long}\"\nb: [{}]\n", vec!["*a"; 100].join(", "));
    check(
        &text,
        expect![[r#"
        gate.yaml:2:269: the file is too large here: more than 2000000 values or 67108864 bytes of text with its aliases written out
          help: use fewer aliases, or split the configuration into a folder of files
    "#]],
    );
}

#[test]
fn an_alias_within_itself_is_a_complaint() {
    check(
        "listen: &a { x: *a }\n",
        expect![[r#"
        gate.yaml:1:17: this alias refers to a value that contains it
          help: write the value out
    "#]],
    );
}

#[test]
fn deep_nesting_is_a_complaint() {
    let text = format!("listen: {}{}\n", "[".repeat(65), "]".repeat(65));
    check(
        &text,
        expect![[r#"
        gate.yaml:1:72: nested deeper than 64 levels
          help: move inner steps into flows, and run those with `sequence`; write deep JSON as a text
    "#]],
    );
    let text = format!("listen: {}1\n", "{ a: ".repeat(20_000));
    check(
        &text,
        expect![[r#"
        gate.yaml:1:324: nested deeper than 64 levels
          help: move inner steps into flows, and run those with `sequence`; write deep JSON as a text
    "#]],
    );
}

#[test]
fn a_thousand_complaints_are_enough() {
    let unknown: String = (0..3_000).map(|n| format!("k{n}: 1\n")).collect();
    let report = read(&unknown);
    assert_eq!(report.errors().count(), 1_000);
    assert!(report.to_string().ends_with("... and 2000 more errors\n"));
}

#[test]
fn a_huge_text_is_a_complaint() {
    let text = " ".repeat(16 * 1024 * 1024 + 1);
    check(
        &text,
        expect![[r#"
        gate.yaml:1:1: cannot read this: it is larger than 16777216 bytes
          help: name a readable YAML file, or a folder of them
    "#]],
    );
}

#[test]
fn mistakes_about_targets_that_are_kept_and_left_out() {
    check(
        r#"listen: { a: { address: "127.0.0.1:0" } }
upstreams:
  a:
    targets: [http://a:1]
    sticky: { cookie: "" }
    suspend: { on: [timeouts, 404, 5xx], after: 0, initial: 0s, factor: 0.5, max: 60 }
  b:
    targets: [http://b:1]
    sticky: { cookie: "a b", name: c }
    suspend: { factor: "2", until: 5s }
  c: { targets: [http://c:1], sticky: {}, suspend: { factor: 1000, on: 503 } }
  d: { targets: [http://d:1], sticky: server, suspend: { factor: 1.0001 } }
routes: { a: { match: { path: / }, upstream: a } }
"#,
        expect![[r#"
            gate.yaml:5:23: `(not shown)` is not a cookie name
              help: write letters, digits, `-`, `_` or `.`, such as `server`
            gate.yaml:6:21: unknown value `timeouts`; did you mean `timeout`?
              help: write a status from 500 to 599, `connect_failure`, `reset`, `timeout`, `cancelled`, `deadline_exceeded`, `internal`, `resource_exhausted` or `unavailable`
            gate.yaml:6:31: the status `404` is not a failure of the service
              help: only a status from 500 to 599 means that the service failed
            gate.yaml:6:36: unknown value `5xx`
              help: write a status from 500 to 599, `connect_failure`, `reset`, `timeout`, `cancelled`, `deadline_exceeded`, `internal`, `resource_exhausted` or `unavailable`
            gate.yaml:6:49: expected a whole number from 1 to 1000, found `0`
              help: write a whole number from 1 to 1000 without quotes
            gate.yaml:6:61: the time must not be zero
              help: write at least `1ms`; for no practical limit, write a long time such as `10d`
            gate.yaml:6:73: expected a number from 1 to 100, found `0.5`
              help: write a number such as `2` or `1.5`, without quotes
            gate.yaml:6:83: the duration `60` has no unit
              help: write a whole number and its unit: `250ms`, `1s`, `5m`, `2h` or `10d`
            gate.yaml:9:23: `(not shown)` is not a cookie name
              help: write letters, digits, `-`, `_` or `.`, such as `server`
            gate.yaml:9:30: unknown key `name`
              help: the keys here are `cookie` and `secret`
            gate.yaml:10:24: expected a number from 1 to 100, found the text `2`
              help: write a number such as `2` or `1.5`, without quotes
            gate.yaml:10:29: unknown key `until`
              help: the keys here are `on`, `after`, `initial`, `factor` and `max`
            gate.yaml:11:31: the key `cookie` is missing
              help: add `cookie`: The name of the cookie that the gateway sets. The service must not use a cookie of the same name.
            gate.yaml:11:62: expected a number from 1 to 100, found `1000`
              help: write a number such as `2` or `1.5`, without quotes
            gate.yaml:11:72: expected a list, found `503`
              help: write `[a, b]`, or one `- a` on each line
            gate.yaml:12:39: expected a map, found `server`
              help: write `{ key: value }`, or one `key: value` on each line
            gate.yaml:12:66: expected a number from 1 to 100, found `1.0001`
              help: write a number such as `2` or `1.5`, without quotes
        "#]],
    );
}
