//! The `http1` suite: sends the exact bytes of a case, observes the reply, and judges it by the rule of the case.

mod case;
mod observe;
mod rule;

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use case::Case;
use observe::{Patience, Seen};
use rule::Verdict;

use crate::Failure;
use crate::conformance::gateway::{self, Gateway};
use crate::conformance::pack::Pack;
use crate::conformance::{Options, Outcome, echo};

/// Runs all cases of the pack and judges them.
pub(crate) fn run(options: &Options) -> Result<Outcome, Failure> {
    let cases = load(&options.pack, &options.only)?;
    let upstream = echo::start(&options.echo)
        .map_err(|error| Failure::Broken(format!("echo upstream on {}: {error}", options.echo)))?;
    let (target, _gateway) = match &options.target {
        Some(name) => (resolve(name)?, None),
        None => {
            let built = options.gateway.clone().map_or_else(gateway::build, Ok)?;
            let gateway = Gateway::start(&built, upstream)?;
            (gateway.address, Some(gateway))
        }
    };
    let judged = judge_all(&cases, target, options.connections)?;
    Ok(report(&cases, &judged))
}

/// The observation of a case, and the verdict of its rule.
struct Judged {
    seen: Vec<Seen>,
    verdict: Verdict,
}

fn load(path: &Path, only: &str) -> Result<Vec<Case>, Failure> {
    let pack = Pack::open(path)?;
    let cases: Result<Vec<Case>, String> = pack.cases.iter().map(Case::read).collect();
    let mut cases =
        cases.map_err(|error| Failure::Broken(format!("{}: {error}", path.display())))?;
    cases.retain(|case| case.id.contains(only));
    Ok(cases)
}

fn resolve(name: &str) -> Result<SocketAddr, Failure> {
    let usage = || Failure::Usage(format!("--target takes HOST:PORT, not `{name}`"));
    name.to_socket_addrs().map_err(|_| usage())?.next().ok_or_else(usage)
}

/// Runs the cases on a few threads, each of which takes the next case. Most time is spent waiting.
fn judge_all(
    cases: &[Case],
    target: SocketAddr,
    connections: usize,
) -> Result<Vec<Judged>, Failure> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        let mut judged = Vec::new();
        while let Some((at, case)) = take(&next, cases) {
            let seen = observe::observe(target, &case.steps, Patience::default());
            let verdict = case.rule.judge(&seen);
            judged.push((at, Judged { seen, verdict }));
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, cases.len());
        }
        judged
    };
    let mut judged: Vec<(usize, Judged)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..connections).map(|_| scope.spawn(work)).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).flatten().collect()
    });
    if judged.len() != cases.len() {
        return Err(Failure::Broken("a thread that runs cases has panicked".to_owned()));
    }
    judged.sort_by_key(|(at, _)| *at);
    Ok(judged.into_iter().map(|(_, judged)| judged).collect())
}

fn take<'c>(next: &AtomicUsize, cases: &'c [Case]) -> Option<(usize, &'c Case)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    cases.get(at).map(|case| (at, case))
}

fn progress(done: usize, all: usize) {
    let mut stderr = std::io::stderr().lock();
    if stderr.is_terminal() {
        let end = if done == all { "\r\x1b[K" } else { "" };
        write!(stderr, "\r{done} of {all} cases{end}").ok();
    }
}

fn report(cases: &[Case], judged: &[Judged]) -> Outcome {
    let count = |scored: bool, verdict: Verdict| {
        let of = cases.iter().zip(judged).filter(|(case, _)| case.scored == scored);
        of.filter(|(_, judged)| judged.verdict == verdict).count()
    };
    let counts = |scored: bool| {
        let [pass, warn, fail] =
            [Verdict::Pass, Verdict::Warn, Verdict::Fail].map(|verdict| count(scored, verdict));
        format!("{pass} pass, {warn} warn, {fail} fail of {}", pass + warn + fail)
    };
    let others = cases.iter().zip(judged).filter(|(_, judged)| judged.verdict != Verdict::Pass);
    Outcome {
        summary: format!("scored: {}\nunscored: {}", counts(true), counts(false)),
        complaints: others.map(|(case, judged)| complain(case, judged)).collect(),
        passed: count(true, Verdict::Pass),
        failed: count(true, Verdict::Fail),
        scored: cases.iter().filter(|case| case.scored).count(),
    }
}

/// The report of a failed case: the bytes sent, the expectation of its rule, the reply.
fn complain(case: &Case, judged: &Judged) -> String {
    let scored = if case.scored { "scored" } else { "unscored" };
    let mut text = format!(
        "{} {:?}, {scored}, {}, {}\n  {}\n  expected {}\n",
        case.id, judged.verdict, case.level, case.rfc, case.description, case.rule
    );
    for (step, seen) in case.steps.iter().zip(&judged.seen) {
        let sent = excerpt(&step.bytes());
        writeln!(text, "  sent {sent}\n  got {seen}").ok();
    }
    text.push('\n');
    text
}

/// The first and last bytes, escaped.
fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 300;
    match (bytes.get(..SHOWN), bytes.len().checked_sub(60).and_then(|at| bytes.get(at..))) {
        (Some(first), Some(last)) if bytes.len() > SHOWN + last.len() => {
            format!("{} ... {} ({} bytes)", first.escape_ascii(), last.escape_ascii(), bytes.len())
        }
        _ => bytes.escape_ascii().to_string(),
    }
}
