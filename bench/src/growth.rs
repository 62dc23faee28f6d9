//! Whether figures of a long run grow: a file of samples, judged by its slopes.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;

use crate::slope::{Slope, Verdict, fit};

/// Straight lines through the columns of a file with a `timestamp` in seconds, and whether they grow
#[derive(Args)]
pub struct GrowthArguments {
    /// With a line of column names
    file: PathBuf,
    /// A column and how much it may grow an hour, as a number or in % of its mean: `threads=0.5`, `rss_kib=2%`
    #[arg(required = true)]
    columns: Vec<String>,
    /// The share of the run that warms up and does not count
    #[arg(long, default_value_t = 1.0 / 3.0, value_parser = share)]
    warm_up: f64,
    /// A run that is too short to tell fails too
    #[arg(long)]
    strict: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().map_err(|error| error.to_string())?;
    (0.0..1.0).contains(&share).then_some(share).ok_or_else(|| "must be from 0 to below 1".into())
}

/// The allowed growth of a figure.
#[derive(Clone, Copy)]
enum Most {
    Absolute(f64),
    PercentOfMean(f64),
}

impl GrowthArguments {
    /// Returns the table, and whether no figure grows by more than is allowed.
    ///
    /// # Errors
    ///
    /// If the file does not have a column, or a value in it is not a number.
    pub fn run(&self) -> Result<(String, bool), String> {
        let name = self.file.display();
        let text = std::fs::read_to_string(&self.file).map_err(|e| format!("{name}: {e}"))?;
        let (mut told, mut good) = (String::new(), true);
        for column in &self.columns {
            let (column, most) = column.split_once('=').ok_or("write COLUMN=MAX")?;
            let most = most_of(most)?;
            let series = read(&text, column).map_err(|error| format!("{name}: {error}"))?;
            let counted = without_warm_up(&series, self.warm_up);
            let slope =
                fit(counted).ok_or_else(|| format!("{name}: {column} has too few samples"))?;
            good &= tell(&mut told, column, &slope, most, self.strict);
        }
        Ok((told, good))
    }
}

fn most_of(text: &str) -> Result<Most, String> {
    let (number, most): (&str, fn(f64) -> Most) = match text.strip_suffix('%') {
        Some(number) => (number, Most::PercentOfMean),
        None => (text, Most::Absolute),
    };
    number.parse().map(most).map_err(|error| format!("{text}: {error}"))
}

/// Returns pairs of second and figure. A row without a number in the column is an error.
fn read(text: &str, column: &str) -> Result<Vec<(f64, f64)>, String> {
    let mut rows = text.lines().filter(|line| !line.is_empty());
    let names: Vec<&str> = rows.next().unwrap_or_default().split(',').collect();
    let place = |name: &str| {
        names.iter().position(|known| *known == name).ok_or_else(|| format!("no column {name}"))
    };
    let (at, figure) = (place("timestamp")?, place(column)?);
    let number = |cells: &[&str], place: usize, row: &str| {
        let cell = cells.get(place).and_then(|cell| cell.trim().parse::<f64>().ok());
        cell.ok_or_else(|| format!("no number in column {column} of: {row}"))
    };
    let pair = |row: &str| {
        let cells: Vec<&str> = row.split(',').collect();
        Ok((number(&cells, at, row)?, number(&cells, figure, row)?))
    };
    rows.map(pair).collect()
}

fn without_warm_up(series: &[(f64, f64)], share: f64) -> &[(f64, f64)] {
    let (Some(first), Some(last)) = (series.first(), series.last()) else { return series };
    let from = first.0 + (last.0 - first.0) * share;
    let start = series.partition_point(|pair| pair.0 < from);
    series.get(start..).unwrap_or_default()
}

/// Appends a line for a column. Returns false if the column fails.
fn tell(told: &mut String, column: &str, slope: &Slope, most: Most, strict: bool) -> bool {
    let per_hour_max = match most {
        Most::Absolute(most) => most,
        Most::PercentOfMean(percent) => slope.mean * percent / 100.0,
    };
    let verdict = slope.judge(per_hour_max);
    let said = match verdict {
        Verdict::Steady => "steady",
        Verdict::Grows => "GROWS",
        Verdict::TooShort => "too short to tell",
    };
    let _ = writeln!(
        told,
        "{column:<16} {:>12.2} an hour +- {:<10.2} mean {:>12.2}  at most {per_hour_max:>10.2}  over {:.2} h: {said}",
        slope.per_hour, slope.error, slope.mean, slope.hours
    );
    match verdict {
        Verdict::Steady => true,
        Verdict::Grows => false,
        Verdict::TooShort => !strict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_and_cells_without_a_number_are_reported() {
        let text = "timestamp,cpu_percent,fds\n1,5.0,10\n2,6.0,12\n";
        assert_eq!(read(text, "fds").unwrap(), [(1.0, 10.0), (2.0, 12.0)]);
        assert!(read(text, "rss").is_err() && read("timestamp,fds\n1,\n", "fds").is_err());
    }

    #[test]
    fn the_warm_up_does_not_count() {
        let series: Vec<(f64, f64)> = (0..10).map(|at| (f64::from(at), 0.0)).collect();
        assert_eq!(without_warm_up(&series, 1.0 / 3.0).len(), 7);
        assert_eq!(without_warm_up(&series, 0.0).len(), 10);
    }
}
