//! The cost of recording one exchange: `cargo bench -p telemetry`.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Duration;
use telemetry::access::{AccessEntry, AccessLog, Format, Sink, Template};
use telemetry::{Record, ScrapeFormat, Telemetry};

fn main() {
    divan::main();
}

#[divan::bench]
fn record(bencher: divan::Bencher<'_, '_>) {
    let telemetry = Telemetry::new(2);
    let route = telemetry.route("orders");
    let record = Record {
        worker: 1,
        route: Some(&route),
        status: 200,
        fault: None,
        grpc: None,
        duration: Duration::from_micros(312),
        upstream: Duration::from_micros(300),
        client: Duration::ZERO,
        request_bytes: 1024,
        reply_bytes: 1024,
        exemplar: None,
    };
    bencher.bench_local(|| telemetry.record(black_box(&record)));
}

#[divan::bench]
fn record_fault(bencher: divan::Bencher<'_, '_>) {
    let telemetry = Telemetry::new(2);
    let labels: Vec<&'static str> = (0..26).map(|n| &*format!("reason_{n}").leak()).collect();
    for fault in &labels {
        telemetry.record(&Record { fault: Some(fault), ..Record::default() });
    }
    let record = Record { status: 503, fault: labels.last().copied(), ..Record::default() };
    bencher.bench_local(|| telemetry.record(black_box(&record)));
}

#[divan::bench(args = ["json", "template"])]
fn access_line(bencher: divan::Bencher<'_, '_>, format: &str) {
    let template = Template::parse(
        "{client} [{time}] \"{method} {path} {protocol}\" {status} {reply_bytes} {duration_ms}",
    );
    let format = match (format, template) {
        ("template", Ok(template)) => Format::Template(template),
        _ => Format::Json,
    };
    let telemetry = Telemetry::new(1);
    let Ok(log) = AccessLog::start(format, Sink::File("/dev/null".into()), &telemetry) else {
        return;
    };
    let entry = AccessEntry {
        time: Duration::from_millis(1_700_000_000_123),
        client: Ipv4Addr::new(192, 0, 2, 7).into(),
        method: b"POST",
        host: Some(b"api.example.com"),
        path: b"/orders/7",
        protocol: "HTTP/1.1",
        status: 200,
        request_bytes: 1024,
        reply_bytes: 1024,
        duration: Duration::from_micros(312),
        upstream_wait: Duration::from_micros(300),
        route: Some("orders"),
        upstream: Some("orders"),
        upstream_target: Some("10.0.0.1:8080"),
        request_id: Some(b"5f1d3b2a9c8e7f60"),
        trace: None,
        client_wait: Duration::ZERO,
        user_agent: Some(b"curl/8.5.0"),
        tls: None,
        fault: None,
        cause: None,
        operation: None,
        soap_fault: None,
        subject: None,
        retries: 0,
        events: None,
        stream_end: None,
        grpc_status: None,
        extra: &[],
    };
    bencher.bench_local(|| log.write(0, black_box(&entry)));
}

/// A scrape of a gateway with 5,000 routes, of which `busy` have served a request.
#[divan::bench(args = [0, 100, 5_000], max_time = 2)]
fn render(bencher: divan::Bencher<'_, '_>, busy: usize) {
    let telemetry = Telemetry::new(2);
    let routes: Vec<_> = (0..5_000).map(|n| telemetry.route(&format!("route-{n}"))).collect();
    for route in routes.iter().take(busy) {
        telemetry.record(&Record { route: Some(route), status: 200, ..Record::default() });
    }
    bencher.bench_local(|| {
        let mut bytes = 0;
        let scraped = telemetry.scrape(ScrapeFormat::PlainText, &mut |piece| {
            bytes += piece.len();
            Ok(())
        });
        (scraped, bytes)
    });
}
