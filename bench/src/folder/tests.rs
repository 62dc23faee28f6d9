use std::time::Duration;

use super::sar::{Kind, Line, Report};
use super::*;
use crate::generator::Streams;

#[test]
fn rows_have_the_paths_of_the_reference() {
    let ours = RowKey::ours("DirectProxy", "2G", 100, 500, 0);
    assert_eq!(ours.path().to_str(), Some("DirectProxy/2G_heap/100_users/500B/0ms_sleep"));
    let peer = RowKey { gateway: "nginx".to_owned(), round: 3, delay: -1, ..ours.clone() };
    let path = "DirectProxy@nginx/2G_heap/100_users/500B/-1ms_sleep/round-3";
    assert_eq!(peer.path().to_str(), Some(path));
    for key in [ours, peer] {
        assert_eq!(RowKey::of_path(&key.path()), Some(key));
    }
    for other in [
        "",
        "DirectProxy",
        "a/2G_heap/100_users/500B/0ms_sleep/tidegate",
        "a/G_heap/100_users/500B/0ms_sleep",
        "a/20_heap/100_users/500B/0ms_sleep",
        "a/2G_heap/-1_users/500B/0ms_sleep",
        "a/2G_heap/1_users/500/0ms_sleep",
    ] {
        assert_eq!(RowKey::of_path(Path::new(other)), None, "{other}");
    }
}

#[test]
fn a_row_is_listed_once_it_is_finished() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::new(place.path().join("results"));
    assert!(folder.is_empty().unwrap());
    let keys = [9, 100].map(|users| RowKey::ours("jwt", "1G", users, 50, 0));
    let [first, second] = keys.each_ref().map(|key| folder.row(key));
    let duration = RowDuration { start_timestamp: 10, end_timestamp: 70, test_duration: 60 };
    second.write_duration(&duration).unwrap();
    assert!(!folder.is_empty().unwrap());
    assert!(folder.rows().unwrap().is_empty());
    for row in [&second, &first] {
        row.finish(&Row { document: "002".to_owned(), ..Row::default() }).unwrap();
    }
    let found: Vec<RowKey> = folder.rows().unwrap().into_iter().map(|row| row.key).collect();
    assert_eq!(found, keys);
    assert_eq!(second.duration().unwrap(), Some(duration));
    let text = fs::read_to_string(second.path.join("test_duration.json")).unwrap();
    assert!(text.contains(r#""start_timestamp": "10""#), "{text}");
    assert!(!second.path.join("row.json.part").exists());
    assert!(first.summary(Part::Measurement).unwrap().is_none());
}

#[test]
fn the_metadata_has_the_keys_and_forms_of_the_reference() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::new(place.path());
    let metadata = Metadata {
        test_duration: 900,
        message_sizes: vec![50, 1024],
        test_scenarios: vec![Scenario { use_backend: true, ..Scenario::default() }],
        ..Metadata::default()
    };
    folder.write_metadata(&metadata).unwrap();
    assert_eq!(folder.metadata().unwrap(), Some(metadata));
    let text = fs::read_to_string(place.path().join("test-metadata.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["test_duration"], "900");
    assert_eq!(json["message_sizes"], serde_json::json!(["50", "1024"]));
    assert_eq!(json["test_scenarios"][0]["use_backend"], "true");
    let names: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(
        names[..12],
        [
            "test_duration",
            "warmup_time",
            "jmeter_servers",
            "jmeter_client_heap_size",
            "jmeter_server_heap_size",
            "netty_service_heap_size",
            "test_scenarios",
            "heap_sizes",
            "concurrent_users",
            "message_sizes",
            "backend_sleep_times",
            "iteration_elements"
        ]
    );
    // The reference's own files have fewer keys, and others may write numbers.
    let theirs = r#"{"test_duration": 60, "message_sizes": [50, "100"]}"#;
    fs::write(place.path().join("test-metadata.json"), theirs).unwrap();
    let read = folder.metadata().unwrap().unwrap();
    assert_eq!((read.test_duration, read.message_sizes), (60, vec![50, 100]));
}

#[test]
fn statistics_are_those_of_the_splitter() {
    let mut histogram = hdrhistogram::Histogram::<u64>::new(3).unwrap();
    (1..=1000_u64).for_each(|ms| histogram.record(ms * 1_000_000).unwrap());
    let statistics = Statistics::of(&Measured {
        histogram: &histogram,
        mean: Some(Duration::from_micros(500_500)),
        errors: 3,
        window: Duration::from_secs(8),
        received_bytes: 8 << 20,
        sent_bytes: 1 << 20,
    });
    let near = |value: Option<f64>, wanted: f64| (value.unwrap() / wanted - 1.0).abs() < 0.002;
    assert_eq!((statistics.samples, statistics.errors), (1000, 3));
    assert_eq!((statistics.error_percentage, statistics.throughput), (Some(0.3), Some(125.0)));
    assert_eq!(statistics.mean, Some(500.5));
    assert_eq!(statistics.received_kbytes_rate, Some(1024.0));
    assert_eq!(statistics.sent_kbytes_rate, Some(128.0));
    assert!(near(statistics.median, 500.0) && near(statistics.p75, 750.0));
    assert!(near(statistics.p98, 980.0) && near(statistics.p999, 999.0));
    assert!(near(statistics.stddev, 288.67), "{statistics:?}");
    assert!((statistics.users_accounted().unwrap() - 62.5625).abs() < 1e-9);
    let summary =
        Summary(vec![("b".to_owned(), statistics), ("a".to_owned(), Statistics::default())]);
    let text = serde_json::to_string(&summary).unwrap();
    assert!(
        text.starts_with(r#"{"b":{"samples":1000,"errors":3,"errorPercentage":0.3,"#),
        "{text}"
    );
    assert!(text.contains(r#""receivedKBytesRate":1024.0,"sentKBytesRate":128.0}"#), "{text}");
    assert!(text.contains(r#""a":{"samples":0,"errors":0,"errorPercentage":null,"#), "{text}");
    assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), summary);
}

/// The mark follows the figures of the tables: throughput x mean.
#[test]
fn little_tells_a_lost_user() {
    let of = |throughput, mean| Statistics {
        throughput: Some(throughput),
        mean: Some(mean),
        ..Statistics::default()
    };
    let one = |throughput, mean| Summary(vec![(LABEL.to_owned(), of(throughput, mean))]);
    let row = Row { users: 1000, ..Row::default() };
    assert!(row.deviates_from_little(&one(3498.61, 264.78)), "926 users");
    assert!(!row.deviates_from_little(&one(3600.0, 265.0)), "954 users");
    assert!(row.deviates_from_little(&one(4000.0, 265.0)), "1060 users");
    assert!(row.deviates_from_little(&Summary::default()), "users who sent nothing are lost");
    // The ramp is a part of the measurement, and users pause.
    let ramped = Row { users: 65, users_mean: Some(54.3), ..Row::default() };
    assert!(!ramped.deviates_from_little(&one(38360.11, 1.41)));
    let thinking = Row { users: 10, think_ms: 990.0, ..Row::default() };
    assert!(!thinking.deviates_from_little(&one(10.0, 10.0)));
    assert!(thinking.deviates_from_little(&one(9.0, 10.0)));
    // 0.06 ms may be anything from 0.055 to 0.065 ms: these may be ten users.
    let ten = Row { users: 10, ..Row::default() };
    assert!(!ten.deviates_from_little(&one(180_000.0, 0.06)));
    // 40 and 60 of 50 and 50 users: together right, alone wrong.
    let shares = vec![("a".to_owned(), 50.0), ("b".to_owned(), 50.0)];
    let mixed = Row { users: 100, label_users: shares, ..Row::default() };
    let both = |a: f64| {
        Summary(vec![
            ("a".to_owned(), of(a * 10.0, 100.0)),
            ("b".to_owned(), of(1000.0 - a * 10.0, 100.0)),
        ])
    };
    assert!(mixed.deviates_from_little(&both(40.0)) && !mixed.deviates_from_little(&both(49.0)));
}

#[test]
fn tables_survive_a_round_trip_and_bad_lines_are_reported() {
    let place = tempfile::tempdir().unwrap();
    let row = Folder::new(place.path()).row(&RowKey::ours("jwt", "1G", 10, 50, 0));
    let samples = [
        ProcessSample { timestamp: 5, cpu_percent: Some(99.5), fds: Some(7), ..Default::default() },
        ProcessSample { timestamp: 6, load1: Some(0.25), ..Default::default() },
    ];
    row.write_process(OURS, &samples).unwrap();
    assert_eq!(row.process(OURS).unwrap().unwrap(), samples);
    let path = row.path.join("tidegate/tidegate_process.csv");
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "timestamp,cpu_percent,rss_kib,threads,fds,read_kib,written_kib,received_kib,sent_kib,load1\n\
         5,99.50,,,7,,,,,\n6,,,,,,,,,0.25\n"
    );
    let seconds = [
        Second {
            timestamp: 1,
            users: 2,
            samples: 3,
            errors: 1,
            mean_ms: Some(0.5),
            max_ms: Some(2.0),
        },
        Second { timestamp: 2, users: 2, ..Second::default() },
    ];
    row.write_seconds(&seconds).unwrap();
    assert_eq!(row.seconds().unwrap().unwrap(), seconds);
    for bad in ["7,1", "7,-1,,,,,,,,", "7,NaN,,,,,,,,", ",1,,,,,,,,", "7,,,,,,,,,,"] {
        let text = format!("{}\n5,,,,,,,,,\n{bad}\n", process::HEADER);
        fs::write(&path, text).unwrap();
        let told = format!("{:#}", row.process(OURS).unwrap_err());
        assert!(told.contains("tidegate_process.csv, line 3"), "{bad}: {told}");
    }
    fs::write(&path, "timestamp\n").unwrap();
    assert!(format!("{:#}", row.process(OURS).unwrap_err()).contains("the first line must be"));
}

#[test]
fn reports_of_sar_are_written_as_by_sadf() {
    let line = |timestamp, values: [f64; 2]| Line {
        interval: 1,
        timestamp,
        device: String::new(),
        values: values.map(Some).to_vec(),
    };
    let lines = vec![line(10, [1.0, 20.0]), line(11, [2.0, 40.0]), line(99, [9.0, 9.0])];
    let report = Report { kind: Kind::Task, hostname: "box".to_owned(), lines };
    let text = report.text();
    assert!(text.starts_with("hostname;interval;timestamp;proc/s;cswch/s\nbox;1;10;1.00;20.00\n"));
    assert_eq!(Report::parse(Kind::Task, &text).unwrap(), report);
    assert_eq!(Report::parse(Kind::Task, &format!("# {text}")).unwrap(), report);
    assert_eq!(report.averages(10, 12), [Some(1.5), Some(30.0)]);
    assert_eq!(report.averages(200, 300), [None, None]);
    // An older sar has other columns.
    let old = "# hostname;interval;timestamp;DEV;tps;await\nbox;1;5;sda;3.00;0.50\nbox;-1;6;LINUX-RESTART\t(2 CPU)\n";
    let disk = Report::parse(Kind::Disk, old).unwrap();
    let averages = disk.averages(0, 9);
    assert_eq!((averages[0], averages[1], averages[6]), (Some(3.0), None, Some(0.5)));
    assert!(Report::parse(Kind::Disk, "hostname;interval;timestamp;DEV\nbox;1;x;sda\n").is_err());
    assert!(Report::parse(Kind::Disk, "hostname;interval;timestamp\n").is_err());
}

#[test]
fn marks_have_the_names_of_row_json() {
    let json = r#"{"document":"003","scenario":"websocket-5","users":400,"size":500,"delay":-1,"measured_seconds":60.0,
        "marks":["little","generator","backend","backend stopped","gateway stopped","agent lost","disk full","clock jumped"],
        "corrected":null,"streams":{"attempted":400,"failed":0,"sent":9,"received":9,"error_rate":0.0}}"#;
    let row: Row = serde_json::from_str(json).unwrap();
    for mark in &row.marks {
        assert_eq!(serde_json::to_value(mark).unwrap(), mark.name());
    }
    assert!(matches!(row.streams, Some(Streams::Websocket(counts)) if counts.attempted == 400));
    let text = serde_json::to_string(&row).unwrap();
    assert!(text.ends_with(r#""error_rate":0.0}}"#), "{text}");
    assert!(serde_json::from_str::<Row>(&json.replace("delay", "dealy")).is_err());
}
