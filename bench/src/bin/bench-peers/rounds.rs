//! The order of measuring: case by case, and in each round every peer once, so that a slow minute of the machine affects all of
//! them.

use std::io;
use std::time::Duration;

use bench::peers::Kind;

use crate::cases::{Case, Load};
use crate::idle::{self, Idle};
use crate::load::{self, Run};
use crate::peers::{self, Ground, Peer};
use crate::say;

/// The length and the number of runs.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    pub(crate) time: Duration,
}

/// All measurements of one case.
pub(crate) struct Outcome {
    pub(crate) case: &'static Case,
    pub(crate) peers: Vec<Measured>,
}

pub(crate) struct Measured {
    pub(crate) kind: Kind,
    pub(crate) runs: Vec<Run>,
    pub(crate) idle: Option<Idle>,
}

/// Starts the peers anew, so that no case sees the memory of another.
pub(crate) fn measure(
    ground: &mut Ground,
    case: &'static Case,
    kinds: &[Kind],
    effort: Effort,
) -> io::Result<Outcome> {
    say!("\n{}: {}", case.name, case.title);
    let kinds = kinds.iter().copied().filter(|kind| peers::has(*kind, case.door));
    if case.load == Load::Idle {
        let peers = kinds.map(|kind| hold(ground, case, kind)).collect::<Result<_, _>>()?;
        return Ok(Outcome { case, peers });
    }
    let mut peers = kinds
        .map(|kind| {
            let measured = Measured { kind, runs: Vec::new(), idle: None };
            Ok((ground.start(kind)?, measured))
        })
        .collect::<io::Result<Vec<(Peer, Measured)>>>()?;
    for round in 1..=effort.rounds {
        for (peer, measured) in &mut peers {
            let run = load::run(ground, peer, case, effort.time)?;
            tell(round, effort.rounds, measured.kind, &run);
            measured.runs.push(run);
            ground.has_backend()?;
        }
    }
    Ok(Outcome { case, peers: peers.into_iter().map(|(_, measured)| measured).collect() })
}

fn hold(ground: &Ground, case: &Case, kind: Kind) -> io::Result<Measured> {
    let peer = ground.start(kind)?;
    let idle = idle::hold(&peer, case)?;
    say!("  {:<9} {:6.2} KiB a connection", kind.name(), idle.connection_bytes as f64 / 1024.0);
    Ok(Measured { kind, runs: Vec::new(), idle: Some(idle) })
}

fn tell(round: usize, rounds: usize, kind: Kind, run: &Run) {
    let errors = if run.is_good() { String::new() } else { format!("  {} errors", run.errors) };
    say!(
        "  round {round}/{rounds} {:<9} {:7.2} us/request {:8.0} requests/s  {:3.0} % busy{errors}",
        kind.name(),
        run.cpu_us_per_request(),
        run.requests_per_second(),
        run.busy() * 100.0,
    );
}
