//! The outcome of a scenario as a table.

use std::fmt::Write as _;

use bench::peers::{Kind, median};

use crate::rounds::{Measured, Outcome, Run};
use crate::scenario::Scenario;

/// The rig is good for a rate if it misses no more than this part of it.
const MISSED_MAX: f64 = 0.02;

pub(crate) fn markdown(scenario: &Scenario, outcome: &Outcome) -> String {
    let Scenario { title, unit, .. } = scenario;
    let mut text = format!("### {title}\n\n");
    let held: Vec<String> = outcome.peers.iter().filter_map(|m| held(m, unit)).collect();
    if !held.is_empty() {
        // Writing to a String does not fail.
        let _ok = writeln!(text, "Highest rates held: {}.", held.join("; "));
        let _ok = writeln!(text, "Measured at {:.0} {unit}s/s.\n", outcome.rate);
    }
    let verdict = |met: bool| if met { "met" } else { "missed" };
    // Writing to a String does not fail.
    let _ok = writeln!(
        text,
        "Rig alone: {:.0} {unit}s/s, {:.0} % of its core; twice the rate is {:.0}: {}\n",
        outcome.alone.per_second(),
        outcome.alone_busy * 100.0,
        2.0 * rate(outcome),
        verdict(holds_twice(outcome)),
    );
    let _ok = writeln!(
        text,
        "| gateway | CPU us/{unit} | {unit}s/s | core busy | lost | wrong | Tidegate's ratio, in turn | target |"
    );
    text.push_str("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n");
    for measured in &outcome.peers {
        let lost: u64 =
            measured.runs.iter().map(|r| r.count.sent.saturating_sub(r.count.came)).sum();
        let wrong: u64 = measured.runs.iter().map(|run| run.count.wrong).sum();
        let ratio = ratio(outcome, measured.kind);
        let target = scenario.ratios_max.iter().find(|(kind, _)| *kind == measured.kind);
        let target = match (target, measured.kind, ratio) {
            (Some((_, max)), _, Some(ratio)) => format!("<= {max} {}", verdict(ratio <= *max)),
            (None, Kind::Tidegate, _) => format!("nothing lost {}", verdict(is_whole(measured))),
            _ => String::new(),
        };
        let _ok = writeln!(
            text,
            "| {} | {:.2} | {:.0} | {:.0} % | {lost} | {wrong} | {} | {target} |",
            measured.kind.name(),
            median(measured.runs.iter().map(Run::us_each)),
            median(measured.runs.iter().map(|run| run.count.per_second())),
            median(measured.runs.iter().map(Run::busy)) * 100.0,
            ratio.map(|ratio| format!("{ratio:.3}")).unwrap_or_default(),
        );
    }
    text
}

pub(crate) fn is_met(scenario: &Scenario, outcome: &Outcome) -> bool {
    let ratios =
        scenario.ratios_max.iter().filter_map(|(kind, max)| Some((ratio(outcome, *kind)?, max)));
    let ours = outcome.peers.iter().find(|measured| measured.kind == Kind::Tidegate);
    holds_twice(outcome)
        && ours.is_some_and(is_whole)
        && ratios.fold(true, |met, (ratio, max)| met && ratio <= *max)
}

fn holds_twice(outcome: &Outcome) -> bool {
    let enough = 2.0 * rate(outcome) * (1.0 - MISSED_MAX);
    outcome.alone.is_whole() && outcome.alone.per_second() >= enough
}

/// The rate that was asked for, or where that has no end what Tidegate made.
fn rate(outcome: &Outcome) -> f64 {
    if outcome.rate.is_finite() {
        return outcome.rate;
    }
    let ours = outcome.peers.iter().find(|measured| measured.kind == Kind::Tidegate);
    let made = ours.map(|ours| median(ours.runs.iter().map(|run| run.count.per_second())));
    made.unwrap_or(f64::INFINITY)
}

/// The highest rate of a gateway, where it was searched for, and how busy the rig was with it.
fn held(Measured { kind, highest, .. }: &Measured, unit: &str) -> Option<String> {
    let (name, highest) = (kind.name(), highest.as_ref()?);
    Some(format!("{name} {:.0} {unit}s/s (rig {:.0} %)", highest.rate, highest.rig_busy * 100.0))
}

fn is_whole(measured: &Measured) -> bool {
    measured.runs.iter().all(|run| run.count.is_whole())
}

/// Tidegate's cost beside that of a peer: the median of the ratios within each round.
fn ratio(outcome: &Outcome, peer: Kind) -> Option<f64> {
    let runs = |kind: Kind| outcome.peers.iter().find(|measured| measured.kind == kind);
    let (ours, theirs) = (runs(Kind::Tidegate)?, runs(peer)?);
    if peer == Kind::Tidegate {
        return None;
    }
    let ratios = ours.runs.iter().zip(&theirs.runs).map(|(a, b)| a.us_each() / b.us_each());
    Some(median(ratios))
}
