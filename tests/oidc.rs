//! npm `oidc-provider`, a third-party OpenID provider: discovery, key rotation, its tokens, and introspection of opaque tokens.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::harness::{Gateway, Message, Origin, Plain, Wire, until};

/// The provider in a separate process, which ends with the test.
struct Provider {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    issuer: String,
    _folder: tempfile::TempDir,
}

impl Provider {
    fn start() -> Provider {
        // Its modules are found beside it: where scripts/setup.sh installs them.
        let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("clients");
        let folder = tempfile::tempdir_in(&installed).unwrap_or_else(|error| {
            panic!("{}: {error}; run scripts/setup.sh tests", installed.display())
        });
        let script = folder.path().join("oidc.js");
        std::fs::write(&script, include_str!("clients/oidc.js")).unwrap();
        let mut process = Command::new("node")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("node; scripts/setup.sh tests installs it");
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let issuer = String::new();
        let mut provider = Provider { process, input, output, issuer, _folder: folder };
        provider.issuer = provider.line();
        provider
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the provider has ended: {line:?}");
        line.trim().to_owned()
    }

    /// Signs with another key from now on, and publishes no other.
    fn rotate(&mut self) -> String {
        self.input.write_all(b"\n").unwrap();
        self.line()
    }

    fn post(&self, path: &str, form: &str) -> Value {
        let address = self.issuer.strip_prefix("http://").unwrap();
        let reply = Wire::connect(address.parse().unwrap()).ask(format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Basic c2hvcDpnZWhlaW0=\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        ));
        assert_eq!(reply.status(), 200, "{reply:?}");
        serde_json::from_str(&reply.text()).unwrap_or_default()
    }

    /// A token for a resource, which the client asks for itself.
    fn token(&self, resource: &str, scope: &str) -> String {
        let form = format!("grant_type=client_credentials&resource={resource}&scope={scope}");
        let answer = self.post("/token", &form);
        answer["access_token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn start(origin: &Origin, provider: &Provider, issuer: &str, policy: &str) -> Gateway {
    let route = format!("policies: [{{ jwt: {{ issuers: [main], {policy} }} }}]");
    let issuers = format!("issuers: {{ main: {{ issuer: \"{}\", {issuer} }} }}", provider.issuer);
    Plain { route: &route, more: &issuers, ..Plain::default() }.start(origin)
}

fn ask(gateway: &Gateway, token: &str) -> Message {
    gateway
        .wire()
        .ask(format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"))
}

#[test]
fn tokens_of_a_discovered_provider_are_believed_also_after_it_changed_its_keys() {
    let origin = Origin::saying("ok");
    let mut provider = Provider::start();
    let policy = "audiences: [\"urn:jwt\"], scopes: { all: [\"orders:read\"] }, claims_to_headers: { x-client: client_id }";
    let gateway = start(&origin, &provider, "discovery: true", policy);
    let first = provider.token("urn:jwt", "orders:read");
    assert_eq!(ask(&gateway, &first).status(), 200);
    assert_eq!(origin.request().get("x-client"), Some("shop"));
    assert_eq!(ask(&gateway, &provider.token("urn:jwt", "orders:write")).status(), 403);
    assert_eq!(ask(&gateway, &format!("{first}x")).status(), 401);

    let key = provider.rotate();
    let second = provider.token("urn:jwt", "orders:read");
    assert_ne!(first, second);
    // An unknown key is asked for at once.
    assert_eq!(ask(&gateway, &second).status(), 200, "signed with {key}");
    // The key of the first is not published any more.
    assert_eq!(ask(&gateway, &first).status(), 401);
}

#[test]
fn tokens_that_only_the_provider_can_read_are_asked_about_until_it_withdraws_them() {
    let origin = Origin::saying("ok");
    let provider = Provider::start();
    let issuer = format!(
        "introspection: {{ url: \"{}/token/introspection\", client_id: shop, client_secret: geheim, cache: 50ms }}",
        provider.issuer
    );
    let policy = "scopes: { any: [\"orders:write\"] }";
    let gateway = start(&origin, &provider, &issuer, policy);
    let token = provider.token("urn:opaque", "orders:write");
    assert!(!token.contains('.'), "{token}");
    assert_eq!(ask(&gateway, &token).status(), 200);
    assert_eq!(ask(&gateway, &provider.token("urn:opaque", "orders:read")).status(), 403);
    assert_eq!(ask(&gateway, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").status(), 401);
    provider.post("/token/revocation", &format!("token={token}"));
    until("what was believed is over", || ask(&gateway, &token).status() == 401);
}
