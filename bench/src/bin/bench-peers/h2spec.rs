//! Conformance to HTTP/2 by h2spec: the tests that Tidegate fails and nginx passes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::time::Duration;

use bench::peers::Kind;
use bench::process::{Process, find, pinned};

use crate::cases::Door;
use crate::peers::{Ground, Peer};
use crate::say;

/// 145 tests, each of which waits at most a second for an answer that may not come.
const TIME_MAX: Duration = Duration::from_secs(240);

/// The results of one gateway on one of its listeners.
struct Verdict {
    tests: usize,
    failed: BTreeSet<String>,
}

/// Tests both; true if Tidegate fails nothing that nginx passes.
pub(crate) fn compare(ground: &Ground, kinds: &[Kind]) -> io::Result<bool> {
    let mut as_good = true;
    for (door, words) in [(Door::Http2, "HTTP/2 without TLS"), (Door::Tls, "HTTP/2 over TLS")] {
        say!("\nh2spec, {words}");
        let mut theirs = None;
        let mut ours = None;
        for &kind in kinds.iter().filter(|&&kind| kind != Kind::Floor) {
            let verdict = examine(ground, &ground.start(kind)?, door)?;
            let passed = verdict.tests - verdict.failed.len();
            writeln!(
                io::stdout(),
                "h2spec {words}: {} passed {passed} of {}",
                kind.name(),
                verdict.tests
            )?;
            match kind {
                Kind::Tidegate => ours = Some(verdict),
                Kind::Nginx => theirs = Some(verdict),
                Kind::Floor | Kind::Before | Kind::Haproxy | Kind::Envoy => {}
            }
        }
        if let (Some(ours), Some(theirs)) = (ours, theirs) {
            let worse: Vec<&String> = ours.failed.difference(&theirs.failed).collect();
            writeln!(io::stdout(), "  failures that nginx does not have: {}", worse.len())?;
            for test in &worse {
                writeln!(io::stdout(), "    {test}")?;
            }
            as_good &= worse.is_empty();
        }
    }
    Ok(as_good)
}

fn examine(ground: &Ground, peer: &Peer, door: Door) -> io::Result<Verdict> {
    let (log, report) = (ground.folder.join("h2spec.log"), ground.folder.join("h2spec.xml"));
    let program = find("h2spec").ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, "h2spec is not installed; bench/setup.sh --h2spec")
    })?;
    let mut command = pinned(ground.cores.load, program);
    command.args(["--host", "127.0.0.1", "--path", "/echo/x", "--timeout", "1"]);
    command.arg("--port").arg(peer.port(door).to_string()).arg("--junit-report").arg(&report);
    if door == Door::Tls {
        command.args(["--tls", "--insecure"]);
    }
    // It ends with 1 if a test failed; the report says which.
    match Process::start(command, &log)?.wait(TIME_MAX) {
        Err(error) if error.kind() != io::ErrorKind::Other => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let verdict = read(&fs::read_to_string(&report)?);
    fs::remove_file(&report)?;
    if verdict.tests == 0 {
        return Err(io::Error::other(fs::read_to_string(&log)?));
    }
    Ok(verdict)
}

/// The report has one element per test, on a line of its own, with `failure` inside if it failed.
fn read(report: &str) -> Verdict {
    let mut verdict = Verdict { tests: 0, failed: BTreeSet::new() };
    for test in report.split("<testcase ").skip(1) {
        verdict.tests += 1;
        if test.contains("<failure") || test.contains("<error") {
            let section = attribute(test, "package").replace('/', " ");
            verdict.failed.insert(format!("{section}: {}", attribute(test, "classname")));
        }
    }
    verdict
}

fn attribute(element: &str, name: &str) -> String {
    let value =
        element.split_once(&format!("{name}=\"")).and_then(|(_, rest)| rest.split_once('"'));
    value.map_or_else(String::new, |(value, _)| value.replace("&#34;", "\"").replace("&#39;", "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_understood() {
        let report = r#"<testsuites>
  <testsuite name="8.1.2. Header Fields" tests="2">
    <testcase package="http2/8.1.2" classname="Sends &#34;A&#34;" time="0.1"></testcase>
    <testcase package="http2/8.1.2" classname="Sends &#34;B&#34;" time="0.1"><failure>
Actual: DATA</failure></testcase>
  </testsuite>"#;
        let verdict = read(report);
        assert_eq!(verdict.tests, 2);
        let failed: Vec<_> = verdict.failed.into_iter().collect();
        assert_eq!(failed, ["http2 8.1.2: Sends \"B\""]);
    }
}
