//! Selects the replies that a policy applies to, by status.

/// Inclusive ranges of statuses. If empty, all statuses are included.
#[derive(Debug, Default)]
pub struct Statuses(pub Vec<(u16, u16)>);

impl Statuses {
    pub(crate) fn contains(&self, status: u16) -> bool {
        let Statuses(ranges) = self;
        ranges.is_empty() || ranges.iter().any(|(first, last)| (*first..=*last).contains(&status))
    }
}
