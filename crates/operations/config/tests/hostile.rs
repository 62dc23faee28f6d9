//! Hostile texts: the reader terminates, uses little memory, and never panics.

use std::path::Path;

const FULL: &str = include_str!("full.yaml");

fn read(text: &str) {
    let loaded = config::parse(text, Path::new("gate.yaml"));
    // If there is no configuration, there is an error.
    assert!(loaded.config.is_some() || loaded.report.has_errors(), "{text}");
    // All places can be displayed.
    assert!(format!("{:#}", loaded.report).len() < 4_000_000);
}

#[test]
fn a_file_that_was_cut_anywhere() {
    for (end, _) in FULL.char_indices() {
        read(FULL.split_at(end).0);
    }
}

#[test]
fn a_file_with_a_line_left_out() {
    for left_out in 0..FULL.lines().count() {
        let lines = FULL.lines().enumerate().filter(|(number, _)| *number != left_out);
        read(&lines.map(|(_, line)| format!("{line}\n")).collect::<String>());
    }
}

#[test]
fn a_file_with_something_put_in_anywhere() {
    let pieces = [
        "{", "}", "[", "]", ":", "\t", "\n", "*a", "&a ", "!x ", "? ", "- ", "\"", "'", "|", "\0",
        "\u{feff}", "${", "é",
    ];
    for (at, _) in FULL.char_indices() {
        let piece = pieces[at % pieces.len()];
        let (before, after) = FULL.split_at(at);
        read(&format!("{before}{piece}{after}"));
    }
}

#[test]
fn very_many_unknown_words() {
    let keys: String = (0..100_000).map(|n| format!("listn{n}: x\n")).collect();
    read(&keys);
    let keys: String = (0..30_000).map(|n| format!("  u{n}: {{ targets: [] }}\n")).collect();
    read(&format!("upstreams:\n{keys}"));
}

#[test]
fn line_ends_and_marks_of_other_systems() {
    let report = config::parse("\u{feff}listen: {}\r\nworker: 1\r\n", Path::new("g")).report;
    assert!(report.to_string().starts_with("g:2:1: unknown key `worker`"), "{report}");
}
