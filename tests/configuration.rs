//! The reports of `check`, `explain` and `run` about a configuration: every complaint with its place, every default, every route.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Gateway, Origin, Run, tidegate, tidegate_with};

/// A listener, for configurations that are about something else.
const LISTEN: &str = "listen: { public: { address: \"127.0.0.1:0\" } }\n";

/// A folder with the files of one configuration.
struct Files(tempfile::TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Files {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Files(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn check(&self, name: &str) -> Run {
        tidegate(&["check", self.path(name).to_str().unwrap()])
    }
}

/// A complaint as printed, without the folder: its place and its text.
fn complaints(said: &Run, folder: &Path) -> Vec<(String, String)> {
    let prefix = format!("{}/", folder.display());
    let lines = said.stderr.lines().filter_map(|line| line.strip_prefix(&prefix));
    lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(at, what)| (at.into(), what.into()))
        .collect()
}

/// Checks a file and compares the place of each complaint and a part of its text.
#[track_caller]
fn complains(text: &str, expected: &[(&str, &str)]) {
    let files = Files::new(&[("gate.yaml", text)]);
    let said = files.check("gate.yaml");
    let found = complaints(&said, files.0.path());
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_eq!(found.len(), expected.len(), "{}", said.stderr);
    for ((at, what), (place, part)) in found.iter().zip(expected) {
        assert_eq!(at, &format!("gate.yaml:{place}"), "{}", said.stderr);
        assert!(what.contains(part), "{what:?} should say {part:?}");
    }
}

const TEN_MISTAKES: &str = r#"listen:
  public: { adress: "127.0.0.1:0" }
  secure: { address: "127.0.0.1:0", tls: { certificate: missing.pem, key: missing.pem } }
workers: none
upstreams:
  orders:
    targets: ["ftp://10.0.0.1:8080"]
    timeout: { connect: 1 }
routes:
  a: { match: { path: "orders" }, upstream: orders }
  b: { match: { path: "/b" }, upstream: order }
  c: { match: { path: "/c" } }
  d: { match: { path: "/d", methods: ["G T"] }, respond: {} }
  e: { match: { path: "/e" }, policies: [{ heders: {} }], respond: { status: 99 } }
"#;

const TEN_COMPLAINTS: &[(&str, &str)] = &[
    ("2:13", "unknown key `adress`; did you mean `address`?"),
    ("3:57", "there is no such file"),
    ("3:75", "there is no such file"),
    ("4:10", "found `none`"),
    ("7:15", "neither http nor https"),
    ("8:25", "the duration `1` has no unit"),
    ("10:23", "a path must begin with `/`"),
    ("11:41", "there is no upstream `order`; did you mean `orders`?"),
    ("12:3", "the route `c` has no destination"),
    ("13:39", "is not a valid method"),
    ("14:44", "unknown policy `heders`; did you mean `headers`?"),
    ("14:78", "a whole number from 200 to 599"),
];

#[test]
fn every_mistake_has_its_complaint() {
    complains(TEN_MISTAKES, TEN_COMPLAINTS);
}

#[test]
fn every_complaint_says_what_to_write_instead() {
    let files = Files::new(&[("gate.yaml", TEN_MISTAKES)]);
    let said = files.check("gate.yaml");
    let helps = said.stderr.lines().filter(|line| line.trim_start().starts_with("help: ")).count();
    assert_eq!(helps, TEN_COMPLAINTS.len(), "{}", said.stderr);
}

#[test]
fn what_yaml_itself_allows_and_nobody_means_is_a_complaint() {
    complains("", &[("1:1", "empty")]);
    complains("# nothing but a comment\n", &[("1:1", "empty")]);
    complains("listen: [\n", &[("2:1", "not YAML")]);
    complains("just a text\n", &[("1:1", "expected a map")]);
    let twice = format!(
        "{LISTEN}routes:\n  a: {{ match: {{ path: /a }}, respond: {{}} }}\n  a: {{ match: {{ path: /b }}, respond: {{}} }}\n"
    );
    complains(&twice, &[("4:3", "`a` appears twice; the first is on line 3")]);
    complains(&format!("{LISTEN}{LISTEN}"), &[("2:1", "`listen` appears twice")]);
}

#[test]
fn routes_that_match_the_same_are_a_complaint() {
    let routes = |other: &str| {
        let rest = "respond: {} }\n";
        format!(
            "{LISTEN}routes:\n  a: {{ match: {{ path: \"/a/{{id}}\", methods: [GET, POST] }}, {rest}  b: {{ match: {other}, {rest}"
        )
    };
    let same = "the routes `b` and `a` match the same requests";
    complains(&routes(r#"{ path: "/a/{name}", methods: [POST, GET] }"#), &[("4:15", same)]);
    let files = Files::new(&[("gate.yaml", &routes(r#"{ path: "/a/{name}", methods: [PUT] }"#))]);
    assert_eq!(files.check("gate.yaml").code, Some(0));
}

#[test]
fn a_good_file_is_ok_and_a_doubtful_one_is_warned_about() {
    let good = format!("{LISTEN}routes: {{ a: {{ match: {{ path: /a }}, respond: {{}} }} }}\n");
    let doubtful = format!(
        "{LISTEN}upstreams: {{ u: {{ targets: [\"https://127.0.0.1:1\"], tls: {{ verify: false }} }} }}\n\
         routes: {{ a: {{ match: {{ path: /a }}, upstream: u }} }}\n"
    );
    let files = Files::new(&[("good.yaml", &good), ("doubtful.yaml", &doubtful)]);
    let said = files.check("good.yaml");
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    assert!(said.stdout.ends_with("good.yaml: ok\n"), "{said:?}");
    let said = files.check("doubtful.yaml");
    assert_eq!(said.code, Some(0));
    assert!(said.stderr.contains("doubtful.yaml:2:68: warning: "), "{said:?}");
}

#[test]
fn run_refuses_a_bad_file_with_every_complaint() {
    let files = Files::new(&[("gate.yaml", TEN_MISTAKES)]);
    let said = tidegate(&["run", files.path("gate.yaml").to_str().unwrap()]);
    assert_eq!(said.code, Some(1));
    let places: Vec<String> =
        complaints(&said, files.0.path()).into_iter().map(|(at, _)| at).collect();
    let expected: Vec<String> =
        TEN_COMPLAINTS.iter().map(|(at, _)| format!("gate.yaml:{at}")).collect();
    assert_eq!(places, expected);
}

#[test]
fn a_file_that_is_not_there_is_a_complaint() {
    let files = Files::new(&[]);
    let folder = files.0.path();
    for command in ["check", "run", "explain"] {
        let said = tidegate(&[command, files.path("none.yaml").to_str().unwrap()]);
        assert_eq!(said.code, Some(1), "{command}: {said:?}");
        let [(at, what)] = &complaints(&said, folder)[..] else { panic!("{command}: {said:?}") };
        assert_eq!(at, "none.yaml:1:1");
        assert!(what.contains("there is no such file"), "{what}");
    }
}

#[test]
fn a_folder_of_files_is_one_configuration() {
    let files = Files::new(&[
        ("gate/a.yaml", LISTEN),
        ("gate/b.yml", "routes: { a: { match: { path: /a }, upstream: u } }\n"),
        ("gate/c.yaml", "upstreams: { u: { targets: [\"http://127.0.0.1:1\"] } }\n"),
        ("gate/notes.txt", "not: [yaml"),
    ]);
    assert_eq!(files.check("gate").code, Some(0));
    let folder = files.path("gate");
    let said = tidegate(&["explain", folder.to_str().unwrap(), "GET", "/a"]);
    assert!(said.stdout.contains("route `a`"), "{said:?}");

    fs::write(files.path("gate/d.yaml"), "routes: { a: { match: { path: /d }, respond: {} } }\n")
        .unwrap();
    fs::write(files.path("gate/e.yaml"), "routs: {}\n").unwrap();
    let found = complaints(&files.check("gate"), &folder);
    let [(first, twice), (second, unknown)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((first.as_str(), second.as_str()), ("d.yaml:1:11", "e.yaml:1:1"));
    assert!(twice.contains("`a` is in two files"), "{twice}");
    assert!(unknown.contains("did you mean `routes`?"), "{unknown}");

    fs::create_dir(files.path("empty")).unwrap();
    let said = files.check("empty");
    assert_eq!(said.code, Some(1));
    assert!(said.stderr.contains("no file that ends in .yaml or .yml"), "{said:?}");
}

#[test]
fn variables_and_files_are_put_in_once() {
    let text = format!(
        "{LISTEN}routes: {{ a: {{ match: {{ path: /a }}, respond: {{ body: \"${{WHO}} $${{WHO}}\", headers: {{ x-s: \"${{file:secret.txt}}\" }} }} }} }}\n"
    );
    let files = Files::new(&[("gate.yaml", &text), ("secret.txt", "from a file\n")]);
    let path = files.path("gate.yaml");
    let explain = ["explain", path.to_str().unwrap()];
    // The value of a variable is text: neither YAML nor another reference. `$${` is its escaped form.
    let said = tidegate_with(&explain, &[("WHO", "${HOME} {a: b} #")]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stdout.contains(r#"body: "$${HOME} {a: b} # $${WHO}""#), "{}", said.stdout);
    assert!(said.stdout.contains(r#"x-s: "from a file""#), "{}", said.stdout);

    fs::remove_file(files.path("secret.txt")).unwrap();
    let found = complaints(&files.check("gate.yaml"), files.0.path());
    let [(_, variable), (_, file)] = &found[..] else { panic!("{found:?}") };
    assert!(variable.contains("the environment has no variable `WHO`"), "{variable}");
    assert!(file.contains("there is no such file"), "{file}");
}

#[test]
fn explain_prints_every_default() {
    let text = format!(
        "{LISTEN}upstreams: {{ u: {{ targets: [\"http://127.0.0.1:1\"], health: {{}}, outlier: {{}} }} }}\n\
         routes: {{ a: {{ match: {{ path: /a }}, upstream: u }} }}\n"
    );
    let files = Files::new(&[("gate.yaml", &text)]);
    let said = tidegate(&["explain", files.path("gate.yaml").to_str().unwrap()]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    let defaults = [
        "head_bytes_max: 64KiB",
        "target_bytes_max: 16KiB",
        "headers_max: 128",
        "idle: 75s",
        "drain: 30s",
        "balance: round_robin",
        "connect: 1s",
        "delay: 5s",
        "unhealthy_after: 2",
        "consecutive_faults: 5",
        "requests: 65536",
        "verify: true",
        "host: preserve",
    ];
    for default in defaults {
        assert!(
            said.stdout.lines().any(|line| line.trim() == default),
            "no {default} in\n{}",
            said.stdout
        );
    }
    // The output is itself a configuration, with the same output.
    fs::write(files.path("again.yaml"), &said.stdout).unwrap();
    let again = tidegate(&["explain", files.path("again.yaml").to_str().unwrap()]);
    assert_eq!(again.stdout, said.stdout);
}

#[test]
fn explain_prints_which_failed_checks_count() {
    let text = format!(
        "{LISTEN}upstreams: {{ u: {{ targets: [\"http://127.0.0.1:1\"], health: {{ path: /, unhealthy_after: {{ status: 3 }}, unhealthy_statuses: [500-599] }} }} }}\n\
         routes: {{ a: {{ match: {{ path: /a }}, upstream: u }} }}\n"
    );
    let files = Files::new(&[("gate.yaml", &text)]);
    let said = tidegate(&["explain", files.path("gate.yaml").to_str().unwrap()]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    for line in ["connection: 0", "timeout: 0", "status: 3", "unhealthy_statuses: [500-599]"] {
        let found = said.stdout.lines().any(|told| told.trim().replace('"', "") == line);
        assert!(found, "no {line} in\n{}", said.stdout);
    }
}

const ROUTES: &str = r#"
upstreams: { orders: { targets: ["http://127.0.0.1:1"] } }
routes:
  one: { match: { host: api.example.com, path: "/orders/{id}", methods: [GET] }, upstream: orders }
  gold:
    match: { host: api.example.com, path: "/orders/{id}", methods: [GET], headers: { x-tier: gold } }
    policies: [{ headers: { request: { set: { x-a: b } } } }]
    strip_prefix: /orders
    upstream: orders
  all: { match: { path: "/orders/**" }, upstream: orders }
  hello: { match: { path: /hello, query: { lang: en } }, respond: { body: hi } }
"#;

/// Each request, given as arguments, has an explanation with all of these parts.
fn explained(file: &Path, cases: &[(&[&str], &[&str])]) {
    for (request, expected) in cases {
        let said = tidegate(&[&["explain", file.to_str().unwrap()], *request].concat());
        assert_eq!(said.code, Some(0), "{request:?}: {said:?}");
        for part in *expected {
            assert!(
                said.stdout.contains(part),
                "{request:?} should say {part:?}:\n{}",
                said.stdout
            );
        }
    }
}

#[test]
fn explain_tells_the_route_and_why_not_the_others() {
    let files = Files::new(&[("gate.yaml", &format!("{LISTEN}{ROUTES}"))]);
    let path = files.path("gate.yaml");
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["GET", "http://api.example.com/orders/7"],
            &[
                "\nroute `one`\n",
                "{id} is 7",
                "upstream `orders` (http://127.0.0.1:1), the path unchanged",
                "`gold`: the header `x-tier` is not `gold`",
                "`all`: matches too, but /orders/** is less specific",
                "`hello`: the path is not /hello",
            ],
        ),
        (
            &["GET", "http://api.example.com/orders/7", "-H", "X-Tier: gold"],
            &[
                "\nroute `gold`\n",
                "policy headers: passes",
                "the path without /orders",
                "`one`: matches too, but",
            ],
        ),
        (
            &["POST", "/orders/7?a=b"],
            &["\nroute `all`\n", "`one`: the host is not api.example.com"],
        ),
        (
            &["POST", "http://api.example.com/orders/7"],
            &["\nroute `all`\n", "`one`: the method POST is not GET"],
        ),
        (
            &["GET", "/hello"],
            &["no route matches: 404", "`hello`: the query parameter `lang` is not `en`"],
        ),
        (&["GET", "/hello?lang=en"], &["\nroute `hello`\n", "a fixed reply, status 200, 2 bytes"]),
        (&["GET", "/orders/../hello?lang=en"], &["matched as /hello", "\nroute `hello`\n"]),
        (&["GET", "//hello//?lang=en"], &["matched as /hello/\n", "no route matches: 404"]),
        (&["GET", "//hello?lang=en"], &["matched as /hello\n", "\nroute `hello`\n"]),
        (
            &["GET", "/hello%2f"],
            &[
                "refused with 400: the path has an escaped slash or backslash, see the listener's `paths.escaped_slash`",
            ],
        ),
        (&["GET", "/hello;a"], &["refused with 400: the path has a `;`"]),
        (&["GET", "/../hello"], &["refused with 400"]),
    ];
    explained(&path, cases);
}

/// Listeners may read paths by rules of their own (issue 18, 7).
#[test]
fn explain_asks_the_listener_that_the_url_leads_to() {
    let yaml = r#"
listen:
  strict: { address: "127.0.0.1:8080" }
  keeping: { address: "127.0.0.1:8081", paths: { escaped_slash: keep } }
routes: { all: { match: { path: "/**" }, respond: { body: all } } }
"#;
    let files = Files::new(&[("gate.yaml", yaml)]);
    let refused = "refused with 400: the path has an escaped slash or backslash";
    let cases: &[(&[&str], &[&str])] = &[
        (&["GET", "http://a.test:8081/a%2Fb"], &["the listener `keeping`\n", "route `all`"]),
        (&["GET", "http://a.test:8080/a%2Fb"], &["the listener `strict`\n", refused]),
        (&["GET", "/a%2Fb"], &["the listener `strict`\n", refused]),
    ];
    explained(&files.path("gate.yaml"), cases);
}

const GUARDED: &str = r#"
issuers: { main: { issuer: i, jwks: "http://127.0.0.1:1/jwks.json" } }
upstreams: { u: { targets: ["http://127.0.0.1:1"] } }
routes:
  guarded:
    match: { path: "/{tenant}/**" }
    policies:
      - cors: { origins: ["https://app.example"] }
      - ip_filter: { deny: ["10.0.0.0/8"] }
      - api_key: { header: x-api-key, keys: { ann: { key: the-key } } }
      - authorize: { rule: 'request.method != "DELETE"' }
      - rate_limit: { requests: 1, per: 1m, by: subject }
      - headers: { response: { set: { x-a: b } } }
    upstream: u
  tokens:
    match: { path: /tokens }
    policies: [{ jwt: { issuers: [main] } }, { rate_limit: { requests: 1, per: 1m, by: subject } }]
    respond: { body: hi }
  bodies:
    match: { path: /bodies }
    policies: [{ soap: {} }, { headers: { request: { set: { x-a: b } } } }]
    upstream: u
"#;

#[test]
fn explain_tells_each_policys_verdict() {
    let files = Files::new(&[("gate.yaml", &format!("{LISTEN}{GUARDED}"))]);
    let path = files.path("gate.yaml");
    let token = tidegate(&["token", "--issuer", "i"]).stdout;
    let bearer = format!("authorization: Bearer {}", token.lines().next().unwrap());
    let reached = "\n  -> upstream `u`";
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["GET", "/t/x"],
            &[
                "policy cors: passes",
                "policy ip_filter: passes",
                "policy api_key: refuses with 401: ",
                "policy authorize: not reached",
                "policy headers: not reached",
                "\n  not reached: upstream `u`",
            ],
        ),
        (
            &["GET", "/t/x", "-H", "x-api-key: the-key"],
            &[
                "policy api_key: passes",
                "policy authorize: passes",
                "policy rate_limit: passes",
                "policy headers: runs on the reply only",
                reached,
            ],
        ),
        (
            &["DELETE", "/t/x", "-H", "x-api-key: the-key"],
            &["policy authorize: refuses with 403: "],
        ),
        (
            &["GET", "/t/x", "--from", "10.1.2.3"],
            &["policy ip_filter: refuses with 403: ", "policy api_key: not reached"],
        ),
        (
            &[
                "OPTIONS",
                "/t/x",
                "-H",
                "origin: https://app.example",
                "-H",
                "access-control-request-method: PUT",
            ],
            &["policy cors: answers with 204", "policy ip_filter: not reached"],
        ),
        (
            &["GET", "/tokens"],
            &["policy jwt: refuses with 401: ", "policy rate_limit: not reached"],
        ),
        (
            &["GET", "/tokens", "-H", &bearer],
            &[
                "policy jwt: depends on a call to another service",
                "policy rate_limit: depends on `jwt`",
                "if `jwt` allows it",
            ],
        ),
        (
            &["POST", "/bodies"],
            &[
                "policy soap: depends on the body",
                "policy headers: depends on `soap`",
                "if `soap` allows it",
            ],
        ),
    ];
    explained(&path, cases);
}

/// The folder of the project.
fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

#[test]
fn the_examples_are_good() {
    let folders = fs::read_dir(project().join("examples")).unwrap();
    let examples: Vec<PathBuf> =
        folders.map(|folder| folder.unwrap().path().join("tidegate.yaml")).collect();
    assert!(!examples.is_empty());
    for example in examples.iter().filter(|example| !example.with_file_name("keys.sh").exists()) {
        let said = tidegate(&["check", example.to_str().unwrap()]);
        // One route has a definition that does not compile, to show its messages.
        let warned = |line: &&str| line.contains("warning") && !line.contains("invalid.wsdl");
        let warnings: Vec<&str> = said.stderr.lines().filter(warned).collect();
        assert_eq!((said.code, warnings), (Some(0), vec![]), "{}", example.display());
    }
}

/// An example with keys that must not be committed generates them first.
#[test]
fn an_example_with_keys_makes_its_own() {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(project().join("examples/choreo-connect")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let made = std::process::Command::new("bash")
        .arg(folder.path().join("keys.sh"))
        .env("TIDEGATE", env!("CARGO_BIN_EXE_tidegate"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let said = tidegate(&["check", folder.path().join("tidegate.yaml").to_str().unwrap()]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
}

#[test]
fn wrong_usage_ends_with_2() {
    let files = Files::new(&[("gate.yaml", &format!("{LISTEN}{ROUTES}"))]);
    let path = files.path("gate.yaml");
    let path = path.to_str().unwrap();
    let cases: &[&[&str]] = &[
        &[],
        &["chek"],
        &["check", path, "--schema"],
        &["check", path, path],
        &["explain", path, "GET"],
        &["explain", path, "GET", "not a url"],
        &["explain", path, "G T", "/"],
        &["explain", path, "GET", "/", "-H", "no colon"],
        &["run", path, "--fast"],
        &["backend", "nosuch"],
        &["backend", "echo", "--delay", "soon"],
        &["token", "--algorithm", "none"],
    ];
    for arguments in cases {
        let said = tidegate(arguments);
        assert_eq!(said.code, Some(2), "{arguments:?}: {said:?}");
        assert!(!said.stderr.is_empty() && said.stdout.is_empty(), "{arguments:?}: {said:?}");
    }
}

#[test]
fn the_schema_is_a_json_schema_of_what_can_be_written() {
    let said = tidegate(&["check", "--schema"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    let schema: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let config = &schema["$defs"]["Config"];
    for key in ["listen", "admin", "workers", "upstreams", "routes", "telemetry"] {
        assert!(config["properties"][key].is_object(), "no {key} in {config}");
    }
    assert_eq!(config["additionalProperties"], false);
    // Every reference leads somewhere.
    for reference in
        said.stdout.split("\"#/$defs/").skip(1).filter_map(|rest| rest.split('"').next())
    {
        assert!(schema["$defs"][reference].is_object(), "{reference} leads nowhere");
    }
}

#[test]
fn an_upstream_that_only_policies_send_to_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    let other = "upstreams: { a: { targets: [\"http://127.0.0.1:1\"] }, b: { targets: [\"http://127.0.0.1:2\"] } }";
    for (policy, used) in [
        ("interceptor: { response: { upstream: b } }", true),
        (
            "interceptor: { request: { url: \"http://127.0.0.1:3\" }, endpoints: { x: { upstream: b } } }",
            true,
        ),
        // Without `endpoints`, an answer may name any endpoint.
        ("interceptor: { request: { url: \"http://127.0.0.1:3\" } }", true),
        ("key_type: { sandbox: b }", true),
        ("interceptor: { response: { url: \"http://127.0.0.1:3\" } }", false),
    ] {
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\n{other}\nroutes: {{ all: {{ match: {{ path: \"/**\" }}, upstream: a, policies: [{{ {policy} }}] }} }}\n"
        );
        fs::write(&file, yaml).unwrap();
        let run = tidegate(&["check", file.to_str().unwrap()]);
        let said = run.stdout + &run.stderr;
        assert_eq!(run.code, Some(0), "{policy}: {said}");
        assert_eq!(said.contains("nothing uses the upstream `b`"), !used, "{policy}: {said}");
    }
}

/// This holds for every mistake anywhere on the line: in the YAML, in a name, in a value beside the secret.
#[test]
fn a_complaint_shows_the_line_without_the_secrets_in_it() {
    for section in [
        "stores: { s: { url: \"redis://127.0.0.1\", password: hunter2, databse: 1 } }",
        "stores: { s: { url: 1, pasword: hunter2 } }",
        "stores:\n  s:\n    url: \"redis://127.0.0.1\"\n    password: hunter2: hunter2",
        "stores: { s: { url: \"redis://127.0.0.1\", password: \"${hunter2\" } }",
        "upstreams: { a: { targets: [\"http://alice:hunter2@a:80\"] } }",
        "issuers: { a: { introspection: { url: 1, client_id: a, client_secret: hunter2 } } }",
        "routes: { a: { policies: [{ api_key: { keys: { alice: hunter2 }, hedaer: x } }], respond: {} } }",
        "routes:\n  a:\n    policies:\n      - basic:\n          users:\n            alice: hunter2: hunter2",
        "routes: { a: { policies: [{ basic: { users: hunter2 } }], respond: {} } }",
    ] {
        let files = Files::new(&[("gate.yaml", &format!("{LISTEN}{section}\n"))]);
        let said = files.check("gate.yaml");
        assert_eq!(said.code, Some(1), "{section}: {said:?}");
        assert!(said.stderr.contains("    | "), "a line is shown: {}", said.stderr);
        assert!(said.stderr.contains("***"), "{}", said.stderr);
        assert!(!said.stderr.contains("hunter2"), "{section}: {}", said.stderr);
    }
}

#[test]
fn what_follows_from_a_mistake_is_no_complaint() {
    complains(
        "workers: 2\nnonsense: 1\n",
        &[("1:1", "no listener is configured"), ("2:1", "unknown key")],
    );
    let u = "upstreams: { u: { targets: [\"http://127.0.0.1:1\"] } }\n";
    let policy = |policy: &str| {
        format!(
            "{LISTEN}{u}routes: {{ a: {{ match: {{ path: /a }}, policies: [{policy}], upstream: u }} }}\n"
        )
    };
    complains(
        &format!("{LISTEN}{u}routes: {{ a: {{ math: {{ path: /a }}, upstream: u }} }}\n"),
        &[("3:16", "unknown key `math`; did you mean `match`?")],
    );
    let not_a_list = "{ ip_filter: { allow: 10.0.0.0/8 } }";
    complains(&policy(not_a_list), &[("3:70", "expected a list")]);
    complains(&policy("{ rate_limit: { requests: x, per: 1m } }"), &[("3:74", "found `x`")]);
}

#[test]
fn what_takes_nothing_is_a_complaint() {
    let route = |methods: &str, policy: &str| {
        format!(
            "{LISTEN}routes: {{ a: {{ match: {{ path: /a, methods: [{methods}] }}, policies: [{policy}], respond: {{}} }} }}\n"
        )
    };
    complains(&route("\"*\"", ""), &[("2:45", "`*` is not a method")]);
    complains(
        &route("GET", "{ soap: { versions: [] } }"),
        &[("2:84", "no version of SOAP is accepted")],
    );
    complains(
        &route("GET", "{ soap: { validate: [] } }"),
        &[("2:84", "neither side is validated")],
    );
    let log = format!("{LISTEN}telemetry: {{ access_log: {{ path: missing/access.log }} }}\n");
    let files = Files::new(&[("gate.yaml", &log)]);
    let said = files.check("gate.yaml");
    assert!(said.stderr.contains("gate.yaml:2:34: the access log cannot be"), "{}", said.stderr);
    assert!(said.stderr.contains("there is no such folder"), "{}", said.stderr);
}

/// A stylesheet that changes nothing.
const COPY: &str = r#"<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="@*|node()"><xsl:copy><xsl:apply-templates select="@*|node()"/></xsl:copy></xsl:template></xsl:stylesheet>"#;

#[test]
fn issue_19_the_key_on_may_have_been_taken_for_a_truth() {
    let text = |retry: &str, side: &str| {
        format!(
            "{LISTEN}upstreams:\n  a: {{ targets: [\"http://127.0.0.1:1\"], retry: {{ {retry}: [reset, 503] }} }}\n\
             routes:\n  a:\n    match: {{ path: /a }}\n    policies: [{{ xslt: {{ {side}: request, stylesheet: a.xsl }} }}]\n    upstream: a\n"
        )
    };
    for name in [("when", "side"), ("on", "on"), ("true", "true"), ("\"true\"", "\"on\"")] {
        let yaml = text(name.0, name.1);
        let files = Files::new(&[("gate.yaml", &yaml), ("a.xsl", COPY)]);
        let said = files.check("gate.yaml");
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{name:?}");
        let told = tidegate(&["explain", files.path("gate.yaml").to_str().unwrap()]).stdout;
        for line in ["when: [reset, 503]\n", "side: request"] {
            assert!(told.contains(line), "{line:?} should be in {told}");
        }
    }
    // If `on` is not a key, `true` is not one either, and each key is listed once.
    complains(
        "listen: { public: { address: \"127.0.0.1:0\", true: 1 } }\nupstreams:\n  \
         a: { targets: [\"http://127.0.0.1:1\"], retry: { on: [reset], when: [reset], true: [reset] } }\n",
        &[
            ("1:45", "unknown key `true`"),
            ("3:63", "`on` and `when` are the same key"),
            ("3:78", "`on` and `true` are the same key"),
            ("3:3", "nothing uses the upstream `a`"),
        ],
    );
}

#[test]
fn issue_19_what_is_shared_is_written_once() {
    let origin = Origin::echo();
    let own = "headers: { request: { add: { x-order: own } } }";
    let yaml = format!(
        r#"listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
upstreams:
  a: &service {{ targets: ["{}"], timeout: &times {{ response: 7s }} }}
  b: {{ <<: *service, timeout: {{ <<: *times, connect: 3s }} }}
policy_sets:
  marked:
  - headers: {{ request: {{ set: {{ x-set: marked }} }} }}
  - headers: {{ request: {{ add: {{ x-order: set }} }} }}
defaults: {{ policies: [{{ headers: {{ request: {{ add: {{ x-order: default }} }} }} }}] }}
routes:
  a: {{ match: {{ path: /a }}, policies: [{{ use: marked }}, {{ {own} }}], upstream: a }}
  b: {{ match: {{ path: /b }}, defaults: false, policies: [{{ use: marked }}], upstream: b }}
  c: {{ match: {{ path: /c }}, upstream: b }}
"#,
        origin.url()
    );
    let gateway = Gateway::start(&yaml);
    for (path, set, order) in [
        ("/a", vec!["marked"], vec!["default", "set", "own"]),
        ("/b", vec!["marked"], vec!["set"]),
        ("/c", vec![], vec!["default"]),
    ] {
        gateway.wire().ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let seen = origin.requests().pop().unwrap();
        assert_eq!((seen.all("x-set"), seen.all("x-order")), (set, order), "{path}");
    }
    let files = Files::new(&[("gate.yaml", &yaml)]);
    let told = tidegate(&["explain", files.path("gate.yaml").to_str().unwrap()]).stdout;
    let (_, b) = told.split_once("\n  b:\n").unwrap();
    assert!(b.contains("connect: 3s") && b.contains("response: 7s"), "{told}");
    assert_eq!(told.matches("policy headers").count(), 4 + 2 + 1, "{told}");
}

#[test]
fn issue_19_what_is_shared_and_wrong_is_told_once_at_its_place() {
    let rest = "routes:\n  a: { match: { path: /a }, policies: [{ use: s }], respond: {} }\n  b: { match: { path: /b }, policies: [{ use: s }], respond: {} }\n";
    let text = |sets: &str| format!("{LISTEN}policy_sets:\n{sets}{rest}");
    complains(
        &text("  s: [{ headers: { request: { set: { host: a } } } }]\n"),
        &[("3:38", "a policy cannot change the Host")],
    );
    complains(
        &text("  t: [{ use: s }]\n  s: []\n"),
        &[("3:7", "a policy set cannot use another"), ("3:3", "nothing uses the policy set `t`")],
    );
    complains(
        &text("  sets: []\n").replace("{ use: s }", "{ use: set }"),
        &[
            ("5:47", "there is no policy set `set`; did you mean `sets`?"),
            ("6:47", "there is no policy set `set`; did you mean `sets`?"),
            ("3:3", "nothing uses the policy set `sets`"),
        ],
    );
    complains(
        "listen: { public: { <<: [1, { address: \"127.0.0.1:0\" }], << : {} } }\nadmin: { <<: ~ }\n",
        &[
            ("1:26", "`<<` takes over the keys of a map, found `1`"),
            ("1:58", "the key `<<` appears twice"),
            ("2:1", "the key `address` is missing"),
            ("2:14", "`<<` takes over the keys of a map, found nothing"),
        ],
    );
}

#[test]
fn issue_19_warnings_fail_a_strict_check_and_complaints_are_told_as_json() {
    let unused = format!(
        "{LISTEN}upstreams: {{ a: {{ targets: [\"http://127.0.0.1:1\"] }} }}\nroutes: {{ a: {{ match: {{}}, respond: {{}} }} }}\n"
    );
    let good = format!("{LISTEN}routes: {{ a: {{ match: {{}}, respond: {{}} }} }}\n");
    let files =
        Files::new(&[("gate.yaml", &unused), ("good.yaml", &good), ("bad.yaml", "listen: 1\n")]);
    let run = |arguments: &[&str], file: &str| {
        let path = files.path(file);
        let all: Vec<&str> =
            ["check"].iter().chain(arguments).copied().chain(path.to_str()).collect();
        tidegate(&all)
    };
    for (arguments, file, code) in [
        (&[][..], "gate.yaml", 0),
        (&["--strict"], "gate.yaml", 1),
        (&["--strict"], "good.yaml", 0),
        (&["--strict"], "bad.yaml", 1),
    ] {
        let said = run(arguments, file);
        assert_eq!(said.code, Some(code), "{said:?}");
        assert_eq!(said.stdout.ends_with("ok\n"), code == 0, "{said:?}");
    }
    let told = |arguments: &[&str], file: &str| -> Value {
        let said = run(arguments, file);
        assert_eq!(said.stderr, "");
        let told: Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(told["ok"], said.code == Some(0));
        told
    };
    let warned = told(&["--format", "json"], "gate.yaml");
    assert_eq!(warned["complaints"][0]["severity"], "warning");
    assert_eq!(
        (&warned["complaints"][0]["line"], &warned["complaints"][0]["column"]),
        (&2.into(), &14.into())
    );
    assert_eq!(told(&["--format=json", "--strict"], "gate.yaml")["ok"], false);
    assert_eq!(told(&["--format=json"], "good.yaml")["complaints"], serde_json::json!([]));
    let bad = told(&["--format=json"], "bad.yaml");
    assert_eq!(bad["complaints"][0]["severity"], "error");
    assert_eq!(bad["complaints"][0]["file"], files.path("bad.yaml").to_str().unwrap());
    assert_eq!(run(&["--format", "yaml"], "good.yaml").code, Some(2));
}

/// Typical mistakes of users of other products, and typing errors: the complaint names the right key.
#[test]
fn complaints_say_what_to_write_instead() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    for (yaml, parts) in [
        ("listen:\n\tpublic: {}\n", &["there is a tab", "indent with spaces"][..]),
        ("services: []\n", &["`services`", "`upstreams` here"]),
        ("_format_version: \"3.0\"\n", &["a configuration of Kong"]),
        ("plugins: []\n", &["`policies` here"]),
        ("consumers: []\n", &["`api_key`"]),
        ("routes: { a: { paths: [/a], respond: {} } }\n", &["`match: { path:"]),
        ("routes: { a: { service: b, match: { path: /a } } }\n", &["`upstream: NAME`"]),
        (
            "routes: { a: { match: { path: /a }, policies: [{ name: rate-limiting, config: { minute: 5 } }], respond: {} } }\n",
            &["`{ name, config }`", "`- rate_limit: {"],
        ),
        (
            "routes: { a: { match: { path: /a }, policies: [{ name: cors, config: {} }], respond: {} } }\n",
            &["`- cors: {"],
        ),
        (
            "databases: { a: { url: \"oracle://u:geheim@h/d\" } }\n",
            &["databases of oracle are not supported", "postgres://", "mysql://", "sqlite:"],
        ),
        (
            "routes: { a: { match: { path: /a }, flow: f } }\nflows: { f: [{ set: { a: { json: \"$.a[x]\" } } }, { respond: {} }] }\n",
            &["`['name']`", "`[0:2]`", "write a path such as"],
        ),
    ] {
        std::fs::write(&file, yaml).unwrap();
        let run = tidegate(&["check", file.to_str().unwrap()]);
        assert_eq!(run.code, Some(1), "{yaml}: {run:?}");
        for part in parts {
            assert!(run.stderr.contains(part), "{yaml}: no {part} in {}", run.stderr);
        }
        assert!(!run.stderr.contains("geheim"), "{}", run.stderr);
    }
}

/// `--help` prints help and does nothing.
#[test]
fn scripts_of_benches_have_help() {
    let bench = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../bench");
    let mut seen = 0;
    for entry in std::fs::read_dir(bench).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "sh") {
            continue;
        }
        let said = std::process::Command::new(&path).arg("--help").output().unwrap();
        assert!(said.status.success() && !said.stdout.is_empty(), "{}", path.display());
        assert!(said.stderr.is_empty(), "{}", path.display());
        seen += 1;
    }
    assert!(seen > 0);
}
