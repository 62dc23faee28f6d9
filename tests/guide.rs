//! README and guide are true: the program checks every block of configuration, every block of JSON is JSON, and the text that
//! the program writes into the guide is fresh. Commands are read by the program's own parser, in `crates/operations/tidegate/src/guide.rs`.
//!
//! A block of YAML is a whole configuration if it has `listen` and `routes`. Otherwise its keys tell what it is a part of:
//! the file, a route, an upstream, or a list of policies. Objects that a part refers to but does not define are added.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use serde_json::{Map, Value};

use crate::harness::{Backend, Gateway, tidegate, tidegate_with};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// Blocks of output that are not compared with the program's. May only shrink.
const PRINTED_MAX: usize = 3;

/// Complaints about parts that a block may leave out, or name only.
const MAY_LACK: [&str; 4] = [
    "there is no such file",
    "cannot be found",
    "the key `match` is missing",
    "no listener requests client certificates",
];

/// The beginnings of blocks that are compared with the program's output.
const COMPARED: [&str; 7] = [COMPLAINTS, EXPLAINED, DIFFERENCES, FAILED, TRACED, IMPORTED, TABLE];
const COMPLAINTS: &str = "gateway.yaml:2:31: ";
const EXPLAINED: &str = "GET http://api.example.com/orders/7";
const FAILED: &str = "FAIL an order becomes JSON ";
const TRACED: &str = "GET /orders/7\nroute";
const DIFFERENCES: &str = "~ upstreams.orders.timeout.response: ";
const IMPORTED: &str = "routes:\n  Quotes:\n";
const TABLE: &str = "converted     quotes.xml:1:1 ";
const ARTIFACT: &str = "<proxy xmlns=\"http://ws.apache.org/ns/synapse\" name=\"Quotes\">";

/// The page whose commands are run.
const STEPS: &str = "docs/guide/operating.md";

struct Block {
    place: String,
    language: String,
    text: String,
}

fn read(path: &str) -> String {
    fs::read_to_string(format!("{ROOT}/{path}")).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Every fenced block of README and guide.
fn blocks() -> Vec<Block> {
    let guide = fs::read_dir(format!("{ROOT}/docs/guide")).unwrap();
    let names = guide.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<String> = names.map(|name| format!("docs/guide/{name}")).collect();
    files.push("README.md".to_owned());
    files.sort();
    let mut blocks = Vec::new();
    for file in files {
        let mut open: Option<Block> = None;
        for (number, line) in (1..).zip(read(&file).lines()) {
            match (line.trim_start().strip_prefix("```"), open.as_mut()) {
                (Some(language), None) => {
                    let (place, language) = (format!("{file}:{number}"), language.to_owned());
                    open = Some(Block { place, language, text: String::new() });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (None, Some(block)) => writeln!(block.text, "{line}").unwrap(),
                (None, None) => {}
            }
        }
    }
    blocks
}

/// The keys of a section, by the schema.
fn keys_of(schema: &Value, section: &str) -> BTreeSet<String> {
    let keys: &Map<String, Value> = schema["$defs"][section]["properties"].as_object().unwrap();
    keys.keys().cloned().collect()
}

/// The lines at the margin: keys, or the names of the items of a list.
fn top(text: &str, mark: &str) -> BTreeSet<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(mark));
    let keys = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_alphabetic()));
    keys.filter_map(|line| line.split_once(':')).map(|(key, _)| key.to_owned()).collect()
}

fn indented(text: &str, by: usize) -> String {
    text.lines().map(|line| format!("{:by$}{line}\n", "")).collect()
}

/// The block as a file of a configuration, and true if it is the whole of it.
fn configuration(block: &Block, schema: &Value) -> (String, bool) {
    let (keys, text) = (top(&block.text, ""), &block.text);
    let lacks = |key: &str| !keys.contains(key);
    if keys.is_empty() && !top(text, "- ").is_empty() {
        let policies = indented(text, 6);
        let route = "routes:\n  guide:\n    match: {}\n    upstream: guide\n    policies:\n";
        return (format!("{route}{policies}"), false);
    }
    if keys.is_subset(&keys_of(schema, "Config")) {
        return (text.clone(), !lacks("listen") && !lacks("routes"));
    }
    if keys.is_subset(&keys_of(schema, "Route")) {
        let matches = if lacks("match") { "    match: {}\n" } else { "" };
        let ends = !lacks("upstream") || !lacks("respond");
        let end = if ends { "" } else { "    upstream: guide\n" };
        return (format!("routes:\n  guide:\n{matches}{end}{}", indented(text, 4)), false);
    }
    if keys.is_subset(&keys_of(schema, "Upstream")) {
        let targets =
            if lacks("targets") { "    targets: [\"https://guide.example\"]\n" } else { "" };
        return (format!("upstreams:\n  guide:\n{targets}{}", indented(text, 4)), false);
    }
    panic!("{}: {keys:?} are not keys of one section", block.place);
}

/// The program's complaints, without warnings.
fn complaints(stderr: &str) -> Vec<&str> {
    let firsts = stderr.lines().filter(|line| !line.starts_with(' '));
    firsts.filter(|line| !line.is_empty() && !line.contains(": warning: ")).collect()
}

/// The name in a complaint that ends with one.
fn named<'c>(complaint: &'c str, what: &str) -> Option<&'c str> {
    complaint.split_once(what)?.1.strip_prefix('`')?.split('`').next()
}

/// The faults of a block, given its additional files.
fn wrong_with(block: &Block, schema: &Value) -> Vec<String> {
    let (text, whole) = configuration(block, schema);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("block.yaml"), text).unwrap();
    let (mut beside, mut variables) = ([(); 3].map(|()| BTreeSet::new()), BTreeSet::new());
    loop {
        let [listen, upstreams, issuers] = &beside;
        let mut more = String::new();
        for (section, names, value) in [
            ("listen", listen, "{ address: \"127.0.0.1:0\" }"),
            ("upstreams", upstreams, "{ targets: [\"http://127.0.0.1:9\"] }"),
            (
                "issuers",
                issuers,
                "{ issuer: \"https://a.example\", jwks: \"https://a.example/jwks\" }",
            ),
        ] {
            let entries: Vec<String> =
                names.iter().map(|name: &String| format!("  {name}: {value}\n")).collect();
            if !entries.is_empty() {
                write!(more, "{section}:\n{}", entries.concat()).unwrap();
            }
        }
        if !more.is_empty() {
            fs::write(folder.path().join("beside.yaml"), more).unwrap();
        }
        let variables_now: Vec<(String, &str)> =
            variables.iter().map(|name: &String| (name.clone(), "guide")).collect();
        let with: Vec<(&str, &str)> =
            variables_now.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let run = tidegate_with(&["check".as_ref(), folder.path().as_os_str()], &with);
        let known = variables.len() + beside.iter().map(BTreeSet::len).sum::<usize>();
        let mut left = Vec::new();
        for complaint in complaints(&run.stderr) {
            let variable = named(complaint, "the environment has no variable ");
            let upstream = named(complaint, "there is no upstream ").filter(|_| !whole);
            let issuer = named(complaint, "there is no issuer ").filter(|_| !whole);
            match (variable, upstream, issuer) {
                (Some(name), _, _) => drop(variables.insert(name.to_owned())),
                (_, Some(name), _) => drop(beside[1].insert(name.to_owned())),
                (_, _, Some(name)) => drop(beside[2].insert(name.to_owned())),
                _ if !whole && complaint.contains("no listener is configured") => {
                    beside[0].insert("guide".to_owned());
                }
                _ if MAY_LACK.iter().any(|lack| complaint.contains(lack)) => {}
                _ => left.push(complaint.to_owned()),
            }
        }
        if known == variables.len() + beside.iter().map(BTreeSet::len).sum::<usize>() {
            return left;
        }
    }
}

#[test]
fn every_configuration_in_the_guide_is_taken() {
    let schema: Value = serde_json::from_str(&tidegate(&["check", "--schema"]).stdout).unwrap();
    let blocks = blocks();
    let yaml: Vec<&Block> = blocks.iter().filter(|block| block.language == "yaml").collect();
    assert!(yaml.len() > 30, "{}", yaml.len());
    let wrong: Vec<String> = yaml
        .iter()
        .flat_map(|block| {
            let wrong = wrong_with(block, &schema);
            wrong.into_iter().map(|complaint| format!("{}: {complaint}", block.place))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    // The check finds faults.
    for (text, complaint) in [
        ("routes:\n  a: { match: { path: /a }, upstraem: b }\n", "unknown key `upstraem`"),
        ("- rate_limit: { requests: 0, per: 1m }\n", "expected"),
        ("listen: {}\nroutes:\n  a: { match: {}, upstream: gone }\n", "there is no upstream"),
    ] {
        let (place, language) = ("here".to_owned(), "yaml".to_owned());
        let wrong = wrong_with(&Block { place, language, text: text.to_owned() }, &schema);
        assert!(wrong.iter().any(|said| said.contains(complaint)), "{text}: {wrong:?}");
    }
}

#[test]
fn every_other_block_is_json_or_commands_or_counted() {
    let mut printed = 0;
    for block in blocks() {
        match block.language.as_str() {
            "json" => {
                let whole = serde_json::from_str::<Value>(&block.text).is_ok();
                let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
                assert!(whole || block.text.lines().all(is_json), "{}", block.place);
            }
            // `guide_steps` runs its commands and compares their output.
            "text" if block.place.starts_with(STEPS) => {}
            "text" if COMPARED.iter().any(|begin| block.text.starts_with(begin)) => {}
            "text" | "console" => printed += 1,
            "xml" if block.text.starts_with(ARTIFACT) => {}
            // `grpc::json` compiles it, and calls its service.
            "proto" if block.place.starts_with("docs/guide/grpc.md") => {}
            "yaml" | "sh" => {}
            other => panic!("{}: a block of {other:?} is not looked at by anything", block.place),
        }
    }
    assert!(printed <= PRINTED_MAX, "{printed} blocks show output; {PRINTED_MAX} are known");
}

/// The block of the guide that begins so.
fn shown(begin: &str) -> Block {
    let found = blocks().into_iter().find(|block| block.text.starts_with(begin));
    found.unwrap_or_else(|| panic!("no block begins with {begin}"))
}

const LISTEN: &str = "listen: { public: { address: \"127.0.0.1:8080\" } }\n";

#[test]
fn the_complaints_that_the_guide_shows_are_the_programs() {
    let shown = shown(COMPLAINTS);
    let excerpt = shown.text.lines().find_map(|line| line.trim_start().strip_prefix("| "));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    fs::write(&file, format!("{LISTEN}{}\n", excerpt.unwrap())).unwrap();
    let said = tidegate(&["check".as_ref(), file.as_os_str()]).stderr;
    let said = said.replace(file.to_str().unwrap(), "gateway.yaml");
    assert_eq!(said, shown.text, "{}", shown.place);
}

#[test]
fn the_import_that_the_guide_shows_is_the_programs() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("quotes.xml"), shown(ARTIFACT).text).unwrap();
    let stylesheet =
        r#"<xsl:stylesheet xmlns:xsl="http://www.w3.org/1999/XSL/Transform" version="1.0"/>"#;
    fs::write(folder.path().join("gold.xsl"), stylesheet).unwrap();
    let run = tidegate(&["import".as_ref(), "synapse".as_ref(), folder.path().as_os_str()]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    let (made, table) = (shown(IMPORTED), shown(TABLE));
    assert!(run.stdout.contains(&made.text), "{}: {}", made.place, run.stdout);
    assert!(run.stderr.contains(&table.text), "{}: {}", table.place, run.stderr);
}

#[test]
fn the_explanation_that_the_guide_shows_is_the_programs() {
    let shown = shown(EXPLAINED);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    let routes = "\
upstreams: { orders: { targets: [\"http://10.0.0.1:8080\"] } }
routes:
  orders:
    match: { path: \"/orders/**\", host: api.example.com }
    strip_prefix: /orders
    policies:
      - cors: { origins: [\"https://app.example.com\"] }
      - api_key: { header: x-api-key, keys: { ann: another } }
      - rate_limit: { requests: 10, per: 1s }
    upstream: orders
  gold:
    match: { path: \"/orders/**\", host: api.example.com, headers: { x-tier: gold } }
    upstream: orders
";
    fs::write(&file, format!("{LISTEN}{routes}")).unwrap();
    let request = ["GET", "http://api.example.com/orders/7", "-H", "x-api-key: the-key"];
    let said = tidegate(&[&["explain", file.to_str().unwrap()], &request[..]].concat());
    let said = said.stdout.replace(&format!("{}/", folder.path().display()), "");
    assert_eq!(said, shown.text, "{}", shown.place);
}

/// The configuration of the guide whose case passes, and fails where the flow calls another path.
#[test]
fn the_cases_that_the_guide_shows_are_the_programs() {
    let whole = blocks().into_iter().find(|block| block.text.contains("\ncases:\n")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (file, request) = (folder.path().join("gateway.yaml"), folder.path().join("request.http"));
    fs::write(&request, "GET /orders/7 HTTP/1.1\n\n").unwrap();
    fs::write(&file, &whole.text).unwrap();
    let passed = tidegate(&["test".as_ref(), file.as_os_str()]);
    assert_eq!(passed.code, Some(0), "{passed:?}");
    let run = ["explain".as_ref(), file.as_os_str(), "--run".as_ref(), request.as_os_str()];
    let traced = shown(TRACED);
    assert_eq!(tidegate(&run).stdout, traced.text, "{}", traced.place);
    fs::write(&file, whole.text.replace("\"/v2/{{", "\"/v1/{{")).unwrap();
    let said = tidegate(&["test".as_ref(), file.as_os_str()]).stdout;
    let (_, behind) = said.split_once(" ms)").unwrap();
    let failed = shown(FAILED);
    assert_eq!(format!("{FAILED}(5 ms){behind}"), failed.text, "{}", failed.place);
}

#[test]
fn the_differences_that_the_guide_shows_are_the_programs() {
    let shown = shown(DIFFERENCES);
    let folder = tempfile::tempdir().unwrap();
    let issuers = ["main", "other"].map(|name| {
        format!(
            "  {name}: {{ issuer: \"https://{name}.test\", jwks: \"https://{name}.test/jwks\" }}\n"
        )
    });
    let write = |name: &str, timeout: &str, gone: &str, policies: &str| {
        let file = folder.path().join(name);
        let text = format!(
            "{LISTEN}issuers:\n{}upstreams: {{ orders: {{ targets: [\"http://10.0.0.1:8080\"]{timeout} }} }}\n\
             routes:\n{gone}  a:\n    match: {{ path: /a }}\n    upstream: orders\n\
             \x20   policies: [cors: {{ origins: [\"https://app.example.com\"] }}, {policies}]\n",
            issuers.concat()
        );
        fs::write(&file, text).unwrap();
        file
    };
    let gone = "  gone: { match: { path: /gone }, respond: { status: 204 } }\n";
    let key = |key: &str| format!("api_key: {{ header: x-api-key, keys: {{ ann: {key} }} }}");
    let old = format!("jwt: {{ issuers: [main] }}, {}", key("one"));
    let new = format!(
        "ip_filter: {{ deny: [\"10.0.0.0/8\"] }}, jwt: {{ issuers: [main, other] }}, {}",
        key("two")
    );
    let old = write("old.yaml", "", gone, &old);
    let new = write("new.yaml", ", timeout: { response: 5s }", "", &new);
    let said = tidegate(&["diff".as_ref(), old.as_os_str(), new.as_os_str()]);
    assert_eq!(said.stdout, shown.text, "{}", shown.place);
}

/// Users of decK look for each of its commands, and the commands that they find are the program's.
#[test]
fn each_command_of_deck_has_a_row() {
    let page = read("docs/guide/kong.md");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `deck "))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    for command in [
        "gateway apply",
        "gateway diff",
        "gateway dump",
        "gateway ping",
        "gateway reset",
        "gateway sync",
        "gateway validate",
        "file add-plugins",
        "file add-tags",
        "file convert",
        "file kong2kic",
        "file kong2tf",
        "file lint",
        "file list-tags",
        "file merge",
        "file namespace",
        "file openapi2kong",
        "file patch",
        "file remove-tags",
        "file render",
        "file validate",
        "completion",
        "version",
    ] {
        let named = format!("`deck {command}`");
        let row = rows.iter().find(|row| row[1].contains(&named));
        let row = row.unwrap_or_else(|| panic!("{named} has no row"));
        for rest in row[2].split("`tidegate ").skip(1) {
            let word = rest.split([' ', '`']).next().unwrap();
            if !word.starts_with('-') {
                assert_eq!(tidegate(&["help", word]).code, Some(0), "{named}: {word}");
            }
        }
    }
}

#[test]
fn the_first_gateway_of_the_guide_answers_what_is_asked_there() {
    let steps = blocks().into_iter().filter(|block| block.place.contains("first-steps.md"));
    let steps: Vec<Block> = steps.collect();
    let yaml = steps.iter().find(|block| block.language == "yaml").unwrap();
    let backend = Backend::start("echo", &[]);
    let free = |text: &str, port: &str| text.replace(&format!("127.0.0.1:{port}"), "127.0.0.1:0");
    let text = yaml.text.replace("127.0.0.1:9001", &backend.address().to_string());
    let gateway = Gateway::start(free(&free(&text, "8080"), "9901"));
    let lines = steps.iter().filter(|block| block.language == "sh").flat_map(|b| b.text.lines());
    let asked: Vec<&str> =
        lines.filter_map(|line| line.strip_prefix("curl -i http://127.0.0.1:8080")).collect();
    assert_eq!(asked.len(), 2, "{asked:?}");
    for path in asked {
        let reply = gateway.wire().get(path);
        assert_eq!(reply.status(), 200, "{path}: {reply:?}");
        let seen = path.strip_prefix("/echo").map(|below| format!("GET {below} HTTP/1.1"));
        assert!(reply.text().contains(seen.as_deref().unwrap_or("hello")), "{path}: {reply:?}");
    }
}

#[test]
fn what_the_program_says_of_itself_is_what_the_guide_says() {
    let written = "run `make schema`";
    assert_eq!(tidegate(&["manual", "keys"]).stdout, read("docs/guide/reference.md"), "{written}");
    let pages = [
        ("faults", "docs/guide/errors.md"),
        ("metrics", "docs/guide/observe.md"),
        ("synapse", "docs/guide/synapse.md"),
    ];
    for (what, page) in pages {
        let page = read(page);
        let (_, rest) = page.split_once(&format!("<!-- {what}: ")).unwrap();
        let (_, rest) = rest.split_once("-->\n").unwrap();
        let (table, _) = rest.split_once(&format!("<!-- end of {what} -->")).unwrap();
        assert_eq!(tidegate(&["manual", what]).stdout, table, "{written}");
    }
}
