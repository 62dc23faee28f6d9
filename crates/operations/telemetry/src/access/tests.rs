//! The access log: lines as data, and the thread that writes them.

use super::*;
use crate::Telemetry;
use expect_test::{Expect, expect};
use std::fs;
use std::net::Ipv4Addr;

fn entry() -> AccessEntry<'static> {
    AccessEntry {
        time: Duration::from_millis(1_700_000_000_123),
        client: Ipv4Addr::new(192, 0, 2, 7).into(),
        method: b"GET",
        host: Some(b"api.example.com"),
        path: b"/orders/7?a=b",
        protocol: "HTTP/1.1",
        status: 200,
        request_bytes: 0,
        reply_bytes: 1234,
        duration: Duration::from_nanos(12_345_678),
        upstream_wait: Duration::from_micros(12_300),
        client_wait: Duration::ZERO,
        route: Some("orders"),
        upstream: Some("orders"),
        upstream_target: Some("10.0.0.1:8080"),
        request_id: Some(b"abc-1"),
        trace: None,
        user_agent: Some(b"curl/8"),
        tls: Some("TLSv1.3"),
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
    }
}

fn line(format: &Format, entry: &AccessEntry<'_>) -> String {
    let mut line = Vec::new();
    format.write(entry, &mut line);
    String::from_utf8(line).expect("a line is UTF-8 whatever the request was")
}

fn check(format: &Format, entry: &AccessEntry<'_>, expected: Expect) {
    expected.assert_eq(&line(format, entry));
}

fn template(text: &str) -> Format {
    Format::Template(Template::parse(text).unwrap())
}

/// A user agent as it appears in JSON.
fn json_agent(agent: &[u8]) -> String {
    let text = line(&Format::Json, &AccessEntry { user_agent: Some(agent), ..entry() });
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["user_agent"].as_str().unwrap().to_owned()
}

#[test]
fn a_json_line_has_every_field() {
    let fault = AccessEntry {
        status: 503,
        fault: Some("no_target"),
        cause: Some("all ejected"),
        ..entry()
    };
    let whole = AccessEntry {
        operation: Some("Add"),
        soap_fault: Some("server"),
        subject: Some("alice"),
        retries: 2,
        events: Some(3),
        stream_end: Some("quota"),
        grpc_status: Some(grpc::Outcome::Other),
        trace: Some(SpanIds { trace_id: [1; 16], span_id: [2; 8], sampled: true }),
        ..fault
    };
    check(
        &Format::Json,
        &entry(),
        expect![[
            r#"{"time":"2023-11-14T22:13:20.123Z","client":"192.0.2.7","method":"GET","host":"api.example.com","path":"/orders/7?a=b","protocol":"HTTP/1.1","status":200,"request_bytes":0,"reply_bytes":1234,"duration_ms":12.345,"upstream_ms":12.300,"own_ms":0.045,"route":"orders","upstream":"orders","upstream_target":"10.0.0.1:8080","request_id":"abc-1","user_agent":"curl/8","tls":"TLSv1.3"}"#
        ]],
    );
    check(
        &Format::Json,
        &fault,
        expect![[
            r#"{"time":"2023-11-14T22:13:20.123Z","client":"192.0.2.7","method":"GET","host":"api.example.com","path":"/orders/7?a=b","protocol":"HTTP/1.1","status":503,"request_bytes":0,"reply_bytes":1234,"duration_ms":12.345,"upstream_ms":12.300,"own_ms":0.045,"route":"orders","upstream":"orders","upstream_target":"10.0.0.1:8080","request_id":"abc-1","user_agent":"curl/8","tls":"TLSv1.3","fault":"no_target","cause":"all ejected"}"#
        ]],
    );
    let unread = AccessEntry { method: b"", path: b"", ..entry() };
    let unread = line(&Format::Json, &unread);
    assert!(!unread.contains("method") && !unread.contains("path"), "{unread}");
    let value: serde_json::Value = serde_json::from_str(&line(&Format::Json, &whole)).unwrap();
    let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let mut names: Vec<_> = Field::ALL.iter().map(|field| field.name()).collect();
    names.sort_by_key(|name| keys.iter().position(|key| key == name));
    assert_eq!(keys, names);
}

#[test]
fn a_template_line_has_what_was_asked() {
    let common = template(
        "{client} - [{time}] \"{method} {path} {protocol}\" {status} {reply_bytes} {fault} {{x}}",
    );
    check(
        &common,
        &entry(),
        expect![[
            r#"192.0.2.7 - [2023-11-14T22:13:20.123Z] "GET /orders/7?a=b HTTP/1.1" 200 1234 - {x}"#
        ]],
    );
    check(
        &template("{duration_ms} {own_ms} {host}"),
        &AccessEntry { host: None, ..entry() },
        expect!["12.345 0.045 -"],
    );
}

#[test]
fn times_and_numbers_are_exact() {
    let time = |millis| {
        line(&template("{time}"), &AccessEntry { time: Duration::from_millis(millis), ..entry() })
    };
    let times = [
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        (1_735_689_599_001, "2024-12-31T23:59:59.001Z"),
    ];
    for (millis, expected) in times {
        assert_eq!(time(millis), expected);
    }
    let numbers = AccessEntry {
        reply_bytes: u64::MAX,
        duration: Duration::from_micros(1_000_040),
        ..entry()
    };
    assert_eq!(
        line(&template("{request_bytes} {reply_bytes} {duration_ms}"), &numbers),
        "0 18446744073709551615 1000.040"
    );
}

#[test]
fn no_request_can_forge_a_line() {
    let attacks: [&[u8]; 8] = [
        b"a\nb",
        b"a\r\nb\x00\x1b[31m",
        b"\"},{\"status\":\"200\"",
        b"back\\slash\\",
        b"\xff\xfe\xc3",
        "\u{2028}\u{202e}\u{85}\u{feff}".as_bytes(),
        b"\\n\\u000a",
        b"",
    ];
    for attack in attacks {
        let hostile = AccessEntry {
            method: attack,
            host: Some(attack),
            path: attack,
            request_id: Some(attack),
            user_agent: Some(attack),
            ..entry()
        };
        let json = line(&Format::Json, &hostile);
        let value: serde_json::Value = serde_json::from_str(&json).expect(&json);
        // A line without method and path is for an unreadable head.
        let fields = if attack.is_empty() { 16 } else { 18 };
        assert_eq!(value.as_object().unwrap().len(), fields, "{json}");
        assert_eq!(value["status"], 200, "{json}");
        let plain =
            line(&template("{method} \"{user_agent}\" {host} {path} {request_id}"), &hostile);
        assert_eq!(plain.matches('"').count(), 2, "{plain}");
        for text in [json, plain] {
            assert!(
                !text.chars().any(|c| c.is_control() || c == '\u{2028}' || c == '\u{202e}'),
                "{text}"
            );
        }
    }
}

#[test]
fn text_is_escaped_without_loss() {
    let kept = [
        "plain",
        "quote\" back\\slash",
        "tab\tnew\nline",
        "Grüße 🎉",
        "\u{2028}\u{202e}\u{7f}\u{9f}",
    ];
    for text in kept {
        assert_eq!(json_agent(text.as_bytes()), text);
    }
    assert_eq!(json_agent(b"a\xffb\xc3"), "a\\xffb\\xc3", "bytes that are not UTF-8 are shown");
    let long = json_agent(&[b'x'; format::TEXT_BYTES_MAX + 1]);
    assert_eq!((long.len(), long.ends_with("x...")), (format::TEXT_BYTES_MAX + 3, true));
    let agent = AccessEntry { user_agent: Some("é\"\\".as_bytes()), ..entry() };
    assert_eq!(line(&template("{user_agent}"), &agent), r"\xc3\xa9\x22\x5c");
}

#[test]
fn lines_of_all_workers_reach_the_file_and_reopening_follows_a_rename() {
    let folder = tempfile::tempdir().unwrap();
    let (path, old) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
    let telemetry = Telemetry::new(2);
    let log = AccessLog::start(template("{status} {path}"), Sink::File(path.clone()), &telemetry)
        .unwrap();
    log.write(0, &entry());
    log.write(1, &AccessEntry { status: 404, ..entry() });
    fs::rename(&path, &old).unwrap();
    log.reopen();
    while !path.exists() {
        std::thread::yield_now();
    }
    log.write(0, &AccessEntry { status: 500, ..entry() });
    assert!(log.close());
    assert_eq!(fs::read_to_string(old).unwrap(), "200 /orders/7?a=b\n404 /orders/7?a=b\n");
    assert_eq!(fs::read_to_string(path).unwrap(), "500 /orders/7?a=b\n");
    assert_eq!(telemetry.total(Total::AccessLogDropped).get(), 0);
}

#[test]
fn a_line_is_written_even_if_no_other_line_follows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let log = AccessLog::start(Format::Json, Sink::File(path.clone()), &Telemetry::new(1)).unwrap();
    log.write(0, &entry());
    while fs::read(&path).unwrap().is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn lines_that_the_sink_does_not_accept_are_dropped_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let status = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(status.success());
    // This pipe is never read: it accepts 64 KiB, then the writer's thread blocks.
    let reader = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let telemetry = Telemetry::new(1);
    let log = AccessLog::start(Format::Json, Sink::File(path), &telemetry).unwrap();
    while telemetry.total(Total::AccessLogDropped).get() < 10 {
        log.write(0, &entry());
    }
    assert!(telemetry.render().lines().any(|line| {
        line.strip_prefix("tidegate_access_log_dropped_total ")
            .is_some_and(|n| n.parse::<u64>().unwrap() >= 10)
    }));
    drop((log, reader));
}

#[test]
fn a_sink_that_fails_counts_the_lines_it_lost() {
    let telemetry = Telemetry::new(1);
    let log = AccessLog::start(Format::Json, Sink::File("/dev/full".into()), &telemetry).unwrap();
    log.write(0, &entry());
    log.write(0, &entry());
    assert!(log.close());
    assert_eq!(telemetry.total(Total::AccessLogDropped).get(), 2);
}

#[test]
fn a_sink_that_cannot_be_opened_is_an_error() {
    let missing = Sink::File("/nonexistent/folder/access.log".into());
    assert!(AccessLog::start(Format::Json, missing, &Telemetry::new(1)).is_err());
}

#[test]
fn a_worker_that_does_not_exist_loses_its_lines_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let telemetry = Telemetry::new(1);
    let log = AccessLog::start(Format::Json, Sink::File(path), &telemetry).unwrap();
    log.write(9, &entry());
    assert_eq!(telemetry.total(Total::AccessLogDropped).get(), 1);
}
