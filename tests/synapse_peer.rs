//! `tidegate import synapse` compared with Apache Synapse: the same flows in both, with the same requests and backends. The
//! messages that clients and backends get are compared by meaning. `scripts/synapse.sh` downloads Synapse; `make
//! differential-synapse` runs everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::kafka::GUARDED;
use crate::harness::{ClosedPort, Gateway, Message, Origin, Peer, Wire, tidegate};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// Java needs seconds to start where nothing else runs, and this machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// Forms of messages that clients send.
const KINDS: [&str; 4] = ["soap", "xml", "soap8", "xml8"];

/// Apache Synapse with one file of artifacts.
struct Synapse {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Synapse {
    fn start(artifacts: &str) -> Synapse {
        let folder = tempfile::tempdir().unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let conf = folder.path().join("conf");
        std::fs::create_dir_all(&conf).unwrap();
        // Where `callout` and message processors look for the configuration of their client.
        let blocking = folder.path().join("repository/conf");
        std::fs::create_dir_all(&blocking).unwrap();
        let read = |name: &str| {
            std::fs::read_to_string(format!("{ROOT}/bench/synapse/conf/{name}")).unwrap()
        };
        let write = |name: &str, text: &str| std::fs::write(conf.join(name), text).unwrap();
        let axis2 = with_formats(&read("axis2.xml")).replace("8280", &port.to_string());
        std::fs::write(blocking.join("axis2_blocking_client.xml"), as_client(&axis2)).unwrap();
        write("axis2.xml", &axis2);
        write("log4j.properties", &read("log4j.properties"));
        write("passthru-http.properties", &read("passthru-http.properties"));
        write("synapse.xml", artifacts);
        let jars = home().join("*");
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", GUARDED, "sh", "java", "-Xmx256m", "-XX:+UseSerialGC"]);
        command.args(["-XX:TieredStopAtLevel=1", "-cp", &format!("conf:{}", jars.display())]);
        command.args(["org.apache.synapse.SynapseServer", "repository", "conf/axis2.xml", "."]);
        command.args(["conf/synapse.xml", "."]).current_dir(folder.path());
        command.stdin(Stdio::piped()).stdout(log).stderr(Stdio::null());
        let mut process = command.spawn().expect("sh");
        let began = Instant::now();
        let said = || std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let ended = process.try_wait().unwrap().is_some();
            assert!(!ended && began.elapsed() < PATIENCE, "no Synapse: {}", said());
            std::thread::sleep(Duration::from_millis(20));
        }
        // It starts without an artifact that it does not take.
        assert!(!said().contains("cannot be built"), "{}", said());
        Synapse { process, port, _folder: folder }
    }
}

impl Drop for Synapse {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// The configuration of a client that waits for replies: it listens nowhere and has another sender.
fn as_client(axis2: &str) -> String {
    let (before, rest) = axis2.split_once("<transportReceiver").unwrap();
    let (_, after) = rest.split_once("</transportReceiver>").unwrap();
    let sender = "org.apache.axis2.transport.http.impl.httpclient4.HTTPClient4TransportSender";
    format!("{before}{after}")
        .replace("org.apache.synapse.transport.passthru.PassThroughHttpSender", sender)
}

/// Builders and formatters that the load tests do not need.
fn with_formats(axis2: &str) -> String {
    let formatter = |kind: &str, class: &str| {
        format!(
            "<messageFormatter contentType=\"{kind}\" class=\"org.apache.axis2.transport.http.{class}\"/>"
        )
    };
    let builder = |kind: &str, class: &str| {
        format!(
            "<messageBuilder contentType=\"{kind}\" class=\"org.apache.axis2.builder.{class}\"/>"
        )
    };
    let form = "application/x-www-form-urlencoded";
    let formatters = formatter("application/soap+xml", "SOAPMessageFormatter")
        + &formatter(form, "XFormURLEncodedFormatter");
    let builders =
        builder("application/soap+xml", "SOAPBuilder") + &builder(form, "XFormURLEncodedBuilder");
    axis2
        .replace("<messageFormatters>", &format!("<messageFormatters>{formatters}"))
        .replace("<messageBuilders>", &format!("<messageBuilders>{builders}"))
}

/// The folder of the program, from `scripts/synapse.sh`.
fn home() -> PathBuf {
    let binary = std::env::current_exe().unwrap();
    // target/debug/deps/NAME
    let home = binary.ancestors().nth(3).unwrap().join("synapse");
    assert!(
        home.join("stamp").is_file(),
        "no {}; scripts/setup.sh tests puts it there",
        home.display()
    );
    home
}

/// A backend that echoes and records requests.
fn backend(seen: Arc<Mutex<Vec<String>>>) -> Origin {
    Origin::start(move |peer: &mut Peer| {
        while let Some(request) = peer.request() {
            seen.lock().unwrap().push(told(&request));
            let status = match request.target().split_once("/status/") {
                Some((_, status)) => status.get(..3).unwrap().to_owned(),
                None => "200".to_owned(),
            };
            let (kind, body) = if request.body.is_empty() {
                (
                    "application/xml".to_owned(),
                    format!("<got>{}</got>", request.method()).into_bytes(),
                )
            } else {
                (
                    request.get("content-type").unwrap_or("text/plain").to_owned(),
                    request.body.clone(),
                )
            };
            let head = format!(
                "HTTP/1.1 {status} Told\r\nContent-Type: {kind}\r\nX-Back: yes\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            if !peer.try_send([head.into_bytes(), body].concat()) {
                return;
            }
        }
    })
}

/// A request as a backend gets it, without irrelevant parts.
fn told(request: &Message) -> String {
    let action = request.get("soapaction").unwrap_or("").trim_matches('"');
    // SOAP 1.2 has it as a parameter of the content type.
    let kind = request.get("content-type").unwrap_or("");
    let parameter = kind.split_once("action=").map_or("", |(_, rest)| rest);
    let parameter = parameter.split(';').next().unwrap().trim_matches('"');
    let (method, target) = (request.method(), request.target());
    format!("{method} {target} action={action} {parameter} {}", contents(request))
}

/// The headers that count, and the body by its meaning.
fn contents(message: &Message) -> String {
    let mut lines: Vec<String> = message
        .headers
        .iter()
        .filter(|(name, _)| {
            let name = name.to_ascii_lowercase();
            name.starts_with("x-")
                && !["x-request-id", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"]
                    .contains(&name.as_str())
        })
        .map(|(name, value)| format!("{}={value}", name.to_ascii_lowercase()))
        .collect();
    lines.sort();
    let kind =
        message.get("content-type").unwrap_or("").split(';').next().unwrap().trim().to_owned();
    let body = meaning(&message.text());
    let kind = if body.is_empty() { String::new() } else { kind };
    format!("{} type={kind} {body}", lines.join(" "))
}

/// XML without prefixes, declarations, white space between elements and empty SOAP headers. Other text is unchanged.
fn meaning(text: &str) -> String {
    let text = text.trim();
    if !text.starts_with('<') {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut scopes: Vec<BTreeMap<String, String>> = vec![BTreeMap::new()];
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, markup) = rest.split_at(at);
        let words = before.trim();
        // The value of a fault code is a name with a prefix.
        let code = words.rsplit(':').next().unwrap();
        out.push_str(if out.ends_with("faultcode>") { code } else { words });
        let end = markup.find('>').expect("markup ends");
        let tag = &markup[1..end];
        rest = &markup[end + 1..];
        if tag.starts_with(['?', '!']) {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            let scope = scopes.pop().unwrap();
            write!(out, "</{}>", expanded(name.trim(), &scope)).unwrap();
            continue;
        }
        let (inside, closes) = tag.strip_suffix('/').map_or((tag, false), |inside| (inside, true));
        let (name, attributes) = inside.split_once(char::is_whitespace).unwrap_or((inside, ""));
        let mut scope = scopes.last().unwrap().clone();
        let mut kept = BTreeSet::new();
        for (key, value) in pairs(attributes) {
            match key.strip_prefix("xmlns") {
                Some(prefix) => {
                    drop(scope.insert(prefix.trim_start_matches(':').to_owned(), value))
                }
                None => drop(kept.insert(format!(" {key}={value:?}"))),
            }
        }
        let name = expanded(name, &scope);
        write!(out, "<{name}{}>", kept.into_iter().collect::<String>()).unwrap();
        if closes {
            write!(out, "</{name}>").unwrap();
        } else {
            scopes.push(scope);
        }
    }
    for version in
        ["http://schemas.xmlsoap.org/soap/envelope/", "http://www.w3.org/2003/05/soap-envelope"]
    {
        out = out.replace(&format!("<{{{version}}}Header></{{{version}}}Header>"), "");
    }
    out
}

fn expanded(name: &str, scope: &BTreeMap<String, String>) -> String {
    let (prefix, local) = name.split_once(':').unwrap_or(("", name));
    match scope.get(prefix).map(String::as_str) {
        None | Some("") => local.to_owned(),
        Some(uri) => format!("{{{uri}}}{local}"),
    }
}

fn pairs(mut attributes: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    while let Some((name, rest)) = attributes.split_once('=') {
        let rest = rest.trim_start();
        let quote = rest.chars().next().unwrap();
        let (value, after) = rest[1..].split_once(quote).unwrap();
        all.push((name.trim().to_owned(), value.to_owned()));
        attributes = after;
    }
    all
}

/// A request: its method, its target, and the form of its message.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Sent {
    method: String,
    target: String,
    kind: String,
}

impl Sent {
    fn bytes(&self) -> String {
        let id = if self.kind.ends_with('8') { 8 } else { 7 };
        let order = format!("<order><id>{id}</id><item>a</item><item>b</item></order>");
        let envelope = format!(
            "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Header><r:routing xmlns:r=\"http://someuri\">xadmin;server1;community#1.0##</r:routing></s:Header><s:Body>{order}</s:Body></s:Envelope>"
        );
        let (lines, body) = match self.kind.as_str() {
            "soap" | "soap8" => {
                ("Content-Type: text/xml\r\nSOAPAction: \"urn:x\"\r\n".to_owned(), envelope)
            }
            "soap12" => (
                "Content-Type: application/soap+xml; charset=utf-8; action=\"urn:x\"\r\n"
                    .to_owned(),
                envelope.replace(
                    "http://schemas.xmlsoap.org/soap/envelope/",
                    "http://www.w3.org/2003/05/soap-envelope",
                ),
            ),
            "xml" | "xml8" => ("Content-Type: application/xml\r\nTier: gold\r\n".to_owned(), order),
            "stocks" => stocks("IBM", "xadmin;server1;community#1.0##"),
            "other-stocks" => stocks("MSFT", "nowhere"),
            _ => Default::default(),
        };
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        format!(
            "{} {} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n{lines}{length}\r\n{body}",
            self.method, self.target
        )
    }
}

/// The header lines and the body of a message of the load tests: the symbol of the first order, and what it is routed by.
fn stocks(first: &str, routing: &str) -> (String, String) {
    let order = |symbol: &str, buyer: &str| {
        format!(
            "<order><symbol>{symbol}</symbol><buyerID>{buyer}</buyerID><price>140.34</price><volume>2000</volume></order>"
        )
    };
    let orders: String = (0..10)
        .map(|_| order(first, "john") + &order("MSFT", "doe") + &order("SUN", "indika"))
        .collect();
    let lines =
        format!("Content-Type: text/xml\r\nSOAPAction: urn:buyStocks\r\nrouting: {routing}\r\n");
    let envelope = format!(
        "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><e:Header><r:routing xmlns:r=\"http://someuri\">{routing}</r:routing></e:Header><e:Body><m:buyStocks xmlns:m=\"http://services.samples/xsd\">{orders}</m:buyStocks></e:Body></e:Envelope>"
    );
    (lines, envelope)
}

/// Writes out what a file of flows abbreviates: `@20@` is 20 orders.
fn written_out(artifacts: &str) -> String {
    let order = "<order xmlns=\"\"><symbol>$1</symbol><buyerID>john</buyerID><price>140.34</price><volume>1</volume></order>";
    let counts = [20, 50, 100];
    counts.into_iter().fold(artifacts.to_owned(), |all, count| {
        all.replace(&format!("@{count}@"), &order.repeat(count))
    })
}

/// The artifacts as Apache Synapse knows them, without what only Micro Integrator has.
fn for_synapse(artifacts: &str) -> String {
    let call = "<call><endpoint key=\"be\"/></call><respond/></inSequence><outSequence/>";
    let send = "<send><endpoint key=\"be\"/></send></inSequence><outSequence><send/></outSequence>";
    let scope = "name=\"To\" scope=\"default\"";
    artifacts.replace("fastXSLT", "xslt").replace(call, send).replace(scope, "name=\"To\"")
}

/// The results of one request for the client and the backend.
fn outcome(address: SocketAddr, sent: &Sent, seen: &Mutex<Vec<String>>) -> String {
    seen.lock().unwrap().clear();
    let mut wire = Wire::connect(address);
    let reply = wire.ask(sent.bytes());
    // An asynchronous message arrives later.
    let began = Instant::now();
    let mut count = seen.lock().unwrap().len();
    while began.elapsed() < Duration::from_millis(if count == 0 { 300 } else { 100 }) {
        std::thread::sleep(Duration::from_millis(20));
        count = seen.lock().unwrap().len();
    }
    let mut calls = seen.lock().unwrap().clone();
    calls.sort();
    format!("{} {}\n{}", reply.status(), contents(&reply), calls.join("\n"))
}

/// True for a flow that gathers replies: Synapse does so in the order in which they come.
fn gathers(sent: &Sent) -> bool {
    ["/Iterate", "/Clone"].iter().any(|word| sent.target.contains(word))
}

/// A result without its random parts, such as the order of gathered parts.
fn significant(sent: &Sent, outcome: String) -> String {
    if !gathers(sent) {
        return outcome;
    }
    let mut pieces: Vec<&str> = outcome.split_inclusive('>').map(str::trim).collect();
    pieces.sort_unstable();
    pieces.join(" ")
}

/// The requests for a file: each proxy gets messages of all forms.
fn requests(file: &str, artifacts: &str) -> Vec<Sent> {
    let mut all = Vec::new();
    let kinds = match file {
        "bench" => vec!["stocks"],
        "bench-more" => vec!["stocks", "other-stocks"],
        "samples.xml" => [&KINDS[..], &["soap12"]].concat(),
        _ => KINDS.to_vec(),
    };
    for proxy in artifacts.split("<proxy name=\"").skip(1) {
        let name = proxy.split('"').next().unwrap();
        // Synapse never answers SOAP 1.2 with a fault of SOAP 1.1.
        let proxy = proxy.split("</proxy>").next().unwrap();
        let has_fault =
            ["soap11", "fault-side", "fails", "spoken"].iter().any(|word| proxy.contains(word));
        for kind in kinds.iter().filter(|kind| **kind != "soap12" || !has_fault) {
            let (method, target) = ("POST".to_owned(), format!("/services/{name}"));
            let sent = Sent { method, target, kind: (*kind).to_owned() };
            // Gathered plain XML has only the first part, whichever that is.
            if !gathers(&sent) || !kind.starts_with("xml") {
                all.push(sent);
            }
        }
    }
    let more = std::fs::read_to_string(format!("{ROOT}/tests/synapse/requests.txt")).unwrap();
    for line in more.lines().filter(|line| !line.starts_with('#')) {
        if let [of, method, target, kind] = line.split(' ').collect::<Vec<_>>()[..]
            && of == file
        {
            let (method, target, kind) = (method.to_owned(), target.to_owned(), kind.to_owned());
            all.push(Sent { method, target, kind });
        }
    }
    all
}

/// The difference between two results.
struct Difference {
    /// The request.
    name: String,
    outcomes: String,
    /// The import told of a difference in the proxy or the API that has the request.
    is_told: bool,
}

/// True if a row of the import's table, which is not `converted`, is about the lines of a proxy or an API.
fn is_told(artifacts: &str, table: &str, target: &str) -> bool {
    let path = target.split('?').next().unwrap();
    let mut segments = path.split('/').skip(1);
    let front = match (segments.next(), segments.next()) {
        (Some("services"), Some(name)) => format!("<proxy name=\"{name}\""),
        (Some(context), _) => format!("context=\"/{context}\""),
        (None, _) => return false,
    };
    let lines: Vec<&str> = artifacts.lines().collect();
    let Some(first) = lines.iter().position(|line| line.contains(&front)) else { return false };
    let ends = |line: &&str| line.contains("</proxy>") || line.contains("</api>");
    let last = first + lines[first..].iter().position(ends).unwrap();
    let rows =
        table.lines().filter(|row| row.starts_with("approximated") || row.starts_with("refused"));
    let mut numbers = rows.filter_map(|row| {
        let place = row.split_whitespace().nth(1)?;
        place.split(':').nth(1)?.parse::<usize>().ok()
    });
    numbers.any(|line| (first + 1..=last + 1).contains(&line))
}

/// What both did with the requests for a file.
struct Comparison {
    /// The number of requests.
    all: usize,
    /// The requests whose outcomes differ, with both outcomes.
    differing: Vec<Difference>,
}

/// Sends all requests for a file to both.
fn compared(file: &str, path: &Path) -> Comparison {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (origin, closed) = (backend(seen.clone()), ClosedPort::any());
    let artifacts = std::fs::read_to_string(path).unwrap();
    let port = |url: &str| url.rsplit(':').next().unwrap().trim_end_matches('/').to_owned();
    let artifacts = written_out(&artifacts)
        .replace("@BE@", &port(&origin.url()))
        .replace("@DEAD@", &closed.address.port().to_string());
    let folder = tempfile::tempdir().unwrap();
    let (source, into) = (folder.path().join("all.xml"), folder.path().join("made"));
    std::fs::write(&source, &artifacts).unwrap();
    let run = tidegate(&[
        "import",
        "synapse",
        source.to_str().unwrap(),
        "--into",
        into.to_str().unwrap(),
    ]);
    assert!(matches!(run.code, Some(0 | 3)), "{file}: {}", run.stderr);
    let configuration = into.join("tidegate.yaml");
    let text = std::fs::read_to_string(&configuration).unwrap();
    let (before, after) = text.split_once("address: \"").unwrap();
    let (_, after) = after.split_once('"').unwrap();
    let text = format!("{before}address: \"127.0.0.1:0\"{after}\nworkers: 1\n");
    std::fs::write(&configuration, text).unwrap();
    let gateway = Gateway::start_in(&into, "tidegate.yaml");
    let ours = gateway.address("public");
    let synapse = Synapse::start(&for_synapse(&artifacts));
    let theirs = SocketAddr::from((Ipv4Addr::LOCALHOST, synapse.port));
    let mut differing = Vec::new();
    let all = requests(file, &artifacts);
    for sent in &all {
        let both = [ours, theirs].map(|address| significant(sent, outcome(address, sent, &seen)));
        let [a, b] = both;
        if a != b {
            let name = format!("{file} {} {} {}", sent.method, sent.target, sent.kind);
            let outcomes = format!("here:\n{a}\nthere:\n{b}");
            let is_told = is_told(&artifacts, &run.stderr, &sent.target);
            differing.push(Difference { name, outcomes, is_told });
        }
    }
    Comparison { all: all.len(), differing }
}

/// Known differences by request, with the reason.
fn known(file: &str) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(format!("{ROOT}/tests/synapse/differences.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entries = lines.map(|line| line.split_once(": ").expect("REQUEST: REASON"));
    let of_file = entries.filter(|(name, _)| name.split(' ').next() == Some(file));
    of_file.map(|(name, why)| (name.to_owned(), why.to_owned())).collect()
}

/// Compares files, of whose requests nine of ten have to be the same on both.
fn compare(files: &[(&str, &str)]) {
    let (mut all, mut same) = (0, 0);
    for (file, path) in files {
        let of_file = compare_file(file, path);
        all += of_file.0;
        same += of_file.1;
    }
    assert!(same * 10 >= all * 9, "of {all} requests {same} are the same");
}

/// The number of requests for a file, and of those that are the same.
fn compare_file(file: &str, path: &str) -> (usize, usize) {
    let Comparison { all, differing: found } = compared(file, Path::new(&format!("{ROOT}/{path}")));
    let same = all - found.len();
    println!("{file}: {all} requests, {same} the same");
    let known = known(file);
    let mut said = String::new();
    for Difference { name, outcomes, is_told } in &found {
        if !known.contains_key(name) {
            writeln!(said, "DIFFERS {name}\n{outcomes}\n").unwrap();
        } else if !is_told {
            writeln!(said, "the import does not tell that it differs: {name}").unwrap();
        }
    }
    for name in known.keys().filter(|name| found.iter().all(|found| found.name != **name)) {
        writeln!(said, "the same now, so remove it from differences.txt: {name}").unwrap();
    }
    assert!(said.is_empty(), "{said}");
    (all, same)
}

fn is_whole() -> bool {
    std::env::var("TIDEGATE_SYNAPSE").is_ok_and(|which| which == "all")
}

#[test]
fn samples_do_the_same_on_both() {
    compare(&[("flows.xml", "tests/synapse/flows.xml")]);
}

#[test]
fn more_samples_do_the_same_on_both() {
    if is_whole() {
        compare(&[("samples.xml", "tests/synapse/samples.xml")]);
    }
}

#[test]
fn main_does_the_same_on_both() {
    if is_whole() {
        compare(&[
            ("main-both-ways.xml", "tests/synapse/main-both-ways.xml"),
            ("main-fault.xml", "tests/synapse/main-fault.xml"),
        ]);
    }
}

#[test]
fn load_tests_do_the_same_on_both() {
    if is_whole() {
        compare(&[
            ("bench", "bench/synapse/conf/synapse.xml"),
            ("bench-more", "tests/synapse/load-tests.xml"),
        ]);
    }
}

#[test]
fn the_meaning_of_xml_is_in_its_names_and_texts() {
    let a = "<?xml version='1.0'?><a:x xmlns:a=\"u\" b='1'>\n <y/></a:x>";
    assert_eq!(meaning(a), "<{u}x b=\"1\"><y></y></{u}x>");
    assert_ne!(meaning(a), meaning("<x b='1'><y/></x>"));
    assert_eq!(meaning(a), meaning("<x b='1' xmlns=\"u\"><y xmlns=''></y></x>"));
}
