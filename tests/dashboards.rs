//! deploy/grafana: the series that its dashboards query are there, by name and label.
//!
//! For the gateway, the series are those of a running one after some traffic. For k6 and pods, they are stored in `dashboards/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::harness::{Backend, Gateway, Origin, Wire, until};
use crate::websocket::{Client, service};

#[path = "dashboards/promql.rs"]
mod promql;

use promql::{Operator, Reading, read};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy");
const WSDL: &str = include_str!("../examples/soap/calculator/calculator.wsdl");
const ADD: &str = include_str!("../examples/soap/add.xml");

/// Labels that Prometheus adds to all series.
const OF_PROMETHEUS: [&str; 2] = ["job", "instance"];

/// The samples there are: by name, the labels of each.
type Samples = BTreeMap<String, Vec<BTreeMap<String, String>>>;

fn samples(text: &str) -> Samples {
    let mut samples = Samples::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        // A sample is a selector followed by its value.
        let (selector, _value) = line.rsplit_once(' ').unwrap();
        let Reading { selectors, .. } = read(selector).unwrap();
        let [selector] = &selectors[..] else { panic!("{line}") };
        let labels = selector.labels.iter().map(|one| (one.name.clone(), one.value.clone()));
        samples.entry(selector.name.clone()).or_default().push(labels.collect());
    }
    samples
}

/// One question of a dashboard: the title of its panel, the expression and the text of its legend.
struct PanelQuery {
    panel: String,
    expression: String,
    legend: String,
}

struct Dashboard {
    json: Value,
    variables: Vec<(String, String)>,
    asked: Vec<PanelQuery>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

fn dashboard(name: &str) -> Dashboard {
    let file = fs::read_to_string(format!("{FOLDER}/grafana/dashboards/{name}.json")).unwrap();
    let json: Value = serde_json::from_str(&file).unwrap();
    let variables = json["templating"]["list"].as_array().unwrap().iter();
    let variables = variables.map(|one| (text(&one["name"]), text(&one["query"]))).collect();
    let asked = json["panels"].as_array().unwrap().iter().flat_map(|panel| {
        let targets = panel["targets"].as_array().unwrap().iter();
        targets.map(|target| PanelQuery {
            panel: text(&panel["title"]),
            expression: text(&target["expr"]),
            legend: text(&target["legendFormat"]),
        })
    });
    let asked = asked.collect();
    Dashboard { variables, asked, json }
}

/// The faults of a dashboard: names in its queries that nothing exports.
fn faults(dashboard: &Dashboard, samples: &Samples) -> Vec<String> {
    let known: BTreeSet<&str> = dashboard.variables.iter().map(|(name, _)| name.as_str()).collect();
    let mut faults = Vec::new();
    for (name, query) in &dashboard.variables {
        let asked = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let Some((metric, label)) = asked.and_then(|asked| asked.split_once(", ")) else {
            faults.push(format!("${name}: {query}"));
            continue;
        };
        faults.extend(missing(metric, label, samples).map(|why| format!("${name}: {why}")));
    }
    for PanelQuery { panel, expression, legend } in &dashboard.asked {
        match read(expression) {
            Err(why) => faults.push(format!("{panel}: {why}: {expression}")),
            Ok(reading) => {
                let of = reading_faults(&reading, legend, &known, samples);
                faults.extend(of.into_iter().map(|why| format!("{panel}: {why}: {expression}")));
            }
        }
    }
    faults
}

fn missing(metric: &str, label: &str, samples: &Samples) -> Option<String> {
    match samples.get(metric) {
        None => Some(format!("there is no {metric}")),
        Some(_) if OF_PROMETHEUS.contains(&label) => None,
        Some(of) if of.iter().any(|labels| labels.contains_key(label)) => None,
        Some(_) => Some(format!("{metric} has no {label}")),
    }
}

fn reading_faults(
    reading: &Reading,
    legend: &str,
    variables: &BTreeSet<&str>,
    samples: &Samples,
) -> Vec<String> {
    let mut faults = Vec::new();
    if reading.selectors.is_empty() {
        faults.push("it asks for nothing".to_owned());
    }
    for name in &reading.variables {
        if !variables.contains(name.as_str()) && !name.starts_with("__") {
            faults.push(format!("there is no variable ${name}"));
        }
    }
    let in_legend = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
    for label in in_legend {
        if !reading.grouped.iter().any(|grouped| grouped == label) {
            faults.push(format!("the legend's {label} is not grouped by"));
        }
    }
    for selector in &reading.selectors {
        let Some(of) = samples.get(&selector.name) else {
            faults.push(format!("there is no {}", selector.name));
            continue;
        };
        let asked = selector.labels.iter().map(|one| &one.name).chain(&reading.grouped);
        faults.extend(asked.filter_map(|label| missing(&selector.name, label, samples)));
        for label in selector.labels.iter().filter(|one| one.operator == Operator::Equal) {
            let own = OF_PROMETHEUS.contains(&label.name.as_str());
            let told = of.iter().any(|labels| labels.get(&label.name) == Some(&label.value));
            if !own && !told {
                faults.push(format!("no {} has {}={:?}", selector.name, label.name, label.value));
            }
        }
    }
    faults
}

/// The metrics of a gateway that had requests of all sorts.
fn of_a_running_gateway() -> Samples {
    let calculator = Backend::start("calculator", &[]);
    let origin = Origin::echo();
    let gateway = Gateway::start_beside(
        format!(
            r#"
listen: {{ public: {{ address: "127.0.0.1:0", limits: {{ connections_max: 1 }} }} }}
admin: {{ address: "127.0.0.1:0" }}
upstreams:
  echo: {{ targets: ["{}"] }}
  calculator: {{ targets: ["{}"] }}
  away: {{ targets: ["http://127.0.0.1:1"] }}
routes:
  echo: {{ match: {{ path: "/echo" }}, upstream: echo }}
  away: {{ match: {{ path: "/away" }}, upstream: away }}
  soap:
    match: {{ path: "/soap" }}
    policies: [{{ soap: {{ schema: calculator.wsdl }} }}]
    upstream: calculator
"#,
            origin.url(),
            calculator.url
        ),
        &[("calculator.wsdl", WSDL)],
    );
    let mut wire = gateway.wire();
    let soap = format!(
        "POST /soap HTTP/1.1\r\nHost: a\r\nContent-Type: text/xml\r\nContent-Length: {}\r\n\r\n{ADD}",
        ADD.len()
    );
    assert_eq!(wire.ask(soap).status(), 200);
    for (path, status) in [("/echo", 200), ("/nowhere", 404), ("/away", 502)] {
        assert_eq!(wire.get(path).status(), status, "{path}");
    }
    // One above the limit is refused.
    drop(Wire::connect(gateway.address("public")));
    let told = || gateway.admin_get("/metrics").text();
    until("a connection was refused", || {
        told().contains("tidegate_connections_refused_total{listener=\"public\"")
    });
    samples(&told())
}

/// The metrics of a gateway that has open streams, flows, a queue with a dead message, a schedule, and a hub.
fn of_messages_and_streams() -> Samples {
    let ticks = Backend::start("sse", &[]);
    let chat = service(vec![]);
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
admin: {{ address: "127.0.0.1:0" }}
store: {{ path: var }}
upstreams:
  ticks: {{ targets: ["{}"] }}
  chat: {{ targets: ["{}"] }}
  away: {{ targets: ["http://127.0.0.1:1"] }}
flows:
  keep: [{{ store: {{ queue: work }} }}]
  send: [{{ call: away }}]
  tick: [{{ set: {{ a: b }} }}, {{ respond: {{}} }}]
queues: {{ work: {{ flow: send, retry: {{ attempts: 1 }} }} }}
schedules: {{ tick: {{ every: 1s, flow: tick }} }}
hubs: {{ news: {{ topics: [sports], verify: false, callbacks: {{ allow: ["127.0.0.0/8"] }}, delivery: {{ retries: 0 }} }} }}
routes:
  kept: {{ match: {{ path: /kept }}, flow: keep }}
  news: {{ match: {{ path: "/news/**" }}, hub: news }}
  ticks: {{ match: {{ path: "/sse/**" }}, policies: [sse: {{ events: 2, per: 1h }}], upstream: ticks }}
  chat: {{ match: {{ path: /chat }}, policies: [websocket: {{ messages: 9, per: 1h }}], upstream: chat }}
"#,
        ticks.url,
        chat.url()
    ));
    let mut client = Client::open(&gateway, "/chat", "");
    client.send(0x81, b"a message");
    for request in [
        "POST /kept",
        "GET /sse/ticks?interval=20ms",
        "POST /news?hub.mode=subscribe&hub.topic=sports&hub.callback=http://127.0.0.1:1/c",
        "POST /news/publish?topic=sports",
    ] {
        let length = if request.starts_with("POST") { "Content-Length: 0\r\n" } else { "" };
        let reply = gateway.wire().ask(format!("{request} HTTP/1.1\r\nHost: a\r\n{length}\r\n"));
        assert!((200..300).contains(&reply.status()), "{request}: {reply:?}");
    }
    let told = || gateway.admin_get("/metrics").text();
    for sample in [
        "tidegate_stream_ends_total{",
        "tidegate_websocket_messages_total{",
        "tidegate_queue_dead_messages{queue=\"work\"} 1",
        "tidegate_schedule_last_run_timestamp_seconds{",
        "tidegate_hub_deliveries_total{",
    ] {
        until(sample, || told().contains(sample));
    }
    samples(&told())
}

fn kept(name: &str) -> Samples {
    samples(&fs::read_to_string(format!("{FOLDER}/../tests/dashboards/{name}.prom")).unwrap())
}

#[test]
fn what_the_dashboards_ask_for_is_told() {
    let messages = of_messages_and_streams();
    for (name, samples, questions) in [
        ("gateway", of_a_running_gateway(), 40),
        ("streams", messages.clone(), 13),
        ("flows", messages.clone(), 16),
        ("hubs", messages, 10),
        ("k6", kept("k6"), 15),
        ("pods", kept("pods"), 8),
    ] {
        let dashboard = dashboard(name);
        assert_eq!(faults(&dashboard, &samples), [""; 0], "{name}");
        assert!(dashboard.asked.len() >= questions, "{name}: {}", dashboard.asked.len());
    }
}

#[test]
fn a_wrong_name_is_found() {
    let samples = samples("up{job=\"a\",route=\"b\"} 1\nother 2\n");
    let with = |expression: &str, legend: &str, query: &str| {
        let asked =
            PanelQuery { panel: "p".into(), expression: expression.into(), legend: legend.into() };
        let variables = vec![("route".to_owned(), query.to_owned())];
        let dashboard = Dashboard { json: Value::Null, variables, asked: vec![asked] };
        faults(&dashboard, &samples)
    };
    let values = "label_values(up, route)";
    let good =
        "sum by (route) (rate(up{route=~\"$route\", job=\"tidegate\"}[$__rate_interval])) / 2";
    assert_eq!(with(good, "{{route}}", values), [""; 0]);
    for (expression, legend, query, part) in [
        (good, "{{rout}}", values, "the legend's rout"),
        (good, "", "label_values(upp, route)", "there is no upp"),
        (good, "", "label_values(up, rout)", "up has no rout"),
        (good, "", "up", "$route: up"),
        ("rate(upp[5m])", "", values, "there is no upp"),
        ("up + on (route) upp", "", values, "there is no upp"),
        ("up{rout=\"b\"}", "", values, "up has no rout"),
        ("up{route=\"c\"}", "", values, "no up has route=\"c\""),
        ("sum by (rout) (up)", "", values, "up has no rout"),
        ("sum(up) by (rout)", "", values, "up has no rout"),
        ("sum by (route) (other)", "", values, "other has no route"),
        ("up{route=~\"$rout\"}", "", values, "no variable $rout"),
        ("rat(up[5m])", "", values, "no function rat"),
        ("up[5m", "", values, "not closed"),
        ("sum(up))", "", values, "not opened"),
        ("up{route=\"b}", "", values, "not closed"),
        ("1 + 2", "", values, "asks for nothing"),
    ] {
        let found = with(expression, legend, query);
        assert!(found.iter().any(|fault| fault.contains(part)), "{expression} {query}: {found:?}");
    }
}

/// The files that Grafana reads at its start lead to the dashboards, and these to the source.
#[test]
fn sources_and_dashboards_are_provisioned_as_files() {
    let read = |name: &str| fs::read_to_string(format!("{FOLDER}/{name}")).unwrap();
    let source = read("grafana/provisioning/datasources/prometheus.yaml");
    let uid = source.lines().find_map(|line| line.trim().strip_prefix("uid: ")).unwrap();
    let provider = read("grafana/provisioning/dashboards/tidegate.yaml");
    let (_, folder) = provider.split_once("options: { path: ").unwrap();
    let folder = folder.split(' ').next().unwrap();
    let started = read("monitoring.yaml");
    assert!(started.contains(&format!("./grafana/dashboards:{folder}:ro")), "{started}");
    assert!(started.contains("./grafana/provisioning:/etc/grafana/provisioning:ro"), "{started}");
    assert!(started.contains("PROMETHEUS_URL:") && source.contains("url: ${PROMETHEUS_URL}"));
    let job = read("prometheus.yaml");
    let (mut uids, mut found) = (BTreeSet::new(), 0);
    for entry in fs::read_dir(format!("{FOLDER}/grafana/dashboards")).unwrap() {
        let name = entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned();
        let Dashboard { json, asked, .. } = dashboard(&name);
        let (mut named, mut stack) = (0, vec![&json]);
        while let Some(value) = stack.pop() {
            if let Some(source) = value.get("datasource") {
                assert_eq!((&source["type"], &source["uid"]), (&"prometheus".into(), &uid.into()));
                named += 1;
            }
            stack.extend(value.as_object().into_iter().flat_map(|members| members.values()));
            stack.extend(value.as_array().into_iter().flatten());
        }
        assert!(named > asked.len(), "{name}");
        assert!(uids.insert(text(&json["uid"])), "{name} has the uid of another");
        for PanelQuery { expression, .. } in &asked {
            if let Some((_, rest)) = expression.split_once("job=\"") {
                let wanted = rest.split('"').next().unwrap();
                assert!(job.contains(&format!("job_name: {wanted}\n")), "{expression}");
            }
        }
        found += 1;
    }
    assert_eq!(found, 6, "the gateway, streams, flows, hubs, k6 and pods");
}
