//! JMeter's log of samples (CSV, `.jtl`), split into warm-up and measurement as the reference's splitter does.
//!
//! Lines that are not samples are counted, not fatal.

use std::io::{self, BufRead};
use std::time::Duration;

use super::summary::{Measured, Statistics, Summary};
use crate::generator::Latencies;

/// The content of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Jtl {
    /// Samples that began within the warm-up.
    pub warm_up: Summary,
    /// Samples that began after it.
    pub measurement: Summary,
    /// Lines that are not samples.
    pub unreadable: u64,
}

/// Columns of a log without a header, as JMeter writes them.
const COLUMNS: &str = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,bytes,sentBytes,grpThreads,allThreads";
/// Maximum length of a line. Longer lines are not samples.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of labels, more than any plan has. If every sample had its own label, the histograms would fill the memory.
const LABELS_MAX: usize = 1000;

/// The positions of the relevant columns.
struct Columns {
    timestamp: usize,
    elapsed: usize,
    label: usize,
    success: usize,
    bytes: Option<usize>,
    sent: Option<usize>,
}

struct Sample {
    at: Duration,
    elapsed: Duration,
    label: String,
    good: bool,
    bytes: u64,
    sent: u64,
}

/// Samples of one label in one part.
struct Label {
    name: String,
    latencies: Latencies,
    errors: u64,
    from: Duration,
    to: Duration,
    received_bytes: u64,
    sent_bytes: u64,
}

/// Reads a log. Samples that begin within `warm_up` of the first one belong to the warm-up.
///
/// # Errors
///
/// If the log cannot be read, its header lacks a column, or it has too many labels.
pub fn read(log: impl BufRead, warm_up: Duration) -> io::Result<Jtl> {
    let (mut columns, mut start, mut unreadable) = (None, None::<Duration>, 0);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for line in log.lines() {
        let line = line?;
        if columns.is_none() {
            let is_header = line.contains("timeStamp");
            columns = Some(Columns::of(if is_header { &line } else { COLUMNS })?);
            if is_header {
                continue;
            }
        }
        let Some(sample) = columns.as_ref().and_then(|columns| columns.sample(&line)) else {
            unreadable += u64::from(!line.is_empty());
            continue;
        };
        // The smallest time so far, as in the reference's splitter, because lines are written when samples end.
        let begin = start.map_or(sample.at, |start| start.min(sample.at));
        start = Some(begin);
        let part = if sample.at.saturating_sub(begin) > warm_up { &mut after } else { &mut before };
        count(part, sample)?;
    }
    Ok(Jtl { warm_up: summary(&before), measurement: summary(&after), unreadable })
}

fn count(labels: &mut Vec<Label>, sample: Sample) -> io::Result<()> {
    let Sample { at, elapsed, label, good, bytes, sent } = sample;
    let known = labels.iter().position(|one| one.name == label);
    if known.is_none() {
        if labels.len() == LABELS_MAX {
            return Err(io::Error::other(format!("the log has more than {LABELS_MAX} labels")));
        }
        labels.push(Label {
            name: label,
            latencies: Latencies::default(),
            errors: 0,
            from: at,
            to: at,
            received_bytes: 0,
            sent_bytes: 0,
        });
    }
    let place = known.unwrap_or(labels.len().saturating_sub(1));
    if let Some(label) = labels.get_mut(place) {
        label.latencies.record(elapsed);
        label.errors += u64::from(!good);
        label.from = label.from.min(at);
        label.to = label.to.max(at + elapsed);
        label.received_bytes += bytes;
        label.sent_bytes += sent;
    }
    Ok(())
}

fn summary(labels: &[Label]) -> Summary {
    let statistics = |label: &Label| {
        Statistics::of(&Measured {
            histogram: label.latencies.histogram(),
            mean: label.latencies.mean(),
            errors: label.errors,
            window: label.to.saturating_sub(label.from),
            received_bytes: label.received_bytes,
            sent_bytes: label.sent_bytes,
        })
    };
    Summary(labels.iter().map(|label| (label.name.clone(), statistics(label))).collect())
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
            bytes: find("bytes"),
            sent: find("sentBytes"),
        })
    }

    fn sample(&self, line: &str) -> Option<Sample> {
        if line.len() > LINE_BYTES_MAX {
            return None;
        }
        let fields = fields(line);
        let number = |at: usize| fields.get(at)?.trim().parse::<u64>().ok();
        let optional = |at: Option<usize>| at.and_then(number).unwrap_or(0);
        Some(Sample {
            at: Duration::from_millis(number(self.timestamp)?),
            elapsed: Duration::from_millis(number(self.elapsed)?),
            label: fields.get(self.label)?.clone(),
            good: match fields.get(self.success)?.trim() {
                "true" => true,
                "false" => false,
                _ => return None,
            },
            bytes: optional(self.bytes),
            sent: optional(self.sent),
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
    use std::fmt::Write as _;

    /// 300 samples of warm-up, each slow and wrong; then 1,000 samples, one per millisecond, of which the `n`th takes `n` ms and two are
    /// wrong. Two other lines are not samples.
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
    fn a_known_file_has_the_expected_figures() {
        let read = read(known().as_bytes(), Duration::from_millis(300)).unwrap();
        assert_eq!(read.unreadable, 2);
        let [(label, of)] = &read.measurement.0[..] else { panic!("{read:?}") };
        assert_eq!((label.as_str(), of.samples, of.errors), ("HTTP, \"echo\"", 1000, 2));
        for (value, wanted) in [
            (of.median, 500.0),
            (of.p90, 900.0),
            (of.p95, 950.0),
            (of.p99, 990.0),
            (of.min, 1.0),
            (of.max, 1000.0),
        ] {
            assert!((value.unwrap() / wanted - 1.0).abs() < 0.001, "{value:?} for {wanted}");
        }
        assert_eq!((of.mean, of.error_percentage), (Some(500.5), Some(0.2)));
        // From the first begin, 1301, to the last end, 3300: 1.999 s.
        assert_eq!((of.throughput, of.sent_kbytes_rate), (Some(500.25), Some(500.25)));
        assert_eq!(read.warm_up.0[0].1.errors, 301);
    }

    #[test]
    fn a_log_without_a_header_has_the_usual_columns() {
        let line = "1000,7,echo,200,OK,Thread 1-1,text,true,,120,350,1,1\n";
        let first = read(line.as_bytes(), Duration::ZERO).unwrap();
        // The first sample always belongs to the warm-up, however short that is.
        assert!(first.measurement.0.is_empty() && first.unreadable == 0);
        let twice = format!("{line}{}", line.replace("1000", "1001"));
        let both = read(twice.as_bytes(), Duration::ZERO).unwrap();
        assert_eq!(both.measurement.0[0].1.samples, 1);
        assert!(read("timeStamp,label\n".as_bytes(), Duration::ZERO).is_err());
    }
}
