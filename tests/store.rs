//! `store`: the folder that a gateway keeps, and `tidegate store`.

use std::path::Path;

use crate::harness::{Gateway, tidegate, until};
use crate::reload::put_ok;
use crate::telemetry::metric;

fn yaml(path: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 1\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, respond: {{}} }} }}\nstore: {{ path: \"{path}\" }}\n"
    )
}

fn run(words: &[&str], folder: &Path) -> (Option<i32>, String, String) {
    let folder = folder.to_str().unwrap();
    let words: Vec<&str> = words.iter().copied().chain([folder]).collect();
    let run = tidegate(&words);
    (run.code, run.stdout, run.stderr)
}

#[test]
fn a_gateway_has_its_folder_for_itself_and_leaves_it_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/store");
    let gateway = Gateway::start(yaml(path.to_str().unwrap()));
    until("the store is counted", || metric(&gateway, "tidegate_store_records_total").is_some());
    assert_eq!(metric(&gateway, "tidegate_store_damaged_total"), Some(0.0));
    let (code, _, said) = run(&["store", "check"], &path);
    assert_eq!(code, Some(1));
    assert!(said.contains("another process has opened"), "{said}");
    assert_eq!(
        metric(&gateway, "tidegate_config_generation"),
        Some(1.0),
        "its folder is not a file"
    );
    drop(gateway);
    let (code, said, _) = run(&["store", "check"], &path);
    assert_eq!((code, said.lines().last()), (Some(0), Some("intact")), "{said}");
    let (code, said, _) = run(&["store", "compact"], &path);
    assert_eq!(code, Some(0));
    assert!(said.contains(" bytes before, "), "{said}");
    assert_eq!(run(&["store", "export"], &path), (Some(0), String::new(), String::new()));
    let gateway = Gateway::start(yaml(path.to_str().unwrap()));
    until("it is opened again", || metric(&gateway, "tidegate_store_records_total").is_some());
}

#[test]
fn damage_that_is_found_at_the_start_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    drop(Gateway::start(yaml(path)));
    std::fs::write(folder.path().join("log-0000000001.seg"), vec![7; 4096]).unwrap();
    let gateway = Gateway::start(yaml(path));
    gateway.wait_for_log("store: damaged");
    until("it is counted", || metric(&gateway, "tidegate_store_damaged_total") == Some(1.0));
}

#[test]
fn damage_and_a_folder_without_a_store_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, said) = run(&["store", "check"], &folder.path().join("none"));
    assert_eq!(code, Some(1));
    assert!(said.contains("there is no store in"), "{said}");
    assert!(!folder.path().join("none").exists(), "looking makes nothing");

    drop(Gateway::start(yaml(folder.path().to_str().unwrap())));
    // A segment with a damaged head.
    let segment = folder.path().join("log-0000000001.seg");
    std::fs::write(&segment, vec![7; 4096]).unwrap();
    let (code, said, _) = run(&["store", "check"], folder.path());
    assert_eq!(code, Some(1));
    assert!(said.contains("DAMAGED: log-0000000001.seg, bytes 0 to 4096"), "{said}");
    assert_eq!(std::fs::read(&segment).unwrap(), vec![7; 4096], "looking changes nothing");
    let (code, _, said) = run(&["store", "export"], folder.path());
    assert_eq!(code, Some(1), "an export without what is damaged is not a backup");
    assert!(said.contains("DAMAGED: log-0000000001.seg, bytes 0 to 4096"), "{said}");
}

#[test]
fn tables_that_no_gateway_starts_with_are_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    drop(Gateway::start(yaml(folder.path().to_str().unwrap())));
    let tables = folder.path().join("tables.redb");
    let bytes = std::fs::read(&tables).unwrap();
    let file = folder.path().join("gateway.yaml");
    std::fs::write(&file, yaml(folder.path().to_str().unwrap())).unwrap();
    // The name of the format, and both places where redb notes its root.
    for range in [0..9, 64..320] {
        let mut bytes = bytes.clone();
        bytes[range].fill(7);
        std::fs::write(&tables, &bytes).unwrap();
        let (code, said, _) = run(&["store", "check"], folder.path());
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("DAMAGED: tables.redb: "), "{said}");
        assert!(said.contains("no gateway can start with it"), "{said}");
        assert!(said.contains("restore the whole folder from a backup"), "{said}");
        let (code, _, said) = run(&["run"], &file);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("the store is damaged"), "{said}");
    }
}

#[test]
fn a_store_that_cannot_be_opened_and_another_path_are_told() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "not a folder").unwrap();
    let file = folder.path().join("gateway.yaml");
    let occupied = folder.path().join("file");
    std::fs::write(&file, yaml(occupied.to_str().unwrap())).unwrap();
    let (code, _, said) = run(&["run"], &file);
    assert_eq!(code, Some(1));
    assert!(said.contains("store:") && said.contains("file"), "{said}");

    let gateway = Gateway::start(yaml(folder.path().join("one").to_str().unwrap()));
    put_ok(&gateway, &yaml(folder.path().join("two").to_str().unwrap()));
    gateway.wait_for_log("until the gateway is restarted");
    assert!(!folder.path().join("two").exists());
}
