//! The claims of the documents, recomputed from our results.

use std::collections::BTreeMap;
use std::fmt;

use super::own;
use super::results::{Measured, Results};
use super::table::{Table, number};
use crate::folder::{Mark, OURS, Statistics};
use crate::generator::Streams;
use crate::peers::PeerKind;

/// A claim and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The id of its row in the checklist.
    pub id: &'static str,
    /// The claim of the document.
    pub text: &'static str,
    /// Whether it holds.
    pub verdict: Verdict,
    /// The numbers and the rule that led to the verdict, or why there is none.
    pub numbers: String,
}

impl Claim {
    /// Returns the number of its document: `S2-13` belongs to 002.
    #[must_use]
    pub fn document(&self) -> String {
        format!("00{}", self.id.trim_start_matches('S').split('-').next().unwrap_or_default())
    }
}

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Holds,
    /// It does not.
    DoesNotHold,
    /// A row that it needs is missing, or ended early.
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

/// Whether a claim holds with its numbers, or the reason why it has no verdict.
type Judged = Result<(bool, String), String>;

/// Returns all claims.
#[must_use]
pub fn claims(results: &Results) -> Vec<Claim> {
    let all = results.typical();
    let rows: Vec<Measured> = all.iter().filter(|row| row.key.gateway == OURS).cloned().collect();
    let rows = &rows;
    vec![
        claim(
            "S0-17",
            "An interceptor halves throughput",
            ratio(rows, "intercepted", "plain", 0.53)
                .map(|(holds, told)| (holds, format!("{told}; {}", tails(rows)))),
        ),
        claim("S1-32", "One policy costs a negligible latency", one_policy(rows)),
        claim(
            "S1-32",
            "All options on both sides divide throughput by 4",
            ratio(rows, "scen0", "scen5", 4.12),
        ),
        claim(
            "S1-32",
            "libxslt gives 35 % more requests than Saxon",
            ratio(rows, "scen4", "scen8saxon", 1.36),
        ),
        claim(
            "S1-32",
            "Definitions compiled once give 2.4 times the requests and a quarter of the memory",
            compiled_once(&all),
        ),
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
        note: "A ratio holds within 25 % of the document's. The throughput of a row that is marked `generator` or `backend` is not the \
            gateway's limit: such rows are compared by the CPU time that the gateway used for a request, in microseconds, and the numbers \
            say so. Rows marked `little` count, and errors count whatever the mark. A claim whose rows were not run, or ended early, has \
            no verdict."
            .to_owned(),
        columns: ["Claim", "Row", "Verdict", "Numbers"].map(str::to_owned).to_vec(),
        rows: claims.iter().map(row).collect(),
    }
}

fn claim(id: &'static str, text: &'static str, judged: Judged) -> Claim {
    let (verdict, numbers) = match judged {
        Ok((true, numbers)) => (Verdict::Holds, numbers),
        Ok((false, numbers)) => (Verdict::DoesNotHold, numbers),
        Err(why) => (Verdict::NotMeasured, why),
    };
    Claim { id, text, verdict, numbers }
}

/// Returns the first row that fits, if it ran to its end.
fn ran<'r>(
    rows: &'r [Measured],
    name: &str,
    is: impl Fn(&Measured) -> bool,
) -> Result<&'r Measured, String> {
    let row = rows.iter().find(|row| is(row)).ok_or_else(|| format!("{name} was not run"))?;
    if row.row.ended_early() {
        return Err(format!("{name} is marked `{}`", row.marks()));
    }
    Ok(row)
}

fn of_scenario<'r>(rows: &'r [Measured], scenario: &str) -> Result<&'r Measured, String> {
    ran(rows, scenario, |row| row.key.scenario == scenario)
}

/// Returns the row of document 002.
fn of_matrix(rows: &[Measured], users: u32, size: u32) -> Result<&Measured, String> {
    ran(rows, &format!("the row of {users} users and {size} B"), |row| {
        row.row.document == "002" && (row.key.users, row.key.size) == (users, size)
    })
}

fn statistics(row: &Measured) -> Result<&Statistics, String> {
    let of = row.statistics(None).filter(|of| of.samples > 0);
    of.ok_or_else(|| format!("{} has no sample", row.key.scenario))
}

/// Returns the marks of rows with their numbers, as a text that continues a sentence; empty without marks.
fn marked(rows: &[&Measured]) -> String {
    let mut counts: BTreeMap<Mark, usize> = BTreeMap::new();
    rows.iter()
        .flat_map(|row| &row.row.marks)
        .for_each(|mark| *counts.entry(*mark).or_default() += 1);
    if counts.is_empty() {
        return String::new();
    }
    let counts: Vec<String> =
        counts.iter().map(|(mark, count)| format!("`{mark}` {count}")).collect();
    let of = rows.iter().filter(|row| !row.row.marks.is_empty()).count();
    format!("; {of} of {} rows marked: {}", rows.len(), counts.join(", "))
}

fn is_limited(row: &Measured) -> bool {
    row.row.marks.iter().any(|mark| matches!(mark, Mark::Generator | Mark::Backend))
}

/// The speeds of rows that are compared, all by the same measure.
struct Speeds {
    /// Requests in a second or, if one of the rows was limited by something else, in a second of the gateway's CPU time.
    values: Vec<f64>,
    /// As the report shows them: requests per second, or microseconds of CPU time for a request.
    told: Vec<String>,
    unit: &'static str,
}

impl Speeds {
    fn of(rows: &[&Measured]) -> Result<Speeds, String> {
        if !rows.iter().any(|row| is_limited(row)) {
            let rate = |row: &&Measured| {
                let rate = row.rate().filter(|rate| *rate > 0.0);
                rate.ok_or_else(|| format!("{} has no throughput", row.key.scenario))
            };
            let values: Vec<f64> = rows.iter().map(rate).collect::<Result<_, _>>()?;
            let told = values.iter().map(|value| format!("{value:.0}")).collect();
            return Ok(Speeds { values, told, unit: "requests/s" });
        }
        let each: Vec<f64> = rows.iter().map(|row| cpu_us(row)).collect::<Result<_, _>>()?;
        let told = each.iter().map(|us| number(Some(*us))).collect();
        let values = each.into_iter().map(|us| 1e6 / us).collect();
        Ok(Speeds { values, told, unit: "us of CPU for a request" })
    }
}

/// Returns the gateway's CPU time for a request.
fn cpu_us(row: &Measured) -> Result<f64, String> {
    let each = row.row.cost.and_then(|cost| cost.cpu_us_each()).filter(|us| *us > 0.0);
    each.ok_or_else(|| {
        format!(
            "{} is marked `{}` or compared with such a row, and has no CPU time",
            row.key.scenario,
            row.marks()
        )
    })
}

fn ratio(rows: &[Measured], over: &str, under: &str, theirs: f64) -> Judged {
    let pair = [of_scenario(rows, over)?, of_scenario(rows, under)?];
    let Speeds { values, told, unit } = Speeds::of(&pair)?;
    let ours = quotient(&values);
    let told = format!(
        "{over} / {under} = {ours:.2} from {} {unit}; document {theirs}{}",
        told.join(" and "),
        marked(&pair)
    );
    Ok((is_near(ours, theirs), told))
}

/// Returns the first of two values divided by the second.
fn quotient(values: &[f64]) -> f64 {
    values.iter().copied().reduce(|over, under| over / under).unwrap_or(f64::NAN)
}

fn is_near(ours: f64, theirs: f64) -> bool {
    (ours / theirs - 1.0).abs() <= RATIO_TOLERANCE
}

/// Returns the 99th percentiles with and without an interceptor.
fn tails(rows: &[Measured]) -> String {
    let p99 =
        |name: &str| number(of_scenario(rows, name).ok().and_then(|row| row.statistics(None)?.p99));
    format!("p99 {} ms with and {} ms without", p99("intercepted"), p99("plain"))
}

/// Compares the gateway's own latency, to which neither the load nor the backend contributes.
fn one_policy(rows: &[Measured]) -> Judged {
    let own = |name: &str| {
        let row = of_scenario(rows, name)?;
        let own = row.row.own_latency.as_ref().and_then(|own| own::quantile_ms(own, 0.95));
        let own = own.ok_or_else(|| format!("{name} has no own latency"))?;
        Ok::<_, String>((row, own))
    };
    let ((with_row, with), (without_row, without)) = (own("scen1")?, own("scen0")?);
    let told = format!(
        "own latency p95: {with:.3} ms with, {without:.3} ms without; at most {NEGLIGIBLE_MS} ms more holds{}",
        marked(&[with_row, without_row])
    );
    Ok((with - without <= NEGLIGIBLE_MS, told))
}

/// Compares nginx, whose module for libxml2 can do both. No request of ours compiles a definition.
fn compiled_once(all: &[Measured]) -> Judged {
    let of = |peer: PeerKind| {
        ran(all, &format!("scen1 with {}", peer.name()), |row| {
            row.key.scenario == "scen1" && row.key.gateway == peer.name()
        })
    };
    let pair = [of(PeerKind::Nginx)?, of(PeerKind::NginxCompiles)?];
    let Speeds { values, told, unit } = Speeds::of(&pair)?;
    let memory = |row: &&Measured| {
        let rss = row.gateway().iter().rev().find_map(|sample| sample.rss_kib);
        rss.map(|kib| kib as f64 / 1024.0)
            .ok_or_else(|| format!("{} has no memory", row.key.gateway))
    };
    let memory: Vec<f64> = pair.iter().map(memory).collect::<Result<_, _>>()?;
    let (speed, space) = (quotient(&values), quotient(&memory));
    let memory: Vec<String> = memory.iter().map(|mib| number(Some(*mib))).collect();
    let told = format!(
        "scen1 by nginx with libxml2, since no request of ours compiles a definition; once / for each message: {speed:.2} from {} \
         {unit}, memory {space:.2} from {} MiB; document 2.4 and 0.25{}",
        told.join(" and "),
        memory.join(" and "),
        marked(&pair)
    );
    Ok((is_near(speed, 2.4) && is_near(space, 0.25), told))
}

const USERS: [u32; 6] = [10, 50, 100, 200, 500, 1000];
const SIZES: [u32; 4] = [50, 1024, 10_240, 102_400];

fn sizes(rows: &[Measured]) -> Judged {
    let (mut holds, mut told, mut used) = (true, Vec::new(), Vec::new());
    for users in USERS {
        let of = |size| of_matrix(rows, users, size);
        let three = [of(50)?, of(10_240)?, of(102_400)?];
        let speeds = Speeds::of(&three)?;
        holds &= speeds.values.is_sorted_by(|one, next| *next < one * (1.0 - TOLERANCE));
        told.push(format!("{users} users: {} {}", speeds.told.join(", "), speeds.unit));
        used.extend(three);
    }
    Ok((holds, format!("at 50 B, 10 KiB, 100 KiB: {}{}", told.join("; "), marked(&used))))
}

/// Judges the means. Users of a row that the load or the backend limits wait for these, too: there the time must also grow in which a busy
/// CPU serves all users once.
fn users(rows: &[Measured]) -> Judged {
    let (mut holds, mut told, mut used) = (true, Vec::new(), Vec::new());
    let grows = |times: &[f64]| times.is_sorted_by(|one, next| *next >= one * (1.0 - TOLERANCE));
    let list = |values: &[f64]| {
        values.iter().map(|value| number(Some(*value))).collect::<Vec<_>>().join(", ")
    };
    for size in SIZES {
        let six: Vec<&Measured> =
            USERS.iter().map(|users| of_matrix(rows, *users, size)).collect::<Result<_, _>>()?;
        let mean = |row: &&Measured| statistics(row)?.mean.ok_or("no mean".to_owned());
        let means: Vec<f64> = six.iter().map(mean).collect::<Result<_, _>>()?;
        holds &= grows(&means);
        let mut line = format!("{size} B: {}", list(&means));
        if six.iter().any(|row| is_limited(row)) {
            let each: Vec<f64> = six.iter().map(|row| cpu_us(row)).collect::<Result<_, _>>()?;
            let all: Vec<f64> =
                each.iter().zip(USERS).map(|(us, users)| us * f64::from(users)).collect();
            holds &= grows(&all);
            line = format!("{line} (us of CPU for a request: {})", list(&each));
        }
        told.push(line);
        used.extend(six);
    }
    let told = format!(
        "mean in ms for 10 to 1000 users: {}{}; where a row is marked `generator` or `backend`, users x CPU time must grow, too",
        told.join("; "),
        marked(&used)
    );
    Ok((holds, told))
}

fn thousand(rows: &[Measured]) -> Judged {
    let row = of_matrix(rows, 1000, 102_400)?;
    let of = statistics(row)?;
    let told = format!(
        "{} errors of {}, p99 {} ms, {} users by Little's law{}",
        of.errors,
        of.samples,
        number(of.p99),
        number(of.users_accounted()),
        marked(&[row])
    );
    Ok((of.errors == 0, told))
}

fn connections(rows: &[Measured], scenario: &str, connections: u32) -> Judged {
    let row = ran(rows, &format!("{scenario} with {connections} connections of 500 B"), |row| {
        row.key.scenario == scenario && (row.key.users, row.key.size) == (connections, 500)
    })?;
    let Some(Streams::Websocket(counts)) = &row.row.streams else {
        return Err(format!("{scenario} has no counts of WebSockets"));
    };
    let told = format!(
        "{} of {} not made, {} sent, {} received{}",
        counts.failed,
        counts.attempted,
        counts.sent,
        counts.received,
        marked(&[row])
    );
    Ok((counts.failed == 0 && counts.error_rate == Some(0.0), told))
}

/// Judges what the gateway used after the streams had ended.
fn settled(rows: &[Measured]) -> Judged {
    let row = of_scenario(rows, "sse")?;
    let after = row.row.settled.ok_or("sse was not sampled before and after its load")?;
    let streams = u64::from(row.key.users);
    let told = format!(
        "{} s after the end: CPU {:.1} % of one CPU, {:.1} % before the load; {} descriptors, {} before; at most {SETTLED_PERCENT} % \
         more holds, and one descriptor for each of {streams} streams, whose connection to the backend may be kept for reuse{}",
        after.seconds,
        after.cpu_percent,
        after.idle_cpu_percent,
        after.fds,
        after.idle_fds,
        marked(&[row])
    );
    let cpu = after.cpu_percent <= after.idle_cpu_percent + SETTLED_PERCENT;
    Ok((cpu && after.fds <= after.idle_fds + streams + SETTLED_FDS, told))
}

/// Judges the share of the speed at 500 B that remains at 100 kB, without and with building the message.
fn flows(rows: &[Measured]) -> Judged {
    let mut used = Vec::new();
    let mut left = |scenario: &str| {
        let of = |size: u32| {
            ran(rows, &format!("{scenario} with 100 users and {size} B"), |row| {
                row.key.scenario == scenario && (row.key.users, row.key.size) == (100, size)
            })
        };
        let pair = [of(100_000)?, of(500)?];
        used.extend(pair);
        let Speeds { values, told, unit } = Speeds::of(&pair)?;
        let left = quotient(&values);
        Ok::<_, String>((left, format!("{scenario} {left:.3} from {} {unit}", told.join(" and "))))
    };
    let (direct, styled, built) =
        (left("DirectProxy")?, left("XSLTProxy")?, left("MessageBuildingProxy")?);
    let told = format!(
        "speed at 100 kB over that at 500 B, 100 users: {}, {}, {}; document 0.488, 0.018, 0.003{}",
        direct.1,
        styled.1,
        built.1,
        marked(&used)
    );
    let (direct, styled, built) = (direct.0, styled.0, built.0);
    Ok((direct < 1.0 && styled < direct / 2.0 && built < direct / 2.0, told))
}
