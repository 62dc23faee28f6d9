//! Judges whether a figure grows: fits a straight line to a series by least squares, and determines the error of its slope per hour.
//!
//! Owns the judgement of long runs: memory, descriptors, threads, restarts and latency, with one sample per second. Neighbouring samples
//! are correlated, which would make the error look too small, so blocks of samples are averaged first.

/// Maximum number of blocks: enough to estimate the error, and few enough that their means are hardly correlated.
const BLOCKS: usize = 40;
const SECONDS_PER_HOUR: f64 = 3600.0;

/// The line through a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slope {
    pub per_hour: f64,
    /// The standard error of `per_hour`.
    pub error: f64,
    /// The mean of the figures.
    pub mean: f64,
    /// The time from the first sample to the last, in hours.
    pub hours: f64,
}

/// The verdict on a slope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Steady,
    /// The figure grows by more than is allowed, even if two standard errors are subtracted.
    Grows,
    /// The figure may grow by more than is allowed if two standard errors are added, so the run was too short to tell.
    TooShort,
}

/// Fits a line to pairs of second and figure. Returns `None` if there are fewer than three different seconds, or if a figure is not finite.
#[must_use]
pub fn fit(series: &[(f64, f64)]) -> Option<Slope> {
    if series.iter().any(|(at, figure)| !at.is_finite() || !figure.is_finite()) {
        return None;
    }
    let blocks = averaged(series);
    let count = count(blocks.len());
    if count < 3.0 {
        return None;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| blocks.iter().map(of).sum::<f64>() / count;
    let (at_mean, figure_mean) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let spread: f64 = blocks.iter().map(|(at, _)| (at - at_mean).powi(2)).sum();
    if spread <= 0.0 {
        return None;
    }
    let shared: f64 =
        blocks.iter().map(|(at, figure)| (at - at_mean) * (figure - figure_mean)).sum();
    let slope = shared / spread;
    let off = |(at, figure): &(f64, f64)| figure - figure_mean - slope * (at - at_mean);
    let rest: f64 = blocks.iter().map(|pair| off(pair).powi(2)).sum();
    let first = series.iter().map(|pair| pair.0).fold(f64::INFINITY, f64::min);
    let last = series.iter().map(|pair| pair.0).fold(f64::NEG_INFINITY, f64::max);
    Some(Slope {
        per_hour: slope * SECONDS_PER_HOUR,
        error: (rest / (count - 2.0) / spread).sqrt() * SECONDS_PER_HOUR,
        mean: series.iter().map(|pair| pair.1).sum::<f64>() / self::count(series.len()),
        hours: (last - first) / SECONDS_PER_HOUR,
    })
}

impl Slope {
    /// Judges whether the figure grows by more than this per hour.
    #[must_use]
    pub fn judge(&self, per_hour_max: f64) -> Verdict {
        if self.per_hour - 2.0 * self.error > per_hour_max {
            Verdict::Grows
        } else if self.per_hour + 2.0 * self.error > per_hour_max {
            Verdict::TooShort
        } else {
            Verdict::Steady
        }
    }
}

/// Averages the series in at most `BLOCKS` parts of equal length.
fn averaged(series: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let size = series.len().div_ceil(BLOCKS).max(1);
    let mean = |block: &[(f64, f64)]| {
        let count = count(block.len());
        let sums = block.iter().fold((0.0, 0.0), |sums, pair| (sums.0 + pair.0, sums.1 + pair.1));
        (sums.0 / count, sums.1 / count)
    };
    series.chunks(size).map(mean).collect()
}

#[allow(clippy::cast_precision_loss, reason = "a run has fewer than 2^52 samples")]
fn count(length: usize) -> f64 {
    length as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(figure: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..3600).map(f64::from).map(|at| (at, figure(at))).collect()
    }

    /// Deterministic noise between -1 and 1.
    fn noise(at: f64) -> f64 {
        (at * 12.989_8).sin()
    }

    #[test]
    fn a_straight_line_has_its_slope_and_no_error() {
        let slope = fit(&series(|at| 100.0 + 2.0 * at)).unwrap();
        assert!((slope.per_hour - 7200.0).abs() < 1e-6, "{slope:?}");
        assert!(slope.error < 1e-6 && (slope.hours - 1.0).abs() < 0.001, "{slope:?}");
        assert!((slope.mean - 3699.0).abs() < 1e-6, "{slope:?}");
        assert_eq!(slope.judge(7300.0), Verdict::Steady);
        assert_eq!(slope.judge(7100.0), Verdict::Grows);
    }

    #[test]
    fn the_figures_of_a_known_series_are_right() {
        // By hand: slope 8.2 / 10, residuals -0.16 0.02 0.6 -0.62 0.16, error sqrt(0.796 / 3 / 10).
        let known = [(0.0, 1.0), (1.0, 2.0), (2.0, 3.4), (3.0, 3.0), (4.0, 4.6)];
        let slope = fit(&known).unwrap();
        assert!((slope.per_hour / 3600.0 - 0.82).abs() < 1e-9, "{slope:?}");
        assert!((slope.error / 3600.0 - 0.162_891).abs() < 1e-5, "{slope:?}");
    }

    #[test]
    fn noise_and_waves_do_not_grow_and_a_leak_in_them_does() {
        let noisy = |at: f64| 200.0 + 5.0 * noise(at) + 3.0 * (at / 60.0).sin();
        assert_eq!(fit(&series(noisy)).unwrap().judge(4.0), Verdict::Steady);
        assert_eq!(fit(&series(|at| noisy(at) + at / 300.0)).unwrap().judge(4.0), Verdict::Grows);
    }

    #[test]
    fn a_short_noisy_run_gives_no_verdict() {
        // The slope is 0.5 per second, with an error of 0.866.
        let short = [(0.0, 1.0), (1.0, 3.0), (2.0, 2.0)];
        assert_eq!(fit(&short).unwrap().judge(4.0), Verdict::TooShort);
        assert_eq!(fit(&short[..2]), None);
        assert_eq!(fit(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(fit(&[(1.0, 1.0), (2.0, f64::NAN), (3.0, 3.0)]), None);
    }
}
