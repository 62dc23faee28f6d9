//! The claims of the documents, recomputed from our results.

use std::fmt;

use super::own;
use super::results::{Measured, Results};
use super::table::{Table, number};
use crate::folder::OURS;
use crate::generator::Streams;

/// A claim and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The id of its row in the checklist.
    pub id: &'static str,
    /// The claim of the document.
    pub text: &'static str,
    /// Whether it holds.
    pub verdict: Verdict,
    /// The numbers and the rule that led to the verdict.
    pub numbers: String,
}

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Holds,
    /// It does not.
    DoesNotHold,
    /// A row that it needs is missing.
    NotMeasured,
}

/// Maximum relative difference from the document's ratio.
const RATIO_TOLERANCE: f64 = 0.25;
/// Maximum latency that counts as negligible.
const NEGLIGIBLE_MS: f64 = 1.0;
/// Maximum CPU, in percent, that a settled gateway may use in addition to that before the load.
const SETTLED_PERCENT: f64 = 5.0;
/// Maximum number of descriptors that it may have in addition: those of the admin API.
const SETTLED_FDS: u64 = 4;
/// Tolerated relative noise between neighbouring rows.
const TOLERANCE: f64 = 0.05;

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Holds => "holds",
            Verdict::DoesNotHold => "does not hold",
            Verdict::NotMeasured => "not measured",
        })
    }
}

/// Returns all claims.
#[must_use]
pub fn claims(results: &Results) -> Vec<Claim> {
    let mut rows = results.typical();
    rows.retain(|row| row.key.gateway == OURS);
    let rows = &rows;
    let rps = |name: &str| find(rows, name).and_then(Measured::throughput);
    let own = |name: &str| {
        let own = find(rows, name)?.row.own_latency.as_ref()?;
        own::quantile_ms(own, 0.95)
    };
    let policy = own("scen1").and_then(|with| Some((with, own("scen0")?)));
    let policy = policy.map(|(with, without)| {
        let told = format!("own latency p95: {with:.3} ms with, {without:.3} ms without; at most {NEGLIGIBLE_MS} ms more holds");
        (with - without <= NEGLIGIBLE_MS, told)
    });
    vec![
        claim(
            "S0-17",
            "An interceptor halves throughput",
            ratio("intercepted / plain", rps("intercepted"), rps("plain"), 0.53)
                .map(|(holds, told)| (holds, format!("{told}; p99 {}", tails(rows)))),
        ),
        claim("S1-32", "One policy costs a negligible latency", policy),
        claim(
            "S1-32",
            "All options on both sides divide throughput by 4",
            ratio("scen0 / scen5", rps("scen0"), rps("scen5"), 4.12),
        ),
        claim(
            "S1-32",
            "libxslt gives 35 % more requests than Saxon",
            ratio("scen4 / scen8saxon", rps("scen4"), rps("scen8saxon"), 1.36),
        ),
        Claim {
            numbers: "no request of ours compiles a definition; `make bench` has validate beside compile_for_each_message"
                .to_owned(),
            ..claim(
                "S1-32",
                "Definitions compiled once give 2.4 times the requests and a quarter of the memory",
                None,
            )
        },
        claim("S2-13", "Larger payloads lower throughput", sizes(rows)),
        claim("S2-14", "Response time grows with users", users(rows)),
        claim("S2-15", "1,000 users at 100 KiB without error", thousand(rows)),
        claim(
            "S3-27",
            "400 connections at 5 events/s without error",
            connections(rows, "websocket-5", 400),
        ),
        claim(
            "S3-27",
            "200 connections at 10 events/s without error",
            connections(rows, "websocket-10", 200),
        ),
        claim("S3-6", "CPU settles after serving event streams", settled(rows)),
        claim(
            "S4-17",
            "Throughput falls with size, much faster where the message is built",
            flows(rows),
        ),
    ]
}

/// Returns the claims as a table.
#[must_use]
pub(super) fn table(claims: &[Claim]) -> Table {
    let row = |claim: &Claim| {
        vec![
            claim.text.to_owned(),
            claim.id.to_owned(),
            claim.verdict.to_string(),
            claim.numbers.clone(),
        ]
    };
    Table {
        title: "The documents' claims, recomputed".to_owned(),
        note: "A ratio holds within 25 % of the document's. A claim whose rows were not measured, or have a mark, has no verdict."
            .to_owned(),
        columns: ["Claim", "Row", "Verdict", "Numbers"].map(str::to_owned).to_vec(),
        rows: claims.iter().map(row).collect(),
    }
}

fn claim(id: &'static str, text: &'static str, found: Option<(bool, String)>) -> Claim {
    let (verdict, numbers) = match found {
        Some((true, numbers)) => (Verdict::Holds, numbers),
        Some((false, numbers)) => (Verdict::DoesNotHold, numbers),
        None => (Verdict::NotMeasured, "-".to_owned()),
    };
    Claim { id, text, verdict, numbers }
}

/// Returns the row of a scenario, if it can be trusted.
fn find<'r>(rows: &'r [Measured], scenario: &str) -> Option<&'r Measured> {
    rows.iter().find(|row| row.key.scenario == scenario && row.row.marks.is_empty())
}

fn ratio(name: &str, over: Option<f64>, under: Option<f64>, theirs: f64) -> Option<(bool, String)> {
    let (over, under) = (over?, under.filter(|under| *under > 0.0)?);
    let ours = over / under;
    let told = format!("{name} = {over:.0} / {under:.0} = {ours:.2}; document {theirs}");
    Some(((ours / theirs - 1.0).abs() <= RATIO_TOLERANCE, told))
}

/// Returns the 99th percentiles without and with an interceptor.
fn tails(rows: &[Measured]) -> String {
    let p99 = |name: &str| number(find(rows, name).and_then(|row| row.statistics(None)?.p99));
    format!("{} ms with and {} ms without", p99("intercepted"), p99("plain"))
}

/// Returns the statistics of a row of document 002, if the row can be trusted.
fn matrix(rows: &[Measured], users: u32, size: u32) -> Option<&crate::folder::Statistics> {
    let row = rows.iter().find(|row| {
        let key = &row.key;
        row.row.document == "002"
            && (key.users, key.size) == (users, size)
            && row.row.marks.is_empty()
    })?;
    row.statistics(None)
}

const USERS: [u32; 6] = [10, 50, 100, 200, 500, 1000];
const SIZES: [u32; 4] = [50, 1024, 10_240, 102_400];

fn sizes(rows: &[Measured]) -> Option<(bool, String)> {
    let (mut holds, mut told) = (true, Vec::new());
    for users in USERS {
        let of = |size| matrix(rows, users, size)?.throughput;
        let (small, middle, large) = (of(50)?, of(10_240)?, of(102_400)?);
        holds &= large < middle * (1.0 - TOLERANCE) && middle < small * (1.0 - TOLERANCE);
        told.push(format!("{users} users: {small:.0} > {middle:.0} > {large:.0}"));
    }
    Some((holds, format!("requests/s at 50 B, 10 KiB, 100 KiB: {}", told.join("; "))))
}

fn users(rows: &[Measured]) -> Option<(bool, String)> {
    let (mut holds, mut told) = (true, Vec::new());
    for size in SIZES {
        let means = USERS.iter().map(|users| matrix(rows, *users, size)?.mean);
        let means: Vec<f64> = means.collect::<Option<_>>()?;
        holds &= means.is_sorted_by(|one, next| *next >= one * (1.0 - TOLERANCE));
        let means: Vec<String> = means.iter().map(|mean| number(Some(*mean))).collect();
        told.push(format!("{size} B: {}", means.join(", ")));
    }
    Some((holds, format!("mean in ms for 10 to 1000 users: {}", told.join("; "))))
}

fn thousand(rows: &[Measured]) -> Option<(bool, String)> {
    let of = matrix(rows, 1000, 102_400)?;
    let told = format!("{} errors of {}, p99 {} ms", of.errors, of.samples, number(of.p99));
    Some((of.errors == 0 && of.samples > 0, told))
}

fn connections(rows: &[Measured], scenario: &str, connections: u32) -> Option<(bool, String)> {
    let row = rows.iter().find(|row| {
        row.key.scenario == scenario
            && row.key.users == connections
            && row.key.size == 500
            && row.row.marks.is_empty()
    })?;
    let Some(Streams::Websocket(counts)) = &row.row.streams else { return None };
    let told = format!(
        "{} of {} not made, {} sent, {} received",
        counts.failed, counts.attempted, counts.sent, counts.received
    );
    Some((counts.failed == 0 && counts.error_rate == 0.0 && counts.sent > 0, told))
}

/// Judges what the gateway used after the streams had ended.
fn settled(rows: &[Measured]) -> Option<(bool, String)> {
    let row = find(rows, "sse")?;
    let (after, streams) = (row.row.settled?, u64::from(row.key.users));
    let told = format!(
        "{} s after the end: CPU {:.1} % of one CPU, {:.1} % before the load; {} descriptors, {} before; at most {SETTLED_PERCENT} % \
         more holds, and one descriptor for each of {streams} streams, whose connection to the backend may be kept for reuse",
        after.seconds, after.cpu_percent, after.idle_cpu_percent, after.fds, after.idle_fds
    );
    let cpu = after.cpu_percent <= after.idle_cpu_percent + SETTLED_PERCENT;
    Some((cpu && after.fds <= after.idle_fds + streams + SETTLED_FDS, told))
}

/// Judges the share of the throughput at 500 B that remains at 100 kB, without and with building the message.
fn flows(rows: &[Measured]) -> Option<(bool, String)> {
    let left = |scenario: &str| {
        let of = |size| {
            let row = rows.iter().find(|row| {
                let key = &row.key;
                key.scenario == scenario
                    && (key.users, key.size) == (100, size)
                    && row.row.marks.is_empty()
            })?;
            row.throughput()
        };
        Some(of(100_000)? / of(500)?)
    };
    let (direct, built, styled) =
        (left("DirectProxy")?, left("MessageBuildingProxy")?, left("XSLTProxy")?);
    let told = format!(
        "requests/s at 100 kB over those at 500 B, 100 users: DirectProxy {direct:.3}, XSLTProxy {styled:.3}, MessageBuildingProxy \
         {built:.3}; document 0.488, 0.018, 0.003"
    );
    Some((direct < 1.0 && styled < direct / 2.0 && built < direct / 2.0, told))
}
