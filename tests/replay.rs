//! `tidegate diff --replay`: recorded requests through two configurations without a network.

use std::fs;

use serde_json::json;

use crate::harness::{Gateway, Origin, Run, tidegate, until};

fn yaml(origin: &str, routes: &str, more: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\n\
         upstreams:\n  one: {{ targets: [\"{origin}\"] }}\n  two: {{ targets: [\"http://127.0.0.1:1\"] }}\n\
         routes:\n{routes}{more}"
    )
}

const ROUTES: &str = "  a: { match: { path: \"/a/**\" }, upstream: one }\n  b: { match: { path: /b }, upstream: one }\n  \
                      c: { match: { path: /c }, respond: { status: 204 } }\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Folder {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Folder(folder)
    }

    fn diff(&self, more: &[&str]) -> Run {
        let path = |name: &str| self.0.path().join(name).display().to_string();
        let mut arguments = vec!["diff".to_owned()];
        arguments.extend(
            more.iter().map(|one| if one.starts_with('-') { (*one).to_owned() } else { path(one) }),
        );
        tidegate(&arguments)
    }
}

#[test]
fn the_access_log_of_yesterday_says_what_a_change_would_do() {
    let origin = Origin::echo();
    let log = "telemetry: { access_log: { format: json, path: access.log } }\n";
    let old = yaml(&origin.url(), ROUTES, log);
    let gateway = Gateway::start(&old);
    // One connection, so that the lines are in this order.
    let mut wire = gateway.wire();
    for path in ["/a/1?x=y", "/b", "/c", "/nowhere"] {
        wire.get(path);
    }
    let lines = || fs::read_to_string(gateway.path("access.log")).unwrap_or_default();
    until("all lines are written", || lines().lines().count() == 4);
    let new = old.replace("path: /b }, upstream: one", "path: /b }, upstream: two").replace(
        "path: /c },",
        "path: /c }, policies: [api_key: { header: x-key, keys: { a: k } }],",
    );
    let folder = Folder::new(&[("old.yaml", &old), ("new.yaml", &new), ("access.log", &lines())]);
    let same = folder.diff(&["old.yaml", "old.yaml", "--replay", "access.log"]);
    assert_eq!(
        (same.code, &*same.stdout),
        (Some(0), "0 of 4 requests have different results\n"),
        "{same:?}"
    );
    assert!(same.stderr.contains("an access log has no other headers"), "{same:?}");
    let run = folder.diff(&["old.yaml", "new.yaml", "--replay", "access.log"]);
    let expected = [
        "GET /b (line 2)",
        "  - call of one: GET /b",
        "  + call of two: GET /b",
        "GET /c (line 3)",
        "  ~ reply: 204 -> 401",
    ];
    let told: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(run.code, Some(1), "{run:?}");
    assert_eq!(told[..5], expected, "{run:?}");
    assert!(
        told.iter().any(|line| line.starts_with("  ~ fault: none -> 401 credential_missing")),
        "{run:?}"
    );
    assert_eq!(told.last(), Some(&"2 of 4 requests have different results"));
    assert!(origin.requests().len() == 2, "a replay calls nobody");
}

#[test]
fn bodies_and_headers_of_browsers_are_replayed_and_secrets_are_not_shown() {
    let old =
        yaml("http://127.0.0.1:1", "  a: { match: { path: \"/a/**\" }, upstream: one }\n", "");
    let policy = "policies: [headers: { request: { set: { authorization: other-secret, x-new: \"1\" } }, response: { remove: [x-from] } }], upstream: one";
    let new = old.replace("upstream: one }\n", &format!("{policy} }}\n"));
    let archive = json!({ "log": { "entries": [
        {
            "request": {
                "method": "POST", "url": "https://shop.example/a/7",
                "headers": [{ "name": "Authorization", "value": "Bearer own-secret" }],
                "postData": { "text": "{\"a\":1}" },
            },
            "response": { "status": 201, "headers": [{ "name": "X-From", "value": "them" }], "content": { "text": "made" } },
        },
        { "request": { "method": "GET", "url": "https://shop.example/b" }, "response": { "status": 404 } },
        { "request": { "method": "GET" } },
    ] } });
    let folder =
        Folder::new(&[("old.yaml", &old), ("new.yaml", &new), ("a.har", &archive.to_string())]);
    let run = folder.diff(&["old.yaml", "new.yaml", "--replay", "a.har"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    for line in [
        "POST /a/7 (entry 1)",
        "  - reply: x-from: them",
        "  - call of one: authorization: ***",
        "  + call of one: authorization: ***",
        "  + call of one: x-new: 1",
        "1 of 2 requests have different results",
    ] {
        assert!(run.stdout.lines().any(|told| told == line), "{line}: {run:?}");
    }
    assert!(run.stderr.contains("left out: entry 3: its request has no `url`"), "{run:?}");
    assert!(!run.stdout.contains("secret"), "{run:?}");
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let good = yaml("http://127.0.0.1:1", ROUTES, "");
    let folder = Folder::new(&[
        ("good.yaml", &good),
        ("bad.yaml", "listen: 7\n"),
        ("no.log", "not a log\n"),
        ("a.log", "{\"method\":\"GET\",\"path\":\"/a/1\",\"status\":200}\n"),
    ]);
    for (arguments, why) in [
        (
            &["good.yaml", "good.yaml", "--replay", "no.log"][..],
            "it has no request that can be replayed",
        ),
        (&["good.yaml", "good.yaml", "--replay", "gone.log"], "gone.log"),
        (&["good.yaml", "bad.yaml", "--replay", "a.log"], "bad.yaml:1"),
        (&["good.yaml", "--replay", "a.log"], "name two configurations"),
    ] {
        let run = folder.diff(arguments);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.stderr.contains(why), "{why}: {run:?}");
    }
    assert_eq!(folder.diff(&["good.yaml", "good.yaml", "--replay", "a.log"]).code, Some(0));
}
