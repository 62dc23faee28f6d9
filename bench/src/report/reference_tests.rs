//! Reads the folder as the reference's scripts do: `create-summary-csv.sh`, `create-summary-markdown.py`, `create-plots.py` and
//! `csv-to-markdown-converter.py`. The tests follow the sources of these scripts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use regex::Regex;
use serde_json::Value;

use super::*;
use crate::folder::{Folder, Metadata, RowDuration, RowKey, Scenario};

/// Returns the folder of `report_tests`, with the other files that the scripts need.
fn folder(place: &Path) -> Results {
    report_tests::filled(place);
    let folder = Folder::new(place);
    let scenario = |name: &str, title: &str| Scenario {
        name: name.to_owned(),
        display_name: title.to_owned(),
        use_backend: true,
        ..Scenario::default()
    };
    let metadata = Metadata {
        test_duration: 900,
        warmup_time: 300,
        jmeter_servers: 2,
        test_scenarios: vec![
            scenario("jwt", "JWT, secured"),
            scenario("jwt@nginx", "JWT, secured (nginx)"),
            scenario("DirectProxy", "Direct Proxy"),
            scenario("XSLTProxy", "XSLT Proxy"),
            scenario("MessageBuildingProxy", "Message building"),
            scenario("scen0", "0"),
            scenario("scen5", "5"),
        ],
        heap_sizes: vec!["2G".to_owned()],
        concurrent_users: vec![10, 50],
        application_name: "Tidegate".to_owned(),
        ..Metadata::default()
    };
    folder.write_metadata(&metadata).unwrap();
    for row in folder.rows().unwrap() {
        let time = RowDuration { start_timestamp: 10, end_timestamp: 910, test_duration: 900 };
        row.write_duration(&time).unwrap();
    }
    fs::write(place.join("summary.csv"), summary(&Results::read(place).unwrap())).unwrap();
    Results::read(place).unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Reads lines without quotes as Python's `csv.reader` does without universal newlines: each must end with CRLF.
fn table(path: &Path) -> (Vec<String>, Vec<BTreeMap<String, String>>) {
    let text = fs::read_to_string(path).unwrap();
    let text = text.strip_suffix("\r\n").unwrap();
    let mut lines = text.split("\r\n").map(|line| {
        assert!(!line.contains(['\r', '\n', '"']), "{line}");
        line.split(',').map(str::to_owned).collect::<Vec<String>>()
    });
    let names = lines.next().unwrap();
    let rows = lines.map(|cells| {
        assert_eq!(cells.len(), names.len(), "{cells:?}");
        names.iter().cloned().zip(cells).collect()
    });
    let rows = rows.collect();
    (names, rows)
}

/// `create-summary-csv.sh` finds the folders by name, and reads names, times and statistics with jq.
#[test]
fn folders_have_the_names_and_files_that_the_summary_script_looks_for() {
    let place = tempfile::tempdir().unwrap();
    folder(place.path());
    let metadata = json(&place.path().join("test-metadata.json"));
    let path =
        Regex::new(r"^([^/]+)/([0-9]+[A-Za-z])_heap/([0-9]+)_users/([0-9]+)B/(-?[0-9]+)ms_sleep$")
            .unwrap();
    let rows = Folder::new(place.path()).rows().unwrap();
    assert!(rows.len() > 30);
    for row in rows {
        let inside = row.path.strip_prefix(place.path()).unwrap().to_str().unwrap();
        let parts = path.captures(inside).unwrap_or_else(|| panic!("{inside}"));
        let named = metadata["test_scenarios"].as_array().unwrap().iter();
        let mut named = named.filter(|scenario| scenario["name"] == parts[1]);
        assert!(named.next().unwrap()["display_name"].is_string(), "{inside}");
        let time = json(&row.path.join("test_duration.json"));
        for key in ["start_timestamp", "end_timestamp", "test_duration"] {
            assert!(time[key].as_str().unwrap().parse::<u64>().is_ok(), "{time}");
        }
        let text = fs::read_to_string(row.path.join("results-measurement-summary.json")).unwrap();
        let label = &serde_json::from_str::<Value>(&text).unwrap()["HTTP Request"];
        let keys = [
            "samples",
            "errors",
            "errorPercentage",
            "throughput",
            "min",
            "max",
            "mean",
            "stddev",
            "median",
            "p75",
            "p90",
            "p95",
            "p98",
            "p99",
            "p999",
            "receivedKBytesRate",
            "sentKBytesRate",
        ];
        assert_eq!(label.as_object().unwrap().len(), keys.len());
        let places: Vec<usize> =
            keys.iter().map(|key| text.find(&format!("\"{key}\":")).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
    }
}

/// `create-summary-markdown.py` takes columns of `summary.csv` by name and the parameters from `test-metadata.json`.
#[test]
fn the_markdown_script_finds_its_columns_and_parameters() {
    let place = tempfile::tempdir().unwrap();
    folder(place.path());
    let (names, rows) = table(&place.path().join("summary.csv"));
    let wanted = [
        "Scenario Name",
        "Heap Size",
        "Concurrent Users",
        "Message Size (Bytes)",
        "Back-end Service Delay (ms)",
        "Error %",
        "Throughput (Requests/sec)",
        "Average Response Time (ms)",
        "Standard Deviation of Response Time (ms)",
        "99th Percentile of Response Time (ms)",
        "Tidegate GC Throughput (%)",
        "Average Tidegate Memory Footprint After Full GC (M)",
    ];
    let places: Vec<usize> =
        wanted.iter().map(|name| names.iter().position(|one| one == name).unwrap()).collect();
    assert!(places.is_sorted(), "{places:?}");
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), 83, "a column name is there twice");
    // The display name contains a comma, which the reference's files must not contain.
    assert!(rows.iter().any(|row| row["Scenario Name"] == "JWT; secured"), "{rows:?}");
    let parameters = json(&place.path().join("test-metadata.json"));
    for (key, value) in [("test_duration", "900"), ("warmup_time", "300"), ("jmeter_servers", "2")]
    {
        assert_eq!(parameters[key], value, "texts, as the reference writes them");
    }
    for key in ["heap_sizes", "concurrent_users", "message_sizes", "backend_sleep_times"] {
        let all = parameters[key].as_array().unwrap();
        assert!(all.iter().all(Value::is_string), "{key}: {all:?}");
    }
    // The script's template aligns the first column to the left and the others to the right.
    let line = |cells: &[&str]| format!("| {} |", cells.join(" | "));
    let ours = Table {
        columns: wanted.map(str::to_owned).to_vec(),
        rows: vec![wanted.map(|name| rows[0][name].clone()).to_vec()],
        ..Table::default()
    };
    let markdown = ours.markdown();
    let lines: Vec<&str> = markdown.lines().skip(2).collect();
    assert_eq!(lines[0], line(&wanted));
    assert_eq!(lines[1], format!("|---|{}", "---:|".repeat(wanted.len() - 1)));
    assert_eq!(lines[2], line(&wanted.map(|name| rows[0][name].as_str())));
}

/// `create-plots.py` draws columns 9 to 22 by their number against users, sizes and delays; pandas reads `N/A` as nothing.
#[test]
fn the_plots_script_finds_numbers_in_its_columns() {
    let place = tempfile::tempdir().unwrap();
    folder(place.path());
    let (names, rows) = table(&place.path().join("summary.csv"));
    let axes = ["Concurrent Users", "Message Size (Bytes)", "Back-end Service Delay (ms)"];
    for (row, name) in rows.iter().flat_map(|row| names.iter().map(move |name| (row, name))) {
        let place = names.iter().position(|one| one == name).unwrap();
        let is_number = row[name].parse::<f64>().is_ok_and(f64::is_finite);
        if (9..=22).contains(&place) {
            assert!(is_number || row[name] == "N/A", "{name}: {}", row[name]);
        }
        if axes.contains(&name.as_str()) {
            assert!(is_number, "{name}: {}", row[name]);
        }
    }
    // It draws each label separately and uses heap sizes as written.
    assert!(rows.iter().all(|row| row["Label"] == "HTTP Request" && row["Heap Size"] == "2G"));
    // APIM's charts omit rows with 100 errors or more.
    assert!(rows.iter().all(|row| row["Error Count"].parse::<u64>().unwrap() < 100));
}

/// Rows of two folders are read as if they were in one. No row may be in both.
#[test]
fn rows_of_two_stacks_are_one_report() {
    let place = tempfile::tempdir().unwrap();
    let (first, second) = (place.path().join("first"), place.path().join("second"));
    let mut whole = folder(&first);
    let again = folder(&second);
    let wrong = whole.add(again.clone()).unwrap_err().to_string();
    assert!(wrong.contains("both have") && wrong.contains("second"), "{wrong}");
    let key = |row: &Measured| row.key.clone();
    let all: Vec<RowKey> = whole.rows.iter().map(key).collect();
    let parts: Vec<Results> = [0, 1]
        .into_iter()
        .map(|part| {
            let mut results = again.clone();
            let mut number = 0..;
            results.rows.retain(|_| number.next().is_some_and(|number: usize| number % 2 == part));
            results
        })
        .collect();
    let [mut one, other] = parts.try_into().unwrap();
    one.add(other).unwrap();
    assert_eq!(one.rows.iter().map(key).collect::<Vec<_>>(), all);
    let system = tables(&one).into_iter().find(|table| table.title == "System").unwrap();
    assert!(system.rows.iter().any(|line| line[0] == "second: Run"), "{system:?}");
}
