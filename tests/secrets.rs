//! The output of `check` and `explain` about a configuration with secrets: everything but those.

use crate::harness::{Run, tidegate_with};

const LISTEN: &str = "listen: { public: { address: \"127.0.0.1:0\" } }\n";
const PEM: &str = "-----BEGIN PRIVATE KEY-----\nMIIEhush\n-----END PRIVATE KEY-----\n";

fn run(command: &str, text: &str) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    std::fs::write(&file, text).unwrap();
    std::fs::write(folder.path().join("key.pem"), PEM).unwrap();
    let variables = [("KEYPEM", PEM), ("TOKEN", "hush\n"), ("KEPT", "hush-kept")];
    tidegate_with(&[command, file.to_str().unwrap()], &variables)
}

#[test]
fn complaints_never_say_a_secret() {
    let tls = |key: &str| {
        format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\", tls: {{ certificate: cert.pem, key: {key} }} }} }}\n"
        )
    };
    let route =
        |rest: &str| format!("{LISTEN}routes: {{ a: {{ match: {{ path: /a }}, {rest} }} }}\n");
    let of_a_file = "expected the path of a file";
    for (text, what) in [
        (tls("\"${file:key.pem}\""), of_a_file),
        (tls("\"${KEYPEM}\""), of_a_file),
        (tls("\"-----BEGIN PRIVATE KEY-----\\nMIIEhush\""), of_a_file),
        (
            route(
                "policies: [{ headers: { request: { set: { authorization: \"Bearer ${TOKEN}\" } } } }], respond: {}",
            ),
            "a header value must not contain a line break",
        ),
        (
            route(
                "policies: [{ headers: { response: { add: { x: \"${TOKEN}\" } } } }], respond: {}",
            ),
            "a header value must not contain a line break",
        ),
        (
            route("respond: { headers: { x-key: \"${TOKEN}\" } }"),
            "a header value must not contain a line break",
        ),
        (
            format!("{LISTEN}upstreams: {{ u: {{ targets: [\"ht!tp://u:hush@h\"] }} }}\n"),
            "neither http nor https",
        ),
        (
            format!(
                "{LISTEN}routes: {{ a: {{ match: {{ path: \"/${{KEPT}}/x/**\" }}, strip_prefix: /y, upstream: u }} }}\nupstreams: {{ u: {{ targets: [\"http://127.0.0.1:1\"] }} }}\n"
            ),
            "help: write `/(not shown)/x` or a part of it",
        ),
        (
            format!(
                "{LISTEN}routes: {{ a: {{ match: {{ path: /x, methods: [\"${{KEPT}}\"] }}, respond: {{}} }} }}\n"
            ),
            "help: write `${KEPT}`",
        ),
    ] {
        let said = run("check", &text);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.stderr.contains(what), "{}", said.stderr);
        assert!(!said.stderr.contains("hush"), "{}", said.stderr);
    }
}

#[test]
fn explain_says_no_secret() {
    let text = format!(
        "{LISTEN}routes:\n  a:\n    match: {{ path: /a, headers: {{ authorization: \"${{KEPT}}\" }}, query: {{ api_key: \"${{KEPT}}\" }} }}\n    \
         policies: [{{ headers: {{ request: {{ set: {{ authorization: \"Bearer ${{KEPT}}\" }} }} }} }}]\n    respond: {{}}\n"
    );
    let said = run("explain", &text);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stdout.contains("header authorization = (not shown)"), "{}", said.stdout);
    assert!(!said.stdout.contains("hush"), "{}", said.stdout);
}
