//! What a scenario file says and cannot be: names that do not exist, ramps that outlast the warm-up, texts that are wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use config::{At, Report, Spanned};

use super::file::{File, Group, Scenario, Table};
use crate::generator::{self, Text};

/// Complains of everything that is wrong.
pub(super) fn check(file: &File, report: &mut Report) {
    let tables = tables(file);
    for (name, table) in file.tables.iter() {
        if table.columns.is_empty() || table.rows.is_empty() {
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
        + usize::from(scenario.websub.is_some());
    if kinds != 1 && name.intact {
        let help = "write exactly one of `requests`, `sse`, `websocket` and `websub`";
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

/// The tables as the generator takes them.
pub(super) fn tables(file: &File) -> BTreeMap<String, generator::Table> {
    let table = |table: &Table| generator::Table {
        columns: table.columns.clone(),
        rows: table.rows.clone(),
        by: generator::RowBy::Request,
    };
    file.tables.iter().map(|(name, own)| (name.value.clone(), table(own))).collect()
}
