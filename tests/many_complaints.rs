//! More complaints than are told: an error stops the configuration, however many warnings there are.

use serde_json::Value;

use crate::harness::{Gateway, Origin, Run, tidegate};

/// Upstreams with a warning each.
fn warnings(count: usize) -> String {
    let one = |index| {
        format!("  u{index}: {{ targets: [\"https://127.0.0.1:1\"], tls: {{ verify: false }} }}\n")
    };
    (0..count).map(one).collect()
}

fn configuration(warnings_: usize, routes: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nupstreams:\n  up: {{ targets: [\"http://127.0.0.1:1\"] }}\n{}routes:\n  plain: {{ match: {{ path: \"/plain\" }}, respond: {{ status: 200 }} }}\n{routes}",
        warnings(warnings_)
    )
}

/// Two mistakes, and a guarded route.
const BROKEN: &str = "  lost: { match: { path: \"/lost\" }, upstream: nobody }
  rule: { match: { path: \"/rule/**\" }, policies: [{ authorize: { rule: \"method ==\" } }], upstream: up }
";

fn check(text: &str, more: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    std::fs::write(&path, text).unwrap();
    tidegate(&[&["check", path.to_str().unwrap()], more].concat())
}

#[test]
fn errors_beyond_a_thousand_warnings_are_said_and_nothing_serves() {
    let text = configuration(1_001, BROKEN);
    let run = check(&text, &[]);
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    assert!(!run.stdout.contains("ok"), "{}", run.stdout);
    assert!(run.stderr.contains("there is no upstream `nobody`"), "{}", run.stderr);
    assert!(run.stderr.contains(":1009:"), "the rule's place is missing: {}", run.stderr);
    assert!(run.stderr.trim_end().ends_with("... and 1002 more warnings"), "{}", run.stderr);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    std::fs::write(&path, &text).unwrap();
    let run = tidegate(&["run", path.to_str().unwrap()]);
    assert!(run.code.is_some_and(|code| code != 0), "it served: {run:?}");
}

#[test]
fn what_is_left_out_is_counted_by_severity() {
    let unknown: String = (0..1_003).map(|n| format!("k{n}: 1\n")).collect();
    let text = format!("{}{unknown}", configuration(1_002, ""));
    let run = check(&text, &[]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("... and 3 more errors\n"), "{}", run.stderr);
    let run = check(&configuration(1_002, BROKEN), &["--format", "json"]);
    let told: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        (&told["ok"], &told["left_out"]["warnings"]),
        (&Value::Bool(false), &Value::from(1004))
    );
    let errors = told["complaints"].as_array().unwrap().iter();
    assert_eq!(errors.filter(|complaint| complaint["severity"] == "error").count(), 2);
}

#[test]
fn a_reload_with_errors_beyond_the_warnings_leaves_the_last_good_one() {
    let gateway = Gateway::start(configuration(0, ""));
    assert_eq!(gateway.wire().get("/plain").status(), 200);
    gateway.put("tidegate.yaml", &configuration(1_001, BROKEN));
    gateway.wait_for_log("there is no upstream `nobody`");
    assert_eq!(gateway.wire().get("/plain").status(), 200);
    assert_eq!(gateway.wire().get("/lost").status(), 404);
}

/// Each operation of a document has a warning, or each of several documents.
#[test]
fn many_operations_with_warnings_hide_no_error() {
    let origin = Origin::saying("");
    let paths: String = (0..1_100)
        .map(|n| {
            format!("  /p{n}: {{ get: {{ security: [{{ o: [] }}], x-wso2-invented-{n}: 1, responses: {{}} }} }}\n")
        })
        .collect();
    let document = format!(
        "openapi: 3.0.1\nservers: [{{ url: {} }}]\ncomponents: {{ securitySchemes: {{ o: {{ type: oauth2, flows: {{}} }} }} }}\npaths:\n{paths}",
        origin.url()
    );
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ up: {{ targets: [\"{}\"] }} }}\napis: {{ a: {{ openapi: api.yaml, base_path: /a }} }}\nroutes:\n{BROKEN}",
        origin.url()
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    std::fs::write(&path, yaml).unwrap();
    std::fs::write(folder.path().join("api.yaml"), document).unwrap();
    let run = tidegate(&["check", path.to_str().unwrap()]);
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    assert!(run.stderr.contains("there is no upstream `nobody`"), "{}", run.stderr);
}
