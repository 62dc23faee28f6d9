//! The rounds of one scenario: each gateway in turn, again and again, so that all have the same weather.

use std::io;
use std::time::Duration;

use bench::peers::Kind;

use crate::apart::Apart;
use crate::highest::{self, Highest};
use crate::peers::{Ground, Peer};
use crate::rig::Count;
use crate::say;
use crate::scenario::Scenario;

/// The length and the number of runs.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    pub(crate) time: Duration,
    /// Not at the scenario's rate, but at the highest that Tidegate holds.
    pub(crate) at_highest: bool,
}

/// All measurements of one scenario.
pub(crate) struct Outcome {
    /// What was asked for in a second.
    pub(crate) rate: f64,
    /// The rig put to itself, at twice the rate.
    pub(crate) alone: Count,
    /// The part of its core that this took.
    pub(crate) alone_busy: f64,
    pub(crate) peers: Vec<Measured>,
}

pub(crate) struct Measured {
    pub(crate) kind: Kind,
    /// Where it was searched for.
    pub(crate) highest: Option<Highest>,
    pub(crate) runs: Vec<Run>,
}

pub(crate) struct Run {
    pub(crate) count: Count,
    /// CPU time of the gateway.
    pub(crate) cpu: Duration,
}

const WARM_UP: Duration = Duration::from_millis(500);

impl Run {
    pub(crate) fn us_each(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.count.came.max(1) as f64
    }

    pub(crate) fn busy(&self) -> f64 {
        self.cpu.as_secs_f64() / self.count.wall.as_secs_f64()
    }
}

pub(crate) fn measure(
    ground: &Ground,
    scenario: &Scenario,
    open: &mut [(Peer, Apart)],
    effort: Effort,
) -> io::Result<Outcome> {
    let (alone, alone_busy) = run_alone(ground, scenario, effort.time)?;
    say!(
        "  rig alone {:8.0} {}s/s, {} lost, {} wrong, {:3.0} % busy",
        alone.per_second(),
        scenario.unit,
        alone.sent.saturating_sub(alone.came),
        alone.wrong,
        alone_busy * 100.0
    );
    let mut peers = Vec::new();
    for (peer, rig) in &mut *open {
        let highest = if effort.at_highest && scenario.rate.is_finite() {
            highest::search(rig, scenario.rate, effort.time)?
        } else {
            None
        };
        if let Some(Highest { rate, rig_busy }) = highest {
            let (name, busy) = (peer.kind.name(), rig_busy * 100.0);
            say!("  {name:<9} holds {rate:8.0}/s, with the rig {busy:.0} % busy");
        }
        peers.push(Measured { kind: peer.kind, highest, runs: Vec::new() });
    }
    let ours = peers.iter().find(|measured| measured.kind == Kind::Tidegate);
    let rate = ours.and_then(|ours| ours.highest).map_or(scenario.rate, |highest| highest.rate);
    for round in 1..=effort.rounds {
        for ((peer, rig), measured) in open.iter_mut().zip(&mut peers) {
            rig.run(rate, WARM_UP)?;
            let before = peer.cpu();
            let count = rig.run(rate, effort.time)?;
            let run = Run { count, cpu: peer.cpu().saturating_sub(before) };
            tell(scenario, round, measured.kind, &run);
            measured.runs.push(run);
        }
    }
    Ok(Outcome { rate, alone, alone_busy, peers })
}

/// Starts the gateways that are asked for, or else all that are installed, each with all its streams open.
pub(crate) fn open(
    ground: &Ground,
    scenario: &Scenario,
    asked: &[Kind],
) -> io::Result<Vec<(Peer, Apart)>> {
    let mut open = Vec::new();
    for kind in scenario.peers.iter().copied() {
        let is_always = matches!(kind, Kind::Before | Kind::Floor);
        let is_wanted = asked.is_empty() || asked.contains(&kind) || is_always;
        match ground.programs.find(kind) {
            Some(_) if is_wanted => open.push(start(ground, scenario, kind)?),
            None if is_wanted && kind != Kind::Before => say!("  {} is not installed", kind.name()),
            _ => {}
        }
    }
    Ok(open)
}

/// The clients right at the backend, at twice the rate.
fn run_alone(ground: &Ground, scenario: &Scenario, time: Duration) -> io::Result<(Count, f64)> {
    let mut rig = Apart::start(scenario.name, ground.cores.load)?;
    // A stream that is shared needs somebody who shares it.
    let is_shared = scenario.peers.contains(&Kind::Floor);
    let shared = is_shared.then(|| ground.start(Kind::Floor, rig.port(), scenario.wire));
    let shared = shared.transpose()?;
    all_open(rig.open(shared.as_ref().map_or(rig.port(), |peer| peer.port))?)?;
    rig.run(2.0 * scenario.rate, WARM_UP)?;
    let before = rig.cpu();
    let count = rig.run(2.0 * scenario.rate, time)?;
    let busy = rig.cpu().saturating_sub(before).as_secs_f64() / count.wall.as_secs_f64();
    Ok((count, busy))
}

fn start(ground: &Ground, scenario: &Scenario, kind: Kind) -> io::Result<(Peer, Apart)> {
    let mut rig = Apart::start(scenario.name, ground.cores.load)?;
    let peer = ground.start(kind, rig.port(), scenario.wire)?;
    let named = |error: io::Error| io::Error::other(format!("{}: {error}", kind.name()));
    rig.open(peer.port).and_then(all_open).map_err(named)?;
    Ok((peer, rig))
}

fn all_open(failed: usize) -> io::Result<()> {
    match failed {
        0 => Ok(()),
        failed => Err(io::Error::other(format!("{failed} streams did not open"))),
    }
}

fn tell(scenario: &Scenario, round: usize, kind: Kind, run: &Run) {
    let Count { sent, came, wrong, .. } = run.count;
    say!(
        "  round {round} {:<9} {:6.2} us/{} {:8.0}/s {:3.0} % busy, {} lost, {wrong} wrong",
        kind.name(),
        run.us_each(),
        scenario.unit,
        run.count.per_second(),
        run.busy() * 100.0,
        sent.saturating_sub(came),
    );
}
