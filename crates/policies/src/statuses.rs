//! The replies that a policy is for, by their statuses.

/// Inclusive ranges of statuses; all of them if it is empty.
#[derive(Debug, Default)]
pub struct Statuses(pub Vec<(u16, u16)>);

impl Statuses {
    pub(crate) fn have(&self, status: u16) -> bool {
        let Statuses(ranges) = self;
        ranges.is_empty() || ranges.iter().any(|(first, last)| (*first..=*last).contains(&status))
    }
}
