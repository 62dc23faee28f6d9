//! The costs of rows: CPU time per request of each gateway, compared with other gateways and an earlier build, and which targets are met.
//!
//! A ratio is the median of the ratios within each round. The two sides of a round run within seconds of each other, because the speed of a
//! shared machine changes from minute to minute. Rounds with errors do not count; the tables show their errors.

use std::collections::BTreeMap;

use super::results::{Measured, Results};
use super::table::{Table, number};
use crate::folder::{BEFORE, OURS, RowKey};
use crate::generator::Streams;
use crate::scenarios::Scenario;
use crate::scenarios::file::CostTarget;

/// Maximum cost of a build, relative to the earlier one.
const BEFORE_MAX: f64 = 1.03;

/// The costs of a folder's rows.
pub struct Costs {
    table: Table,
    verdicts: Vec<Verdict>,
}

/// Whether a row meets a target. `measured` is `None` if one side was not measured.
struct Verdict {
    row: String,
    target: String,
    measured: Option<(String, bool)>,
}

/// The rounds of a row with one gateway, by number.
type Rounds<'r> = BTreeMap<u32, &'r Measured>;

/// All rounds of a row, by gateway.
struct Compared<'r> {
    key: RowKey,
    gateways: BTreeMap<&'r str, Rounds<'r>>,
}

impl Costs {
    /// Returns the costs of the rows of these scenarios.
    #[must_use]
    pub fn of(results: &Results, scenarios: &[&Scenario]) -> Costs {
        let mut rows: BTreeMap<RowKey, Compared<'_>> = BTreeMap::new();
        for measured in &results.rows {
            let (round, gateway) = (0, OURS.to_owned());
            let key = RowKey { round, gateway, ..measured.key.clone() };
            let gateways = BTreeMap::new();
            let row = rows.entry(key.clone()).or_insert(Compared { key, gateways });
            let rounds = row.gateways.entry(&measured.key.gateway).or_default();
            rounds.insert(measured.key.round, measured);
        }
        let all: Vec<Compared<'_>> = rows.into_values().collect();
        // The rows are in the order of the files, not of their names.
        let mut rows = Vec::new();
        for scenario in scenarios {
            let of = all.iter().filter(|row| row.key.scenario == scenario.name);
            rows.extend(of.map(|row| (*scenario, row)));
        }
        let lines = rows.iter().flat_map(|(_, row)| row.lines());
        let table = Table {
            title: "Costs".to_owned(),
            note: NOTE.to_owned(),
            columns: COLUMNS.map(str::to_owned).to_vec(),
            rows: lines.collect(),
        };
        let verdicts = rows.iter().flat_map(|(scenario, row)| row.verdicts(scenario, &all));
        Costs { table, verdicts: verdicts.collect() }
    }

    /// Returns false if a target was missed, or if a row has an error.
    #[must_use]
    pub fn are_met(&self) -> bool {
        self.verdicts.iter().all(|verdict| !matches!(verdict.measured, Some((_, false))))
    }

    /// Returns the tables of the costs and of the targets.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        let line = |verdict: &Verdict| {
            let (measured, word) = match &verdict.measured {
                Some((measured, true)) => (measured.as_str(), "met"),
                Some((measured, false)) => (measured.as_str(), "MISSED"),
                None => ("N/A", "not measured"),
            };
            let cells = [verdict.row.as_str(), &verdict.target, measured, word];
            cells.map(str::to_owned).to_vec()
        };
        let targets = Table {
            title: "Targets".to_owned(),
            note: String::new(),
            columns: ["Row", "Target", "Measured", "Verdict"].map(str::to_owned).to_vec(),
            rows: self.verdicts.iter().map(line).collect(),
        };
        let tables = [self.table.clone(), targets];
        tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
    }

    /// Returns both tables as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        self.tables().iter().map(Table::markdown).collect::<Vec<String>>().join("\n")
    }
}

const NOTE: &str = "CPU is that of all threads of the gateway for a request, an event, a message or a delivery. `Tidegate to it` is our \
    CPU relative to the gateway's: the median of the ratios within each round.";
const COLUMNS: [&str; 12] = [
    "Scenario",
    "Users",
    "Size (B)",
    "Gateway",
    "CPU (us), least",
    "CPU (us), median",
    "Tidegate to it",
    "Requests/s",
    "p99 (ms)",
    "Memory (MiB)",
    "Errors",
    "Marks",
];

impl Compared<'_> {
    /// A line for each gateway, ours first.
    fn lines(&self) -> Vec<Vec<String>> {
        let mut gateways: Vec<(&str, &Rounds<'_>)> =
            self.gateways.iter().map(|(name, rounds)| (*name, rounds)).collect();
        let place =
            |name: &str| [OURS, BEFORE].iter().position(|known| *known == name).unwrap_or(2);
        gateways.sort_by_key(|(name, _)| place(name));
        gateways.into_iter().map(|(name, rounds)| self.line(name, rounds)).collect()
    }

    fn line(&self, gateway: &str, rounds: &Rounds<'_>) -> Vec<String> {
        let cpu: Vec<f64> = rounds.values().filter_map(|row| cpu_us(row)).collect();
        let least = cpu.iter().copied().min_by(f64::total_cmp);
        // Harmless: a round without the figure has an error or a mark, and the table shows both.
        let middle =
            |of: fn(&Measured) -> Option<f64>| median(rounds.values().filter_map(|row| of(row)));
        let ratio = (gateway != OURS).then(|| self.ratio(gateway)).flatten();
        let memory = |row: &Measured| Some(row.row.cost?.rss_kib_max as f64 / 1024.0);
        let mut marks: Vec<&str> =
            rounds.values().flat_map(|row| &row.row.marks).map(|mark| mark.name()).collect();
        marks.sort_unstable();
        marks.dedup();
        vec![
            self.key.scenario.clone(),
            self.key.users.to_string(),
            self.key.size.to_string(),
            gateway.to_owned(),
            number(least),
            number(middle(cpu_us)),
            ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}")),
            number(middle(rate)),
            number(middle(|row| row.statistics(None)?.p99)),
            number(middle(memory)),
            rounds.values().map(|row| errors(row)).sum::<u64>().to_string(),
            marks.join(", "),
        ]
    }

    /// Returns our CPU time relative to that of another gateway.
    fn ratio(&self, gateway: &str) -> Option<f64> {
        let (ours, theirs) = (self.gateways.get(OURS)?, self.gateways.get(gateway)?);
        in_turn(ours, &[theirs], cpu_us, quotient)
    }

    fn verdicts(&self, scenario: &Scenario, all: &[Compared<'_>]) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        let mut add = |target: String, measured: Option<(String, bool)>| {
            verdicts.push(Verdict { row: self.name(), target, measured });
        };
        let Some(ours) = self.gateways.get(OURS) else { return Vec::new() };
        let count: u64 = ours.values().map(|row| errors(row)).sum();
        let failed = ours.values().flat_map(|row| &row.row.marks).find(|mark| mark.is_failure());
        match failed {
            Some(mark) => add("runs to its end".to_owned(), Some((mark.name().to_owned(), false))),
            None if count > 0 => {
                add("no error".to_owned(), Some((format!("{count} errors"), false)));
            }
            None => {}
        }
        if self.gateways.contains_key(BEFORE) && has_requests(ours) {
            let measured = self.ratio(BEFORE).map(|ratio| told(ratio, ratio <= BEFORE_MAX));
            add(format!("CPU <= {BEFORE_MAX} of the build before"), measured);
        }
        for target in &scenario.own.targets {
            let is_meant = target.size.is_none_or(|size| size.0 == u64::from(self.key.size));
            if is_meant {
                let (text, measured) = self.judge(target, ours, all);
                add(text, measured);
            }
        }
        verdicts
    }

    fn name(&self) -> String {
        let RowKey { scenario, users, size, .. } = &self.key;
        format!("{scenario}, {users} users, {size} B")
    }

    /// Returns a target in words, and the measured value with whether it meets the target.
    fn judge(
        &self,
        target: &CostTarget,
        ours: &Rounds<'_>,
        all: &[Compared<'_>],
    ) -> (String, Option<(String, bool)>) {
        let find = |name: &str| self.like_it(name, all)?.gateways.get(OURS);
        let of = target.of.as_ref().and_then(|of| find(&of.value));
        let over = target.over.as_ref().map_or(of, |over| find(&over.value));
        let base = target.of.as_ref().map_or(String::new(), |of| of.value.clone());
        if let (Some(max), Some(peer)) = (target.cpu_max, &target.peer) {
            let text = format!("CPU <= {} of {}", max.0, peer.value);
            return (text, self.ratio(&peer.value).map(|ratio| told(ratio, ratio <= max.0)));
        }
        if let Some(max) = target.cpu_max {
            let above = match &target.over {
                Some(over) => format!("({} + CPU above {base})", over.value),
                None => "CPU".to_owned(),
            };
            let to = target.over.as_ref().map_or(&base, |over| &over.value);
            let ratio = of.zip(over).and_then(|(of, over)| {
                in_turn(ours, &[of, over], cpu_us, |ours, others| {
                    let (of, over) = (others.first()?, others.get(1)?);
                    Some(1.0 + (ours - of) / over)
                })
            });
            let measured = ratio.map(|ratio| told(ratio, ratio <= max.0));
            return (format!("{above} <= {} of {to}", max.0), measured);
        }
        if let Some(max) = target.cpu_us_max {
            let (text, cpu) = if target.of.is_some() {
                let above = |ours: f64, others: &[f64]| Some(ours - others.first()?);
                let cpu = of.and_then(|of| in_turn(ours, &[of], cpu_us, above));
                (format!("CPU <= {} us above {base}", max.0), cpu)
            } else {
                let cpu = in_turn(ours, &[], cpu_us, |ours, _| Some(ours));
                (format!("CPU <= {} us", max.0), cpu)
            };
            return (text, cpu.map(|cpu| (format!("{cpu:.2} us"), cpu <= max.0)));
        }
        if let Some(min) = target.rate_min {
            let ratio = of.and_then(|of| in_turn(ours, &[of], rate, quotient));
            let text = format!("requests/s >= {} of {base}", min.0);
            return (text, ratio.map(|ratio| told(ratio, ratio >= min.0)));
        }
        self.judge_memory(target, ours)
    }

    fn judge_memory(
        &self,
        target: &CostTarget,
        ours: &Rounds<'_>,
    ) -> (String, Option<(String, bool)>) {
        if let Some(max) = target.memory_max {
            let most = ours.values().filter_map(|row| Some(row.row.cost?.rss_kib_max)).max();
            let text = format!("memory <= {:.0} MiB", max.0 as f64 / f64::from(1 << 20));
            let told = |kib: u64| (format!("{:.1} MiB", kib as f64 / 1024.0), kib * 1024 <= max.0);
            return (text, most.map(told));
        }
        let max = target.memory_each_max.map_or(0, |max| max.0);
        let users = f64::from(self.key.users.max(1));
        let grown = |row: &Measured| {
            let cost = row.row.cost?;
            Some(cost.rss_kib.saturating_sub(cost.idle_rss_kib) as f64 / users)
        };
        let each = in_turn(ours, &[], grown, |ours, _| Some(ours));
        let text = format!("memory <= {:.1} KiB for each user", max as f64 / 1024.0);
        (text, each.map(|kib| (format!("{kib:.2} KiB"), kib * 1024.0 <= max as f64)))
    }

    /// Returns the row of another scenario with which this one is compared: of the same users and size if there is one, otherwise of the
    /// same users.
    fn like_it<'a, 'r>(&self, scenario: &str, all: &'a [Compared<'r>]) -> Option<&'a Compared<'r>> {
        let (heap, delay) = (&self.key.heap, self.key.delay);
        let is_of = |row: &&Compared<'_>| {
            row.key.scenario == scenario && row.key.heap == *heap && row.key.delay == delay
        };
        let same_users = |row: &&Compared<'_>| row.key.users == self.key.users;
        let of = || all.iter().filter(is_of);
        let same = of().filter(same_users).find(|row| row.key.size == self.key.size);
        same.or_else(|| of().find(same_users)).or_else(|| of().next())
    }
}

/// Returns the median of a figure over the rounds that all gateways have. `of` computes it from our value and those of the others.
fn in_turn(
    ours: &Rounds<'_>,
    others: &[&Rounds<'_>],
    figure: impl Fn(&Measured) -> Option<f64>,
    of: impl Fn(f64, &[f64]) -> Option<f64>,
) -> Option<f64> {
    let round = |(round, row): (&u32, &&Measured)| {
        let others = others.iter().map(|rounds| figure(rounds.get(round)?));
        of(figure(row)?, &others.collect::<Option<Vec<f64>>>()?)
    };
    // Harmless: the table shows which gateway was not measured, and which had errors.
    median(ours.iter().filter_map(round))
}

/// Returns our value relative to the first of the others.
fn quotient(ours: f64, others: &[f64]) -> Option<f64> {
    Some(ours / others.first()?)
}

/// Returns the median, or `None` without values.
fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle).copied()?;
    let lower = values.get(middle.wrapping_sub(1)).copied().unwrap_or(upper);
    Some(if values.len().is_multiple_of(2) { f64::midpoint(lower, upper) } else { upper })
}

fn told(ratio: f64, is_met: bool) -> (String, bool) {
    (format!("{ratio:.3}"), is_met)
}

/// Returns true if requests were counted. Users who only wait send none.
fn has_requests(rounds: &Rounds<'_>) -> bool {
    rounds.values().any(|row| row.row.cost.is_some_and(|cost| cost.requests > 0))
}

fn cpu_us(row: &Measured) -> Option<f64> {
    let cost = row.row.cost?;
    cost.cpu_us_each().filter(|_| errors(row) == 0)
}

/// Returns the throughput, or `None` for streams, whose rate is set by the load.
fn rate(row: &Measured) -> Option<f64> {
    row.throughput().filter(|rate| *rate > 0.0 && row.row.streams.is_none())
}

/// Returns the number of replies and messages that were missing or wrong.
fn errors(row: &Measured) -> u64 {
    match &row.row.streams {
        Some(Streams::Sse(counts)) => counts.failed + counts.lost + counts.duplicated,
        Some(Streams::Websocket(counts)) => {
            counts.failed + counts.sent.saturating_sub(counts.received)
        }
        Some(Streams::Websub(counts)) => counts.undelivered + counts.bad_signatures,
        None => row.summary.0.iter().map(|(_, statistics)| statistics.errors).sum(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::folder::{Cost, Folder, LABEL, Mark, Part, Row, Statistics, Summary};

    /// Rows of this file: `base` and `policy` by rounds of CPU in microseconds, and the policy with a build before and a peer.
    const FILE: &str = r#"document: costs
gateway: none.yaml
backends: { echo: { kind: echo } }
duration: 2s
warm_up: 1s
scenarios:
  base: { title: Base, description: Nothing, users: 50, requests: [{ path: / }] }
  policy:
    title: Policy
    description: Something
    users: 50
    requests: [{ path: / }]
    targets:
      - { of: base, cpu_max: 1.15 }
      - { of: base, cpu_us_max: 1.5 }
      - { of: base, rate_min: 0.9 }
      - { of: base, over: base, cpu_max: 1.05 }
      - { peer: nginx, cpu_max: 0.5 }
      - { peer: envoy, cpu_max: 0.5 }
      - { memory_max: 3MiB }
      - { memory_each_max: 10KiB }
      - { size: 7B, cpu_us_max: 1 }
"#;

    fn put(folder: &Folder, key: &RowKey, cpu_us_each: f64, errors: u64, marks: Vec<Mark>) {
        let row = folder.row(key);
        let (samples, throughput) = (1000, Some(1e6 / cpu_us_each));
        let statistics = Statistics { samples, errors, throughput, ..Statistics::default() };
        let summary = Summary(vec![(LABEL.to_owned(), statistics)]);
        row.write_summary(Part::Measurement, &summary).unwrap();
        let cost = Cost {
            cpu_us: cpu_us_each * 1000.0,
            requests: 1000,
            idle_rss_kib: 1024,
            rss_kib: 2048,
            rss_kib_max: 2048,
        };
        let row_file = Row {
            document: "costs".to_owned(),
            scenario: key.scenario.clone(),
            users: key.users,
            marks,
            cost: Some(cost),
            ..Row::default()
        };
        row.finish(&row_file).unwrap();
    }

    fn costs(fill: impl Fn(&dyn Fn(&str, &str, u32, f64, u64))) -> Costs {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        fill(&|scenario, gateway, round, cpu, errors| {
            let gateway = gateway.to_owned();
            let key = RowKey { gateway, round, ..RowKey::ours(scenario, "2G", 50, 0, 0) };
            put(&folder, &key, cpu, errors, Vec::new());
        });
        let scenarios = crate::scenarios::parse(FILE, Path::new("costs.yaml"));
        let scenarios = scenarios.unwrap_or_else(|report| panic!("{report:#}"));
        let all: Vec<&Scenario> = scenarios.iter().collect();
        Costs::of(&Results::read(place.path()).unwrap(), &all)
    }

    /// The machine slows down by half from round to round, and the ratios are those within each round.
    #[test]
    fn ratios_are_those_within_a_round() {
        let told = costs(|put| {
            for (round, slow) in [(1, 1.0), (2, 1.5), (3, 2.0)] {
                put("base", OURS, round, 10.0 * slow, 0);
                put("policy", OURS, round, 11.0 * slow, 0);
                put("policy", BEFORE, round, 10.9 * slow, 0);
                put("policy", "nginx", round, 20.0 * slow, 0);
            }
        });
        let text = told.markdown();
        for part in [
            "| policy | 50 | 0 | tidegate | 11 | 16.5 | - |",
            "| policy | 50 | 0 | before | 10.9 | 16.35 | 1.009 |",
            "| policy | 50 | 0 | nginx | 20 | 30 | 0.550 |",
            "| CPU <= 1.03 of the build before | 1.009 | met |",
            "| CPU <= 1.15 of base | 1.100 | met |",
            "| CPU <= 1.5 us above base | 1.50 us | met |",
            "| requests/s >= 0.9 of base | 0.909 | met |",
            "| (base + CPU above base) <= 1.05 of base | 1.100 | MISSED |",
            "| CPU <= 0.5 of nginx | 0.550 | MISSED |",
            "| CPU <= 0.5 of envoy | N/A | not measured |",
            "| memory <= 3 MiB | 2.0 MiB | met |",
            "| memory <= 10.0 KiB for each user | 20.48 KiB | MISSED |",
        ] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
        assert!(!text.contains("<= 1 us |"), "that is of another size: {text}");
        assert!(!told.are_met());
    }

    #[test]
    fn a_build_that_costs_more_than_before_and_an_error_are_misses() {
        let one = |cpu: f64, errors: u64| {
            let told = costs(|put| {
                put("base", OURS, 1, cpu, errors);
                put("base", OURS, 2, cpu, 0);
                put("base", BEFORE, 1, 10.0, 0);
                put("base", BEFORE, 2, 10.0, 0);
            });
            (told.are_met(), told.markdown())
        };
        assert!(one(10.2, 0).0);
        let (met, text) = one(10.4, 0);
        assert!(!met && text.contains("| 1.040 | MISSED |"), "{text}");
        // The round with errors does not count in the ratio, and its errors miss the target.
        let (met, text) = one(10.2, 3);
        assert!(!met && text.contains("| no error | 3 errors | MISSED |"), "{text}");
        assert!(text.contains("| 1.020 | met |"), "{text}");
    }
}
