//! Starts the peers that are installed and sends requests to them. If TIDEGATE_PEERS is set, as `make peers` does, all of them must be
//! installed.

use std::env;
use std::io::BufReader;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::PeerKind::{
    Envoy, EnvoyAuthz, EnvoyProc, Haproxy, Nginx, NginxCompiles, Spring, Synapse,
};
use super::*;
use crate::generator::{Calls, Control, Load, Share, Target};
use backends::token::{Algorithm, Claims, Minter};

/// Starts a backend that sends each body back, with the path and the header `x-intercepted` that it received. Each connection has a thread.
/// It ends with the process of the test.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || while answer(&stream).is_some() {});
        }
    });
    address
}

/// Handles one request. Returns `None` if the client has disconnected.
fn answer(mut stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (path, lines) = head(&mut reader)?;
    let body = body(&mut reader, &lines)?;
    let value = |name| find_line(&lines, name).unwrap_or_default();
    let (kind, told) = (value("content-type"), value("x-intercepted"));
    let kind = if kind.is_empty() { "text/plain" } else { kind };
    // Requests to the interceptor get its answer.
    let (kind, body) = if path.starts_with("/api/v1/handle-request") {
        ("application/json", br#"{"headersToAdd":{"x-intercepted":"yes"}}"#.to_vec())
    } else {
        (kind, body)
    };
    let length = body.len();
    let port = stream.local_addr().ok()?.port();
    // Synapse does not recognise a header that is written `content-type`.
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nx-path: {path}\r\nx-told: {told}\r\nx-port: {port}\r\ncontent-length: {length}\r\n\r\n"
    )
    .ok()?;
    stream.write_all(&body).ok()
}

type Lines = Vec<(String, String)>;

fn find_line<'l>(lines: &'l Lines, name: &str) -> Option<&'l str> {
    lines.iter().find(|line| line.0 == name).map(|line| line.1.as_str())
}

/// The second word of the first line, and the header.
fn head(reader: &mut impl io::BufRead) -> Option<(String, Lines)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let word = line.split(' ').nth(1)?.trim().to_owned();
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => lines.push((name.to_lowercase(), value.trim().to_owned())),
            None => return Some((word, lines)),
        }
    }
}

fn body(reader: &mut impl io::BufRead, lines: &Lines) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    if find_line(lines, "transfer-encoding").is_none() {
        let length = find_line(lines, "content-length").unwrap_or("0").parse().ok()?;
        whole.resize(length, 0);
        reader.read_exact(&mut whole).ok()?;
        return Some(whole);
    }
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let length = usize::from_str_radix(line.trim(), 16).ok()?;
        let mut piece = vec![0; length + 2];
        reader.read_exact(&mut piece).ok()?;
        if length == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(&piece[..length]);
    }
}

struct Seen {
    status: String,
    lines: Lines,
    body: String,
}

impl Seen {
    fn line(&self, name: &str) -> &str {
        find_line(&self.lines, name).unwrap_or_default()
    }
}

fn ask(peer: &Peer, path: &str, lines: &str, body_text: &str) -> Seen {
    let mut stream = TcpStream::connect(peer.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let length = body_text.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {length}\r\n\r\n{body_text}"
    )
    .unwrap();
    let mut reader = BufReader::new(&stream);
    let (status, lines) = head(&mut reader).unwrap();
    let body = String::from_utf8(body(&mut reader, &lines).unwrap()).unwrap();
    Seen { status, lines, body }
}

fn ground(folder: &Path) -> Ground {
    Ground {
        folder: folder.to_owned(),
        host: std::net::Ipv4Addr::LOCALHOST.into(),
        cpus: None,
        workers: 1,
        tls: None,
        heap: Some("256M".to_owned()),
        http2: false,
    }
}

fn route(prefix: &str, path: ForwardedPath, backend: SocketAddr, task: Task) -> Route {
    Route { prefix: prefix.to_owned(), path, backend, issuer: None, task }
}

/// Starting several JVMs at the same time on few cores takes minutes.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Calls `ask` for each peer that is installed and can do the work. Prints those that are not installed, which is an error with
/// TIDEGATE_PEERS.
fn each(work: &Work, able: &[PeerKind], ask: impl Fn(&Peer)) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for kind in PeerKind::ALL {
        assert_eq!(kind.cannot(work).is_none(), able.contains(&kind), "{kind:?}");
        if kind.version().is_none() {
            assert!(env::var_os("TIDEGATE_PEERS").is_none(), "{kind:?} is not installed");
            eprintln!("not installed: {}", kind.title());
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let started = match start(kind, work, &ground(folder.path())) {
            // A part of the peer is missing, such as nginx's module for XML.
            Err(error) if error.to_string().contains("`make peers`") => {
                assert!(env::var_os("TIDEGATE_PEERS").is_none(), "{error}");
                eprintln!("not installed: {error}");
                continue;
            }
            started => started.unwrap(),
        };
        assert_eq!(started.is_some(), able.contains(&kind), "{kind:?}");
        let Some(mut peer) = started else { continue };
        assert!(peer.version.starts_with(|first: char| first.is_ascii_digit()), "{}", peer.version);
        ask(&peer);
        assert_eq!(peer.gc_log.as_ref().is_some_and(|log| log.is_file()), kind.is_jvm());
        assert!(!peer.has_ended().unwrap());
        let address = peer.address;
        drop(peer);
        assert!(TcpStream::connect(address).is_err(), "{kind:?} goes on");
    }
}

#[test]
fn requests_are_forwarded_by_the_longest_prefix() {
    let work = Work {
        routes: vec![
            route("/scen1", ForwardedPath::Stripped, echo(), Task::Forward),
            route("/scen10", ForwardedPath::Fixed("/ws".to_owned()), echo(), Task::Forward),
            route("/same", ForwardedPath::Same, echo(), Task::Stream),
        ],
    };
    each(&work, &[Nginx, Haproxy, Envoy, Spring], |peer| {
        for (path, seen) in
            [("/scen1/a", "/a"), ("/scen1", "/"), ("/scen10", "/ws"), ("/same/b", "/same/b")]
        {
            let reply = ask(peer, path, "", "text");
            let got = (reply.status.as_str(), reply.line("x-path"), reply.body.as_str());
            assert_eq!(got, ("200", seen, "text"), "{:?} {path}", peer.kind);
        }
    });
}

#[test]
fn tokens_of_the_issuer_pass_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let jwks = folder.path().join("jwks.json");
    let minter = Minter::new(Algorithm::Es256).unwrap();
    fs::write(&jwks, minter.jwks().to_string()).unwrap();
    let issuer = Issuer { name: "https://bench.test".to_owned(), jwks };
    let secured = route("/secured", ForwardedPath::Same, echo(), Task::Forward);
    let open = route("/open", ForwardedPath::Same, echo(), Task::Forward);
    let work = Work { routes: vec![Route { issuer: Some(issuer), ..secured }, open] };
    let token = |minter: &Minter, issuer: &str, expires_in| {
        let issuer = Some(issuer.to_owned());
        let claims = Claims { issuer, expires_in: Some(expires_in), ..Claims::default() };
        format!("Authorization: Bearer {}\r\n", minter.mint(&claims).unwrap())
    };
    let hour = Duration::from_secs(3600);
    let good = token(&minter, "https://bench.test", hour);
    let foreign = token(&Minter::new(Algorithm::Es256).unwrap(), "https://bench.test", hour);
    let other = token(&minter, "https://other.test", hour);
    each(&work, &[Haproxy, Envoy, Spring], |peer| {
        let reply = ask(peer, "/secured/x", &good, "text");
        assert_eq!(
            (reply.status.as_str(), reply.body.as_str()),
            ("200", "text"),
            "{:?}",
            peer.kind
        );
        for bad in ["", &foreign, &other] {
            assert_eq!(ask(peer, "/secured/x", bad, "text").status, "401", "{:?} {bad}", peer.kind);
        }
        assert_eq!(ask(peer, "/open/x", "", "text").status, "200", "{:?}", peer.kind);
    });
}

#[test]
fn interceptors_are_told_and_obeyed() {
    let intercepted = Task::Intercept { service: echo() };
    let work = Work {
        routes: vec![
            route("/intercepted", ForwardedPath::Same, echo(), intercepted),
            route("/plain", ForwardedPath::Same, echo(), Task::Forward),
        ],
    };
    each(&work, &[Envoy, EnvoyAuthz, EnvoyProc, Spring], |peer| {
        let sent = r#"{"size":"50B"}"#;
        let reply = ask(peer, "/intercepted/x", "Content-Type: application/json\r\n", sent);
        // The service of `ext_authz` adds headers to the client's request: those of its reply.
        let told = if peer.kind == EnvoyAuthz { "" } else { "yes" };
        let got = (reply.status.as_str(), reply.body.as_str(), reply.line("x-told"));
        assert_eq!(got, ("200", sent, told), "{:?}", peer.kind);
        let reply = ask(peer, "/plain/x", "", sent);
        assert_eq!((reply.status.as_str(), reply.line("x-told")), ("200", ""), "{:?}", peer.kind);
    });
}

#[test]
fn calls_are_of_http2_on_both_sides() {
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    thread::spawn(move || {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        crate::call_backend::serve(any, |address| send.send(address).unwrap())
    });
    let backend = receive.recv().unwrap();
    let work =
        Work { routes: vec![route("/bench.Echo", ForwardedPath::Same, backend, Task::Calls)] };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for kind in [Nginx, Haproxy, Envoy] {
        if kind.version().is_none() {
            assert!(env::var_os("TIDEGATE_PEERS").is_none(), "{kind:?} is not installed");
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let ground = Ground { http2: true, ..ground(folder.path()) };
        let peer = start(kind, &work, &ground).unwrap().unwrap();
        for is_grpc in [false, true] {
            let calls = Calls {
                calls: 20,
                streams: 10,
                path: "/bench.Echo/Unary".to_owned(),
                message_bytes: 1024,
                is_grpc,
            };
            let load = Load {
                target: Target { address: peer.address, host: "localhost".to_owned(), tls: None },
                work: crate::generator::Work::Calls(calls),
                warm_up: Duration::ZERO,
                duration: Duration::from_millis(500),
                connect_max: Duration::from_secs(10),
                response_max: Duration::from_secs(10),
                seed: 1,
                threads: 1,
                share: Share::default(),
            };
            let ran = crate::generator::run(&load, &Control::default(), None).unwrap();
            let (all, measured) = (ran.warmed_up().latencies.len(), ran.measured());
            assert!(all + measured.latencies.len() > 20, "{kind:?}");
            let errors = (ran.warmed_up().errors, measured.errors);
            assert!(errors.0.is_empty() && errors.1.is_empty(), "{kind:?} {is_grpc}: {errors:?}");
        }
    }
}

#[test]
fn flows_of_synapse_do_the_work_of_the_document() {
    let name = "XSLTProxy";
    // A scenario names the flow's path, which does not answer without a message.
    let prefix = format!("/services/{name}");
    let flow = route(&prefix, ForwardedPath::Same, echo(), Task::Flow(name.to_owned()));
    let work = Work { routes: vec![flow] };
    let message = r#"<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Header><r:routing xmlns:r="http://someuri">xadmin;server1;community#1.0##</r:routing></e:Header><e:Body><m:buyStocks xmlns:m="http://services.samples/xsd"><order><symbol>IBM</symbol><buyerID>john</buyerID><price>140.34</price><volume>2000</volume></order><order><symbol>SUN</symbol><buyerID>joe</buyerID><price>14.56</price><volume>500</volume></order></m:buyStocks></e:Body></e:Envelope>"#;
    let lines = "Content-Type: text/xml\r\nSOAPAction: urn:buyStocks\r\nrouting: xadmin;server1;community#1.0##\r\n";
    each(&work, &[Synapse], |peer| {
        for (path, holds, count) in [
            ("/services/DirectProxy/buyStocksOperation", "<symbol>IBM</symbol>", 1),
            ("/directApi", "<symbol>IBM</symbol>", 1),
            ("/services/XSLTProxy/buyStocksOperation", "<symbol>IBM</symbol>", 1),
            // Synapse takes the text of an element that has no child elements.
            ("/services/MessageBuildingProxy/buyStocksOperation", "<symbol>IBM</symbol>", 2),
            ("/services/CloneAndAggregateWithTwoBackendProxy", "<symbol>IBM</symbol>", 2),
            ("/services/CloneAndAggregateWithFourBackendProxy", "<symbol>IBM</symbol>", 4),
            ("/services/CloneAndAggregateWithEightBackendProxy", "<symbol>IBM</symbol>", 8),
            ("/services/EnrichBackAndForthProxy/buyStocksOperation", "<symbol>IBM</symbol>", 1),
            ("/services/ContentBasedRoutingBodyProxy", "<symbol>IBM</symbol>", 1),
            ("/services/ContentBasedRoutingSOAPHeaderProxy", "<symbol>IBM</symbol>", 1),
            ("/services/ContentBasedRoutingTransportHeaderProxy", "<symbol>IBM</symbol>", 1),
            ("/services/IterateAndAggregateProxy", "<symbol>IBM</symbol>", 1),
            ("/services/XSLTTransformProxy", "<symbol>IBM</symbol>", 1),
            ("/services/PayloadFactoryWith20ElementsProxy", "<element20", 1),
            ("/services/PayloadFactoryWith50ElementsProxy", "<element50", 1),
            ("/services/PayloadFactoryWith100ElementsProxy", "<element100", 1),
        ] {
            let reply = ask(peer, path, lines, message);
            assert_eq!(reply.status, "200", "{path}: {}", reply.body);
            assert_eq!(reply.body.matches(holds).count(), count, "{path}: {}", reply.body);
        }
    });
}

#[test]
fn soap_messages_are_checked_changed_and_routed() {
    let example = |name: &str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/soap").join(name);
        file.canonicalize().unwrap()
    };
    let (first, second) = (echo(), echo());
    let chosen = SoapStep::Route {
        namespaces: vec![("t".to_owned(), "http://tempuri.org/".to_owned())],
        xpath: "/soap:Envelope/soap:Body/t:Add/t:intA".to_owned(),
        equals: "5".to_owned(),
        backend: second,
    };
    let request = vec![
        SoapStep::Transform(example("rename.xsl")),
        SoapStep::Validate(Some(example("calculator/calculator.wsdl"))),
        SoapStep::Action(example("calculator/calculator.wsdl")),
        SoapStep::Transform(example("ten.xsl")),
        chosen,
    ];
    let checks = vec![SoapStep::Validate(Some(example("calculator/calculator.xsd")))];
    let renames = vec![SoapStep::Transform(example("rename.xsl"))];
    let soap = |request, response| Task::Soap { request, response };
    let work = Work {
        routes: vec![
            route("/all", ForwardedPath::Stripped, first, soap(request, Vec::new())),
            route("/checked", ForwardedPath::Same, first, soap(Vec::new(), checks)),
            route("/renamed", ForwardedPath::Same, first, soap(Vec::new(), renames)),
        ],
    };
    let message = |operation: &str, a: &str| {
        format!(
            r#"<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><{operation} xmlns="http://tempuri.org/"><intA>{a}</intA><intB>0</intB></{operation}></s:Body></s:Envelope>"#
        )
    };
    let lines = "Content-Type: text/xml\r\nSOAPAction: \"http://tempuri.org/Add\"\r\n";
    each(&work, &[Nginx, NginxCompiles], |peer| {
        for (a, port) in [("5", second), ("6", first)] {
            let reply = ask(peer, "/all", lines, &message("Subtract", a));
            assert_eq!(reply.status, "200", "{}", reply.body);
            assert!(reply.body.contains("Add") && reply.body.contains(">10<"), "{}", reply.body);
            assert_eq!(reply.line("x-port"), port.port().to_string());
        }
        let elsewhere = lines.replace("/Add", "/Divide");
        for (lines, body) in [
            (lines, message("Subtract", "five")),
            (lines, message("Nothing", "5")),
            (lines, "<unclosed>".to_owned()),
            (elsewhere.as_str(), message("Subtract", "5")),
        ] {
            assert_eq!(ask(peer, "/all", lines, &body).status, "500", "{body}");
        }
        assert_eq!(ask(peer, "/checked", lines, &message("Add", "5")).status, "200");
        assert_eq!(ask(peer, "/checked", lines, &message("Add", "five")).status, "500");
        let reply = ask(peer, "/renamed", lines, &message("Subtract", "5"));
        assert!(reply.status == "200" && reply.body.contains("Add"), "{}", reply.body);
    });
}
