//! The table of the machine, the versions and the parameters.

use std::path::Path;

use super::results::Results;
use super::table::Table;
use crate::folder::Metadata;

/// Returns the table, with the lines of each folder if there are several.
pub(super) fn system(results: &Results) -> Option<Table> {
    let first = results.metadata.as_ref()?;
    let mut rows = of_stack(first);
    for (name, metadata) in &results.stacks {
        rows.extend(of_stack(metadata).into_iter().map(|mut line| {
            if let Some(class) = line.first_mut() {
                *class = format!("{name}: {class}");
            }
            line
        }));
    }
    Some(Table {
        title: "System".to_owned(),
        note: String::new(),
        columns: ["Class", "Subclass", "Description", "Value"].map(str::to_owned).to_vec(),
        rows,
    })
}

fn of_stack(metadata: &Metadata) -> Vec<Vec<String>> {
    let facts = metadata.system_info.iter().map(|fact| {
        vec![
            fact.class.clone(),
            fact.subclass.clone(),
            fact.description.clone(),
            fact.value.clone(),
        ]
    });
    let line = |class: &str, name: &str, value: String| {
        vec![class.to_owned(), String::new(), name.to_owned(), value]
    };
    let versions =
        metadata.versions.iter().map(|(name, version)| line("Version", name, version.clone()));
    let hashes = metadata
        .configuration_hashes
        .iter()
        .map(|(name, hash)| line("Configuration", name, hash.clone()));
    let run = [
        line("Run", "Command", command(&metadata.command_line)),
        line("Run", "Duration", format!("{} s", metadata.test_duration)),
        line("Run", "Warm-up", format!("{} s", metadata.warmup_time)),
    ];
    facts.chain(versions).chain(hashes).chain(run).collect()
}

/// Returns the command of a run for readers on other machines: absolute paths are shortened to their last part. `test-metadata.json` has
/// the full command.
fn command(words: &[String]) -> String {
    let shown = words.iter().map(|word| match Path::new(word).file_name() {
        Some(name) if word.starts_with('/') => name.to_string_lossy().into_owned(),
        _ => word.clone(),
    });
    shown.collect::<Vec<_>>().join(" ")
}
