//! Measures 5,000 routes: reading them, compiling them, recompiling them unchanged, and finding one for a request.
//!
//! `cargo bench -p compile` prints the times. Each must be well below a second, and finding a route below a microsecond.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use config::LoadedConfig;
use message::{Protocol, RequestHead};
use plan::Arrival;
use plan::telemetry::Telemetry;

fn main() {
    divan::main();
}

const ROUTES: usize = 5_000;

const ARRIVAL: Arrival<'static> =
    Arrival { listener: "public", client: IpAddr::V4(Ipv4Addr::LOCALHOST), server_name: None };

#[divan::bench(sample_count = 10)]
fn read(bencher: divan::Bencher<'_, '_>) {
    let text = text();
    bencher.bench_local(|| config::parse(&text, Path::new("gate.yaml")));
}

#[divan::bench(sample_count = 10)]
fn compile(bencher: divan::Bencher<'_, '_>) {
    let loaded = loaded();
    bencher.bench_local(|| compile::compile(&loaded, None, &Telemetry::new(2)).map(drop));
}

#[divan::bench(sample_count = 10)]
fn compile_again(bencher: divan::Bencher<'_, '_>) {
    let (loaded, telemetry) = (loaded(), Telemetry::new(2));
    let first = compile::compile(&loaded, None, &telemetry).map(|compiled| compiled.plan).ok();
    bencher.bench_local(|| compile::compile(&loaded, first.as_ref(), &telemetry).map(drop));
}

#[divan::bench]
fn find(bencher: divan::Bencher<'_, '_>) {
    let Ok(compiled) = compile::compile(&loaded(), None, &Telemetry::new(1)) else { return };
    let table = compiled.plan.table;
    let mut head =
        RequestHead::new(Protocol::Http11, b"GET", b"/team7/service3707/42/orders?page=2");
    head.headers.add_known("Host", b"h7.example.com");
    let found = table.find(ARRIVAL, &head, head.path()).map(|found| found.route.name.clone());
    assert_eq!(found.as_deref(), Some("r3707"));
    bencher.bench_local(|| table.find(ARRIVAL, divan::black_box(&head), head.path()).is_some());
}

fn loaded() -> LoadedConfig {
    let loaded = config::parse(&text(), Path::new("gate.yaml"));
    assert!(loaded.report.is_empty(), "{}", loaded.report);
    loaded
}

fn text() -> String {
    let mut text = String::from("listen: { a: { address: \"127.0.0.1:0\" } }\nupstreams:\n");
    for n in 0..ROUTES / 10 {
        text.push_str(&format!("  u{n}: {{ targets: [\"http://10.0.0.1:{}\"] }}\n", 1000 + n));
    }
    text.push_str("routes:\n");
    for n in 0..ROUTES {
        text.push_str(&format!(
            "  r{n}:\n    match: {{ path: \"/team{}/service{n}/{{id}}/**\", host: h{}.example.com, methods: [GET, POST] }}\n",
            n % 50,
            n % 100,
        ));
        text.push_str(&format!("    strip_prefix: /team{}\n    upstream: u{}\n", n % 50, n / 10));
        text.push_str("    policies: [{ headers: { request: { set: { x-a: b } } } }]\n");
    }
    text
}
