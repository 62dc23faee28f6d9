//! JMeter's log of samples (CSV, `.jtl`), so that runs of the documents' own generator are summarised in the same way.
//!
//! Owns the parsing and the cut between warm-up and measurement. Malformed lines are counted, not fatal.

use std::io::{self, BufRead};
use std::time::Duration;

use crate::report::Recorder;
use crate::results::Results;

/// The content of a log.
#[derive(Debug)]
pub struct Samples {
    /// The results of each label, in the order of their first samples.
    pub results: Vec<Results>,
    /// Lines that are not samples.
    pub unreadable: u64,
}

/// Columns of a log without a header, as JMeter writes them.
const COLUMNS: &str = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,bytes,sentBytes,grpThreads,allThreads";

/// Longer lines are not samples.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// The positions of the relevant columns.
struct Columns {
    timestamp: usize,
    elapsed: usize,
    label: usize,
    success: usize,
    sent: Option<usize>,
}

struct Sample {
    at: Duration,
    elapsed: Duration,
    label: String,
    good: bool,
    sent: usize,
}

/// Reads a log. Samples that began within `warm_up` of the first one are not counted. `users` is for Little's law, since a log
/// does not have the number of users.
///
/// # Errors
///
/// If the log cannot be read, or its header lacks a column.
pub fn read(log: impl BufRead, warm_up: Duration, users: f64) -> io::Result<Samples> {
    let mut columns = None;
    let mut start = None;
    let mut samples = Samples { results: Vec::new(), unreadable: 0 };
    for line in log.lines() {
        let line = line?;
        if columns.is_none() {
            let header = line.contains("timeStamp");
            columns = Some(Columns::of(if header { &line } else { COLUMNS })?);
            if header {
                continue;
            }
        }
        let sample = columns.as_ref().and_then(|columns| columns.sample(&line));
        let Some(sample) = sample else {
            samples.unreadable += u64::from(!line.is_empty());
            continue;
        };
        // The log is written when samples end, so the first one is nearly the first to begin.
        let start = *start.get_or_insert(sample.at);
        if sample.at.saturating_sub(start) > warm_up {
            samples.count(sample, users)?;
        }
    }
    Ok(samples)
}

impl Samples {
    fn count(&mut self, sample: Sample, users: f64) -> io::Result<()> {
        let Sample { at, elapsed, label, good, sent } = sample;
        let known = self.results.iter().position(|one| one.scenario == label);
        let index = known.unwrap_or(self.results.len());
        if known.is_none() {
            let recorder = Recorder::new().map_err(io::Error::other)?;
            let (from, to) = (at, at + elapsed);
            let new = Results { scenario: label, users, payload_bytes: sent, from, to, recorder };
            self.results.push(new);
        }
        if let Some(results) = self.results.get_mut(index) {
            results.recorder.record(good, elapsed, Duration::ZERO);
            results.from = results.from.min(at);
            results.to = results.to.max(at + elapsed);
        }
        Ok(())
    }
}

impl Columns {
    fn of(header: &str) -> io::Result<Columns> {
        let names = fields(header);
        let find = |wanted: &str| names.iter().position(|name| name.trim() == wanted);
        let need = |wanted: &str| {
            find(wanted).ok_or_else(|| io::Error::other(format!("the log has no column {wanted}")))
        };
        Ok(Columns {
            timestamp: need("timeStamp")?,
            elapsed: need("elapsed")?,
            label: need("label")?,
            success: need("success")?,
            sent: find("sentBytes"),
        })
    }

    fn sample(&self, line: &str) -> Option<Sample> {
        if line.len() > LINE_BYTES_MAX {
            return None;
        }
        let fields = fields(line);
        let milliseconds =
            |at: usize| Some(Duration::from_millis(fields.get(at)?.trim().parse().ok()?));
        let sent = self.sent.and_then(|at| fields.get(at)?.trim().parse().ok());
        Some(Sample {
            at: milliseconds(self.timestamp)?,
            elapsed: milliseconds(self.elapsed)?,
            label: fields.get(self.label)?.clone(),
            good: match fields.get(self.success)?.trim() {
                "true" => true,
                "false" => false,
                _ => return None,
            },
            sent: sent.unwrap_or(0),
        })
    }
}

/// The fields of a line. A quoted field may contain commas, and a doubled quote is one quote.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        let Some(field) = fields.last_mut() else { break };
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => field.extend(rest.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            _ => field.push(c),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;
    use std::fmt::Write as _;

    /// 300 samples of warm-up, each slow and wrong; then 1,000 samples, one a millisecond, of which the `n`th takes `n` ms. Two
    /// of these are wrong. Two other lines are not samples.
    fn known() -> String {
        let mut log =
            String::from("timeStamp,elapsed,label,responseCode,success,bytes,sentBytes\n");
        for at in 0..=300 {
            writeln!(log, "{},9999,\"HTTP, \"\"echo\"\"\",500,false,1,1024", 1000 + at).unwrap();
        }
        for n in 1..=1000 {
            let good = n != 10 && n != 20;
            writeln!(log, "{},{n},\"HTTP, \"\"echo\"\"\",200,{good},1,1024", 1300 + n).unwrap();
        }
        log.push_str("1500,4\n1500,x,y,200,true,1,1\n");
        log
    }

    #[test]
    fn figures_of_a_known_file_are_right() {
        let read = read(known().as_bytes(), Duration::from_millis(300), 217.0).unwrap();
        assert_eq!(read.unreadable, 2);
        let [results] = &read.results[..] else { panic!("{read:?}") };
        let report = results.report();
        assert_eq!(
            (report.scenario.as_str(), report.requests, report.errors),
            ("HTTP, \"echo\"", 1000, 2)
        );
        let ms = |time: Duration| (time.as_secs_f64() * 1e3 * 100.0).round() / 100.0;
        let near = |time: Duration, wanted: f64| (ms(time) / wanted - 1.0).abs() < 0.001;
        let latency = report.latency;
        assert!(near(latency.p50, 500.0) && near(latency.p90, 900.0), "{report}");
        assert!(near(latency.p95, 950.0) && near(latency.p99, 990.0), "{report}");
        assert!(near(latency.max, 1000.0) && near(latency.min, 1.0), "{report}");
        assert_eq!(latency.mean, Duration::from_micros(500_500));
        // From the first begin, 1301, to the last end, 3300.
        assert_eq!(report.window, Duration::from_millis(1999));
        assert!((report.throughput() - 1000.0 / 1.999).abs() < 1e-9);
        let rows = table::rows(&read.results);
        let row = rows.lines().last().unwrap();
        assert!(
            row.starts_with(
                "| HTTP, \"echo\" | 217 | 1KiB | 1000 | 500.50 | 500.25 | 0.20 | 2 | 250.38 |"
            ),
            "{row}"
        );
    }

    #[test]
    fn a_log_without_a_header_has_the_usual_columns() {
        let line = "1000,7,echo,200,OK,Thread 1-1,text,true,,120,350,1,1\n";
        let read = read(line.as_bytes(), Duration::ZERO, 1.0).unwrap();
        // The first sample always belongs to the warm-up, however short that is.
        assert!(read.results.is_empty() && read.unreadable == 0);
        let twice = format!("{line}{}", line.replace("1000", "1001"));
        let read = super::read(twice.as_bytes(), Duration::ZERO, 1.0).unwrap();
        assert_eq!((read.results[0].report().requests, read.results[0].payload_bytes), (1, 350));
        assert!(super::read("timeStamp,label\n".as_bytes(), Duration::ZERO, 1.0).is_err());
    }
}
