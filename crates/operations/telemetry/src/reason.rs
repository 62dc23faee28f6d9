//! The reasons of faults, as small numbers. The labels belong to `fault`; neither crate knows the other. A label is a `&'static
//! str`, and its place in the table is found by address, then by text.

use std::sync::OnceLock;

/// The limit of reasons that are counted separately. `fault` has fewer. Further ones count as [`OTHER`].
pub const REASONS_MAX: usize = 64;

/// The label for reasons that are not in the table.
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
    /// The position of a label. A new label is added. The last position is for all labels that do not fit.
    pub fn index(&self, label: &'static str) -> usize {
        let last = REASONS_MAX - 1;
        self.0
            .iter()
            // Harmless: the last slot is that of all others.
            .take(last)
            .position(|slot| same(slot.get_or_init(|| label), label))
            .unwrap_or(last)
    }

    /// The label at a position.
    pub fn label(&self, index: usize) -> &'static str {
        self.0.get(index).and_then(|slot| slot.get()).copied().unwrap_or(OTHER)
    }
}

/// Usually the address is enough: a label is defined once, in the table of kinds in `fault`.
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
