use super::*;
use crate::folder::{
    Cost, Folder, Mark, Metadata, OURS, OwnLatency, Part, Row, RowKey, Statistics, Summary,
};
use crate::folder::{ProcessSample, RowDuration, Second, sar};
use crate::generator::{Streams, WebSocketCounts};

fn statistics(throughput: f64, mean: f64) -> Statistics {
    Statistics {
        samples: 1000,
        error_percentage: Some(0.0),
        throughput: Some(throughput),
        mean: Some(mean),
        p90: Some(mean * 2.0),
        p95: Some(mean * 2.5),
        p99: Some(mean * 3.0),
        ..Statistics::default()
    }
}

fn put(folder: &Folder, document: &str, key: &RowKey, throughput: f64, mean: f64) {
    let row = folder.row(key);
    let label = crate::folder::LABEL.to_owned();
    row.write_summary(Part::Measurement, &Summary(vec![(label, statistics(throughput, mean))]))
        .unwrap();
    let content = Row {
        document: document.to_owned(),
        scenario: key.scenario.clone(),
        users: key.users,
        size: key.size,
        delay: key.delay,
        measured_seconds: 60.0,
        ..Row::default()
    };
    row.finish(&content).unwrap();
}

/// Returns rows of document 002 with the documented parameters, of flows, of SOAP and of a peer.
pub(super) fn filled(place: &std::path::Path) -> Results {
    let folder = Folder::new(place);
    folder.write_metadata(&Metadata { test_duration: 900, ..Metadata::default() }).unwrap();
    for users in [10, 50, 100, 200, 500, 1000] {
        for (size, rate) in [(50, 6000.0), (1024, 5500.0), (10_240, 5000.0), (102_400, 2000.0)] {
            let mean = f64::from(users) / rate * 1000.0;
            put(&folder, "002", &RowKey::ours("jwt", "2G", users, size, 0), rate, mean);
        }
    }
    let peer = RowKey { gateway: "nginx".to_owned(), ..RowKey::ours("jwt", "2G", 10, 50, 0) };
    put(&folder, "002", &peer, 7000.0, 1.4);
    for (name, small, large) in [
        ("DirectProxy", 3000.0, 1500.0),
        ("XSLTProxy", 1800.0, 30.0),
        ("MessageBuildingProxy", 2300.0, 8.0),
    ] {
        for (size, rate) in [(500, small), (100_000, large)] {
            put(&folder, "004", &RowKey::ours(name, "2G", 100, size, 0), rate, 1e5 / rate);
        }
    }
    for (name, rate) in [("scen0", 12908.0), ("scen5", 3133.0)] {
        put(&folder, "001", &RowKey::ours(name, "2G", 65, 0, 0), rate, 1.0);
    }
    Results::read(place).unwrap()
}

#[test]
fn the_summary_has_the_83_columns_of_the_reference_and_its_line_ends() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::new(place.path());
    let key = RowKey::ours("jwt", "2G", 10, 50, 0);
    let row = folder.row(&key);
    let duration = RowDuration { start_timestamp: 10, end_timestamp: 20, test_duration: 10 };
    row.write_duration(&duration).unwrap();
    let line = |timestamp, user| sar::Line {
        interval: 1,
        timestamp,
        device: "-1".to_owned(),
        values: vec![Some(user), Some(0.0), None, Some(0.0), Some(0.0), Some(50.0)],
    };
    let lines = vec![line(9, 99.0), line(11, 10.0), line(80, 20.0), line(81, 99.0)];
    let cpu = sar::Report { kind: sar::Kind::Cpu, hostname: "box".to_owned(), lines };
    row.write_sar(OURS, &cpu).unwrap();
    put(&folder, "002", &key, 100.5, 99.0);
    let text = summary(&Results::read(place.path()).unwrap());
    assert_eq!(columns().len(), 83);
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[2].is_empty() && !text.replace("\r\n", "").contains(['\n', '\r', '"']));
    let names: Vec<&str> = lines[0].split(',').collect();
    let cells: Vec<&str> = lines[1].split(',').collect();
    assert_eq!((names.len(), cells.len()), (83, 83));
    let cell = |name: &str| cells[names.iter().position(|one| *one == name).unwrap()];
    // The plots of the reference use columns 9 to 22, by number.
    assert_eq!((names[9], names[22]), ("Throughput (Requests/sec)", "Sent (KB/sec)"));
    assert_eq!(names[23], "Tidegate GC Throughput (%)");
    assert_eq!(names[26], "Standard Deviation of Tidegate Memory Footprint After Full GC (M)");
    assert_eq!(
        (names[27], names[78]),
        ("Tidegate - Run queue length", "Tidegate - Network - Utilization (%)")
    );
    assert_eq!((names[79], names[82]), ("Tidegate - Task clock", "Tidegate - Page faults"));
    assert_eq!(cells[1..7], ["2G", "10", "50", "0", "HTTP Request", "1000"]);
    // 100.5 x 99 / 1000 = 9.9495, which the reference truncates.
    assert_eq!(cell("Average Users in the System"), "9");
    assert_eq!(cell("Tidegate - CPU - User (%)"), "15");
    assert_eq!(cell("Tidegate - CPU - System (%)"), "N/A");
    assert_eq!(cell("Tidegate - Memory - Used (%)"), "N/A");
    assert_eq!(cell("Tidegate GC Throughput (%)"), "N/A");
    assert_eq!(sar::Kind::ALL.iter().map(|kind| kind.columns().len()).sum::<usize>(), 52);
}

#[test]
fn tables_have_the_documents_columns_and_rows() {
    let place = tempfile::tempdir().unwrap();
    let results = filled(place.path());
    let tables = tables(&results);
    let of = |number: &str| tables.iter().find(|table| table.title.contains(number)).unwrap();
    let matrix = of("Document 002");
    assert_eq!(matrix.rows.len(), 24);
    assert_eq!(matrix.columns[..3], ["Concurrent Users", "Message Size (Bytes)", "Total requests"]);
    assert_eq!(matrix.columns[11], "Document: Total requests");
    let first = &matrix.rows[0];
    assert_eq!(first[..5], ["10", "50B", "1000", "1.67", "6000"]);
    assert_eq!(first[11..14], ["3057387", "2.86", "3393.33"]);
    assert_eq!(matrix.columns[20..23], ["p99 corrected (ms)", "Measured (s)", "Marks"]);
    assert_eq!(first[20..], ["N/A", "60", "", "7000", ""]);
    // nginx checks no tokens.
    assert_eq!(matrix.rows[1][20..], ["N/A", "60", "", "-", "-"]);
    let flows = of("Document 004");
    assert_eq!(flows.rows.len(), 56);
    assert!(flows.rows[0].contains(&"not measured".to_owned()));
    for table in &tables {
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.title);
    }
    let soap = of("Document 001");
    assert_eq!(soap.rows[0][4], "12908 rps");
    assert_eq!(soap.columns[12], "Document: Requests per second");
}

/// A stalled backend holds up users, who send nothing meanwhile. The corrected percentile shows it.
#[test]
fn the_corrected_percentile_stands_in_the_table() {
    let place = tempfile::tempdir().unwrap();
    let mut results = filled(place.path());
    let corrected = crate::folder::Corrected { p99: 812.0, ..Default::default() };
    results.rows.iter_mut().for_each(|row| row.row.corrected = Some(corrected));
    for table in tables(&results).iter().filter(|table| table.title != "System") {
        let at = table.columns.iter().position(|name| name == "p99 corrected (ms)").unwrap();
        let marks = table.columns.iter().position(|name| name == "Marks").unwrap();
        for row in &table.rows {
            let shown = if row[marks] == "not measured" { "N/A" } else { "812" };
            assert_eq!(row[at], shown, "{row:?}");
        }
    }
}

/// A peer that was asked for has its columns, even if it can do nothing. What it cannot do differs from what was not run.
#[test]
fn what_a_peer_cannot_do_differs_from_what_was_not_run() {
    let place = tempfile::tempdir().unwrap();
    filled(place.path());
    let folder = Folder::new(place.path());
    put(&folder, "001", &RowKey::ours("scen0", "2G", 65, 346, 0), 12_908.0, 1.0);
    let name = |name: &str| crate::folder::Scenario { name: name.to_owned(), ..Default::default() };
    let test_scenarios = ["jwt", "jwt@nginx", "jwt@haproxy", "scen0@nginx", "DirectProxy@synapse"]
        .map(name)
        .to_vec();
    folder.write_metadata(&Metadata { test_scenarios, ..Metadata::default() }).unwrap();
    let results = Results::read(place.path()).unwrap();
    assert_eq!(results.peers(), ["haproxy", "nginx", "synapse"]);
    let tables = tables(&results);
    let cells = |number: &str, peer: &str| {
        let table = tables.iter().find(|table| table.title.contains(number)).unwrap();
        let at = table.columns.iter().position(|name| *name == format!("{peer}: Marks")).unwrap();
        table.rows.iter().map(|row| row[at].as_str()).collect::<Vec<_>>()
    };
    assert_eq!(cells("002", "haproxy"), ["not run"; 24]);
    assert_eq!(cells("002", "nginx")[..3], ["", "-", "-"]);
    assert_eq!(cells("002", "synapse"), ["-"; 24]);
    assert!(cells("004", "synapse").iter().all(|cell| *cell == "not run"));
    assert!(cells("004", "nginx").contains(&"-") && cells("004", "nginx").contains(&"not run"));
    // XSLT 2.0 is beyond libxslt.
    let soap = cells("Document 001: SOAP", "nginx");
    assert_eq!((soap[0], soap[8]), ("not run", "-"));
}

#[test]
fn a_jvm_beside_ours_has_columns_of_its_garbage_collections() {
    let place = tempfile::tempdir().unwrap();
    filled(place.path());
    let folder = Folder::new(place.path());
    let ours = RowKey::ours("DirectProxy", "2G", 100, 500, 0);
    let key = RowKey { gateway: "synapse".to_owned(), ..ours };
    put(&folder, "004", &key, 900.0, 100.0);
    let log = "[1.000s][info][gc] GC(0) Pause Young (Normal) 24M->4M(256M) 10.000ms\n\
        [2.000s][info][gc] GC(1) Pause Full (System.gc()) 40M->10M(128M) 30.000ms\n";
    folder.row(&key).write_gc_log("synapse", log).unwrap();
    let tables = tables(&Results::read(place.path()).unwrap());
    let flows = tables.iter().find(|table| table.title.contains("004")).unwrap();
    let of = |name: &str| flows.columns.iter().position(|one| one == name).unwrap();
    let row = flows.rows.iter().find(|row| row[of("synapse: Throughput (Requests/sec)")] == "900");
    let row = row.unwrap();
    assert_eq!(row[of("synapse: GC Throughput (%)")], "98");
    assert_eq!(row[of("synapse: Average Memory Footprint After Full GC (M)")], "10");
    // Tidegate has no garbage collections, and other peers do not have these columns.
    assert!(
        flows
            .rows
            .iter()
            .all(|row| row[of("WSO2 Micro Integrator 1.2.0 GC Throughput (%)")] == "N/A")
    );
    assert!(!flows.columns.iter().any(|name| name.starts_with("nginx: GC")));
    assert!(flows.rows.iter().all(|row| row.len() == flows.columns.len()));
}

fn claim<'c>(all: &'c [Claim], text: &str) -> &'c Claim {
    all.iter().find(|claim| claim.text.contains(text)).unwrap()
}

#[test]
fn a_mark_is_shown_and_the_verdict_says_what_it_rests_on() {
    let place = tempfile::tempdir().unwrap();
    let mut results = filled(place.path());
    let verdicts = |results: &Results| -> Vec<(&'static str, Verdict)> {
        claims(results).iter().map(|claim| (claim.id, claim.verdict)).collect()
    };
    let found = verdicts(&results);
    for id in ["S2-13", "S2-14", "S2-15", "S4-17"] {
        assert!(found.contains(&(id, Verdict::Holds)), "{id}: {found:?}");
    }
    assert!(found.contains(&("S3-27", Verdict::NotMeasured)));
    assert_eq!(found[2], ("S1-32", Verdict::Holds));
    // If the generator limited a row, its throughput is not the gateway's. Without CPU times, the claim then has no verdict.
    for row in &mut results.rows {
        if row.key.size == 102_400 {
            row.row.marks.push(Mark::Generator);
            row.summary.0[0].1.throughput = Some(9000.0);
        }
    }
    let all = claims(&results);
    let sizes = claim(&all, "Larger payloads");
    assert_eq!(sizes.verdict, Verdict::NotMeasured);
    assert!(sizes.numbers.contains("has no CPU time"), "{}", sizes.numbers);
    // Errors count whatever the mark.
    let thousand = claim(&all, "1,000 users at 100 KiB");
    assert_eq!(thousand.verdict, Verdict::Holds);
    assert!(
        thousand.numbers.ends_with("1 of 1 rows marked: `generator` 1"),
        "{}",
        thousand.numbers
    );
    let matrix = tables(&results).into_iter().find(|table| table.title.contains("002")).unwrap();
    let marks = matrix.columns.iter().position(|name| name == "Marks").unwrap();
    assert_eq!(matrix.rows.iter().filter(|row| row[marks] == "generator").count(), 6);
    results.rows.iter_mut().for_each(|row| row.row.marks.clear());
    assert!(verdicts(&results).contains(&("S2-13", Verdict::DoesNotHold)));
}

#[test]
fn rows_that_something_else_limits_are_compared_by_cpu_time() {
    let place = tempfile::tempdir().unwrap();
    let mut results = filled(place.path());
    let cost = |us: f64| Some(Cost { cpu_us: us * 1000.0, requests: 1000, ..Cost::default() });
    for row in &mut results.rows {
        row.row.cost = cost(match (row.key.scenario.as_str(), row.key.size) {
            ("scen0", _) => 10.0,
            ("scen5", _) | ("jwt", 50) => 20.0,
            ("jwt", 102_400) => 200.0,
            _ => 40.0,
        });
        if row.key.scenario == "scen0" {
            row.row.marks.push(Mark::Backend);
        }
        if row.key.size == 102_400 {
            row.row.marks.push(Mark::Generator);
        }
        if row.key.scenario == "XSLTProxy" {
            row.row.marks.push(Mark::Little);
        }
    }
    let all = claims(&results);
    let options = claim(&all, "All options");
    assert_eq!(options.verdict, Verdict::DoesNotHold);
    assert_eq!(
        options.numbers,
        "scen0 / scen5 = 2.00 from 10 and 20 us of CPU for a request; document 4.12; 1 of 2 rows marked: `backend` 1"
    );
    let sizes = claim(&all, "Larger payloads");
    assert_eq!(sizes.verdict, Verdict::Holds, "{}", sizes.numbers);
    assert!(sizes.numbers.contains("10 users: 20, 40, 200 us of CPU for a request; 50 users"));
    let users = claim(&all, "Response time");
    assert_eq!(users.verdict, Verdict::Holds, "{}", users.numbers);
    assert!(
        users.numbers.contains("102400 B: 5, 25, 50, 100, 250, 500 (us of CPU for a request: 200,")
    );
    // A row marked `little` counts, and its claim says so.
    let flows = claim(&all, "Throughput falls with size");
    assert_eq!(flows.verdict, Verdict::Holds);
    assert!(flows.numbers.ends_with("2 of 6 rows marked: `little` 2"), "{}", flows.numbers);
    // A row that ended early does not count.
    let last = results.rows.iter_mut().find(|row| row.key.scenario == "XSLTProxy").unwrap();
    last.row.marks.push(Mark::GatewayStopped);
    let all = claims(&results);
    assert_eq!(claim(&all, "Throughput falls with size").verdict, Verdict::NotMeasured);
}

/// No request of ours compiles a definition, so two rows of nginx show what that costs.
#[test]
fn compiling_once_is_judged_by_two_rows_of_nginx() {
    let place = tempfile::tempdir().unwrap();
    filled(place.path());
    let folder = Folder::new(place.path());
    let text = "Definitions compiled once";
    for (gateway, rate, mib) in [("nginx", 24_000.0, 20), ("nginx-compiles", 10_000.0, 80)] {
        let all = claims(&Results::read(place.path()).unwrap());
        let none = claim(&all, text);
        assert_eq!(none.verdict, Verdict::NotMeasured);
        assert_eq!(none.numbers, format!("scen1 with {gateway} was not run"));
        let ours = RowKey::ours("scen1", "2G", 20, 346, 0);
        let key = RowKey { gateway: gateway.to_owned(), ..ours };
        put(&folder, "001", &key, rate, 1.0);
        let sample = ProcessSample { rss_kib: Some(mib * 1024), ..ProcessSample::default() };
        folder.row(&key).write_process(gateway, &[sample]).unwrap();
    }
    let mut results = Results::read(place.path()).unwrap();
    let all = claims(&results);
    let both = claim(&all, text);
    assert_eq!(both.verdict, Verdict::Holds);
    assert!(
        both.numbers.ends_with(
            "2.40 from 24000 and 10000 requests/s, memory 0.25 from 20 and 80 MiB; document 2.4 and 0.25"
        ),
        "{}",
        both.numbers
    );
    let is_nginx = |row: &&mut Measured| row.key.gateway == "nginx" && row.key.scenario == "scen1";
    let more = results.rows.iter_mut().find(is_nginx).unwrap();
    more.processes.values_mut().flatten().for_each(|sample| sample.rss_kib = Some(70 * 1024));
    assert_eq!(claim(&claims(&results), text).verdict, Verdict::DoesNotHold);
}

/// The document's times of right and wrong requests at once are those of both. A folder without them has no time, and not that of a part.
#[test]
fn a_row_of_several_labels_has_the_figures_of_all() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::new(place.path());
    let key = RowKey::ours("scen1concurrent", "2G", 40, 346, 0);
    let row = folder.row(&key);
    let labels = [("ok", 1.0), ("ko", 0.5)]
        .map(|(label, mean)| (label.to_owned(), statistics(20_000.0, mean)));
    row.write_summary(Part::Measurement, &Summary(labels.to_vec())).unwrap();
    for (all_labels, told) in [(Some(statistics(40_000.0, 0.75)), "0.75 ms"), (None, "N/A")] {
        let document = "001".to_owned();
        row.finish(&Row { document, all_labels, ..Row::default() }).unwrap();
        let tables = tables(&Results::read(place.path()).unwrap());
        let table = tables.iter().find(|table| table.title.contains("at once")).unwrap();
        assert_eq!(table.columns[6], "K6 Avg");
        assert_eq!([&table.rows[0][4], &table.rows[0][6]], ["40000 rps", told]);
    }
}

/// Document 001 counts the whole run with its ramp. A claim must not use another figure than the table beside it.
#[test]
fn claims_quote_the_figures_of_the_tables() {
    let place = tempfile::tempdir().unwrap();
    let mut results = filled(place.path());
    for row in &mut results.rows {
        row.row.whole_throughput = match row.key.scenario.as_str() {
            "scen0" => Some(12000.0),
            "scen5" => Some(3000.0),
            _ => None,
        };
    }
    let soap = tables(&results).into_iter().find(|table| table.title.contains("001")).unwrap();
    assert_eq!(soap.rows[0][4], "12000 rps");
    let all = claims(&results);
    let numbers = &claim(&all, "All options").numbers;
    assert_eq!(*numbers, "scen0 / scen5 = 4.00 from 12000 and 3000 requests/s; document 4.12");
}

#[test]
fn streams_and_own_latency_are_shown() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::new(place.path());
    let counts = WebSocketCounts {
        attempted: 400,
        failed: 4,
        sent: 1000,
        received: 900,
        error_rate: Some(0.1),
    };
    for (scenario, users, size) in [("websocket-5", 400, 500), ("websocket-ramp-10s", 400, 500)] {
        let key = RowKey::ours(scenario, "2G", users, size, -1);
        let row = Row {
            document: "003".to_owned(),
            streams: Some(Streams::Websocket(counts)),
            ramp_seconds: Some(10.0),
            own_latency: Some(OwnLatency::default()),
            ..Row::default()
        };
        folder.row(&key).write_process(OURS, &[ProcessSample::default()]).unwrap();
        folder.row(&key).write_seconds(&[Second::default()]).unwrap();
        folder.row(&key).finish(&row).unwrap();
    }
    let tables = tables(&Results::read(place.path()).unwrap());
    let sockets = &tables[0];
    assert_eq!((sockets.rows.len(), sockets.columns.len()), (22, 9));
    let row = sockets.rows.iter().find(|row| row[..3] == ["5", "500 bytes", "400"]).unwrap();
    assert_eq!(row[3..], ["4", "10%", "0", "0%", "0", ""]);
    assert_eq!(tables[1].rows, [["tidegate", "10", "400", "4", "10%", ""]]);
    assert!(tables[0].markdown().starts_with("## Document 003: WebSocket\n\nThe error rate"));
}

#[test]
fn a_report_has_every_table_and_graph_in_one_file_and_an_empty_folder_gets_none() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let arguments = ReportArguments {
        folder: place.path().join("results"),
        html: Some(out.join("report.html")),
        png: Some(out.join("png")),
        csv: Some(out.join("summary.csv")),
        ..ReportArguments::default()
    };
    std::fs::create_dir_all(&arguments.folder).unwrap();
    assert!(arguments.run().unwrap_err().to_string().contains("no finished row"));
    assert!(!out.exists());
    filled(&arguments.folder);
    let printed = arguments.run().unwrap();
    assert!(printed.contains("jwt-throughput.png"), "{printed}");
    let html = std::fs::read_to_string(out.join("report.html")).unwrap();
    for part in ["<svg", "currentColor", "Document: Total requests", "prefers-color-scheme: dark"] {
        assert!(html.contains(part), "{part}");
    }
    for foreign in ["http://www.w3.org/2000/svg", "https://"] {
        assert!(foreign.ends_with("svg") || !html.contains(foreign), "{foreign}");
    }
    let png = std::fs::read(out.join("png/jwt-throughput.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG") && png.len() > 10_000, "{}", png.len());
}

/// A peer that ran the same row stands in the same graph, always in its own colour.
#[test]
fn graphs_have_the_peers() {
    let place = tempfile::tempdir().unwrap();
    filled(place.path());
    let folder = Folder::new(place.path());
    let sample = |at: u64| ProcessSample {
        timestamp: 100 + at,
        cpu_percent: Some(50.0),
        rss_kib: Some(2048),
        ..ProcessSample::default()
    };
    for gateway in [OURS, "envoy"] {
        let key =
            RowKey { gateway: gateway.to_owned(), ..RowKey::ours("jwt", "2G", 1000, 102_400, 0) };
        put(&folder, "002", &key, 900.0, 1000.0);
        folder.row(&key).write_process(gateway, &[sample(0), sample(1)]).unwrap();
    }
    let charts = graphs(&Results::read(place.path()).unwrap());
    let series = |name: &str| {
        let chart = charts.iter().find(|chart| chart.name == name).unwrap();
        let line = |one: &Series| (one.name.clone(), one.colour, one.points.len());
        chart.series.iter().map(line).collect::<Vec<_>>()
    };
    let (ours, envoy, nginx) = (OURS.to_owned(), "envoy".to_owned(), "nginx".to_owned());
    assert_eq!(series("jwt-gateways-throughput-50B"), [(nginx, 1, 1), (ours.clone(), 0, 6)]);
    let both = [(envoy.clone(), 3, 1), (ours.clone(), 0, 6)];
    assert_eq!(series("jwt-gateways-mean-102400B"), both);
    let both = [(ours, 0, 2), (envoy, 3, 2)];
    assert_eq!(series("jwt-1000-102400B-cpu"), both);
    assert_eq!(series("jwt-1000-102400B-memory"), both);
    assert!(!charts.iter().any(|chart| chart.name == "jwt-gateways-mean-1024B"));
    // What a row measured before its gateway stopped is not drawn beside whole rows.
    let row = folder.row(&RowKey::ours("jwt", "2G", 50, 102_400, 0));
    let stopped = Row { marks: vec![Mark::GatewayStopped], ..row.row().unwrap().unwrap() };
    row.finish(&stopped).unwrap();
    let charts = graphs(&Results::read(place.path()).unwrap());
    let chart = charts.iter().find(|chart| chart.name == "jwt-gateways-mean-102400B").unwrap();
    assert_eq!(chart.series[1].points.len(), 5);
}

/// S3-23: a point for each ramp, in the order of their times. A ramp in which nothing was sent has no error rate.
#[test]
fn the_error_rate_is_drawn_by_the_ramp() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::new(place.path());
    for (seconds, sent) in [(0, 1000), (1, 1000), (2, 0), (5, 1000), (10, 1000), (20, 1000)] {
        let key = RowKey::ours(&format!("websocket-ramp-{seconds}s"), "2G", 1000, 500, 0);
        let counts = WebSocketCounts {
            attempted: 1000,
            failed: 0,
            sent,
            received: sent - sent / (10 * (seconds + 1)),
            error_rate: WebSocketCounts::rate(sent, sent - sent / (10 * (seconds + 1))),
        };
        let row = Row {
            document: "003".to_owned(),
            streams: Some(Streams::Websocket(counts)),
            ramp_seconds: Some(seconds as f64),
            ..Row::default()
        };
        folder.row(&key).finish(&row).unwrap();
    }
    let results = Results::read(place.path()).unwrap();
    let all = graphs(&results);
    let chart = all.iter().find(|chart| chart.name == "websocket-ramp").unwrap();
    let seconds: Vec<f64> = chart.series[0].points.iter().map(|(x, _)| *x).collect();
    assert_eq!(seconds, [0.0, 1.0, 5.0, 10.0, 20.0]);
    assert!(chart.series[0].points.is_sorted_by(|one, next| one.1 > next.1), "{chart:?}");
    let table = tables(&results).into_iter().find(|one| one.title.contains("ramp-up")).unwrap();
    assert_eq!(table.rows.iter().map(|row| &*row[4]).nth(2), Some("N/A"));
}

/// S3-5, S3-16 and S3-26: rows of streams have graphs of CPU and of memory, and one of errors, CPU and memory together. A hub has a graph
/// by its subscribers.
#[test]
fn graphs_over_time_have_errors_cpu_and_memory() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::new(place.path());
    folder.write_metadata(&Metadata { cpus: "0-1/2/3".to_owned(), ..Metadata::default() }).unwrap();
    let hub = |subscribers| {
        Streams::Websub(crate::generator::WebSubCounts { subscribers, ..Default::default() })
    };
    let sse = Streams::Sse(crate::generator::SseCounts::default());
    let sockets = || Streams::Websocket(WebSocketCounts::default());
    let mut rows =
        vec![("sse", 5000, sse), ("websub", 1000, hub(1000)), ("websub", 10_000, hub(10_000))];
    rows.extend(
        [100, 200, 300, 400, 600, 800, 1000].map(|users| ("websocket-5", users, sockets())),
    );
    for (scenario, users, streams) in rows {
        let key = RowKey::ours(scenario, "2G", users, 500, 0);
        put(&folder, "003", &key, 10.0, 1.0);
        let row = folder.row(&key);
        let content = Row {
            document: "003".to_owned(),
            scenario: scenario.to_owned(),
            users,
            streams: Some(streams),
            ..row.row().unwrap().unwrap()
        };
        row.finish(&content).unwrap();
        let second = |at: u64| Second {
            timestamp: 100 + at,
            users: 1,
            samples: 4,
            errors: at,
            ..Second::default()
        };
        row.write_seconds(&[second(0), second(1)]).unwrap();
        let sample = |at: u64| ProcessSample {
            timestamp: 100 + at,
            cpu_percent: Some(50.0 * at as f64),
            rss_kib: Some(1 << 20),
            ..ProcessSample::default()
        };
        row.write_process(OURS, &[sample(1), sample(2)]).unwrap();
    }
    let results = Results::read(place.path()).unwrap();
    // S3-26: the page has a graph for each number of connections.
    let out = place.path().join("pages");
    super::pages::write(&results, &out).unwrap();
    let page = std::fs::read_to_string(out.join("003.md")).unwrap();
    for users in [100, 200, 300, 400, 600, 800, 1000] {
        let graph = format!("graphs/websocket-5-{users}-500B-shares.png");
        assert!(page.contains(&graph) && out.join(&graph).exists(), "{graph}");
    }
    let charts = graphs(&results);
    let named = |name: &str| charts.iter().find(|chart| chart.name == name).unwrap();
    for users in [100, 200, 300, 400, 600, 800, 1000] {
        assert_eq!(named(&format!("websocket-5-{users}-500B-cpu")).y, "CPU in % of one CPU");
        assert_eq!(named(&format!("websocket-5-{users}-500B-memory")).y, "Resident MiB");
    }
    let lines = |name: &str| {
        named(name)
            .series
            .iter()
            .map(|one| (one.name.clone(), one.points.clone()))
            .collect::<Vec<_>>()
    };
    // One of two CPUs is used at the end, 1 of 2 GiB, and in the second one 1 of 4 samples is wrong.
    assert_eq!(
        lines("sse-5000-500B-shares"),
        [
            ("errors".to_owned(), vec![(0.0, 0.0), (1.0, 25.0)]),
            ("CPU".to_owned(), vec![(1.0, 25.0), (2.0, 50.0)]),
            ("memory of 2G".to_owned(), vec![(1.0, 50.0), (2.0, 50.0)]),
        ]
    );
    assert_eq!(
        lines("websub-subscribers"),
        [
            ("errors".to_owned(), vec![(1000.0, 0.0), (10_000.0, 0.0)]),
            ("highest CPU".to_owned(), vec![(1000.0, 50.0), (10_000.0, 50.0)]),
            ("highest memory".to_owned(), vec![(1000.0, 50.0), (10_000.0, 50.0)]),
        ]
    );
    assert!(charts.iter().all(|chart| chart.svg().unwrap().is_some()));
}
