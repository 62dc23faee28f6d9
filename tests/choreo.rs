//! examples/choreo-connect from end to end: its keys, its backends and its configuration, with only the ports changed.

use std::path::Path;
use std::process::Command;

use crate::harness::{Backend, Gateway, Message, tidegate};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/choreo-connect");

/// The running example, and a token signed with its key.
struct Example {
    gateway: Gateway,
    key: tempfile::TempDir,
    token: String,
    _echo: Backend,
    interceptor: Backend,
}

impl Example {
    fn start() -> Example {
        let read = |name: &str| std::fs::read_to_string(Path::new(FOLDER).join(name)).unwrap();
        let key = tempfile::tempdir().unwrap();
        std::fs::write(key.path().join("keys.sh"), read("keys.sh")).unwrap();
        let made = Command::new("bash")
            .arg(key.path().join("keys.sh"))
            .env("TIDEGATE", env!("CARGO_BIN_EXE_tidegate"))
            .status();
        assert!(made.unwrap().success());
        let made =
            |name: &str| std::fs::read_to_string(key.path().join("keys").join(name)).unwrap();
        let (echo, interceptor) = (Backend::start("echo", &[]), Backend::start("interceptor", &[]));
        let api = read("echo.yaml");
        assert!(api.contains("127.0.0.1:9000") && api.contains("127.0.0.1:9001"));
        let api = api
            .replace("127.0.0.1:9000", echo.authority())
            .replace("127.0.0.1:9001", interceptor.authority());
        let yaml = read("tidegate.yaml")
            .replace("127.0.0.1:9090", "127.0.0.1:0")
            .replace("127.0.0.1:9901", "127.0.0.1:0")
            .replace("keys/jwks.json", "jwks.json");
        let files = [("echo.yaml", api.as_str()), ("jwks.json", &made("jwks.json"))];
        let gateway = Gateway::start_beside(yaml, &files);
        let token = made("token").trim().to_owned();
        Example { gateway, key, token, _echo: echo, interceptor }
    }

    fn ask(&self, method: &str, path: &str, authorization: &str, body: &str) -> Message {
        let line = match authorization {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        self.gateway.wire().ask(format!(
            "{method} /echo/1.0.0{path} HTTP/1.1\r\nHost: localhost\r\n{line}Content-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    /// A token signed with the example's own key.
    fn minted(&self, arguments: &[&str]) -> String {
        let key = self.key.path().join("keys/key.pem");
        let run = tidegate(&[&["token", "--key", key.to_str().unwrap()], arguments].concat());
        run.stdout.trim().to_owned()
    }
}

#[test]
fn the_secured_api_serves_with_and_without_its_interceptor() {
    let example = Example::start();
    let body = "a body of the client's";
    for (path, intercepted) in [("/plain", false), ("/intercepted", true)] {
        let reply = example.ask("POST", path, &example.token, body);
        assert_eq!((reply.status(), reply.text()), (200, body.into()), "{path}");
        // Without a body, the echo describes the request.
        let told = example.ask("POST", path, &example.token, "").text();
        assert!(told.starts_with(&format!("POST {path} HTTP/1.1\n")), "{told}");
        assert_eq!(told.contains("\nx-intercepted: request\n"), intercepted, "{path}: {told}");
        assert!(!told.to_lowercase().contains("\nauthorization:"), "the token went on: {told}");
    }
    assert_eq!(example.ask("GET", "/health", "", "").status(), 200);
    let foreign = ["--issuer", "https://nobody.test"];
    let expired = ["--issuer", "https://localhost:9095/testkey", "--expires", "-1m"];
    for (token, status, code) in [
        ("", 401, 900_902),
        ("garbage", 401, 900_901),
        (example.minted(&foreign).as_str(), 401, 900_901),
        (example.minted(&expired).as_str(), 401, 900_903),
    ] {
        let reply = example.ask("POST", "/intercepted", token, body);
        assert_eq!(reply.status(), status, "{code}: {reply:?}");
        let said: serde_json::Value = serde_json::from_str(&reply.text()).unwrap();
        assert_eq!(said["code"].to_string().trim_matches('"'), code.to_string(), "{said}");
        assert!(
            reply.get("www-authenticate").is_some_and(|told| told.starts_with("Bearer realm="))
        );
    }
    let nowhere = example.ask("GET", "/nowhere", &example.token, "");
    assert_eq!((nowhere.status(), nowhere.get("content-type")), (404, Some("application/json")));
}

#[test]
fn without_its_interceptor_that_operation_alone_fails() {
    let mut example = Example::start();
    assert_eq!(example.ask("POST", "/intercepted", &example.token, "x").status(), 200);
    example.interceptor.kill();
    let reply = example.ask("POST", "/intercepted", &example.token, "x");
    let said: serde_json::Value = serde_json::from_str(&reply.text()).unwrap();
    assert_eq!((reply.status(), &said["code"]), (500, &"103500".into()), "{said}");
    assert_eq!(said["error_message"], "Internal Server Error");
    assert_eq!(example.ask("POST", "/plain", &example.token, "x").status(), 200);
}
