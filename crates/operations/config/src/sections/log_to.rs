//! The destination of a log.

use serde_json::{Value as Json, json};

use crate::decode::{Decode, Decoder, keys, list};
use crate::node::{Node, Value};
use crate::schema::SchemaBuilder;
use crate::sections::UpstreamTls;
use crate::values::{CollectorUrl, FilePath, Map, Secret, SocketUrl, Spanned, Timeout, WebUrl};

/// The destination of a log's lines.
#[derive(Clone, Debug, PartialEq)]
pub enum LogTo {
    /// The program's output.
    Stdout,
    /// The program's error output.
    Stderr,
    /// A file that is appended to.
    File(FilePath),
    /// A receiver on the network.
    Receiver(Box<LogReceiver>),
}

/// A receiver of lines on the network.
#[derive(Clone, Debug, PartialEq)]
pub struct LogReceiver {
    /// Its address and protocol.
    pub address: LogAddress,
    /// Header lines of each request, for receivers that speak HTTP.
    pub headers: Map<Spanned<Secret>>,
    /// The timeout of one request, or of connecting and each write.
    pub timeout: Timeout,
    /// The TLS settings.
    pub tls: Option<Spanned<UpstreamTls>>,
}

/// The address of a receiver, with its protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum LogAddress {
    /// Batches of lines, as POST requests.
    Http(Spanned<WebUrl>),
    /// Log records of OpenTelemetry.
    Otlp(Spanned<CollectorUrl>),
    /// Messages of syslog.
    Syslog(Spanned<SocketUrl>),
    /// Plain lines.
    Lines(Spanned<SocketUrl>),
}

keys! {
    /// The destination of lines: exactly one of `file`, `http`, `otlp`, `syslog`, `tcp` and `udp`.
    pub(crate) struct LogPlace {
        /// A file that lines are appended to. Its folder must exist.
        file: Option<FilePath>,
        /// `https://HOST/PATH`: a POST with the lines of each second, at most 1 MiB, as `application/x-ndjson`.
        http: Option<Spanned<WebUrl>>,
        /// An OpenTelemetry collector, `http://HOST:4318` or `grpc://HOST:4317`: a log record for each line.
        otlp: Option<Spanned<CollectorUrl>>,
        /// `udp://HOST:PORT`, `tcp://HOST:PORT` or `tls://HOST:PORT`: a message of RFC 5424 for each line.
        syslog: Option<Spanned<SocketUrl>>,
        /// `tcp://HOST:PORT` or `tls://HOST:PORT`: plain lines, each with its line end.
        tcp: Option<Spanned<SocketUrl>>,
        /// `udp://HOST:PORT`: a datagram for each line.
        udp: Option<Spanned<SocketUrl>>,
        /// Headers of each request to `http` or `otlp`, such as `authorization`.
        headers: Map<Spanned<Secret>> = Map::default(),
        /// How long a receiver may take for a request, or for a connection and each write.
        // The timeout of most exporters. Lines are queued in the meantime, up to a bound.
        timeout: Timeout = Timeout(std::time::Duration::from_secs(5)),
        /// TLS to the receiver.
        tls: Option<Spanned<UpstreamTls>>,
    }
}

const PLACES: [&str; 6] = ["file", "http", "otlp", "syslog", "tcp", "udp"];

impl Decode for LogTo {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        match (&node.value, node.text()) {
            (_, Some("stdout")) => Some(Self::Stdout),
            (_, Some("stderr")) => Some(Self::Stderr),
            (Value::Map(_), _) => place(node, decoder),
            _ => FilePath::decode(node, decoder).map(Self::File),
        }
    }

    fn encode(&self) -> Json {
        match self {
            Self::Stdout => "stdout".into(),
            Self::Stderr => "stderr".into(),
            Self::File(path) => path.encode(),
            Self::Receiver(receiver) => receiver.encode(),
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [{ "enum": ["stdout", "stderr"] }, { "type": "string" }, LogPlace::schema(schema)] })
    }
}

impl LogReceiver {
    fn encode(&self) -> Json {
        let (name, url) = match &self.address {
            LogAddress::Http(url) => ("http", url.encode()),
            LogAddress::Otlp(url) => ("otlp", url.encode()),
            LogAddress::Syslog(url) => ("syslog", url.encode()),
            LogAddress::Lines(url) => match url.value.scheme {
                crate::values::SocketScheme::Udp => ("udp", url.encode()),
                crate::values::SocketScheme::Tcp | crate::values::SocketScheme::Tls => {
                    ("tcp", url.encode())
                }
            },
        };
        json!({
            name: url,
            "headers": self.headers.encode(),
            "timeout": self.timeout.encode(),
            "tls": self.tls.encode(),
        })
    }
}

fn place(node: &Node, decoder: &mut Decoder<'_>) -> Option<LogTo> {
    let mistakes = decoder.mistakes();
    let written = LogPlace::decode(node, decoder)?;
    let LogPlace { file, http, otlp, syslog, tcp, udp, headers, timeout, tls } = written;
    let over_http = http.is_some() || otlp.is_some();
    let is_file = file.is_some();
    let places = [
        file.map(LogTo::File).map(Ok),
        http.map(LogAddress::Http).map(Err),
        otlp.map(LogAddress::Otlp).map(Err),
        syslog.map(LogAddress::Syslog).map(Err),
        tcp.map(LogAddress::Lines).map(Err),
        udp.map(LogAddress::Lines).map(Err),
    ];
    // Harmless: keys that are not written are skipped on purpose.
    let mut places = places.into_iter().flatten();
    let (Some(place), None) = (places.next(), places.next()) else {
        if decoder.mistakes() == mistakes {
            let help = format!("write exactly one of {}", list(&PLACES, "and"));
            decoder.error(node.owner, "a log needs exactly one destination", help);
        }
        return None;
    };
    if !over_http && let Some((name, _)) = headers.iter().next() {
        let help = "remove `headers`, or send the lines to `http` or `otlp`";
        decoder.error(name.at, "`headers` applies only to HTTP", help);
    }
    if is_file && let Some(tls) = &tls {
        decoder.error(tls.at, "`tls` has no effect on a file", "remove it");
    }
    match place {
        Ok(file) => Some(file),
        Err(address) => {
            check_scheme(node, &address, decoder);
            Some(LogTo::Receiver(Box::new(LogReceiver { address, headers, timeout, tls })))
        }
    }
}

/// Checks the scheme: `udp` sends datagrams, and `tcp` does not.
fn check_scheme(node: &Node, address: &LogAddress, decoder: &mut Decoder<'_>) {
    let LogAddress::Lines(url) = address else { return };
    let is_datagrams = url.value.scheme == crate::values::SocketScheme::Udp;
    if is_datagrams != node.get("udp").is_some() {
        let key = if is_datagrams { "udp" } else { "tcp" };
        let what = format!("`{}://` is an address for `{key}`", url.value.scheme.name());
        decoder.error(url.at, what, format!("write `{key}: \"{}\"`", url.value));
    }
}
