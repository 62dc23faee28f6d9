//! A support bundle is sent to strangers: it has no secret of any kind that a configuration may have.

use std::io::Read as _;

use serde_json::{Map, Value, json};

use crate::harness::{ClosedPort, Gateway, tidegate};

const READER: &str = "hush-of-the-reader";

/// Gives out secrets, each only once.
#[derive(Default)]
struct Secrets(Vec<String>);

impl Secrets {
    fn next(&mut self) -> String {
        self.keep(format!("hush-{:03}-hush-{:03}-hush", self.0.len(), self.0.len()))
    }

    fn keep(&mut self, secret: String) -> String {
        self.0.push(secret.clone());
        secret
    }

    /// Hashes of secrets are secrets too.
    fn hash(&mut self, algorithm: &'static aws_lc_rs::digest::Algorithm) -> String {
        let digest = aws_lc_rs::digest::digest(algorithm, self.next().as_bytes());
        self.keep(digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Credentials in each way in which they may be written.
    fn credentials(&mut self) -> Value {
        json!({ "a": self.next(), "b": { "key": self.next() }, "c": { "password": self.next() } })
    }

    fn passwords(&mut self) -> Value {
        let mut all = self.credentials();
        let sha1 = self.hash(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY);
        all["d"] = json!({ "sha1": format!("salt:{sha1}") });
        all
    }
}

/// A configuration with every key that takes a secret, but for those of [`with_database`].
fn configuration(nobody: &str, secrets: &mut Secrets) -> Value {
    use aws_lc_rs::digest::SHA256;
    let targets = json!([format!("http://{nobody}")]);
    let mut next = || secrets.next();
    let mut all = json!({
        "listen": { "public": { "address": "127.0.0.1:0" } },
        "workers": 1,
        "store": { "path": "data" },
        "stores": { "counts": { "redis": format!("redis://{nobody}"), "password": next() } },
        "issuers": {
            "shared": { "issuer": "https://a.test", "secret": next() + &next() },
            "asked": { "issuer": "https://b.test", "introspection": { "url": format!("http://{nobody}/i"), "client_id": "i", "client_secret": next() } },
        },
        "databases": {
            "one": { "url": format!("postgres://u@{nobody}/d"), "password": next() },
            "other": { "url": format!("postgres://u:{}@{nobody}/d", next()) },
        },
        "applications": {
            "one": { "keys": { "consumer_key": "k1", "consumer_secret": next() } },
            "many": { "keys": [{ "consumer_key": "k2", "consumer_secret": next() }] },
        },
        "hubs": { "news": {
            "topics": ["t"],
            "secret": next(),
            "log": { "kafka": { "brokers": [nobody], "sasl": { "mechanism": "plain", "user": "u", "password": next() } } },
        } },
        "telemetry": {
            "access_log": { "to": { "http": format!("http://{nobody}/a"), "headers": { "x-a": next() } } },
            "audit_log": { "to": { "http": format!("http://{nobody}/b"), "headers": { "x-b": next() } } },
            "traces": { "otlp": format!("http://{nobody}"), "headers": { "x-c": next() } },
        },
        "upstreams": {
            "basic": { "targets": targets, "basic": { "username": "u", "password": next() }, "sticky": { "cookie": "c", "secret": next() } },
            "oauth": { "targets": targets, "oauth": { "token_url": format!("http://{nobody}/t?token={}", next()), "client_id": "i", "client_secret": next() } },
            "signed": { "targets": targets, "ws_security": { "username": "u", "password": next() } },
        },
    });
    all["admin"] = json!({ "address": "127.0.0.1:0", "users": {
        "rob": { "token": "${file:token}" },
        "eve": { "token": secrets.next() },
        "ann": { "token_sha256": secrets.hash(&SHA256), "role": "write" },
    } });
    all["catalog"] = json!({ "listen": { "address": "127.0.0.1:0" }, "issuer": "https://g.test", "users": {
        "a": { "password": secrets.next(), "roles": ["admin"] },
        "b": { "password_sha256": secrets.hash(&SHA256), "roles": ["admin"] },
    } });
    all["routes"] = routes(secrets);
    all
}

fn routes(secrets: &mut Secrets) -> Value {
    let any = json!({ "any": [
        { "api_key": { "header": "x-key", "keys": secrets.credentials() } },
        { "basic": { "users": secrets.passwords() } },
        { "hmac": { "users": secrets.credentials() } },
    ] });
    let set = json!({ "request": { "set": {
        "authorization": format!("Bearer {}", secrets.next()), "x-api-key": secrets.next(), "x-kept": "${file:kept}",
    } } });
    let policies = [
        json!({ "api_key": { "query": "key", "keys": secrets.credentials() } }),
        json!({ "basic": { "users": secrets.passwords() } }),
        json!({ "hmac": { "users": secrets.credentials() } }),
        json!({ "ws_security": { "users": secrets.credentials() } }),
        json!({ "authenticate": any }),
        json!({ "headers": set }),
    ];
    let routes = policies.into_iter().enumerate().map(|(at, policy)| {
        let upstream = ["basic", "oauth", "signed"][at % 3];
        let path = format!("/r{at}");
        let route =
            json!({ "match": { "path": path }, "policies": [policy], "upstream": upstream });
        (format!("r{at}"), route)
    });
    Value::Object(routes.collect::<Map<String, Value>>())
}

/// A gateway has one store, so the other kind needs another gateway.
fn with_database(nobody: &str, secrets: &mut Secrets) -> Value {
    json!({
        "listen": { "public": { "address": "127.0.0.1:0" } },
        "workers": 1,
        "admin": { "address": "127.0.0.1:0", "users": { "rob": { "token": "${file:token}" } } },
        "store": { "postgres": format!("postgres://u:{}@{nobody}/d?connect_timeout=2", secrets.next()) },
        "hubs": { "news": { "topics": ["t"] } },
        "routes": { "news": { "match": { "path": "/news/**" }, "hub": "news" } },
    })
}

/// A walk through the schema: the paths of all secrets, where `*` is any name or item. Policies are only visited in routes: a unit
/// test of `config` covers the other places.
struct Walk<'s> {
    schema: &'s Value,
    /// Definitions around the place, which may have themselves inside.
    around: Vec<&'s str>,
    path: Vec<&'s str>,
    found: Vec<String>,
}

impl<'s> Walk<'s> {
    fn visit(&mut self, below: &'s Value) {
        if below.get("x-secret").is_some() {
            return self.found.push(self.path.join("/"));
        }
        if let Some(reference) = below.get("$ref").and_then(Value::as_str) {
            let name = reference.rsplit('/').next().unwrap();
            if !self.around.contains(&name) {
                self.around.push(name);
                self.visit(&self.schema["$defs"][name]);
                self.around.pop();
            }
            return;
        }
        let properties = below["properties"].as_object().into_iter().flatten();
        let named = properties.map(|(name, below)| (name.as_str(), below));
        let any = ["additionalProperties", "items"].map(|name| ("*", &below[name]));
        for (name, below) in named.chain(any.into_iter().filter(|(_, below)| below.is_object())) {
            self.path.push(name);
            if !["apis", "defaults", "policy_sets"].contains(&self.path[0]) {
                self.visit(below);
            }
            self.path.pop();
        }
        for one in ["anyOf", "oneOf"].iter().flat_map(|of| below[of].as_array()).flatten() {
            self.visit(one);
        }
    }
}

/// The texts of a configuration at a path.
fn texts<'v>(value: &'v Value, path: &str) -> Vec<&'v str> {
    let (first, rest) = path.split_once('/').map_or((path, ""), |(first, rest)| (first, rest));
    match value {
        Value::String(text) if path.is_empty() => vec![text],
        Value::Object(members) if first == "*" => {
            members.values().flat_map(|below| texts(below, rest)).collect()
        }
        Value::Array(items) if first == "*" => {
            items.iter().flat_map(|below| texts(below, rest)).collect()
        }
        Value::Object(members) => members.get(first).map_or(Vec::new(), |below| texts(below, rest)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Vec::new()
        }
    }
}

/// Each file of a gateway's bundle, with its name.
#[track_caller]
fn bundle(gateway: &Gateway) -> Vec<(String, String)> {
    let (out, log) = (gateway.path("support.zip"), gateway.path("own.log"));
    std::fs::write(&log, gateway.log()).unwrap();
    let url = format!("http://{}", gateway.admin());
    let (out, log) = (out.to_str().unwrap(), log.to_str().unwrap());
    let run = tidegate(&[
        "ctl", "--admin", &url, "--token", READER, "support", "--out", out, "--log", log,
    ]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let mut zip = zip::ZipArchive::new(std::fs::File::open(out).unwrap()).unwrap();
    let count = zip.len();
    let file = |at: usize| {
        let mut entry = zip.by_index(at).unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (entry.name().to_owned(), text)
    };
    (0..count).map(file).collect()
}

#[test]
fn a_support_bundle_has_no_secret_of_any_kind() {
    let said = tidegate(&["check", "--schema"]);
    let schema: Value = serde_json::from_str(&said.stdout).unwrap();
    let (around, path, found) = (Vec::new(), Vec::new(), Vec::new());
    let mut walk = Walk { schema: &schema, around, path, found };
    walk.visit(&schema);
    let paths = walk.found;
    assert!(paths.len() > 30, "{paths:?}");
    let closed = ClosedPort::any();
    let nobody = closed.address.to_string();
    let mut secrets = Secrets::default();
    let all = [configuration(&nobody, &mut secrets), with_database(&nobody, &mut secrets)];
    for path in paths {
        // These need the password itself to verify credentials, so a hash is refused.
        let needs_password = !path.contains("basic") && path.ends_with("sha1");
        let same = path.replace("access_log/path", "access_log/to");
        let set: Vec<&str> = all.iter().flat_map(|one| texts(one, &same)).collect();
        assert!(needs_password || !set.is_empty(), "set `{path}` in this test");
        let is_known = |text: &str| secrets.0.iter().any(|secret| text.contains(&**secret));
        let known = |text: &&str| text.starts_with("${file:") || is_known(text);
        assert!(set.iter().all(known), "{path}: {set:?}");
    }
    let kept = secrets.next();
    secrets.keep(READER.to_owned());
    for yaml in all {
        let files = [("token", READER), ("kept", &*kept)];
        let gateway = Gateway::start_beside(serde_json::to_string_pretty(&yaml).unwrap(), &files);
        for at in 0..6 {
            let secret = &secrets.0[at];
            let lines = format!(
                "Authorization: Basic {secret}\r\nX-Key: {secret}\r\nCookie: c={secret}\r\n"
            );
            let target = format!("/r{at}?key={secret}&token={secret}");
            gateway.wire().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        }
        let files = bundle(&gateway);
        for (name, text) in &files {
            let told = secrets.0.iter().find(|secret| text.contains(&***secret));
            assert_eq!(told, None, "{name}: {text}");
        }
        let refusals = files.iter().find(|(name, _)| name == "refusals.json").unwrap();
        assert_eq!(refusals.1.contains("\"r0\""), yaml.get("catalog").is_some(), "{refusals:?}");
    }
}
