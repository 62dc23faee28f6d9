//! deploy/: alert and recording rules checked with Prometheus's own tool, and the chart's metadata.
//!
//! `make chart` renders the chart by Helm's own code; `scripts/setup.sh tests` installs promtool.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::harness::tidegate;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy");

fn read(file: &str) -> String {
    fs::read_to_string(format!("{FOLDER}/{file}")).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[track_caller]
fn promtool(arguments: &[&str]) -> String {
    let ran = Command::new("promtool").args(arguments).current_dir(FOLDER).output();
    let ran = ran.expect("promtool; scripts/setup.sh tests installs it");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(ran.status.success(), "{}{}", text(&ran.stdout), text(&ran.stderr));
    text(&ran.stdout)
}

/// The values of lines such as `- alert: NAME`.
fn named<'t>(text: &'t str, key: &str) -> BTreeSet<&'t str> {
    text.split(key).skip(1).map(|rest| rest.split([',', '\n']).next().unwrap().trim()).collect()
}

#[test]
fn rules_are_good_and_each_alert_is_tried() {
    promtool(&["check", "rules", "alerts.yaml", "recording-kong.yaml"]);
    for test in ["alerts.test.yaml", "recording-kong.test.yaml"] {
        promtool(&["test", "rules", test]);
    }
    assert_eq!(
        named(&read("alerts.yaml"), "- alert: "),
        named(&read("alerts.test.yaml"), "alertname: ")
    );
}

#[test]
fn each_bound_of_our_histograms_has_one_of_kongs() {
    let rules = read("recording-kong.yaml");
    for (metric, bounds) in [("request", 19), ("upstream", 19), ("own", 16)] {
        let of =
            |line: &&str| line.contains(&format!("tidegate_{metric}_duration_seconds_bucket{{le="));
        assert_eq!(rules.lines().filter(of).count(), bounds + 1, "{metric}");
    }
}

/// The text of a block of YAML that is indented by two.
fn block(text: &str, key: &str) -> String {
    let (_, rest) = text.split_once(&format!("\n{key}: |\n")).unwrap();
    let lines = rest.lines().take_while(|line| line.is_empty() || line.starts_with("  "));
    lines.map(|line| format!("{}\n", line.strip_prefix("  ").unwrap_or(line))).collect()
}

#[test]
fn the_chart_serves_a_good_configuration_where_its_probes_ask() {
    let values = read("helm/tidegate/values.yaml");
    let configuration = block(&values, "configuration");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidegate.yaml");
    fs::write(&file, &configuration).unwrap();
    let run = tidegate(&["check", "--strict", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let port = values.lines().find_map(|line| line.strip_prefix("statusPort: ")).unwrap();
    assert!(configuration.contains(&format!("status: {{ address: \"0.0.0.0:{port}\" }}")));
    // Pods get more time than the gateway takes.
    let grace =
        values.lines().find_map(|line| line.strip_prefix("terminationGracePeriodSeconds: "));
    assert!(
        grace.unwrap().parse::<u32>().unwrap() > 40
            && configuration.contains("delay: 10s, drain: 30s")
    );
    // The plain manifests have the same.
    let plain = read("production/kubernetes.yaml");
    for line in configuration.lines().filter(|line| !line.is_empty()) {
        assert!(plain.contains(line), "{line}");
    }
    for part in [
        "runAsNonRoot: true",
        "readOnlyRootFilesystem: true",
        "kind: PodDisruptionBudget",
        "kind: NetworkPolicy",
        "tidegate_requests_per_second",
    ] {
        assert!(plain.contains(part), "{part}");
    }
    assert!(
        read("production/prometheus-adapter.yaml").contains("as: \"tidegate_requests_per_second\"")
    );
    assert!(read("production/monitoring.yaml").contains("kind: ServiceMonitor"));
}

#[test]
fn the_schema_of_the_chart_knows_its_values() {
    let values = read("helm/tidegate/values.yaml");
    let keys: BTreeSet<&str> = values
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .filter_map(|line| line.split_once(':').map(|(key, _)| key))
        .collect();
    let schema: serde_json::Value =
        serde_json::from_str(&read("helm/tidegate/values.schema.json")).unwrap();
    let known: BTreeSet<&str> =
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(known.difference(&keys).copied().collect::<Vec<_>>(), ["global"]);
    assert_eq!(keys.difference(&known).count(), 0);
}
