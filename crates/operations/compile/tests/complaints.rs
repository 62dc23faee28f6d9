//! Configurations that can be read but do not compile, and the complaints about them.
#![allow(clippy::unwrap_used, reason = "a test ends where it is surprised")]

use std::fs;
use std::path::Path;

use expect_test::{Expect, expect};
use plan::telemetry::Telemetry;

#[path = "../../../../tests/grpc/shop.rs"]
mod shop;

fn said(text: &str, folder: &Path) -> String {
    let loaded = config::parse(text, &folder.join("gate.yaml"));
    let report = match compile::compile(&loaded, None, &Telemetry::new(1)) {
        Ok(compiled) => compiled.warnings,
        Err(report) => {
            assert!(report.has_errors());
            report
        }
    };
    if folder.as_os_str().is_empty() {
        report.to_string()
    } else {
        report.to_string().replace(&format!("{}/", folder.display()), "")
    }
}

/// Checks routes and upstreams, with a valid listener added.
fn check(text: &str, expected: Expect) {
    let text = format!("listen: {{ a: {{ address: \"127.0.0.1:0\" }} }}\n{text}");
    expected.assert_eq(&said(&text, Path::new("")));
}

#[test]
fn mistakes_of_every_kind_are_all_said() {
    expect![[r#"
        gate.yaml:3:13: unknown key `adress`; did you mean `address`?
          help: the keys here are `address`, `tls`, `http2`, `proxy_protocol`, `trusted_proxies`, `pass_untrusted_headers`, `paths`, `limits` and `timeout`
        gate.yaml:4:60: cannot read `none.pem`: there is no such file
          help: name a PEM file that the gateway may read; a relative path starts at this file's folder
        gate.yaml:4:75: cannot read `none.key`: there is no such file
          help: name a PEM file that the gateway may read; a relative path starts at this file's folder
        gate.yaml:6:68: the duration `1` has no unit
          help: write a whole number and its unit: `250ms`, `1s`, `5m`, `2h` or `10d`
        gate.yaml:7:3: the key `orders` appears twice; the first is on line 6
          help: remove one of the two, or give it another name
        gate.yaml:8:21: an upstream needs at least one target
          help: write at least one URL such as `http://10.0.0.1:8080`
        gate.yaml:10:54: there is no upstream `order`; did you mean `orders`?
          help: name one of the `upstreams`
        gate.yaml:11:19: the routes `again` and `orders` match the same requests; the other match is at gate.yaml:10:20
          help: give one of them another path, host, listener, method, header or query parameter, or a `priority`
        gate.yaml:12:61: the route `both` has more than one destination: `upstream` and `respond`
          help: keep one of the two
        gate.yaml:13:3: the route `none` has no destination
          help: add `upstream: NAME`, `flow: NAME`, `hub: NAME` or `respond: { status: 200, body: "..." }`
        gate.yaml:13:26: the path `nowhere` cannot be matched: a path must begin with `/`
          help: write `/a` for one path, `/a/**` for all below, `/a/{id}/b` for any one segment
        gate.yaml:14:52: the paths of this route, `/a/**`, do not begin with `/b`
          help: write `/a` or a part of it
    "#]].assert_eq(&said(
        r#"
listen:
  public: { adress: "127.0.0.1:8080" }
  secure: { address: "127.0.0.1:8443", tls: { certificate: none.pem, key: none.key } }
upstreams:
  orders: { targets: ["http://10.0.0.1:8080"], timeout: { connect: 1 } }
  orders: { targets: ["http://10.0.0.2:8080"] }
  empty: { targets: [] }
routes:
  orders: { match: { path: "/orders/**" }, upstream: order }
  again: { match: { path: "/orders/**" }, respond: {} }
  both: { match: { path: /both }, upstream: empty, respond: {} }
  none: { match: { path: nowhere } }
  strip: { match: { path: "/a/**" }, strip_prefix: /b, upstream: orders }
"#,
        Path::new(""),
    ));
}

#[test]
fn nothing_at_all() {
    expect![[r#"
        gate.yaml:1:1: no listener is configured
          help: write `listen: { public: { address: "0.0.0.0:8080" } }`
    "#]]
    .assert_eq(&said("workers: 1\n", Path::new("")));
    check(
        "routes: {}\n",
        expect![[r#"
            gate.yaml:1:1: warning: there is no route, so every request is answered with 404
              help: write `routes: { NAME: { match: { path: "/**" }, upstream: NAME } }`
        "#]],
    );
}

#[test]
fn addresses_that_clash() {
    expect![[r#"
        gate.yaml:4:61: `head_bytes_max` of 100 bytes is out of range
          help: write a size from `1KiB` to `16MiB`
        gate.yaml:4:85: `target_bytes_max` is larger than `head_bytes_max`, which the target is part of
          help: raise `head_bytes_max` or lower this
        gate.yaml:5:17: `c` and `a` have the same address 127.0.0.1:8080; the other is at gate.yaml:3:17
          help: give one of them another port
        gate.yaml:5:61: `head_bytes_max` of 1073741824 bytes is out of range
          help: write a size from `1KiB` to `16MiB`
        gate.yaml:8:19: `admin` and `b` have the same address 127.0.0.1:8081; the other is at gate.yaml:4:17
          help: give one of them another port
        gate.yaml:10:31: `catalog` and `a` have the same address 127.0.0.1:8080; the other is at gate.yaml:3:17
          help: give one of them another port
    "#]].assert_eq(&said(
        r#"
listen:
  a: { address: "127.0.0.1:8080" }
  b: { address: "127.0.0.1:8081", limits: { head_bytes_max: 100B, target_bytes_max: 1KiB } }
  c: { address: "localhost:8080", limits: { head_bytes_max: 1GiB } }
  d: { address: "127.0.0.1:0", limits: { head_bytes_max: 8KiB } }
  e: { address: "127.0.0.1:0" }
admin: { address: "127.0.0.1:8081" }
store: { path: var }
catalog: { listen: { address: "127.0.0.1:8080" }, issuer: "https://gate.test" }
routes: { r: { match: {}, respond: {} } }
"#,
        Path::new(""),
    ));
}

#[test]
fn routes_that_match_the_same() {
    check(
        r#"
routes:
  a: { match: { path: /x, host: [a.example, "*.example"], methods: [GET, POST] }, respond: {} }
  b: { match: { path: /x, host: A.example, methods: PUT }, respond: {} }
  c: { match: { path: /x, host: [b.example, "*.example"], methods: POST }, respond: {} }
  d: { match: { path: "/{a}/y" }, respond: {} }
  e: { match: { path: "/{b}/y" }, respond: {} }
  f: { match: { path: "/{b}/y", headers: { x-a: "1" } }, respond: {} }
  g: { match: { path: "/{b}/y", headers: { X-A: "1" } }, respond: {} }
  h: { match: { path: "/{b}/y", query: { a: "1" } }, respond: {} }
  i: { match: { path: /z, host: [one.example, ONE.example] }, respond: {} }
"#,
        expect![[r#"
            gate.yaml:6:15: the routes `c` and `a` match the same requests; the other match is at gate.yaml:4:15
              help: give one of them another path, host, listener, method, header or query parameter, or a `priority`
            gate.yaml:8:15: the routes `e` and `d` match the same requests; the other match is at gate.yaml:7:15
              help: give one of them another path, host, listener, method, header or query parameter, or a `priority`
            gate.yaml:10:15: the routes `g` and `f` match the same requests; the other match is at gate.yaml:9:15
              help: give one of them another path, host, listener, method, header or query parameter, or a `priority`
            gate.yaml:12:15: a host or a path appears twice
              help: remove one of the two
        "#]],
    );
}

#[test]
fn names_that_lead_nowhere() {
    check(
        r#"
upstreams:
  orders: { targets: ["http://h"] }
  unused: { targets: ["http://h", "http://h:80"] }
  broken: { targets: [h] }
routes:
  a: { match: { path: /a }, upstream: oders }
  b: { match: { path: /b }, upstream: payments }
  c: { match: { path: /c }, upstream: broken }
  d: { match: { path: /d }, upstrem: orders }
  e: { match: { path: /e }, upstream: orders }
telemetry: { access_log: { format: "{client} {stats}" } }
"#,
        expect![[r#"
            gate.yaml:6:23: the target `h` has no scheme
              help: write `http://HOST:PORT` or `https://HOST:PORT`, or `srv+http://_SERVICE._tcp.DOMAIN` for SRV records; paths are changed on the route
            gate.yaml:8:39: there is no upstream `oders`; did you mean `orders`?
              help: name one of the `upstreams`
            gate.yaml:9:39: there is no upstream `payments`
              help: name one of the `upstreams`
            gate.yaml:11:29: unknown key `upstrem`; did you mean `upstream`?
              help: the keys here are `match`, `strip_prefix`, `rewrite`, `host`, `limits`, `streams`, `policies`, `defaults`, `errors`, `upstream`, `flow`, `hub`, `services`, `mirror` and `respond`
            gate.yaml:13:36: there is no field `stats`; did you mean `status`?
              help: the fields are {time} {client} {method} {host} {path} {protocol} {status} {request_bytes} {reply_bytes} {duration_ms} {upstream_ms} {own_ms} {route} {upstream} {upstream_target} {request_id} {trace_id} {span_id} {user_agent} {tls} {fault} {cause} {operation} {soap_fault} {subject} {retries} {events} {stream_end} {grpc_status}; write `{{` for a literal brace
            gate.yaml:5:35: warning: the target `http://h:80` appears twice
              help: give it a `weight` instead
        "#]],
    );
}

#[test]
fn failed_checks_that_never_count() {
    check(
        r#"
upstreams:
  a: { targets: ["http://a"], health: { path: /, statuses: [200-399], unhealthy_statuses: [500, 302] } }
  b: { targets: ["http://b"], health: { unhealthy_statuses: [500] } }
  c: { targets: ["http://c"], health: { path: /, unhealthy_after: { connection: 1 }, unhealthy_statuses: [500-599] } }
routes:
  a: { match: { path: /a }, upstream: a }
  b: { match: { path: /b }, upstream: b }
  c: { match: { path: /c }, upstream: c }
"#,
        expect![[r#"
            gate.yaml:4:91: `statuses` has 302, too
              help: list each status once
            gate.yaml:5:61: only a check of a path has a status
              help: add `path`, or remove `unhealthy_statuses`
        "#]],
    );
}

#[test]
fn words_of_http_that_are_none() {
    check(
        r#"
upstreams: { u: { targets: ["http://h"], health: { path: health } } }
routes:
  a:
    match:
      path: "/a b"
      host: ["*", "a.*.example", "x.example:80", "no host", "[::1]", "*.", ""]
      methods: [get, "G T"]
      headers: { "x y": z }
    host: "a b"
    policies:
      - headers:
          request: { set: { host: x, "x y": z, x-a: " b" }, add: { Content-Length: 5 }, remove: [Host, connection, "a:b"] }
          response: { set: { x-a: "b\nc" }, rename: { x-a: Content-Length, host: x-b, x-c: x-d, x-e: X-D } }
      - headers: { request: { rename: { host: x-b, x-c: Host, x-d: X-D } } }
    upstream: u
  b: { match: { path: /b }, strip_prefix: /b, host: x, respond: { status: 204, body: x, headers: { transfer-encoding: chunked } } }
  c: { match: { path: /c }, strip_prefix: /c, host: target, respond: { headers: { "": x } } }
"#,
        expect![[r#"
            gate.yaml:3:58: `health` is not a valid request path
              help: write a path that begins with `/`, such as `/health`
            gate.yaml:7:13: the path `/a b` cannot be matched: ' ' is not allowed in a path; percent-encode it
              help: write `/a` for one path, `/a/**` for all below, `/a/{id}/b` for any one segment
            gate.yaml:8:14: `*` alone is not a host; leave `host` out to match any
              help: write a host such as `api.example.com`, or `*.example.com` for its subdomains
            gate.yaml:8:19: in `a.*.example`, `*` is allowed only as the whole first label
              help: write a host such as `api.example.com`, or `*.example.com` for its subdomains
            gate.yaml:8:34: `x.example:80` has a port; hosts are matched without a port
              help: write a host such as `api.example.com`, or `*.example.com` for its subdomains
            gate.yaml:8:50: `no host` is not a host
              help: write a host such as `api.example.com`, or `*.example.com` for its subdomains
            gate.yaml:8:70: `*` alone is not a host; leave `host` out to match any
              help: write a host such as `api.example.com`, or `*.example.com` for its subdomains
            gate.yaml:8:76: `` is not a host
              help: write a host such as `api.example.com`, or `*.example.com` for its subdomains
            gate.yaml:9:17: methods are case-sensitive, and no client sends `get`
              help: write `GET`
            gate.yaml:9:22: `G T` is not a valid method
              help: write methods such as `GET` and `POST`
            gate.yaml:10:18: `x y` is not a valid header name
              help: write letters, digits and dashes, such as `x-tier`
            gate.yaml:11:11: `a b` is not a valid Host
              help: write `preserve`, `target`, or a name such as `orders.internal`
            gate.yaml:14:29: a policy cannot change the Host
              help: write the route's `host` key: `host: target`, or a name
            gate.yaml:14:38: `x y` is not a valid header name
              help: write letters, digits and dashes, such as `x-tier`
            gate.yaml:14:53: a header value must not begin or end with a space
              help: write one line without control characters or surrounding spaces; `${file:PATH}` drops the final line break of a file
            gate.yaml:14:68: `content-length` cannot be changed
              help: remove it; the gateway writes it for each connection
            gate.yaml:14:98: a policy cannot change the Host
              help: write the route's `host` key: `host: target`, or a name
            gate.yaml:14:104: `connection` cannot be changed
              help: remove it; the gateway writes it for each connection
            gate.yaml:14:116: `a:b` is not a valid header name
              help: write letters, digits and dashes, such as `x-tier`
            gate.yaml:15:35: a header value must not contain a line break
              help: write one line without control characters or surrounding spaces; `${file:PATH}` drops the final line break of a file
            gate.yaml:15:60: `content-length` cannot be changed
              help: remove it; the gateway writes it for each connection
            gate.yaml:15:102: the name `x-d` is already in use
              help: give each a unique new name
            gate.yaml:16:41: a policy cannot change the Host
              help: write the route's `host` key: `host: target`, or a name
            gate.yaml:16:57: a policy cannot change the Host
              help: write the route's `host` key: `host: target`, or a name
            gate.yaml:16:68: the name `x-d` is already in use
              help: give each a unique new name
            gate.yaml:18:65: a reply with status 204 has no body
              help: remove `body`, or write another status
            gate.yaml:19:83: `` cannot be a name
              help: write 1 to 128 printable characters
            gate.yaml:18:43: warning: `strip_prefix` has no effect on a fixed reply
              help: remove it
            gate.yaml:18:53: warning: `host` has no effect on a fixed reply
              help: remove it
            gate.yaml:19:43: warning: `strip_prefix` has no effect on a fixed reply
              help: remove it
            gate.yaml:19:53: warning: `host` has no effect on a fixed reply
              help: remove it
        "#]],
    );
}

#[test]
fn paths_that_cannot_be_sent() {
    check(
        r#"
upstreams: { u: { targets: ["http://h"] } }
routes:
  a: { match: { path: "/a/{id}/x/**" }, strip_prefix: "/a/{id}", upstream: u }
  b: { match: { path: "/b/{id}" }, strip_prefix: /b/c, upstream: u }
  c: { match: { path: "/{c}/**" }, strip_prefix: /c, upstream: u }
  d: { match: { path: "/d/{user}/**" }, rewrite: "/{usr}", upstream: u }
  e: { match: { path: "/e/{user}" }, rewrite: "/{**}", upstream: u }
  f: { match: { path: /f }, rewrite: "{x}", upstream: u }
  g: { match: { path: /g }, rewrite: "/x?y", upstream: u }
  h: { match: { path: /h }, rewrite: "/x/../y", upstream: u }
  i: { match: { path: /i }, rewrite: "/{x", upstream: u }
  j: { match: { path: /j }, rewrite: /x, strip_prefix: /j, upstream: u }
  k: { match: { path: "/k/**/x" }, upstream: u }
  l: { match: { path: "/l/{a}/{a}" }, upstream: u }
  m: { match: { path: /m }, strip_prefix: m, upstream: u }
"#,
        expect![[r#"
            gate.yaml:5:55: `/a/{id}` is not a prefix that can be removed
              help: write the first segments of the path literally, such as `/orders`; for parameters use `rewrite`
            gate.yaml:6:50: the paths of this route, `/b/{id}`, do not begin with `/b/c`
              help: write `/b` or a part of it
            gate.yaml:7:50: the paths of this route, `/{c}/**`, do not begin with `/c`
              help: write no `strip_prefix`: the path has no fixed beginning
            gate.yaml:8:50: there is no parameter `usr`; did you mean `user`?
              help: write a path with `{user}`, `{**}`, `{path}`
            gate.yaml:9:47: `{**}` needs a path that ends in `/**`, a `prefix` or a `regex_prefix`
              help: write a path with `{user}`, `{path}`
            gate.yaml:10:38: a rewritten path must begin with `/`
              help: write a path with `{path}`
            gate.yaml:11:38: '?' is not allowed in a path; percent-encode it
              help: write a path with `{path}`
            gate.yaml:12:38: `.` and `..` are not allowed in a path
              help: write a path with `{path}`
            gate.yaml:13:38: a `{` without its `}`
              help: write a path with `{path}`
            gate.yaml:14:38: `rewrite` and `strip_prefix` cannot be combined
              help: keep `rewrite`, where `{**}` stands for the rest, or keep `strip_prefix`
            gate.yaml:15:23: the path `/k/**/x` cannot be matched: `*` is allowed only in `/**` at the end; one segment is `{name}`
              help: write `/a` for one path, `/a/**` for all below, `/a/{id}/b` for any one segment
            gate.yaml:16:23: the path `/l/{a}/{a}` cannot be matched: parameter `a` appears twice
              help: write `/a` for one path, `/a/**` for all below, `/a/{id}/b` for any one segment
            gate.yaml:17:43: `m` is not a prefix that can be removed
              help: write the first segments of the path literally, such as `/orders`; for parameters use `rewrite`
        "#]],
    );
}

#[test]
fn tls_files() {
    let folder = tempfile::tempdir().unwrap();
    let pair = |name: &str| {
        let made = rcgen::generate_simple_self_signed([format!("{name}.example")]).unwrap();
        fs::write(folder.path().join(format!("{name}.pem")), made.cert.pem()).unwrap();
        fs::write(folder.path().join(format!("{name}.key")), made.signing_key.serialize_pem())
            .unwrap();
    };
    pair("a");
    pair("b");
    fs::write(folder.path().join("text.pem"), "hello\n").unwrap();
    expect![[r#"
        gate.yaml:6:58: cannot read `none.pem`: there is no such file
          help: name a PEM file that the gateway may read; a relative path starts at this file's folder
        gate.yaml:6:73: cannot read `.`: it is a folder
          help: name a PEM file that the gateway may read; a relative path starts at this file's folder
        gate.yaml:7:70: certificate and key do not match: keys may not be consistent: KeyMismatch
          help: name the key that belongs to the certificate
        gate.yaml:7:84: in `b.*`, `*` is allowed only as the whole first label
          help: write a host such as `api.example.com`, or `*.example.com` for its subdomains
        gate.yaml:7:106: no usable certificate: no CERTIFICATE block
          help: name a PEM file with `-----BEGIN CERTIFICATE-----`
        gate.yaml:8:68: no usable private key: no items found
          help: name a PEM file with an unencrypted `-----BEGIN PRIVATE KEY-----`
        gate.yaml:9:88: no TLS version is allowed
          help: write `versions: [1.2, 1.3]`
        gate.yaml:10:90: no usable authority certificate: no usable certificate: no CERTIFICATE block
          help: name a PEM file with the certificates of the authorities to trust
        gate.yaml:13:56: `certificate` needs `key`
          help: add `key: FILE`
        gate.yaml:14:50: `key` needs `certificate`
          help: add `certificate: FILE`
        gate.yaml:15:46: no usable authority certificate: no usable certificate: no CERTIFICATE block
          help: name a PEM file with the certificates of the authorities to trust
        gate.yaml:16:66: `a b` is neither a DNS name nor an address
          help: write the DNS name or the address in the certificate
        gate.yaml:12:3: warning: nothing uses the upstream `good`
          help: remove it, or name it in a route's `upstream` or a flow's `call`
        gate.yaml:13:3: warning: nothing uses the upstream `alone`
          help: remove it, or name it in a route's `upstream` or a flow's `call`
        gate.yaml:14:3: warning: nothing uses the upstream `keyless`
          help: remove it, or name it in a route's `upstream` or a flow's `call`
        gate.yaml:15:3: warning: nothing uses the upstream `text`
          help: remove it, or name it in a route's `upstream` or a flow's `call`
        gate.yaml:16:3: warning: nothing uses the upstream `name`
          help: remove it, or name it in a route's `upstream` or a flow's `call`
        gate.yaml:17:3: warning: nothing uses the upstream `plain`
          help: remove it, or name it in a route's `upstream` or a flow's `call`
        gate.yaml:17:46: warning: no target uses TLS, so this has no effect
          help: write targets as `https://HOST:PORT`, or remove `tls`
        gate.yaml:18:3: warning: nothing uses the upstream `any`
          help: remove it, or name it in a route's `upstream` or a flow's `call`
        gate.yaml:18:49: warning: certificates are not verified, so any server is trusted
          help: name the authority of the service's certificate in `ca` instead
    "#]].assert_eq(&said(
        r#"
listen:
  good:
    address: "127.0.0.1:0"
    tls: { certificate: a.pem, key: a.key, sni: { "*.b.example": { certificate: b.pem, key: b.key } }, client_ca: a.pem }
  missing: { address: "127.0.0.1:0", tls: { certificate: none.pem, key: . } }
  swapped: { address: "127.0.0.1:0", tls: { certificate: a.pem, key: b.key, sni: { "b.*": { certificate: text.pem, key: b.key } } } }
  nokey: { address: "127.0.0.1:0", tls: { certificate: a.pem, key: a.pem } }
  versions: { address: "127.0.0.1:0", tls: { certificate: a.pem, key: a.key, versions: [] } }
  authority: { address: "127.0.0.1:0", tls: { certificate: a.pem, key: a.key, client_ca: text.pem } }
upstreams:
  good: { targets: ["https://h"], tls: { ca: a.pem, certificate: b.pem, key: b.key, server_name: b.example } }
  alone: { targets: ["https://h"], tls: { certificate: b.pem } }
  keyless: { targets: ["https://h"], tls: { key: b.key } }
  text: { targets: ["https://h"], tls: { ca: text.pem } }
  name: { targets: ["https://h"], tls: { ca: a.pem, server_name: "a b" } }
  plain: { targets: ["http://h"], tls: { ca: a.pem } }
  any: { targets: ["https://h"], tls: { verify: false } }
"#,
        folder.path(),
    ));
}

#[test]
fn a_path_that_no_listener_lets_pass_is_warned_of() {
    let routes = r#"
routes:
  slash: { match: { path: "/a%2fb/**" }, respond: {} }
  empty: { match: { path: "/a//b" }, respond: {} }
  parameter: { match: { path: "/{id}/b;c" }, respond: {} }
  fine: { match: { path: "/a/{id}/%7e/" }, respond: {} }
"#;
    check(
        routes,
        expect![[r#"
        gate.yaml:4:27: warning: no request can have the path `/a%2fb/**`: every listener refuses or rewrites it
          help: write it another way, or say `keep` in the `paths` of a listener
        gate.yaml:5:27: warning: no request can have the path `/a//b`: every listener refuses or rewrites it
          help: write it another way, or say `keep` in the `paths` of a listener
        gate.yaml:6:31: warning: no request can have the path `/{id}/b;c`: every listener refuses or rewrites it
          help: write it another way, or say `keep` in the `paths` of a listener
    "#]],
    );
    let keeping = "listen: { a: { address: \"127.0.0.1:0\" }, b: { address: \"127.0.0.1:0\", paths: { escaped_slash: keep, empty_segments: keep, parameters: keep } } }";
    assert_eq!(said(&format!("{keeping}{routes}"), Path::new("")), "");
}

#[test]
fn grpc_web_above_http_1_is_warned_of() {
    check(
        r#"
upstreams:
  old: { targets: ["http://h"] }
  plain: { targets: ["http://h"], protocol: auto }
  tls: { targets: ["http://h", "https://h"], protocol: auto }
  new: { targets: ["http://h"], protocol: http2 }
routes:
  old: { match: { path: "/old" }, upstream: old, policies: [grpc_web: {}] }
  plain: { match: { path: "/plain" }, upstream: plain, policies: [grpc_web: {}] }
  fine: { match: { path: "/fine" }, upstream: { tls: 1, new: 1 }, policies: [grpc_web: {}] }
  split: { match: { path: "/split" }, upstream: { new: 1, old: 1 }, policies: [grpc_web: {}] }
  others: { match: { path: "/others" }, upstream: old }
"#,
        expect![[r#"
            gate.yaml:9:61: warning: the upstream `old` uses HTTP/1, but gRPC needs HTTP/2
              help: add `protocol: http2` to the upstream
            gate.yaml:10:67: warning: the upstream `plain` uses HTTP/1, but gRPC needs HTTP/2
              help: add `protocol: http2` to the upstream
            gate.yaml:12:80: warning: the upstream `old` uses HTTP/1, but gRPC needs HTTP/2
              help: add `protocol: http2` to the upstream
        "#]],
    );
}

#[test]
fn descriptors_are_checked_with_their_rules() {
    let folder = tempfile::tempdir().unwrap();
    let rules = [(2, "/v1/{nope}", "", ""), (2, "/v1/orders/{note}", "", ""), (2, "/a{b}", "", "")];
    for (name, bytes) in [
        ("shop.pb", shop::set()),
        ("rules.pb", shop::set_with(&rules)),
        ("text.pb", b"syntax = \"proto3\";".to_vec()),
        // A file `a` that imports a file `b`.
        ("lacks.pb", b"\x0a\x06\x0a\x01a\x1a\x01b".to_vec()),
        ("empty.pb", b"\x0a\x03\x0a\x01a".to_vec()),
    ] {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let text = r#"
listen: { a: { address: "127.0.0.1:0" } }
upstreams: { u: { targets: ["http://h"], protocol: http2 }, old: { targets: ["http://h"] } }
routes:
  a: { match: { path: /a }, upstream: old, policies: [grpc_json: { descriptors: shop.pb, services: [shop.v1.Order, x], prefix: api }] }
  b: { match: { path: /b }, upstream: u, policies: [grpc_json: { descriptors: rules.pb }] }
  c: { match: { path: /c }, upstream: u, policies: [grpc_json: { descriptors: text.pb }] }
  d: { match: { path: /d }, upstream: u, policies: [grpc_json: { descriptors: lacks.pb }] }
  e: { match: { path: /e }, upstream: u, policies: [grpc_json: { descriptors: empty.pb }] }
  f: { match: { path: /f }, respond: {}, policies: [grpc_json: { descriptors: none.pb }] }
  g: { match: { path: /g }, upstream: u, policies: [grpc_json: { descriptors: shop.pb, services: [shop.v1.Orders], stream: events, ignore_query: [key] }] }
"#;
    let said = said(text, folder.path());
    for (line, what) in [
        (5, "warning: the upstream `old` uses HTTP/1, but gRPC needs HTTP/2"),
        (
            5,
            "there is no service in the descriptors `shop.v1.Order`; did you mean `shop.v1.Orders`?",
        ),
        (5, "there is no service in the descriptors `x`"),
        (5, "`api` is not a path"),
        (
            6,
            "`GET /v1/{nope}` of `shop.v1.Orders/Extra`: the variable `nope`: the message has no such field",
        ),
        (
            6,
            "`GET /v1/orders/{note}` of `shop.v1.Orders/Extra`: `shop.v1.Orders/Get` has the same paths",
        ),
        (6, "`GET /a{b}` of `shop.v1.Orders/Extra`: `{` in `a{b}` has to be escaped"),
        (7, "`text.pb`: it is not a descriptor set"),
        (8, "`lacks.pb`: `b`, which `a` imports, is not in it"),
        (9, "the descriptors have no service"),
        (10, "nothing answers calls here: the route has no upstream"),
        (10, "cannot read `none.pb`: there is no such file"),
    ] {
        let is_there = |complaint: &str| {
            complaint.starts_with(&format!("gate.yaml:{line}:")) && complaint.contains(what)
        };
        assert!(said.lines().any(is_there), "{line}: {what}\n{said}");
    }
    assert!(!said.contains("gate.yaml:11:"), "{said}");
}

#[test]
fn destinations_that_no_request_reaches() {
    check(
        r#"
upstreams: { u: { targets: ["http://h"] } }
routes:
  a: { match: { path: /a }, policies: [{ headers: {} }, { redirect: { to: /b } }], upstream: u }
  b: { match: { path: /b }, policies: [{ redirect: { to: /c } }], respond: {} }
  c: { match: { path: /c }, policies: [{ redirect: { to: /a } }] }
"#,
        expect![[r#"
            gate.yaml:5:94: `redirect` answers every request of the route `a`, so `upstream` is never reached
              help: remove `upstream`, or remove `redirect`
            gate.yaml:6:76: `redirect` answers every request of the route `b`, so `respond` is never reached
              help: remove `respond`, or remove `redirect`
        "#]],
    );
}

#[test]
fn event_streams_above_what_needs_whole_replies_are_warned_of() {
    check(
        r#"
upstreams: { u: { targets: ["http://h"] } }
routes:
  soap:    { match: { path: /a }, policies: [{ soap: { validate: [response] } }, { sse: { events: 1, per: 1s } }], upstream: u }
  service: { match: { path: /b }, policies: [{ sse: { events: 1, per: 1s } }, { interceptor: { response: { url: "http://i", includes: [response_body] } } }], upstream: u }
  good:    { match: { path: /c }, policies: [{ soap: {} }, { sse: { events: 1, per: 1s } }, { interceptor: { response: { url: "http://i", includes: [response_headers] } } }], upstream: u }
"#,
        expect![[r#"
            gate.yaml:5:82: warning: `soap` needs whole replies, so every event stream would be refused with 502
              help: limit that policy to requests, or remove `sse`
            gate.yaml:6:46: warning: `interceptor` needs whole replies, so every event stream would be refused with 502
              help: limit that policy to requests, or remove `sse`
        "#]],
    );
}

#[test]
fn a_stream_without_room_for_an_event_is_refused() {
    check(
        r#"
upstreams: { u: { targets: ["http://h"] } }
routes:
  none: { match: { path: /a }, policies: [{ sse: { event_bytes_max: 0B } }], upstream: u }
  one:  { match: { path: /b }, policies: [{ sse: { event_bytes_max: 1B } }], upstream: u }
"#,
        expect![[r#"
            gate.yaml:5:69: an event cannot have a size of 0
              help: write the largest size, such as `64KiB`
        "#]],
    );
}

#[test]
fn statuses_that_a_cache_cannot_keep() {
    check(
        r#"
routes:
  a: { match: { path: /a }, respond: {}, policies: [{ cache: { ttl: 1s, statuses: [200, 206, 500] } }] }
  b: { match: { path: /b }, respond: {}, policies: [{ cache: { statuses: [404] } }] }
  c: { match: { path: /c }, respond: {}, policies: [{ cache: { ttl: 1s, statuses: [200, 404], cookies: keep } }] }
"#,
        expect![[r#"
            gate.yaml:4:83: a reply with the status 206 is never cached
              help: write some of 200, 203, 204, 300, 301, 302, 307, 308, 404, 405, 410, 414, 501
            gate.yaml:5:74: `statuses` needs `ttl`
              help: add `ttl: 10s`, or remove `statuses`
            gate.yaml:6:104: unknown value `keep`
              help: write `bypass` or `ignore`
        "#]],
    );
}

#[test]
fn cases_that_cannot_be_run() {
    check(
        r#"
upstreams: { a: { targets: ["http://127.0.0.1:1"] } }
routes: { a: { match: { path: /a }, upstream: a } }
cases:
  a:
    request: { method: get, path: a, headers: { content-length: 1 }, body: b, body_file: none.txt }
    calls:
      - upstream: b
        expect: { path: "/a b", body: a, xml: <a/>, json: "[1" }
        reply: { headers: { transfer-encoding: chunked, "a b": c }, delay: 2m }
    reply: { xml: "<a>", contains: b }
  b: { request: { path: /b }, reply: { json: { a: 1 } } }
"#,
        expect![[r#"
            gate.yaml:7:24: methods are case-sensitive, and no client sends `get`
              help: write `GET`
            gate.yaml:7:35: `a` is not a valid request path
              help: write a path that begins with `/`, such as `/orders?day=1`
            gate.yaml:7:49: `content-length` cannot be changed
              help: remove it; the gateway writes it for each connection
            gate.yaml:7:90: a message can have only one body
              help: remove `body` or `body_file`
            gate.yaml:7:90: cannot read `none.txt`: there is no such file
              help: name a file that can be read; a relative path starts at this file's folder
            gate.yaml:9:19: there is no upstream `b`; did you mean `a`?
              help: name one of the `upstreams`
            gate.yaml:10:25: `/a b` is not a valid request path
              help: write a path that begins with `/`, such as `/orders?day=1`
            gate.yaml:10:47: the expected body is written in two ways
              help: keep one of these keys
            gate.yaml:10:59: this is not JSON: at byte 2: expected a comma or the end of the object or array
              help: write a value, or a text of JSON such as `'"a"'`
            gate.yaml:11:29: `transfer-encoding` cannot be changed
              help: remove it; the gateway writes it for each connection
            gate.yaml:11:57: `a b` is not a valid header name
              help: write letters, digits and dashes, such as `x-tier`
            gate.yaml:11:76: a delay must be at most 60s, because the test waits for it
              help: write a shorter delay, and shorten the timeout that it must exceed
            gate.yaml:12:19: this is not XML: 1:4: the document ends within an element that is not closed
              help: write one document
            gate.yaml:12:36: the expected body is written in two ways
              help: keep one of these keys
        "#]],
    );
}

#[test]
fn logs_in_kafka_have_brokers_and_names() {
    check(
        r#"
routes:
  news: { match: { path: "/news/**" }, hub: news }
  none: { match: { path: "/none/**" }, hub: none }
hubs:
  news:
    topics: [sports, "a~b", a.b, a_b]
    log: { kafka: { brokers: [kafka, "kafka:0", "[::1]:9092", "k-1.internal:9092"], sasl: { user: "", password: "x", mechanism: plain } } }
  none:
    topics: [x]
    log: { kafka: { brokers: [], topics_prefix: "t g/" } }
"#,
        expect![[r#"
            gate.yaml:8:22: `a~b` is not a valid Kafka topic name
              help: use letters, digits, `-`, `_` and `.`, and at most 249 with the prefix
            gate.yaml:8:34: Kafka treats the topic names `a.b` and `a_b` as the same
              help: use names that differ in more than `.` and `_`
            gate.yaml:9:31: `kafka` is not a broker address
              help: write `HOST:PORT`, such as `kafka-1.internal:9092`
            gate.yaml:9:38: `kafka:0` is not a broker address
              help: write `HOST:PORT`, such as `kafka-1.internal:9092`
            gate.yaml:9:99: the user name is empty or has a null character
              help: write the user's name
            gate.yaml:12:30: a cluster needs at least one broker
              help: write `brokers: [HOST:PORT]`
            gate.yaml:12:49: `t g/` is not allowed in a Kafka topic name
              help: use letters, digits, `-`, `_` and `.`
            gate.yaml:9:113: warning: the password is sent to the brokers in plain text, because the connections do not use TLS
              help: add `tls: {}`, or use `scram-sha-512`
        "#]],
    );
}

#[test]
fn hubs_keep_what_they_deliver_and_queues_that_fill_themselves_are_warned_of() {
    check(
        r#"
routes:
  a: { match: { path: "/a/**" }, hub: a }
  b: { match: { path: "/b/**" }, hub: b }
hubs:
  a: { topics: [x], retention: { bytes: 0B }, delivery: { initial: 10m } }
  b: { topics: [x], retention: { bytes: 1KiB }, event_bytes_max: 2KiB }
"#,
        expect![[r#"
            gate.yaml:7:41: a hub that keeps no events cannot deliver any
              help: write the maximum size of a topic, such as `1GiB`
            gate.yaml:7:6: warning: `initial` is longer than `max`, so `max` is used
              help: in `delivery`, write an `initial` of at most `max`
            gate.yaml:8:41: warning: an event larger than this would never be delivered
              help: write at least `event_bytes_max`
        "#]],
    );
    check(
        r#"
routes:
  in: { match: { path: "/in" }, flow: keep }
flows:
  keep: [{ store: { queue: own } }]
  again: [{ filter: { when: $body, then: [{ sequence: keep }] } }, { respond: { status: 200 } }]
  there: [{ store: { queue: back } }]
  back: { steps: [{ respond: { status: 200 } }], catch: [{ store: { queue: there } }] }
  ends: [{ store: { queue: own } }]
queues:
  own: { flow: again }
  there: { flow: there }
  back: { flow: back }
  ends: { flow: ends }
"#,
        expect![[r#"
            gate.yaml:12:16: warning: messages of the queue `own` may be put back into it
              help: make sure that a step ends this, or messages circulate forever
            gate.yaml:13:18: warning: messages of the queue `there` may be put back into it
              help: make sure that a step ends this, or messages circulate forever
            gate.yaml:14:17: warning: messages of the queue `back` may be put back into it
              help: make sure that a step ends this, or messages circulate forever
        "#]],
    );
}

#[test]
fn queues_for_dead_messages_are_others_and_get_some() {
    check(
        r#"
flows:
  f: [{ respond: { status: 200 } }]
queues:
  a: { flow: f, dead: { queue: b } }
  b: { flow: f, dead: { queue: a } }
  c: { flow: f, dead: { queue: c } }
  d: { flow: f, dead: { queue: aa } }
  e: { flow: f, dead: { queue: c }, retry: { then: pause } }
  g: { flow: f, dead: { queue: c }, dead_letter: false }
  h: { flow: f, fault_on: [4xx, 500-503] }
"#,
        expect![[r#"
            gate.yaml:8:32: dead messages would be put back into this queue
              help: write another queue, or leave the key out to keep dead messages here
            gate.yaml:9:32: there is no queue `aa`; did you mean `a`?
              help: name one of the `queues`
            gate.yaml:6:14: warning: messages of the queue `a` may be put back into it
              help: make sure that a step ends this, or messages circulate forever
            gate.yaml:7:14: warning: messages of the queue `b` may be put back into it
              help: make sure that a step ends this, or messages circulate forever
            gate.yaml:10:32: warning: no message is dead with `retry: { then: pause }`
              help: leave out one of the two
            gate.yaml:11:32: warning: dead messages are put into this queue in spite of `dead_letter: false`
              help: leave out one of the two
        "#]],
    );
    check(
        "flows: { f: [{ respond: {} }] }\nqueues:\n  h: { flow: f, fault_on: [503-500] }\n",
        expect![[r#"
            gate.yaml:4:28: `503-500` is not a status
              help: write a status such as `404`, a class such as `5xx`, or a range such as `400-403`
        "#]],
    );
}

#[test]
fn what_is_written_and_cannot_be_read_is_not_called_unknown() {
    check(
        r#"
routes:
  a: { match: { path: /a }, flow: a }
  b: { match: { path: "/b/**" }, hub: b }
  c: { match: { path: /c }, flow: c, rate_limit: { requests: 1, per: 1s } }
  d: { match: { path: /d }, hub: d }
flows:
  a: { stepps: [] }
  c: [{ store: { queue: c } }]
hubs:
  b: { topic: [x] }
  d: { topics: [x] }
queues:
  c: { flw: c }
cors: {}
"#,
        expect![[r#"
            gate.yaml:6:38: unknown key `rate_limit`
              help: write policies as a list: `policies: [{ rate_limit: .. }]`
            gate.yaml:9:8: unknown key `stepps`; did you mean `steps`?
              help: the keys here are `namespaces`, `timeout`, `limits`, `duplicate_members`, `steps` and `catch`
            gate.yaml:12:8: unknown key `topic`; did you mean `topics`?
              help: the keys here are `topics`, `scopes`, `url`, `secret`, `signature`, `algorithm`, `publish`, `leases`, `subscriptions_max`, `verify`, `delivery`, `callbacks`, `retention`, `log`, `limits` and `event_bytes_max`
            gate.yaml:15:8: unknown key `flw`; did you mean `flow`?
              help: the keys here are `flow`, `fault_on`, `retry`, `dead_letter`, `dead`, `concurrency`, `order`, `interval` and `paused`
            gate.yaml:16:1: unknown key `cors`
              help: write policies as a list: `policies: [{ cors: .. }]`
            gate.yaml:13:3: warning: no route to the hub `d` has a path that ends in `/**`, so parts of it cannot be reached
              help: write a path such as `match: { path: "/news/**" }`
        "#]],
    );
}

#[test]
fn what_did_not_compile_is_not_called_unknown() {
    let text = r#"
listen: { a: { address: "127.0.0.1:0" }, b: { adress: "127.0.0.1:0" } }
store: { path: var }
catalog: { listen: { address: "127.0.0.1:0" }, issuer: "https://gate.test", gateway: b }
upstreams:
  u: { targets: ["https://a.test"], tls: { ca: none.pem } }
  v: { target: "http://a.test" }
  w: { targets: ["http://a.test"] }
plans: { p: { request: 1 } }
stores: { s: { rediss: x } }
databases: { d: { ur: x } }
queues: { q: { flw: f } }
schedules: { t: { evry: 1m } }
applications: { ann: { keys: [{ consumer_key: k }], plan: p } }
flows: { f: [{ call: { upstream: u } }, { call: { upstream: v } }, { store: { queue: q } }] }
routes:
  a:
    match: { path: /a }
    upstream: w
    policies:
      - interceptor: { request: { upstream: u }, endpoints: { e: { upstream: u } } }
      - forward_auth: { upstream: v }
      - basic: { users: { ann: secret } }
      - key_type: { sandbox: u }
      - canary: { upstream: u, percent: 5 }
      - xpath_route: { cases: [{ xpath: /a, equals: b, upstream: v }] }
  b:
    match: { path: /b }
    upstream: u
    mirror: { upstream: v }
    policies:
      - basic: { users: { ann: secret } }
      - subscription: { plans: [p] }
      - rate_limit: { plans: true, default: p }
      - rate_limit: { requests: 1, per: 1s, shared: s }
      - sse: { plans: true, default: p }
  c: { match: { path: /c }, flow: f }
cases:
  q: { message: { queue: q }, calls: [{ upstream: u }, { database: d }], queues: { q: [] } }
  t: { schedule: t }
"#;
    let said = said(text, Path::new(""));
    let unknown = said.lines().filter(|line| line.contains(": there is no "));
    let unknown: Vec<_> = unknown.filter(|line| !line.ends_with("no such file")).collect();
    assert!(unknown.is_empty(), "{said}");
    assert!(said.contains("cannot read `none.pem`"), "{said}");
}

#[test]
fn a_default_plan_limits_what_it_is_for() {
    let check = |policy: &str, expected: Expect| {
        let text = format!(
            "listen: {{ a: {{ address: \"127.0.0.1:0\" }} }}\nroutes: {{ r: {{ match: {{ path: /a }}, respond: {{}}, policies: [{{ basic: {{ users: {{ ann: secret }} }} }}, {{ {policy} }}] }} }}\n"
        );
        expected.assert_eq(&said(&text, Path::new("")));
    };
    for good in ["Gold", "Unlimited"] {
        check(&format!("rate_limit: {{ plans: true, default: {good} }}"), expect![""]);
    }
    check(
        "rate_limit: { plans: true, default: AsyncGold }",
        expect![[r#"
            gate.yaml:2:138: the plan `AsyncGold` has no limit of requests
              help: name another plan, such as `Bronze`
        "#]],
    );
    check(
        "rate_limit: { plans: true, default: Gol }",
        expect![[r#"
            gate.yaml:2:138: there is no plan `Gol`; did you mean `Gold`?
              help: name one of the `plans`, or a built-in plan such as `Bronze`
        "#]],
    );
    check(
        "sse: { plans: true, default: Gold }",
        expect![[r#"
            gate.yaml:2:100: there can be no event stream here: the route has no upstream
              help: remove the policy, or add `upstream: NAME`
            gate.yaml:2:131: the plan `Gold` has no limit of events
              help: name another plan, such as `AsyncBronze`
        "#]],
    );
}

#[test]
fn a_balance_with_an_else_may_lack_its_parameter() {
    let warns = |hash: &str| {
        let text = format!(
            "listen: {{ a: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ u: {{ targets: [\"http://a.test\"], balance: {{ hash: {{ {hash} }} }} }} }}\nroutes: {{ r: {{ match: {{ path: \"/a/**\" }}, upstream: u }} }}\n"
        );
        said(&text, Path::new("")).contains("which this route does not have")
    };
    assert!(warns("by: \"capture:id\""));
    assert!(!warns("by: \"capture:id\", else: client"));
    assert!(warns("by: \"header:x\", else: \"capture:id\""));
}

#[test]
fn a_cookie_is_a_place_of_its_own_for_credentials() {
    let said = |first: &str, second: &str| {
        let text = format!(
            "listen: {{ a: {{ address: \"127.0.0.1:0\" }} }}\nissuers: {{ a: {{ issuer: \"https://a.test\", jwks: \"https://a.test/keys\" }} }}\nroutes: {{ r: {{ match: {{ path: /a }}, respond: {{}}, policies: [{{ authenticate: {{ any: [{{ jwt: {{ issuers: [a], {first} }} }}, {{ jwt: {{ issuers: [a], {second} }} }}] }} }}] }} }}\n"
        );
        said(&text, Path::new(""))
    };
    assert_eq!(said("cookie: a", "cookie: b"), "");
    assert!(said("cookie: a", "cookie: a").contains("this `jwt` is never used"));
    assert!(said("cookie: a", "header: authorization").contains("this `jwt` is never used"));
}

#[test]
fn a_cached_reply_of_a_trigger_is_warned_of() {
    let warns = |cache: &str, respond: &str| {
        let text = format!(
            "listen: {{ a: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ u: {{ targets: [\"http://a.test\"] }} }}\nroutes: {{ r: {{ match: {{ path: /a }}, upstream: u, policies: [{{ cache: {{ {cache} }} }}], respond: {{ {respond} }} }} }}\n"
        );
        said(&text, Path::new("")).contains("requests without its `trigger`")
    };
    assert!(warns("ttl: 10s", "trigger: x-mock"));
    assert!(!warns("", "trigger: x-mock"));
    assert!(!warns("ttl: 10s", "trigger: x-mock, headers: { cache-control: no-store }"));
}

#[test]
fn a_prefix_reaches_all_parts_of_a_hub() {
    let said = |path: &str| {
        let text = format!(
            "listen: {{ a: {{ address: \"127.0.0.1:0\" }} }}\nhubs: {{ h: {{ topics: [t] }} }}\nroutes: {{ r: {{ match: {{ path: {path} }}, hub: h }} }}\n"
        );
        said(&text, Path::new(""))
    };
    assert!(said("/news").contains("parts of it cannot be reached"));
    for path in ["\"/news/**\"", "{ prefix: /news }", "{ regex_prefix: \"/n[a-z]+\" }"] {
        assert_eq!(said(path), "", "{path}");
    }
}

#[test]
fn for_does_not_hide_what_is_in_it() {
    let text = r#"
listen: { a: { address: "127.0.0.1:0" } }
upstreams: { u: { targets: ["http://a.test"] } }
applications: { ann: { subscriptions: { shop: Gold } } }
routes:
  r:
    match: { path: /a }
    upstream: u
    policies:
      - basic: { users: { ann: secret } }
      - for: { subjects: [ann], policy: { subscription: { api: shop } } }
      - for: { subjects: [ann], policy: { interceptor: { response: { upstream: u, includes: [response_body] } } } }
      - sse: { by: client, events: 1, per: 1s }
"#;
    expect![[r#"
        gate.yaml:13:9: warning: `for` needs whole replies, so every event stream would be refused with 502
          help: limit that policy to requests, or remove `sse`
    "#]]
    .assert_eq(&said(text, Path::new("")));
}
