//! Inspecting and operating a running gateway: targets, flows, traces, refusals, certificates, the log level.

use serde_json::{Value, json};

use crate::harness::{Authority, Gateway, Message, Origin, Run, Wire, tidegate, until};

fn ask(gateway: &Gateway, request: &str, body: &str) -> Message {
    let (admin, length) = (gateway.admin(), body.len());
    Wire::connect(admin).ask(format!(
        "{request} HTTP/1.1\r\nHost: {admin}\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

#[track_caller]
fn json(reply: &Message) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|e| panic!("{e}: {reply:?}"))
}

fn ctl(gateway: &Gateway, more: &[&str]) -> Run {
    let url = format!("http://{}", gateway.admin());
    let mut arguments = vec!["ctl", "--admin", &url];
    arguments.extend(more);
    tidegate(&arguments)
}

#[track_caller]
fn said(run: &Run) -> Value {
    assert_eq!(run.code, Some(0), "{run:?}");
    serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {run:?}"))
}

fn pair(one: &Origin, two: &Origin, more: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 1\n\
         upstreams: {{ pair: {{ targets: [\"{}\", {{ url: \"{}\", weight: 3 }}] }} }}\n\
         routes: {{ pair: {{ match: {{ path: /pair }}, upstream: pair }} }}\n{more}",
        one.url(),
        two.url()
    )
}

/// The numbers of requests that each of two targets answered.
fn counts(gateway: &Gateway, requests: usize) -> (usize, usize) {
    let replies: Vec<String> = (0..requests).map(|_| gateway.wire().get("/pair").text()).collect();
    let count = |name: &str| replies.iter().filter(|reply| *reply == name).count();
    (count("one"), count("two"))
}

#[test]
fn targets_are_weighed_and_drained_until_their_upstream_changes() {
    let (one, two) = (Origin::saying("one"), Origin::saying("two"));
    let yaml = pair(&one, &two, "");
    let gateway = Gateway::start(&yaml);
    assert_eq!(counts(&gateway, 8), (2, 6));
    let shown = json(&ask(&gateway, "GET /upstreams/pair", ""));
    let id = |at: usize| shown["targets"][at]["id"].as_str().unwrap().to_owned();
    assert_eq!(id(0).len(), 8);
    let set =
        |id: &str, body: &str| ask(&gateway, &format!("PATCH /upstreams/pair/targets/{id}"), body);
    let reply = set(&id(1), "{\"weight\":1}");
    let target = &json(&reply)["targets"][1];
    assert_eq!(
        (&target["weight"], &target["configured_weight"]),
        (&json!(1), &json!(3)),
        "{reply:?}"
    );
    assert_eq!(counts(&gateway, 8), (4, 4));
    assert_eq!(set(&id(0), "{\"drain\":true}").status(), 200);
    assert_eq!(counts(&gateway, 8), (0, 8));
    assert_eq!(set(&id(0), "{\"drain\":false,\"weight\":0}").status(), 200);
    assert_eq!(counts(&gateway, 8), (0, 8));
    for (path, body, status) in [
        ("/upstreams/pair/targets/00000000", "{\"weight\":1}", 404),
        ("/upstreams/none/targets/00000000", "{\"weight\":1}", 404),
        ("/upstreams/pair/targets/x", "{}", 422),
        ("/upstreams/pair/targets/x", "{\"weight\":65536}", 422),
        ("/upstreams/pair/targets/x", "{\"weight\":-1}", 422),
        ("/upstreams/pair/targets/x", "{\"drain\":1}", 422),
        ("/upstreams/pair/targets/x", "{\"wait\":1}", 422),
        ("/upstreams/pair/targets/x", "[]", 422),
    ] {
        assert_eq!(ask(&gateway, &format!("PATCH {path}"), body).status(), status, "{path} {body}");
    }
    assert_eq!(ask(&gateway, "GET /upstreams/none", "").status(), 404);
    // Another configuration leaves it, one that changes the upstream does not.
    gateway.rewrite(yaml.replace("path: /pair", "path: \"/pair\", methods: [GET]"));
    until("it is in service", || json(&ask(&gateway, "GET /plan", ""))["generation"] == 2);
    assert_eq!(counts(&gateway, 8), (0, 8));
    gateway.rewrite(yaml.replace("weight: 3 }]", "weight: 3 }], timeout: { response: 9s }"));
    until("it is in service", || json(&ask(&gateway, "GET /plan", ""))["generation"] == 3);
    assert_eq!(counts(&gateway, 8), (2, 6));
    let id = id(0);
    let told = said(&ctl(&gateway, &["target", "pair", &id, "--drain", "true"]));
    assert_eq!(told["targets"][0]["drain"], true);
    assert_eq!(ctl(&gateway, &["target", "pair", "nosuch", "--weight", "1"]).code, Some(1));
}

#[test]
fn what_is_set_of_targets_outlives_a_restart_where_there_is_a_store() {
    let (one, two) = (Origin::saying("one"), Origin::saying("two"));
    let folder = tempfile::tempdir().unwrap();
    let yaml = pair(&one, &two, "store: { path: store }\n");
    std::fs::write(folder.path().join("tidegate.yaml"), yaml).unwrap();
    let gateway = Gateway::start_in(folder.path(), "tidegate.yaml");
    let shown = json(&ask(&gateway, "GET /upstreams/pair", ""));
    let id = shown["targets"][0]["id"].as_str().unwrap();
    let set = ask(&gateway, &format!("PATCH /upstreams/pair/targets/{id}"), "{\"drain\":true}");
    assert_eq!(set.status(), 200, "{set:?}");
    drop(gateway);
    let gateway = Gateway::start_in(folder.path(), "tidegate.yaml");
    assert_eq!(counts(&gateway, 8), (0, 8));
}

const FLOWS: &str = "\
listen: { public: { address: \"127.0.0.1:0\" } }
admin: { address: \"127.0.0.1:0\", users: { ann: { token: ann-secret, role: write }, rob: { token: rob-secret } } }
workers: 1
routes:
  good: { match: { path: \"/good/**\" }, flow: good }
  bad: { match: { path: /bad }, flow: bad }
  plain: { match: { path: /plain }, policies: [ { headers: { request: { set: { x-a: b } } } } ], respond: { body: hi } }
  closed: { match: { path: /closed }, policies: [ { ip_filter: { deny: [\"127.0.0.0/8\"] } } ], respond: {} }
  keyed: { match: { path: /keyed }, policies: [ { api_key: { query: key, keys: { bob: bob-secret } } } ], respond: {} }
flows:
  good: [ { set: { a: \"1\" } }, { payload: { text: hello } }, { respond: {} } ]
  bad: [ { fault: { code: client, reason: no } } ]
";

fn as_user(gateway: &Gateway, token: &str, request: &str, body: &str) -> Message {
    let (admin, length) = (gateway.admin(), body.len());
    Wire::connect(admin).ask(format!(
        "{request} HTTP/1.1\r\nHost: {admin}\r\nAuthorization: Bearer {token}-secret\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

#[test]
fn flows_are_shown_with_their_steps() {
    let gateway = Gateway::start(FLOWS);
    for path in ["/good/a", "/good/b", "/bad"] {
        gateway.wire().get(path);
    }
    let get = |path: &str| json(&as_user(&gateway, "rob", &format!("GET {path}"), ""));
    let flows = get("/flows");
    let told: Vec<_> = flows["flows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|flow| (&flow["name"], &flow["runs"]))
        .collect();
    assert_eq!(told, [(&json!("bad"), &json!(1)), (&json!("good"), &json!(2))]);
    let good = get("/flows/good");
    let steps: Vec<_> =
        good["steps"].as_array().unwrap().iter().map(|step| &step["runs"]).collect();
    assert_eq!(steps, [2, 2, 2], "{good}");
    assert!(good["steps"][1]["own_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{good}");
    let bad = get("/flows/bad");
    assert_eq!(bad["faults"].as_object().unwrap().values().collect::<Vec<_>>(), [1], "{bad}");
    assert_eq!(as_user(&gateway, "rob", "GET /flows/none", "").status(), 404);
}

#[test]
fn messages_are_traced_by_conditions() {
    let gateway = Gateway::start(FLOWS);
    let ask = |body: &str| as_user(&gateway, "ann", "POST /trace", body);
    let traces = |user: &str| json(&as_user(&gateway, user, "GET /trace", ""));
    assert_eq!(ask("{\"path\":\"/good/**\",\"count\":2}").status(), 200);
    for path in ["/bad", "/good/a", "/goods", "/plain", "/good/b?c=d", "/good/c"] {
        gateway.wire().get(path);
    }
    until("both are there", || traces("ann")["traces"].as_array().unwrap().len() == 2);
    let told = traces("ann");
    assert_eq!(told["asked"], Value::Null);
    let one = &told["traces"][0];
    assert_eq!((&one["route"], &one["flow"]), (&json!("good"), &json!("good")));
    assert_eq!(one["steps"][1]["after"]["body"], "hello", "{one}");
    assert!(one["time"].as_str().unwrap().ends_with('Z') && one["request_id"].is_string());
    // Only operators with the role `write` see bodies.
    let seen = traces("rob");
    assert!(seen["traces"][0]["steps"][1]["after"].get("body").is_none(), "{seen}");
    assert_eq!(seen["traces"][0]["steps"][1]["after"]["bytes"], 5);

    assert_eq!(json(&ask("{\"route\":\"plain\"}"))["asked"]["route"], "plain");
    gateway.wire().get("/good/a");
    gateway.wire().get("/plain");
    until("it is there", || traces("ann")["traces"].as_array().unwrap().len() == 1);
    let plain = &traces("ann")["traces"][0];
    assert_eq!((&plain["route"], &plain["flow"]), (&json!("plain"), &Value::Null), "{plain}");
    assert_eq!(plain["steps"][0]["name"], "headers", "{plain}");

    ask("{\"request_id\":\"one-two\"}");
    gateway.wire().get("/plain");
    assert_eq!(traces("ann")["asked"]["request_id"], "one-two");
    for body in ["{\"count\":0}", "{\"count\":101}", "{\"flow\":1}", "{\"flows\":\"a\"}", "x"] {
        assert_eq!(ask(body).status(), 422, "{body}");
    }
    assert_eq!(as_user(&gateway, "rob", "POST /trace", "").status(), 403);
}

#[test]
fn refusals_name_policy_and_cause_and_no_credential() {
    let gateway = Gateway::start(FLOWS);
    let bad = [
        "/closed",
        "/keyed?key=wrong-secret&x=other-secret",
        "/nowhere?token=third-secret",
        "/plain",
    ];
    for path in bad {
        gateway.wire().get(path);
    }
    let get = |query: &str| as_user(&gateway, "rob", &format!("GET /refusals{query}"), "");
    until("all are there", || json(&get(""))["refusals"].as_array().unwrap().len() == 3);
    let told = json(&get(""));
    let refusals = told["refusals"].as_array().unwrap();
    let of = |at: usize| {
        (
            refusals[at]["route"].as_str(),
            refusals[at]["policy"].as_str(),
            refusals[at]["status"].as_u64(),
        )
    };
    assert_eq!(of(2), (Some("closed"), Some("ip_filter"), Some(403)));
    assert_eq!(of(1), (Some("keyed"), Some("api_key"), Some(401)));
    assert_eq!(of(0), (None, None, Some(404)));
    for refusal in refusals {
        assert!(refusal["cause"].as_str().is_some_and(|cause| !cause.is_empty()), "{refusal}");
        assert_eq!(refusal["client"], "127.0.0.1");
        assert!(refusal["fault"].is_string() && refusal["request_id"].is_string());
    }
    assert!(!told.to_string().contains("-secret"), "{told}");
    assert_eq!(json(&get("?limit=1"))["refusals"].as_array().unwrap().len(), 1);
    assert_eq!(get("?limit=x").status(), 400);
}

#[test]
fn certificates_are_shown_with_their_ends() {
    let ours = Authority::new();
    let identity = ours.issue("a.test");
    let yaml = "\
listen:
  public: { address: \"127.0.0.1:0\", tls: { certificate: a.pem, key: a.key, sni: { b.test: { certificate: a.pem, key: a.key } } } }
admin: { address: \"127.0.0.1:0\" }
status: { address: \"127.0.0.1:0\", tls: { certificate: a.pem, key: a.key } }
store: { path: store }
catalog:
  listen: { address: \"127.0.0.1:0\", tls: { certificate: a.pem, key: a.key } }
  users: { ann: { password: ann-password, roles: [admin] } }
  issuer: \"https://gateway.test\"
upstreams: { u: { targets: [\"https://127.0.0.1:1\"], tls: { certificate: a.pem, key: a.key } } }
routes: { r: { match: { path: / }, upstream: u } }
";
    let gateway =
        Gateway::start_beside(yaml, &[("a.pem", &identity.certificate), ("a.key", &identity.key)]);
    let told = json(&ask(&gateway, "GET /certificates", ""));
    let all = told["certificates"].as_array().unwrap();
    let places: Vec<_> = ["listener", "listener", "upstream", "status", "catalog"]
        .iter()
        .zip(all)
        .map(|(kind, one)| one[kind].as_str().unwrap())
        .collect();
    assert_eq!(places, ["public", "public b.test", "u", "status", "catalog"], "{told}");
    let first = &all[0];
    assert_eq!(first["names"], json!(["a.test"]));
    assert!(first["subject"].as_str().unwrap().contains("CN=a.test"), "{first}");
    assert!(
        first["file"].as_str().unwrap().ends_with("a.pem")
            && first["days_left"].as_i64().unwrap() > 30
    );
    for member in ["issuer", "serial", "not_before", "not_after"] {
        assert!(first[member].is_string(), "{member}: {first}");
    }
    assert!(said(&ctl(&gateway, &["certificates"])).to_string().contains("public b.test"));
}

#[test]
fn the_log_is_louder_for_a_while() {
    let gateway = Gateway::start(FLOWS.replace(
        ", users: { ann: { token: ann-secret, role: write }, rob: { token: rob-secret } }",
        "",
    ));
    let debugs = || gateway.log().matches(" DEBUG ").count();
    gateway.wire().get("/nowhere");
    assert_eq!(debugs(), 0);
    let set = |body: &str| ask(&gateway, "PUT /log", body);
    let reply = set("{\"level\":\"debug\"}");
    assert_eq!((reply.status(), &json(&reply)["level"]), (200, &json!("debug")), "{reply:?}");
    until("it says more", || {
        gateway.wire().get("/nowhere");
        debugs() > 0
    });
    assert_eq!(set("{\"level\":null}").status(), 200);
    assert_eq!(json(&ask(&gateway, "GET /log", ""))["level"], Value::Null);
    assert_eq!(set("{\"level\":\"debug\",\"for\":\"50ms\"}").status(), 200);
    until("it is over", || json(&ask(&gateway, "GET /log", ""))["level"].is_null());
    for body in [
        "{\"level\":\"loud\"}",
        "{\"level\":\"debug\",\"for\":\"25h\"}",
        "{\"level\":\"debug\",\"for\":\"0s\"}",
        "{\"for\":\"1m\"}",
        "{\"level\":\"a=b\"}",
        "",
    ] {
        assert_eq!(set(body).status(), 422, "{body}");
    }
    let before = debugs();
    gateway.wire().get("/nowhere");
    assert_eq!(debugs(), before);
    assert_eq!(said(&ctl(&gateway, &["log", "warn", "--for", "1h"]))["level"], "warn");
    assert_eq!(said(&ctl(&gateway, &["log", "reset"]))["level"], Value::Null);
}

#[test]
fn a_support_bundle_has_all_but_secrets() {
    let gateway = Gateway::start(FLOWS);
    gateway.wire().get("/keyed?key=wrong-secret");
    let out = gateway.path("support.zip");
    let log = gateway.path("own.log");
    std::fs::write(&log, "a line\n").unwrap();
    let (out, log) = (out.to_str().unwrap(), log.to_str().unwrap());
    let run = ctl(&gateway, &["--token", "rob-secret", "support", "--out", out, "--log", log]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let mut zip = zip::ZipArchive::new(std::fs::File::open(out).unwrap()).unwrap();
    let mut names = Vec::new();
    for at in 0..zip.len() {
        let mut entry = zip.by_index(at).unwrap();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut entry, &mut text).unwrap();
        assert!(!text.contains("-secret") && !text.is_empty(), "{}: {text}", entry.name());
        names.push(entry.name().to_owned());
    }
    for name in [
        "configuration.yaml",
        "plan.json",
        "metrics.txt",
        "refusals.json",
        "log.txt",
        "version.txt",
    ] {
        assert!(names.iter().any(|known| known == name), "{names:?}");
    }
    assert_eq!(ctl(&gateway, &["support", "--out", out]).code, Some(2));
}

#[test]
fn faults_are_explained() {
    let run = tidegate(&["explain", "fault", "rate_limited"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.contains("429") && run.stdout.lines().count() > 4, "{run:?}");
    let unknown = tidegate(&["explain", "fault", "rate_limitd"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("did you mean `rate_limited`?"), "{unknown:?}");
    assert_eq!(tidegate(&["explain", "x.yaml", "GET"]).code, Some(2));
}

/// Each series that an alert asks for is one of the program's, and each alert has its paragraph.
#[test]
fn alerts_ask_for_what_there_is() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let alerts = std::fs::read_to_string(format!("{folder}/deploy/alerts.yaml")).unwrap();
    let runbook = std::fs::read_to_string(format!("{folder}/docs/guide/runbook.md")).unwrap();
    let metrics = tidegate(&["manual", "metrics"]).stdout;
    let mut asked = 0;
    for word in alerts.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
        if word.starts_with("tidegate_") || word.starts_with("process_") {
            asked += 1;
            assert!(metrics.contains(&format!("`{word}`")), "{word}");
        }
    }
    assert!(asked > 15, "{asked}");
    let names: Vec<&str> =
        alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        assert!(runbook.contains(&format!("\n### {name}\n")), "{name}");
    }
}

#[test]
fn each_operation_is_a_command() {
    let gateway = Gateway::start(
        "listen: { public: { address: \"127.0.0.1:0\" } }\nadmin: { address: \"127.0.0.1:0\" }\nworkers: 1\nstore: { path: store }\n\
         routes: { r: { match: { path: / }, flow: f } }\nflows: { f: [ { store: { queue: q } } ], g: [ { fault: { code: server, reason: never } } ] }\n\
         queues: { q: { flow: g, retry: { attempts: 1 } } }\nschedules: { s: { flow: f, every: 1h } }\n",
    );
    for command in [
        &["plan"][..],
        &["routes"],
        &["upstreams"],
        &["flows"],
        &["flows", "f"],
        &["queues"],
        &["queues", "q"],
        &["messages", "q"],
        &["dead", "queue", "q"],
        &["retry", "queue", "q"],
        &["remove", "queue", "q"],
        &["hubs"],
        &["schedules"],
        &["revoked"],
        &["revoke", "a"],
        &["bundles"],
        &["history"],
        &["changes", "1"],
        &["refusals", "--limit", "3"],
        &["trace"],
        &["trace", "--flow", "f"],
        &["certificates"],
        &["log"],
    ] {
        said(&ctl(&gateway, command));
    }
    for command in [
        &["unrevoke", "a"][..],
        &["pause", "queue", "q"],
        &["resume", "queue", "q"],
        &["pause", "schedule", "s"],
        &["resume", "schedule", "s"],
        &["run", "s"],
    ] {
        let run = ctl(&gateway, command);
        assert_eq!((run.code, &*run.stdout), (Some(0), ""), "{command:?}: {run:?}");
    }
    for command in [
        &["queues", "none"][..],
        &["pause", "hub", "none"],
        &["dead", "queue", "q", "77"],
        &["history", "9"],
    ] {
        assert_eq!(ctl(&gateway, command).code, Some(1), "{command:?}");
    }
}

#[test]
fn what_passes_is_counted_and_tailed() {
    let (one, two) = (Origin::saying("one"), Origin::saying("two"));
    let gateway = Gateway::start(pair(&one, &two, ""));
    counts(&gateway, 8);
    gateway.wire().get("/nowhere");
    let traffic = json(&ask(&gateway, "GET /traffic", ""));
    let of = |name: &str| {
        let routes = traffic["routes"].as_array().unwrap();
        routes.iter().find(|route| route["name"] == name).unwrap_or_else(|| panic!("{traffic}"))
    };
    assert_eq!((&of("pair")["requests"], &of("pair")["client_errors"]), (&json!(8), &json!(0)));
    assert_eq!((&of("(none)")["requests"], &of("(none)")["client_errors"]), (&json!(1), &json!(1)));
    assert!(of("pair")["p50_ms"].as_f64() <= of("pair")["p99_ms"].as_f64(), "{traffic}");
    assert_eq!(traffic["total"]["requests"], json!([9]));
    let route = said(&ctl(&gateway, &["traffic", "pair"]));
    assert_eq!((&route["route"], &route["total"]["requests"]), (&json!("pair"), &json!([8])));
    assert_eq!(ask(&gateway, "GET /traffic/none", "").status(), 404);
    let memory = said(&ctl(&gateway, &["memory"]));
    assert_eq!(memory["workers"].as_array().unwrap().len(), 1, "{memory}");
    assert_eq!(memory["workers"][0]["requests"], 9, "{memory}");
    assert_eq!(said(&ctl(&gateway, &["streams"])), json!({ "streams": [] }));
    assert_eq!(
        json(&ask(&gateway, "GET /operator", "")),
        json!({ "name": null, "role": "write", "catalog": false })
    );

    // Nothing is kept before the first request, and values of queries are never kept.
    let first = json(&ask(&gateway, "GET /tail", ""));
    assert_eq!(first["exchanges"], json!([]));
    gateway.wire().get("/pair?token=geheim");
    let mut page = Value::Null;
    // An exchange is kept shortly after its client has the reply.
    until("the exchange is kept", || {
        page = json(&ask(&gateway, &format!("GET /tail?after={}", first["next"]), ""));
        page["exchanges"] != json!([])
    });
    let [seen] = &page["exchanges"].as_array().unwrap()[..] else { panic!("{page}") };
    assert_eq!(
        (&seen["method"], &seen["path"], &seen["route"], &seen["status"]),
        (&json!("GET"), &json!("/pair?token=***"), &json!("pair"), &json!(200))
    );
    assert_eq!(ask(&gateway, "GET /tail?after=x", "").status(), 400);
    std::thread::scope(|scope| {
        let tail = scope.spawn(|| ctl(&gateway, &["tail", "--route", "pair", "--for", "2s"]));
        while !tail.is_finished() {
            gateway.wire().get("/pair");
            gateway.wire().get("/nowhere");
        }
        let tail = tail.join().unwrap();
        assert_eq!(tail.code, Some(0), "{tail:?}");
        let lines: Vec<Value> =
            tail.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(!lines.is_empty() && lines.iter().all(|line| line["route"] == "pair"), "{lines:?}");
    });
}
