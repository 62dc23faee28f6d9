//! `results-seconds.csv`: the generator's samples, one line per second, for graphs over time and for intervals.

use anyhow::{Context as _, Result};

pub(super) const HEADER: &str = "timestamp,users,samples,errors,mean_ms,max_ms";

/// The samples that ended within one second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Second {
    /// The begin of the second, since 1970.
    pub timestamp: u64,
    /// Users or connections at its end.
    pub users: u64,
    /// All samples.
    pub samples: u64,
    /// Samples that were errors.
    pub errors: u64,
    /// Their mean response time. `None` without a sample.
    pub mean_ms: Option<f64>,
    /// Their longest response time. `None` without a sample.
    pub max_ms: Option<f64>,
}

impl Second {
    pub(super) fn line(&self) -> String {
        let ms = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
        let Second { timestamp, users, samples, errors, mean_ms, max_ms } = *self;
        format!("{timestamp},{users},{samples},{errors},{},{}", ms(mean_ms), ms(max_ms))
    }

    pub(super) fn parse(line: &str) -> Result<Second> {
        let cells: Vec<&str> = line.split(',').collect();
        let [timestamp, users, samples, errors, mean, max] = cells[..] else {
            anyhow::bail!("the line must have 6 cells")
        };
        let whole = |cell: &str| {
            cell.parse::<u64>().with_context(|| format!("`{cell}` must be a whole number"))
        };
        let ms = |cell: &str| if cell.is_empty() { Ok(None) } else { number(cell).map(Some) };
        Ok(Second {
            timestamp: whole(timestamp)?,
            users: whole(users)?,
            samples: whole(samples)?,
            errors: whole(errors)?,
            mean_ms: ms(mean)?,
            max_ms: ms(max)?,
        })
    }
}

/// Parses a number that is not negative.
pub(super) fn number(cell: &str) -> Result<f64> {
    let number: f64 = cell.parse().with_context(|| format!("`{cell}` must be a number"))?;
    anyhow::ensure!(number.is_finite() && number >= 0.0, "`{cell}` must be a number of at least 0");
    Ok(number)
}
