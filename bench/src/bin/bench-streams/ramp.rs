//! A ramp: rates from a quarter of a scenario's up to twice as much, and the error at each.
//!
//! The error is the part of what was sent in a second that was late, lost or wrong. What is late is waited for before the next second
//! begins, so that each has an error of its own.

use std::fmt::Write as _;
use std::io;

use bench::peers::Kind;

use crate::apart::Apart;
use crate::peers::{Ground, Peer};
use crate::say;
use crate::scenario::Scenario;
use crate::seconds::{self, Second};

/// Parts of the scenario's rate.
const STEPS: [f64; 7] = [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0];

/// What came of a gateway at one rate.
pub(crate) struct Step {
    kind: Kind,
    rate: f64,
    seconds: Vec<Second>,
}

impl Step {
    fn errors(&self) -> Vec<String> {
        let of = |Second { count, .. }: &Second| {
            (count.late + count.wrong) as f64 * 100.0 / count.sent.max(1) as f64
        };
        self.seconds.iter().map(|second| format!("{:.2} %", of(second))).collect()
    }
}

/// Runs each gateway up its ramp.
pub(crate) fn measure(
    scenario: &Scenario,
    open: &mut [(Peer, Apart)],
    seconds: u64,
) -> io::Result<Vec<Step>> {
    let mut steps = Vec::new();
    for (peer, rig) in open {
        for part in STEPS {
            let (kind, rate) = (peer.kind, part * scenario.rate);
            let seconds = seconds::run(rig, peer, rate, seconds)?;
            let step = Step { kind, rate, seconds };
            say!("  {:<9} {rate:8.0}/s: error {}", kind.name(), step.errors().join(" "));
            steps.push(step);
        }
    }
    Ok(steps)
}

pub(crate) fn markdown(scenario: &Scenario, ground: &Ground, steps: &[Step]) -> String {
    let Scenario { title, unit, .. } = scenario;
    let mut text = format!(
        "### {title}: the error at rising rates, on core {}\n\n\
         | gateway | {unit}s/s asked | sent | came | error, each second | CPU of a core, each second | MiB, each second |\n\
         | --- | ---: | ---: | ---: | --- | --- | --- |\n",
        ground.cores.gateway
    );
    for step in steps {
        let sent: u64 = step.seconds.iter().map(|second| second.count.sent).sum();
        let came: u64 = step.seconds.iter().map(|second| second.count.came).sum();
        // Writing to a String does not fail.
        let _ok = writeln!(
            text,
            "| {} | {:.0} | {sent} | {came} | {} | {} |",
            step.kind.name(),
            step.rate,
            step.errors().join(" "),
            seconds::usage(&step.seconds),
        );
    }
    text
}
