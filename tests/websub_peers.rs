//! A peer that people use: Flask-WebSub, as publisher and as subscriber. `scripts/setup.sh tests` installs it below `websub-peers` in the
//! target folder.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Authority, Gateway, until};
use crate::hubs::hub;
use crate::websub::LOOPBACK;

/// The program that has both roles. It ends with the test.
struct Peer {
    process: Child,
    input: ChildStdin,
    said: Receiver<Value>,
    url: String,
    /// The folder with its data.
    _folder: TempDir,
}

/// A peer that is silent for this long counts as dead.
const SILENCE_MAX: Duration = Duration::from_secs(120);

impl Peer {
    /// Starts it for a hub, with an authority that it trusts if it has one.
    fn start(hub: &str, authority: Option<&Authority>) -> Peer {
        let folder = tempfile::tempdir().unwrap();
        let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("websub-peers");
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/websub_peers/peer.py");
        let mut command = Command::new(installed.join("python/bin/python"));
        command.arg(script).arg(hub).arg(folder.path()).env("NO_PROXY", "*");
        if let Some(authority) = authority {
            let file = folder.path().join("ca.pem");
            std::fs::write(&file, authority.pem()).unwrap();
            command.env("REQUESTS_CA_BUNDLE", file);
        }
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process =
            spawned.unwrap_or_else(|e| panic!("{command:?}: {e}; run scripts/setup.sh tests"));
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (says, said) = sync_channel(1000);
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if says.send(serde_json::from_str(&line).expect("a line of JSON")).is_err() {
                    return;
                }
            }
        });
        let mut peer = Peer { process, input, said, url: String::new(), _folder: folder };
        peer.url = peer.hears("serves")["url"].as_str().unwrap().to_owned();
        peer
    }

    fn orders(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// The next line that it prints, which has to be of this kind.
    #[track_caller]
    fn hears(&self, event: &str) -> Value {
        let said = self.said.recv_timeout(SILENCE_MAX);
        let said = said.unwrap_or_else(|e| panic!("no `{event}`: {e}"));
        assert_eq!(said["event"], event, "{said}");
        said
    }

    /// Subscribes to the topic of a page, and returns the id of the callback once the hub has confirmed it.
    fn subscribes(&mut self, page: &str, lease: &str) -> String {
        self.orders(&format!("subscribe {page} {lease}"));
        // The hub may ask before the peer has seen the answer to its own request.
        let both = [self.said(), self.said()];
        let find = |event: &str| both.iter().find(|said| said["event"] == event).unwrap().clone();
        let (asked, confirmed) = (find("asked"), find("confirmed"));
        assert_eq!((&confirmed["id"], &confirmed["mode"]), (&asked["id"], &json!("subscribe")));
        asked["id"].as_str().unwrap().to_owned()
    }

    fn said(&self) -> Value {
        self.said.recv_timeout(SILENCE_MAX).expect("it says something")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn subscriptions(gateway: &Gateway) -> Vec<Value> {
    let reply = gateway.admin_get("/hubs/news/subscriptions");
    let json: Value = serde_json::from_slice(&reply.body).unwrap();
    json["subscriptions"].as_array().unwrap().clone()
}

/// Publishes and hears of it again.
fn goes_round(peer: &mut Peer, id: &str, topic: &str, body: &str, secret: &str) {
    peer.orders(&format!("publish {body} {secret}"));
    let both = [peer.said(), peer.said()];
    let find = |event: &str| both.iter().find(|said| said["event"] == event);
    let published = find("published").unwrap_or_else(|| panic!("{both:?}"));
    assert_eq!(published["status"], 200);
    let notified = find("notified").unwrap_or_else(|| panic!("{both:?}"));
    let expected = json!({ "event": "notified", "topic": topic, "id": id, "body": body });
    assert_eq!(*notified, expected);
}

#[test]
fn flask_websub_publishes_and_subscribes_by_https_with_secrets() {
    let authority = Authority::new();
    let identity = authority.issue_as("127.0.0.1", |params| {
        params.use_authority_key_identifier_extension = true;
    });
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, identity.certificate).unwrap();
    std::fs::write(&key, identity.key).unwrap();
    let tls =
        format!("address: \"127.0.0.1:0\", tls: {{ certificate: {certificate:?}, key: {key:?} }}");
    let yaml = hub(&format!("{LOOPBACK}, secret: s3cret"));
    let gateway = Gateway::start(yaml.replacen("address: \"127.0.0.1:0\"", &tls, 1));
    let hub = format!("https://{}/news", gateway.address("public"));
    let topic = format!("{hub}/topics/sports");
    let mut peer = Peer::start(&hub, Some(&authority));

    // The publisher's page names the hub and the topic, and so does the topic itself.
    let page = format!("{}/page", peer.url);
    for url in [&page, &topic] {
        peer.orders(&format!("discover {url}"));
        let discovered = peer.hears("discovered");
        assert_eq!(
            (&discovered["hub_url"], &discovered["topic_url"]),
            (&json!(hub), &json!(topic))
        );
    }

    // With https it generates a secret, and accepts only events signed with it.
    let id = peer.subscribes(&page, "3600");
    goes_round(&mut peer, &id, &topic, "goal", "s3cret");
    peer.orders("publish forged wrong");
    assert_eq!(peer.hears("published")["status"], 401);
    peer.orders(&format!("renew {id}"));
    assert_eq!(peer.hears("confirmed")["mode"], "subscribe");
    goes_round(&mut peer, &id, &topic, "again", "s3cret");

    peer.orders(&format!("unsubscribe {id}"));
    assert_eq!(peer.hears("confirmed")["mode"], "unsubscribe");
    until("the subscription is removed", || subscriptions(&gateway).is_empty());
    peer.orders("publish late s3cret");
    assert_eq!(peer.hears("published")["status"], 200);
}

#[test]
fn flask_websub_falls_back_to_http_and_is_refused_where_callbacks_are() {
    let gateway = Gateway::start(hub(LOOPBACK));
    let hub_url = format!("http://{}/news", gateway.address("public"));
    let topic = format!("{hub_url}/topics/sports");
    let mut peer = Peer::start(&hub_url, None);
    let (one, other) = (peer.subscribes(&topic, ""), peer.subscribes(&topic, "60"));
    assert_ne!(one, other);
    peer.orders("publish goal");
    let mut said: Vec<String> = (0..3).map(|_| peer.said().to_string()).collect();
    said.sort();
    let notified = said.iter().filter(|said| said.contains("notified")).count();
    assert_eq!(notified, 2, "{said:?}");
    assert!(said.iter().all(|line| line.contains("goal") || line.contains("200")), "{said:?}");
    until("both are active", || {
        let all = subscriptions(&gateway);
        all.len() == 2 && all.iter().all(|one| one["status"] == "active")
    });

    let strict = Gateway::start(hub(""));
    let mut peer = Peer::start(&format!("http://{}/news", strict.address("public")), None);
    let page = format!("{}/page", peer.url);
    peer.orders(&format!("subscribe {page}"));
    let failed = peer.hears("failed")["why"].to_string();
    assert!(failed.contains("400") && failed.contains("hub.callback"), "{failed}");
}
