//! Parts of Kong's files that the import could lose. Each gives a mistake with its place, or a refused row.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::HashMap;

use import::kong::{KongImport, Options, Source, import};

fn imported(text: &str) -> Result<KongImport, Vec<String>> {
    let options = Options {
        select_tags: Vec::new(),
        shell_variables: false,
        listen: "127.0.0.1:0".to_owned(),
        listen_tls: "127.0.0.1:0".to_owned(),
        listen_metrics: "127.0.0.1:0".to_owned(),
    };
    let source = Source { name: "kong.yaml".to_owned(), text: text.to_owned() };
    import(&[source], &options, HashMap::new())
}

#[test]
fn values_of_another_shape_are_mistakes() {
    let text = r#"_format_version: "3.0"
_info: { select_tags: { a: b }, defaults: { services: { retries: 3 } } }
_plugin_configs: { c: text }
services:
  - name: a
    url: http://h
    routes:
      - { name: r, paths: [/r], headers: { x: [a, { b: c }] } }
      - { name: s, paths: [/s], headers: { x: [a], X: [b] } }
      - { name: t, paths: [/t], sources: { ip: 10.0.0.1 } }
      - { name: u, paths: [/u], plugins: { name: key-auth } }
plugins:
  - { name: rate-limiting-advanced, config: { limit: [5, 0], window_size: [x, 60] } }
  - name: soap-xml-request-handling
    config:
      xsdApiSchemaInclude: { a.xsd: [b] }
      xsltTransformBefore: /a.xsl
      xsltParams: { p: [1] }
      RouteXPathTargets: { URL: "http://h" }
"#;
    let mistakes = imported(text).unwrap_err();
    for line in [
        "kong.yaml:2:23: `select_tags` must be a list of texts",
        "kong.yaml:2:8: the field `defaults.services` is unknown",
        "kong.yaml:3:23: a configuration of plugins must be a map",
        "kong.yaml:8:51: a value of a header must be a text",
        "kong.yaml:9:55: the header `X` appears twice",
        "kong.yaml:10:42: `sources` must be a list",
        "kong.yaml:11:42: `plugins` must be a list of entities",
        "kong.yaml:13:58: `limit` must have numbers above 0",
        "kong.yaml:13:76: `window_size` must have numbers above 0",
        "kong.yaml:16:37: `a.xsd` must be a text",
        "kong.yaml:18:24: `p` must be a text",
        "kong.yaml:19:26: `RouteXPathTargets` must be a list of targets",
    ] {
        assert!(mistakes.iter().any(|mistake| mistake == line), "{line}: {mistakes:#?}");
    }
}

#[test]
fn routes_with_another_value_of_a_header_are_kept() {
    let text = r#"
_format_version: "3.0"
services:
  - name: a
    url: http://127.0.0.1:1
    routes:
      - { name: one, paths: [/a], headers: { x: [a, b] } }
      - { name: two, paths: [/a], headers: { x: [a, c] } }
      - { name: three, paths: [/a], headers: { x: [b, a] } }
"#;
    let configuration = imported(text).unwrap().configuration;
    for (condition, is_kept) in [("(?:a|b)", true), ("(?:a|c)", true), ("(?:b|a)", false)] {
        assert_eq!(configuration.contains(condition), is_kept, "{condition}: {configuration}");
    }
}

#[test]
fn keys_of_redis_without_a_counterpart_are_refused() {
    let text = r#"
_format_version: "3.0"
plugins:
  - name: rate-limiting
    config: { minute: 5, policy: redis, redis: { host: h, sentinel: { master: m }, cluster: { nodes: null } } }
"#;
    let table = imported(text).unwrap().table.to_string();
    assert!(table.contains("Tidegate has no `redis.sentinel`"), "{table}");
    assert!(!table.contains("redis.cluster"), "{table}");
}

#[test]
fn types_of_json_belong_to_the_values_of_their_action() {
    let text = |types: &str| {
        format!(
            r#"
_format_version: "3.0"
services: [{{ name: a, url: "http://127.0.0.1:1", routes: [{{ name: r, paths: [/r] }}] }}]
plugins:
  - name: response-transformer
    config:
      replace: {{ json: ["one:1", "two:2"], json_types: [{types}] }}
      add: {{ json: ["three:true"], json_types: [boolean] }}
"#
        )
    };
    let configuration = imported(&text("number")).unwrap().configuration;
    for line in ["one: 1\n", "two: \"2\"\n", "three: true\n"] {
        assert!(configuration.contains(line), "{line}: {configuration}");
    }
    let table = imported(&text("integer")).unwrap().table.to_string();
    assert!(table.contains("Tidegate has no JSON type `integer`"), "{table}");
    let twice = text("number").replace("three:true", "one:true");
    let table = imported(&twice).unwrap().table.to_string();
    assert!(table.contains("Tidegate sets only one value of `one`"), "{table}");
}

#[test]
fn consumers_in_a_group_with_a_refused_guard_lose_their_credentials() {
    let text = r#"
_format_version: "3.0"
services: [{ name: a, url: "http://127.0.0.1:1", routes: [{ name: r, paths: [/r] }] }]
plugins: [{ name: key-auth }]
consumers:
  - { username: inside, groups: [{ name: g }], keyauth_credentials: [{ key: key-inside }] }
  - { username: outside, keyauth_credentials: [{ key: key-outside }] }
consumer_groups:
  - name: g
    plugins: [{ name: bot-detection }]
"#;
    let made = imported(text).unwrap();
    let table = made.table.to_string();
    assert!(table.contains("its credentials are left out"), "{table}");
    let files: String = made.files.iter().map(|(_, text)| String::from_utf8_lossy(text)).collect();
    let written = made.configuration + &files;
    assert!(!written.contains("key-inside") && written.contains("key-outside"), "{written}");
}

#[test]
fn credentials_that_nothing_uses_are_refused() {
    let text = r#"
_format_version: "3.0"
consumers:
  - { username: a, oauth2_credentials: [{ name: n, client_id: c }] }
"#;
    let table = imported(text).unwrap().table.to_string();
    let row = table.lines().find(|line| line.contains("oauth2 credential")).unwrap();
    assert!(row.starts_with("refused") && row.contains("no credentials of this kind"), "{table}");
}

#[test]
fn expressions_that_are_more_than_regular_are_refused_with_their_place() {
    for (path, why) in [
        ("/a(?=b)", "look-around"),
        ("/a(?!b)", "look-around"),
        ("/(a)\\\\1", "backreferences"),
        ("/a(?<x>b", "unclosed group"),
    ] {
        let text = format!(
            "_format_version: \"3.0\"\nservices: [{{ name: s, url: \"http://h\", routes: [{{ name: r, paths: [\"~{path}\"] }}, {{ name: o, paths: [/a] }}] }}]\n"
        );
        let made = imported(&text).unwrap();
        let table = made.table.to_string();
        let row = table.lines().find(|line| line.starts_with("refused")).unwrap_or_default();
        assert!(row.contains("kong.yaml:2:") && row.contains("route r"), "{path}: {table}");
        assert!(row.contains(why), "{path}: {row}");
        // What it may match never serves unguarded.
        assert!(made.configuration.contains("status: 503"), "{path}: {}", made.configuration);
    }
}

/// Each route overlaps with the first one and with its neighbours, and each has a plugin.
#[test]
fn the_time_for_many_routes_grows_as_their_number() {
    // A program that is not optimised takes a millisecond for each.
    const ROUTES: usize = 20_000;
    let mut text = String::from(
        "_format_version: \"3.0\"\nplugins: [{ name: cors }]\nservices:\n  - name: s\n    url: http://h\n    routes:\n      - { name: all, paths: [/], methods: [GET] }\n",
    );
    for number in 0..ROUTES {
        let (team, host) = (number % 1_000, number % 97);
        text.push_str(&format!(
            "      - {{ name: r{number}, hosts: [h{host}.test], paths: [/t{team}/s{number}, /t{team}], plugins: [{{ name: correlation-id }}] }}\n"
        ));
    }
    let begun = kit::clock::now();
    let made = imported(&text).unwrap();
    // A comparison of each with each would take much longer.
    let took = kit::clock::now().duration_since(begun);
    assert!(took.as_secs() < 120, "{took:?}");
    assert!(made.configuration.contains("r19999"));
}

/// The mistakes of a file with these sections.
fn mistakes(sections: &str) -> Vec<String> {
    let service = "services: [{ name: s, url: \"http://h\", routes: [{ name: r, paths: [/r] }] }]";
    imported(&format!("_format_version: \"3.0\"\n{service}\n{sections}\n")).unwrap_err()
}

#[test]
fn references_that_lead_nowhere_are_mistakes() {
    let id = "c61b0b1c-8f4e-4d2e-9d0a-000000000000";
    for (sections, mistake) in [
        (
            "routes: [{ name: o, paths: [/o], service: { id: ID } }]",
            "3:43: there is no service `ID`",
        ),
        ("targets: [{ target: h, upstream: none }]", "3:34: there is no upstream `none`"),
        ("snis: [{ name: a.test, certificate: { id: ID } }]", "3:37: there is no certificate `ID`"),
        ("plugins: [{ name: cors, route: none }]", "3:32: there is no route `none`"),
        ("plugins: [{ name: cors, service: { name: none } }]", "3:34: there is no service `none`"),
        ("plugins: [{ name: cors, consumer: none }]", "3:35: there is no consumer `none`"),
        (
            "plugins: [{ name: cors, consumer_group: none }]",
            "3:41: there is no consumer_group `none`",
        ),
        (
            "plugins: [{ name: cors, _config: none }]",
            "3:34: `_config` names nothing in `_plugin_configs`",
        ),
        ("keyauth_credentials: [{ key: k, consumer: none }]", "3:43: there is no consumer `none`"),
        ("acls: [{ group: g, consumer: { username: none } }]", "3:30: there is no consumer `none`"),
        (
            "consumers: [{ username: a, groups: [{ name: none }] }]",
            "3:37: there is no such consumer group",
        ),
        ("consumer_groups: [{ name: g, consumers: [none] }]", "3:42: there is no such consumer"),
    ] {
        let told = mistakes(&sections.replace("ID", id));
        assert_eq!(told, [format!("kong.yaml:{}", mistake.replace("ID", id))], "{sections}");
    }
}

#[test]
fn names_and_ids_that_occur_twice_are_mistakes() {
    for (sections, kind, field) in [
        ("routes: [{ name: r, paths: [/o] }]", "route", "name"),
        ("upstreams: [{ name: u }, { name: u }]", "upstream", "name"),
        ("consumers: [{ username: a }, { username: a }]", "consumer", "username"),
        ("consumers: [{ custom_id: a }, { custom_id: a }]", "consumer", "custom_id"),
        ("consumers: [{ username: a, id: i }, { username: b, id: i }]", "consumer", "id"),
        ("consumer_groups: [{ name: g }, { name: g }]", "consumer group", "name"),
        ("plugins: [{ name: cors, id: i }, { name: acme, id: i }]", "plugin", "id"),
        ("ca_certificates: [{ cert: a, id: i }, { cert: b, id: i }]", "ca_certificate", "id"),
        ("vaults: [{ name: env, prefix: p }, { name: env, prefix: p }]", "vault", "prefix"),
        (
            "consumers: [{ username: a, basicauth_credentials: [{ username: n, password: x }, { username: n, password: y }] }]",
            "basic-auth credential",
            "username",
        ),
        (
            "consumers: [{ username: a, jwt_secrets: [{ key: k, secret: x }, { key: k, secret: y }] }]",
            "jwt credential",
            "key",
        ),
    ] {
        let told = mistakes(sections);
        let what = format!("another {kind} has this `{field}`; the first is at kong.yaml:");
        let found = told.iter().filter(|line| line.contains(&what)).count();
        assert_eq!(found, 1, "{sections}: {told:#?}");
    }
    let told = mistakes("snis: [{ name: a.test }, { name: a.test }]");
    assert!(told.iter().any(|line| line.contains("the sni `a.test` appears twice")), "{told:#?}");
}

#[test]
fn code_in_lua_is_refused_with_its_place_and_closes_its_routes() {
    for plugin in ["pre-function", "post-function", "our-own"] {
        let text = format!(
            "_format_version: \"3.0\"\nservices: [{{ name: s, url: \"http://h\", routes: [{{ name: r, paths: [/r], plugins: [{{ name: {plugin}, config: {{ access: [\"return 1\"] }} }}] }}] }}]\n"
        );
        let made = imported(&text).unwrap();
        let table = made.table.to_string();
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("refused")).collect();
        assert_eq!(rows.len(), 2, "{table}");
        assert!(rows.iter().all(|row| row.contains("kong.yaml:2:")), "{table}");
        assert!(table.contains(&format!("its guard `{plugin}` is refused")), "{table}");
        assert!(made.configuration.contains("status: 503"), "{}", made.configuration);
    }
}

#[test]
fn what_kong_sends_and_counts_is_sent_and_counted() {
    let text = r#"
_format_version: "3.0"
services:
  - { name: "a'b", host: u, routes: [{ name: r, paths: [/r], protocols: [https], https_redirect_status_code: 301 }] }
  - { name: c, url: "http://h", routes: [{ name: o, paths: [/o], plugins: [{ name: basic-auth }, { name: rate-limiting, config: { hour: 1, limit_by: credential } }] }] }
upstreams: [{ name: u, hash_on: cookie, hash_on_cookie: who, targets: [{ target: h }] }]
consumers: [{ username: x, basicauth_credentials: [{ username: x, password: y }] }]
plugins: [{ name: rate-limiting, config: { hour: 1, limit_by: service } }]
routes: [{ name: alone, paths: [/alone] }]
"#;
    let made = imported(text).unwrap();
    for (line, times) in [
        ("pass_untrusted_headers: true", 2),
        ("proxy_authorization: true", 1),
        ("to: \"https://{hostname}\"", 1),
        ("by: \"cel:scheme + ' ' + attributes.credential\"", 1),
        ("by: \"cel:\\\"a'b\\\"\"", 1),
        ("by: client", 1),
        ("cookie_path: /", 1),
        ("remove: [proxy, proxy-authorization]", 1),
    ] {
        let found = made.configuration.matches(line).count();
        assert_eq!(found, times, "{line}: {}", made.configuration);
    }
    assert!(!made.table.to_string().contains("approximated "), "{}", made.table);
}

/// What becomes of the health checks of an upstream, and whether its row says that all is the same.
#[test]
fn failed_checks_count_by_their_kind_as_in_kong() {
    for (unhealthy, passive, is_same, lines) in [
        (
            "http_failures: 3",
            "",
            true,
            &["unhealthy_after:\n", "status: 3\n", "unhealthy_statuses: [429, 404, 500,"][..],
        ),
        (
            "http_failures: 3, tcp_failures: 2, timeouts: 1, http_statuses: [500, 302]",
            "",
            true,
            &["connection: 2\n", "timeout: 1\n", "status: 3\n", "unhealthy_statuses: [500]\n"],
        ),
        // Kong counts three of each kind, and not of all together.
        ("http_failures: 3, tcp_failures: 3, timeouts: 3", "", true, &["timeout: 3\n"]),
        ("http_failures: 1, tcp_failures: 1, timeouts: 1", "", true, &["unhealthy_after: 1\n"]),
        ("http_failures: 3", "healthy: { successes: 1 }", false, &["status: 3\n"]),
        ("http_failures: 1", "healthy: { successes: 1 }", true, &["status: 1\n"]),
        ("http_failures: 0", "", false, &["statuses: [200, 302]\n"]),
    ] {
        let text = format!(
            "_format_version: \"3.0\"\nservices: [{{ name: s, host: u, routes: [{{ name: r, paths: [/r] }}] }}]\nupstreams:\n  - name: u\n    targets: [{{ target: h }}]\n    healthchecks:\n      active: {{ healthy: {{ interval: 5, successes: 2 }}, unhealthy: {{ interval: 5, {unhealthy} }} }}\n      passive: {{ {passive} }}\n"
        );
        let made = imported(&text).unwrap();
        let table = made.table.to_string();
        let row = table.lines().find(|line| line.contains("upstream u")).unwrap();
        assert_eq!(row.starts_with("converted"), is_same, "{unhealthy} {passive}: {row}");
        for line in lines {
            assert!(made.configuration.contains(line), "{line}: {}", made.configuration);
        }
    }
}

#[test]
fn an_entry_of_cors_may_have_several_names() {
    let text = r#"
_format_version: "3.0"
services: [{ name: a, url: "http://h", routes: [{ name: r, paths: [/r] }] }]
plugins:
  - name: cors
    protocols: [http]
    config: { headers: ["Accept, X-A,", X-B], exposed_headers: ["X-C,X-D"] }
"#;
    let made = imported(text).unwrap();
    assert!(made.table.to_string().contains("3 converted, 0 approximated"), "{}", made.table);
    for line in ["headers: [Accept, X-A, X-B]", "expose: [X-C, X-D]"] {
        assert!(made.configuration.contains(line), "{line}: {}", made.configuration);
    }
}

/// Kong runs a plugin on each request, if its protocols have one over HTTP.
#[test]
fn the_protocols_of_a_plugin_tell_requests_from_streams() {
    for (protocols, is_same) in [
        ("[http]", true),
        ("[https]", true),
        ("[grpc]", true),
        ("[tcp, https]", true),
        ("[]", true),
        ("[tcp, tls]", false),
    ] {
        let text = format!(
            "_format_version: \"3.0\"\nservices: [{{ name: a, url: \"http://h\", routes: [{{ name: r, paths: [/r] }}] }}]\nplugins: [{{ name: cors, protocols: {protocols} }}]\n"
        );
        let table = imported(&text).unwrap().table.to_string();
        let row = table.lines().find(|line| line.contains("plugin cors")).unwrap();
        assert_eq!(row.starts_with("converted"), is_same, "{protocols}: {row}");
    }
}
