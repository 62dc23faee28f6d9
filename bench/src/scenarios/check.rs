//! Checks the content of a scenario file: names that do not exist, ramps that outlast the warm-up, invalid texts.

use std::collections::BTreeMap;
use std::time::Duration;

use config::{At, Report, Spanned};

use super::file::{CostTarget, File, Group, Scenario, Table};
use crate::generator::{self, Text};
use crate::peers::PeerKind;

/// Reports all mistakes.
pub(super) fn check(file: &File, report: &mut Report) {
    let tables = tables(file);
    for (name, table) in file.tables.iter() {
        let is_written = !table.columns.is_empty() && !table.rows.is_empty();
        if table.tokens.is_some() && !(table.columns.is_empty() && table.rows.is_empty()) {
            let what = format!("table `{}` has `tokens` and others", name.value);
            report.error(name.at, what, "write `tokens`, or columns and rows");
        }
        if table.tokens.is_none() && !is_written {
            report.error(
                name.at,
                format!("table `{}` is empty", name.value),
                "write columns and rows",
            );
        }
        for (index, row) in table.rows.iter().enumerate() {
            if row.len() != table.columns.len() {
                let (has, needs) = (row.len(), table.columns.len());
                let what = format!("row {} of table `{}` has {has} values", index + 1, name.value);
                report.error(name.at, what, format!("write {needs}, one for each column"));
            }
        }
    }
    if file.warm_up.0 >= file.duration.0 {
        report.error(At::file(0), "`warm_up` must be less than `duration`", "shorten it");
    }
    for (name, scenario) in file.scenarios.iter() {
        check_scenario(file, name, scenario, &tables, report);
    }
}

fn check_scenario(
    file: &File,
    name: &Spanned<String>,
    scenario: &Scenario,
    tables: &BTreeMap<String, generator::Table>,
    report: &mut Report,
) {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !name.value.bytes().all(is_name) {
        report.error(
            name.at,
            "a scenario's name is a folder's",
            "write letters, digits, `-` and `_`",
        );
    }
    let kinds = usize::from(!scenario.requests.is_empty())
        + usize::from(scenario.sse.is_some())
        + usize::from(scenario.websocket.is_some())
        + usize::from(scenario.websub.is_some())
        + usize::from(scenario.calls.is_some());
    if kinds != 1 && name.intact {
        let help = "write exactly one of `requests`, `sse`, `websocket`, `websub` and `calls`";
        report.error(name.at, format!("`{}` has {kinds} kinds of load", name.value), help);
    }
    if scenario.users.value.0.is_empty() && scenario.rows.is_empty() {
        report.error(scenario.users.at, "there is no number of users", "write `users: [10, 50]`");
    }
    let warm_up = scenario.warm_up.unwrap_or(file.warm_up).0;
    let duration = scenario.duration.unwrap_or(file.duration).0;
    if warm_up >= duration {
        report.error(name.at, "`warm_up` must be less than `duration`", "shorten it");
    }
    if scenario.ramp.value > warm_up {
        let help = "users who come while it is measured make the figures those of fewer users";
        report.error(scenario.ramp.at, "the ramp must end within the warm-up", help);
    }
    let stages: Duration = scenario.stages.value.iter().map(|stage| stage.over).sum();
    if stages > duration {
        report.error(scenario.stages.at, "the stages are longer than `duration`", "shorten them");
    }
    for group in &scenario.requests {
        check_group(group, tables, report);
    }
    for route in &scenario.peers {
        known_backend(file, &route.backend, report);
    }
    for target in &scenario.targets {
        check_target(file, name, target, report);
    }
}

fn check_target(file: &File, name: &Spanned<String>, target: &CostTarget, report: &mut Report) {
    for of in target.of.iter().chain(&target.over) {
        if !file.scenarios.names().any(|known| known == of.value) {
            let what = format!("the file has no scenario `{}`", of.value);
            report.error(of.at, what, "name one of `scenarios`");
        }
    }
    if let Some(peer) = &target.peer
        && !PeerKind::ALL.iter().any(|kind| kind.name() == peer.value)
    {
        let names = PeerKind::ALL.map(PeerKind::name).join(", ");
        let what = format!("`{}` is not a gateway", peer.value);
        report.error(peer.at, what, format!("name one of {names}"));
    }
    let of = usize::from(target.of.is_some()) + usize::from(target.peer.is_some());
    let bounds = [
        (target.cpu_max.is_some(), of == 1),
        (target.cpu_us_max.is_some(), target.peer.is_none()),
        (target.rate_min.is_some(), target.of.is_some() && target.peer.is_none()),
        (target.memory_max.is_some(), of == 0),
        (target.memory_each_max.is_some(), of == 0),
    ];
    let written: Vec<bool> =
        bounds.iter().filter(|(is_there, _)| *is_there).map(|(_, is_whole)| *is_whole).collect();
    // A bound that could not be read is missing here, and has been reported.
    if written != [true] && (!written.is_empty() || !report.has_errors()) {
        let what = format!("a target of `{}` does not say what is compared", name.value);
        let help = "write one of `cpu_max` with `of` or `peer`, `cpu_us_max`, `rate_min` with `of`, `memory_max` and `memory_each_max`";
        report.error(name.at, what, help);
    }
}

fn check_group(group: &Group, tables: &BTreeMap<String, generator::Table>, report: &mut Report) {
    if group.body.is_some() && group.payload.is_some() {
        report.error(group.path.at, "there is `body` and `payload`", "write one of the two");
    }
    let mut tables = tables.clone();
    tables.insert(
        "route".to_owned(),
        generator::Table {
            columns: vec!["number".to_owned()],
            rows: vec![vec!["1".to_owned()]],
            by: generator::RowBy::User,
        },
    );
    let expect = &group.expect;
    let bodies = [&group.body, &expect.contains, &expect.equals].into_iter().flatten();
    let headers = group.headers.iter().map(|(_, value)| value);
    for text in bodies.chain(headers).chain([&group.path]) {
        check_text(text, &tables, report);
    }
}

fn check_text(
    text: &Spanned<String>,
    tables: &BTreeMap<String, generator::Table>,
    report: &mut Report,
) {
    let help = "places that vary are `${number:DIGITS}`, `${random:BYTES}` and `${TABLE.COLUMN}`";
    match text.value.replace("${TOKEN}", "").parse::<Text>() {
        Err(why) => report.error(text.at, why, help),
        Ok(read) => {
            for why in read.complaints(tables) {
                report.error(text.at, why, help);
            }
        }
    }
}

fn known_backend(file: &File, name: &Spanned<String>, report: &mut Report) {
    if file.backends.names().any(|known| known == name.value) {
        return;
    }
    let meant = report.suggest(&name.value, file.backends.names()).map(str::to_owned);
    let help = meant
        .map_or("name one of `backends`".to_owned(), |meant| format!("did you mean `{meant}`?"));
    report.error(name.at, format!("there is no backend `{}`", name.value), help);
}

/// Returns the tables for the generator, without tokens, which a run creates.
pub(super) fn tables(file: &File) -> BTreeMap<String, generator::Table> {
    file.tables.iter().map(|(name, own)| (name.value.clone(), table(own, &[]))).collect()
}

/// Converts a table for the generator. A table of tokens has at least one row, so that texts that refer to it can be checked.
pub(super) fn table(table: &Table, tokens: &[String]) -> generator::Table {
    let by = generator::RowBy::Request;
    let Some(count) = table.tokens else {
        return generator::Table { columns: table.columns.clone(), rows: table.rows.clone(), by };
    };
    let count = usize::try_from(count.get()).unwrap_or(usize::MAX);
    let mut rows: Vec<Vec<String>> =
        tokens.iter().take(count).map(|token| vec![token.clone()]).collect();
    if rows.is_empty() {
        rows.push(vec!["token".to_owned()]);
    }
    generator::Table { columns: vec!["token".to_owned()], rows, by }
}
