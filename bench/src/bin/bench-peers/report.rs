//! The measurements and targets, as tables for people (Markdown) and as JSON for programs.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bench::peers::{Kind, median};
use serde_json::{Value, json};

use crate::cases::{Load, Target};
use crate::idle::Idle;
use crate::load::Run;
use crate::rounds::{Effort, Measured, Outcome};

/// The most that a change may cost, if the program from before it is measured as well.
const NO_WORSE: Target = Target::RatioMax { peer: Kind::Before, max: 1.03 };

/// One target and whether it was reached; `None` if one side of it was not measured.
pub(crate) struct Verdict {
    case: &'static str,
    target: String,
    shown: Option<(String, bool)>,
}

/// The whole report in Markdown, readable in a terminal too.
pub(crate) fn markdown(when: &str, effort: Effort, outcomes: &[Outcome]) -> String {
    let mut text = format!("# Gateways compared, {when}\n\n");
    push(
        &mut text,
        format_args!(
            "CPU time of the gateway's process tree per completed request, \
        gateway alone on its core, {} rounds of {:?}, peers in turn; \
        `in turn`, which targets are held to, is the median of the ratios within each round.\n",
            effort.rounds, effort.time
        ),
    );
    for outcome in outcomes {
        push(&mut text, format_args!("\n## {}: {}\n\n", outcome.case.name, outcome.case.title));
        text.push_str(&if outcome.case.load == Load::Idle {
            idle_table(outcome)
        } else {
            load_table(outcome)
        });
    }
    text.push_str("\n## Targets\n\n| case | target | measured | |\n| --- | --- | --- | --- |\n");
    for Verdict { case, target, shown } in verdicts(outcomes) {
        let (measured, word) = match &shown {
            Some((measured, true)) => (measured.as_str(), "met"),
            Some((measured, false)) => (measured.as_str(), "NOT MET"),
            None => ("-", "not measured"),
        };
        push(&mut text, format_args!("| {case} | {target} | {measured} | {word} |\n"));
    }
    text
}

/// Writes both forms and prints the file names.
pub(crate) fn save(
    folder: &Path,
    when: &str,
    effort: Effort,
    outcomes: &[Outcome],
) -> io::Result<(PathBuf, PathBuf)> {
    fs::create_dir_all(folder)?;
    let file = folder.join(format!("peers-{}", when.replace([':', '-'], "")));
    let (table, figures) = (file.with_extension("md"), file.with_extension("json"));
    fs::write(&table, markdown(when, effort, outcomes))?;
    fs::write(&figures, format!("{:#}\n", as_json(when, effort, outcomes)))?;
    Ok((table, figures))
}

pub(crate) fn all_met(outcomes: &[Outcome]) -> bool {
    verdicts(outcomes).iter().all(|verdict| !matches!(verdict.shown, Some((_, false))))
}

fn push(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    text.write_fmt(line).unwrap_or_default();
}

fn load_table(outcome: &Outcome) -> String {
    let mut text = "| peer | µs/request min | median | tidegate/peer min | median | in turn | requests/s | p50 | p99 | busy | RSS |\n\
        | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n".to_owned();
    for measured in &outcome.peers {
        let row = load_row(outcome, measured);
        push(&mut text, format_args!("| {} | {} |\n", measured.kind.name(), row));
    }
    text
}

fn load_row(outcome: &Outcome, measured: &Measured) -> String {
    let failed = measured.runs.iter().filter(|run| !run.is_good()).count();
    let Some(cost) = Cost::of(measured) else {
        let errors: u64 = measured.runs.iter().map(|run| run.errors).sum();
        return format!("no run without errors ({errors} errors in {failed} runs)");
    };
    let shown = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    let ratio = |pick: fn(Cost) -> f64| shown(ratio(outcome, measured.kind, pick));
    let good = good_runs(measured);
    let median_of = |figure: fn(&Run) -> f64| median(good.iter().map(|run| figure(run)));
    let mut row = format!(
        "{:.2} | {:.2} | {} | {} | {} | {:.0} | {:.2} ms | {:.2} ms | {:.0} % | {:.1} MiB",
        cost.min,
        cost.median,
        ratio(|cost| cost.min),
        ratio(|cost| cost.median),
        shown(in_turn(outcome, measured.kind)),
        median_of(Run::requests_per_second),
        median_of(|run| run.p50.as_secs_f64() * 1e3),
        median_of(|run| run.p99.as_secs_f64() * 1e3),
        median_of(|run| run.busy() * 100.0),
        measured.runs.last().map_or(0.0, |run| run.rss_bytes as f64 / f64::from(1 << 20)),
    );
    if failed > 0 {
        push(&mut row, format_args!(" ({failed} runs with errors left out)"));
    }
    row
}

fn idle_table(outcome: &Outcome) -> String {
    let mut text = "| peer | KiB a connection | RSS |\n| --- | ---: | ---: |\n".to_owned();
    for Measured { kind, idle, .. } in &outcome.peers {
        let Some(idle) = idle else { continue };
        let (each, all) = (idle.connection_bytes as f64, idle.rss_bytes as f64);
        push(
            &mut text,
            format_args!(
                "| {} | {:.2} | {:.1} MiB |\n",
                kind.name(),
                each / 1024.0,
                all / f64::from(1 << 20)
            ),
        );
    }
    text
}

/// CPU time in µs per request, over the rounds without errors.
#[derive(Clone, Copy)]
struct Cost {
    min: f64,
    median: f64,
}

impl Cost {
    fn of(measured: &Measured) -> Option<Self> {
        let costs: Vec<f64> =
            good_runs(measured).into_iter().map(Run::cpu_us_per_request).collect();
        let min = costs.iter().copied().min_by(f64::total_cmp)?;
        Some(Self { min, median: median(costs) })
    }
}

fn good_runs(measured: &Measured) -> Vec<&Run> {
    measured.runs.iter().filter(|run| run.is_good()).collect()
}

fn find(outcome: &Outcome, kind: Kind) -> Option<&Measured> {
    outcome.peers.iter().find(|measured| measured.kind == kind)
}

fn ratio(outcome: &Outcome, peer: Kind, pick: fn(Cost) -> f64) -> Option<f64> {
    let ours = Cost::of(find(outcome, Kind::Tidegate)?)?;
    let theirs = Cost::of(find(outcome, peer)?)?;
    Some(pick(ours) / pick(theirs))
}

/// The median of the ratios within each round: this is robust on a machine whose speed changes from one second to the next.
fn in_turn(outcome: &Outcome, peer: Kind) -> Option<f64> {
    let (ours, theirs) = (find(outcome, Kind::Tidegate)?, find(outcome, peer)?);
    let rounds = ours.runs.iter().zip(&theirs.runs);
    let good = rounds.filter(|(ours, theirs)| ours.is_good() && theirs.is_good());
    let ratios = good.map(|(ours, theirs)| ours.cpu_us_per_request() / theirs.cpu_us_per_request());
    let ratios: Vec<f64> = ratios.collect();
    (!ratios.is_empty()).then(|| median(ratios))
}

fn verdicts(outcomes: &[Outcome]) -> Vec<Verdict> {
    let each = |outcome: &'_ Outcome| -> Vec<Verdict> {
        let before = find(outcome, Kind::Before).is_some_and(|measured| measured.idle.is_none());
        let targets = outcome.case.targets.iter().chain(before.then_some(&NO_WORSE));
        targets.map(|target| judge(outcome, target)).collect()
    };
    outcomes.iter().flat_map(each).collect()
}

fn judge(outcome: &Outcome, target: &Target) -> Verdict {
    let case = outcome.case.name;
    match *target {
        Target::RatioMax { peer, max } => {
            let ratio = in_turn(outcome, peer);
            let shown = ratio.map(|ratio| (format!("{ratio:.2}"), ratio <= max));
            let target = format!("CPU per request <= {max:.2} of {}", peer.name());
            Verdict { case, target, shown }
        }
        Target::ConnectionBytesMax(bytes_max) => {
            let kib = |bytes: u64| bytes as f64 / 1024.0;
            let idle = find(outcome, Kind::Tidegate).and_then(|measured| measured.idle);
            let shown = idle.map(|Idle { connection_bytes, .. }| {
                (format!("{:.2} KiB", kib(connection_bytes)), connection_bytes <= bytes_max)
            });
            let target = format!("<= {:.0} KiB a connection", kib(bytes_max));
            Verdict { case, target, shown }
        }
    }
}

fn as_json(when: &str, effort: Effort, outcomes: &[Outcome]) -> Value {
    let cases = outcomes.iter().map(|outcome| {
        let peers: Value = outcome
            .peers
            .iter()
            .map(|measured| (measured.kind.name().to_owned(), measured_json(measured)))
            .collect();
        json!({ "case": outcome.case.name, "title": outcome.case.title, "peers": peers })
    });
    let targets = verdicts(outcomes).into_iter().map(|Verdict { case, target, shown }| {
        let (measured, met) = shown.unzip();
        json!({ "case": case, "target": target, "measured": measured, "met": met })
    });
    json!({
        "when": when,
        "rounds": effort.rounds,
        "seconds": effort.time.as_secs_f64(),
        "cases": cases.collect::<Value>(),
        "targets": targets.collect::<Value>(),
    })
}

fn measured_json(measured: &Measured) -> Value {
    let runs = measured.runs.iter().map(|run| {
        json!({
            "cpu_us_per_request": run.cpu_us_per_request(),
            "requests": run.requests,
            "errors": run.errors,
            "requests_per_second": run.requests_per_second(),
            "p50_us": run.p50.as_secs_f64() * 1e6,
            "p99_us": run.p99.as_secs_f64() * 1e6,
            "busy": run.busy(),
            "rss_bytes": run.rss_bytes,
        })
    });
    match measured.idle {
        None => json!({ "runs": runs.collect::<Value>() }),
        Some(idle) => {
            json!({ "connection_bytes": idle.connection_bytes, "rss_bytes": idle.rss_bytes })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::CASES;
    use std::time::Duration;

    fn measured(kind: Kind, costs_us: &[u64], errors: u64) -> Measured {
        let run = |&us: &u64| Run {
            requests: 1000,
            errors: if us == 0 { errors } else { 0 },
            p50: Duration::from_millis(1),
            p99: Duration::from_millis(2),
            cpu: Duration::from_millis(us),
            wall: Duration::from_secs(1),
            rss_bytes: 3 << 20,
        };
        Measured { kind, runs: costs_us.iter().map(run).collect(), idle: None }
    }

    #[test]
    fn targets_are_held_to_what_ran_in_turn_and_runs_with_errors_are_left_out() {
        let peers = vec![
            measured(Kind::Tidegate, &[14, 12, 16], 0),
            measured(Kind::Nginx, &[20, 16, 0], 7),
            measured(Kind::Haproxy, &[0], 7),
        ];
        let outcomes = [Outcome { case: &CASES[0], peers }];
        let effort = Effort { rounds: 3, time: Duration::from_secs(1) };
        let text = markdown("today", effort, &outcomes);
        for part in [
            "| tidegate | 12.00 | 14.00 | 1.00 | 1.00 | 1.00 |",
            "| nginx | 16.00 | 18.00 | 0.75 | 0.78 | 0.72 |",
            "3.0 MiB (1 runs with errors left out)",
            "| haproxy | no run without errors (7 errors in 1 runs) |",
            "<= 0.80 of nginx | 0.72 | met |",
            "<= 0.80 of haproxy | - | not measured |",
        ] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
        assert!(all_met(&outcomes));
        assert_eq!(as_json("today", effort, &outcomes)["targets"][0]["met"], true);
    }
}
