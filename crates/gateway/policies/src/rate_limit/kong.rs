//! The header lines of Kong's `rate-limiting`, for clients that expect them.

use super::window::{Window, WindowState, seconds};

/// The windows that Kong knows, with the names of their header lines for the limit and the remaining requests.
const WINDOWS: [(u64, &str, &str); 6] = [
    (1, "X-RateLimit-Limit-Second", "X-RateLimit-Remaining-Second"),
    (60, "X-RateLimit-Limit-Minute", "X-RateLimit-Remaining-Minute"),
    (3_600, "X-RateLimit-Limit-Hour", "X-RateLimit-Remaining-Hour"),
    (86_400, "X-RateLimit-Limit-Day", "X-RateLimit-Remaining-Day"),
    (2_592_000, "X-RateLimit-Limit-Month", "X-RateLimit-Remaining-Month"),
    (31_536_000, "X-RateLimit-Limit-Year", "X-RateLimit-Remaining-Year"),
];

/// The names of the lines of a limit that has a name: `X-RateLimit-Limit-NAME-Minute`.
#[derive(Debug)]
pub(super) struct NamedLines([(u64, Box<str>, Box<str>); WINDOWS.len()]);

impl NamedLines {
    pub(super) fn new(limit: &str) -> NamedLines {
        NamedLines(WINDOWS.map(|(length, of_limit, of_rest)| {
            let named = |line: &str| match line.rsplit_once('-') {
                Some((start, window)) => format!("{start}-{limit}-{window}").into(),
                None => line.into(),
            };
            (length, named(of_limit), named(of_rest))
        }))
    }

    /// Returns two lines for each window of a length that Kong knows.
    pub(super) fn lines<'w>(
        &'w self,
        windows: &'w [Window],
        standings: &'w [WindowState],
    ) -> impl Iterator<Item = (&'w str, u64)> + 'w {
        // Harmless: there is one state for each window of a limit.
        windows.iter().zip(standings).flat_map(|(window, standing)| {
            let per = window.per.as_secs();
            let found = self.0.iter().find(|(length, ..)| *length == per && is_named(window.per));
            found.into_iter().flat_map(|(_, limit, remaining)| {
                [(&**limit, u64::from(window.burst)), (&**remaining, standing.remaining)]
            })
        })
    }
}

/// Returns true if Kong has header lines for a window of this length.
pub fn is_named(per: std::time::Duration) -> bool {
    WINDOWS.iter().any(|(length, ..)| per == std::time::Duration::from_secs(*length))
}

/// Returns two lines for each window of a length that Kong knows, and three for the window with the fewest remaining requests.
pub(super) fn lines<'w>(
    windows: &'w [Window],
    standings: &'w [WindowState],
) -> impl Iterator<Item = (&'static str, u64)> + 'w {
    // Harmless: there is one state for each window of a limit.
    let all = windows.iter().zip(standings);
    let named = all.clone().flat_map(|(window, standing)| {
        let per = window.per.as_secs();
        let found = WINDOWS.iter().find(|(length, ..)| *length == per && is_named(window.per));
        found.into_iter().flat_map(|(_, limit, remaining)| {
            [(*limit, u64::from(window.burst)), (*remaining, standing.remaining)]
        })
    });
    let tightest = all.min_by_key(|(_, standing)| standing.remaining);
    let of_tightest = tightest.into_iter().flat_map(|(window, standing)| {
        [
            ("RateLimit-Limit", u64::from(window.burst)),
            ("RateLimit-Remaining", standing.remaining),
            ("RateLimit-Reset", seconds(standing.full_in).max(1)),
        ]
    });
    named.chain(of_tightest)
}
