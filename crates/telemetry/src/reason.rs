//! The reasons of faults, as small numbers. The labels belong to `fault`, which knows nothing of this crate and which this
//! crate does not know: a label is a `&'static str`, and its place in the table is found by address, then by text.

use std::sync::OnceLock;

/// How many different reasons are told apart; `fault` has fewer. Past it they count as [`OTHER`].
pub const REASONS_MAX: usize = 64;

/// The label of the reasons that came too late for the table.
pub const OTHER: &str = "other";

/// The table, filled as labels are first seen.
#[derive(Debug)]
pub struct Reasons([OnceLock<&'static str>; REASONS_MAX]);

impl Default for Reasons {
    fn default() -> Self {
        Reasons(std::array::from_fn(|_| OnceLock::new()))
    }
}

impl Reasons {
    /// Position of a label, entering it if it is new. The last position is that of everything that found no place.
    pub fn index(&self, label: &'static str) -> usize {
        let last = REASONS_MAX - 1;
        self.0
            .iter()
            .take(last)
            .position(|slot| same(slot.get_or_init(|| label), label))
            .unwrap_or(last)
    }

    /// The label at a position.
    pub fn label(&self, index: usize) -> &'static str {
        self.0.get(index).and_then(|slot| slot.get()).copied().unwrap_or(OTHER)
    }
}

/// The address settles it nearly always: a label has one home, the table of kinds in `fault`.
fn same(a: &'static str, b: &'static str) -> bool {
    std::ptr::eq(a, b) || a == b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_keeps_its_place_and_the_table_is_bounded() {
        let reasons = Reasons::default();
        let labels: Vec<&'static str> = (0..100).map(|n| &*format!("r{n}").leak()).collect();
        for (n, label) in labels.iter().enumerate() {
            assert_eq!(reasons.index(label), n.min(REASONS_MAX - 1));
        }
        assert_eq!((reasons.index(labels[7]), reasons.label(7)), (7, "r7"));
        assert_eq!(reasons.label(REASONS_MAX - 1), OTHER);
    }
}
