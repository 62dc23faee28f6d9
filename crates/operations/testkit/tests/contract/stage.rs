//! A gateway for a case, its services, and the messages between them.

use std::io::Read as _;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use backends::token::{Algorithm, Claims, Minter};
use flate2::read::GzDecoder;
use testkit::{Client, Gateway, Message, ServiceAnswer, ServiceRequest, Services};

use crate::cases::{Ask, Case};

#[path = "../../../../../tests/grpc/shop.rs"]
mod shop;

/// Keys, tokens and documents, created once.
struct Files {
    folder: tempfile::TempDir,
    jwks: String,
    token: String,
    certificate: String,
}

static FILES: LazyLock<Files> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let minter = Minter::load_or_create(&folder.path().join("key.pem"), Algorithm::Es256).unwrap();
    // The gateway's clock is a few years ahead.
    let claims = Claims {
        issuer: Some("https://idp.test".to_owned()),
        subject: Some("alice".to_owned()),
        expires_in: Some(Duration::from_secs(50 * 365 * 24 * 60 * 60)),
        others: serde_json::Map::from_iter([("keytype".to_owned(), "SANDBOX".into())]),
        ..Claims::default()
    };
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/soap");
    for (from, name) in [
        ("calculator/calculator.wsdl", "calculator.wsdl"),
        ("calculator/calculator.xsd", "calculator.xsd"),
        ("ten.xsl", "ten.xsl"),
        ("rename.xsl", "rename.xsl"),
    ] {
        std::fs::copy(examples.join(from), folder.path().join(name)).unwrap();
    }
    std::fs::write(folder.path().join("sums.yaml"), SUMS).unwrap();
    std::fs::write(folder.path().join("shop.pb"), shop::set()).unwrap();
    for (name, schema) in [
        ("sum.json", r#"{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}"#),
        ("number.json", r#"{"type":"integer"}"#),
    ] {
        std::fs::write(folder.path().join(name), schema).unwrap();
    }
    let certified = rcgen::generate_simple_self_signed(["good.test".to_owned()]).unwrap();
    Files {
        jwks: minter.jwks().to_string(),
        token: minter.mint(&claims).unwrap(),
        certificate: base64::Engine::encode(
            &base64::engine::general_purpose::STANDARD,
            certified.cert.der(),
        ),
        folder,
    }
});

const SUMS: &str = r#"
openapi: 3.0.3
info: { title: sums, version: "1.0" }
paths:
  /sums:
    post:
      requestBody:
        required: true
        content: { application/json: { schema: { type: object, required: [a], properties: { a: { type: integer } } } } }
      responses:
        "200": { description: ok, content: { application/json: { schema: { type: object, example: { sum: 3 } } } } }
"#;

/// The lowest limits: if a place is not released, the next request fails.
const BREAKER: &str = "breaker: { connections: 1, requests: 1, pending: 1 }";

/// A gateway for a case.
pub(crate) struct Stage {
    gateway: Gateway,
}

/// The messages and counts of one connection.
pub(crate) struct Said {
    pub(crate) replies: Vec<Message>,
    /// The requests to services, in order.
    pub(crate) asked: Vec<ServiceRequest>,
    pub(crate) written: Vec<u8>,
    pub(crate) polls: usize,
    pub(crate) records: u64,
    pub(crate) panics: u64,
    left: Vec<String>,
}

impl Stage {
    /// Creates a stage whose upstream answers as in the case.
    pub(crate) fn of(case: &'static Case) -> Stage {
        Stage::answering(case, ServiceAnswer::with(200, case.reply.0, case.reply.1))
    }

    /// Creates a stage whose upstream gives this answer.
    pub(crate) fn answering(case: &'static Case, answer: ServiceAnswer) -> Stage {
        // A policy that answers all requests does not need an upstream.
        let end = match case.policy {
            "mock" | "redirect" => "",
            _ => "upstream: origin, ",
        };
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\", trusted_proxies: [198.51.100.0/24] }} }}\n\
             workers: 1\n\
             upstreams:\n\
             \x20 origin: {{ targets: [\"http://192.0.2.10\"], {BREAKER} }}\n\
             \x20 sandbox: {{ targets: [\"http://192.0.2.11\"], {BREAKER} }}\n\
             routes: {{ all: {{ match: {{ path: \"/**\" }}, {end}policies: [{}] }} }}\n{}\n",
            case.policies, case.more
        );
        let services = Services::new(move |asked| answered(asked, &answer));
        let gateway = Gateway::new(&yaml, FILES.folder.path(), services);
        Stage { gateway: gateway.unwrap_or_else(|report| panic!("{}: {report}", case.policy)) }
    }

    /// Sets the number of bytes per read and write of upstreams.
    pub(crate) fn piece(&self, piece: Option<usize>) {
        self.gateway.services().piece(piece);
    }

    /// Makes all later connections fail.
    pub(crate) fn refuse(&self) {
        self.gateway.services().refuse(true);
    }

    /// Runs one connection of a client.
    pub(crate) async fn say(&self, client: &Client) -> Said {
        self.converse(client, false).await
    }

    /// Runs one connection of a client that sends HEAD.
    pub(crate) async fn say_head(&self, client: &Client) -> Said {
        self.converse(client, true).await
    }

    async fn converse(&self, client: &Client, head: bool) -> Said {
        self.gateway.begin().await;
        let before = self.gateway.gauges();
        let outcome = self.gateway.exchange(client).await;
        let after = self.gateway.gauges();
        let broken = self.gateway.services().broken();
        assert!(broken.is_empty(), "an upstream was sent what is not a request: {broken:?}");
        let replies = match outcome.replies(&[head]) {
            Ok(replies) => replies,
            // A dropped reply may end anywhere.
            Err(_) if !outcome.ended => Vec::new(),
            Err(why) => panic!("what was written is not a reply: {why}"),
        };
        Said {
            replies,
            asked: self.gateway.services().take_requests(),
            written: outcome.written,
            polls: outcome.polls,
            records: after.records - before.records,
            panics: after.panics - before.panics,
            left: after.left,
        }
    }
}

fn answered(asked: &ServiceRequest, answer: &ServiceAnswer) -> ServiceAnswer {
    let head = asked.request.method_or_status == "HEAD";
    match (asked.to.ip().to_string().as_str(), answer) {
        ("192.0.2.20", _) => {
            ServiceAnswer::with(200, "Content-Type: application/json\r\n", &FILES.jwks)
        }
        ("192.0.2.30", _) => {
            let side =
                if asked.request.target.ends_with("request") { "request" } else { "response" };
            let added = format!(r#"{{"headersToAdd":{{"x-seen":"{side}"}}}}"#);
            ServiceAnswer::with(200, "Content-Type: application/json\r\n", &added)
        }
        ("192.0.2.40", _) => match asked.request.values("x-deny").next() {
            Some(_) => ServiceAnswer::with(403, "X-Why: denied\r\n", "go away"),
            None => ServiceAnswer::with(200, "X-User: alice\r\n", ""),
        },
        (_, ServiceAnswer::Reply(bytes)) if head => {
            let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
            ServiceAnswer::Reply(bytes[..end.map_or(bytes.len(), |at| at + 4)].to_vec())
        }
        (_, answer) => answer.clone(),
    }
}

impl std::fmt::Debug for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let left = &self.left;
        write!(f, "--- above\n{}\n--- below\n{}\n--- left {left:?}", self.above(), self.below())
    }
}

impl Said {
    pub(crate) fn statuses(&self) -> Vec<&str> {
        self.replies.iter().map(|reply| reply.method_or_status.as_str()).collect()
    }

    /// Returns the requests to targets of upstreams, without those to other services.
    pub(crate) fn asked_of_targets(&self) -> impl Iterator<Item = &ServiceRequest> {
        self.asked.iter().filter(|asked| {
            matches!(asked.to.ip().to_string().as_str(), "192.0.2.10" | "192.0.2.11")
        })
    }

    /// Returns the requests that the upstream received, as text.
    pub(crate) fn above(&self) -> String {
        self.asked_of_targets().map(|a| format!("at {}\n{}", a.to.ip(), a.request.text())).collect()
    }

    /// Returns the replies that the client received, as text.
    pub(crate) fn below(&self) -> String {
        self.replies.iter().map(Message::text).collect()
    }

    /// Returns the messages to both sides, without the parts that always differ.
    pub(crate) fn told(&self, case: &Case) -> (Vec<Message>, Vec<Message>) {
        let same = |message: &Message| {
            let mut message = message.clone();
            message
                .lines
                .retain(|(name, _)| name != "date" && !case.volatile.contains(&name.as_str()));
            if message.values("content-encoding").any(|coding| coding == b"gzip") {
                // If the body arrives in pieces, it is compressed in several blocks.
                let mut plain = Vec::new();
                GzDecoder::new(&*message.body).read_to_end(&mut plain).unwrap();
                message.body = plain;
            }
            message
        };
        let replies = self.replies.iter().map(same).collect();
        (self.asked.iter().map(|asked| same(&asked.request)).collect(), replies)
    }

    /// Checks that no work is in progress and that there was no panic.
    #[track_caller]
    pub(crate) fn assert_quiet(&self, at: &str) {
        assert_eq!((&*self.left, self.panics), (&[][..], 0), "{at}");
    }

    /// Checks that there was one complete reply and one record, and that no work is in progress.
    #[track_caller]
    pub(crate) fn assert_once(&self, at: &str) {
        self.assert_quiet(at);
        assert!(matches!(&*self.replies, [reply] if reply.whole), "{at}: {:#?}", self.replies);
        assert_eq!(self.records, 1, "{at}");
    }
}

/// Returns the bytes of the request, with its length.
pub(crate) fn bytes_of(ask: &Ask) -> Vec<u8> {
    let Ask { start, lines, body, .. } = ask;
    let len = body.len();
    filled(&format!(
        "{start} HTTP/1.1\r\nHost: a.test\r\nX-Request-Id: it\r\n{lines}Content-Length: {len}\r\n\r\n{body}"
    ))
}

/// Returns the text with the token and the certificate filled in.
pub(crate) fn filled(text: &str) -> Vec<u8> {
    text.replace("{token}", &FILES.token).replace("{certificate}", &FILES.certificate).into_bytes()
}

/// Returns the body as a chunk, or nothing if it is empty.
pub(crate) fn chunk(body: &str) -> String {
    match body {
        "" => String::new(),
        body => format!("{:x}\r\n{body}\r\n", body.len()),
    }
}
