//! Streaming matcher for a path: finds the open elements from which the path leads to the innermost one.

use super::path::{Branch, Path};

/// The state of matching one path, for all elements at which it may begin.
///
/// There is one word for each open element and branch. Bit `i` means that the first `i` steps lead from the element `i` levels up to that
/// element. The bit therefore tells where a match began, and no state has to be kept for each beginning.
#[derive(Debug)]
pub(crate) struct Matcher {
    rows: Vec<u64>,
}

/// The open elements from which a path leads to a node, by depth.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    /// The depth of the node's element.
    depth: usize,
    /// If set, all elements down to this depth.
    within: Option<usize>,
    /// Bit `i` stands for the element `i` levels up.
    exact: u64,
}

/// Something that belongs to an open element.
pub(crate) trait Deep {
    fn depth(&self) -> usize;
}

impl Matcher {
    /// Starts at the outermost element from which the path may begin.
    pub(crate) fn new(path: &Path) -> Matcher {
        Matcher { rows: path.branches.iter().map(|_| 1).collect() }
    }

    /// Handles the start of a child element.
    pub(crate) fn start(&mut self, path: &Path, uri: &str, local: &str) {
        let above = self.rows.len().saturating_sub(path.branches.len());
        for (at, branch) in path.branches.iter().enumerate() {
            let before = self.rows.get(above + at).copied().unwrap_or(0);
            let mut row = 1;
            for (bit, step) in branch.steps.iter().enumerate() {
                if before >> bit & 1 == 1 && step.takes(uri, local) {
                    row |= 2 << bit;
                }
            }
            self.rows.push(row);
        }
    }

    /// Handles the end of the innermost element.
    pub(crate) fn end(&mut self, path: &Path) {
        // Harmless: the rows of an element end with it.
        self.rows.truncate(self.rows.len().saturating_sub(path.branches.len()));
    }

    /// Returns the elements from which the path selects the innermost element, which is at this depth.
    pub(crate) fn to_element(&self, path: &Path, depth: usize) -> Reach {
        self.reach(path, depth, |branch| branch.attribute.is_none())
    }

    /// Returns the elements from which the path selects this attribute of the innermost element, which is at this depth.
    pub(crate) fn to_attribute(&self, path: &Path, depth: usize, uri: &str, local: &str) -> Reach {
        let takes =
            |branch: &Branch| branch.attribute.as_ref().is_some_and(|a| a.takes(uri, local));
        self.reach(path, depth, takes)
    }

    fn reach(&self, path: &Path, depth: usize, ends: impl Fn(&Branch) -> bool) -> Reach {
        let above = self.rows.len().saturating_sub(path.branches.len());
        let rows = self.rows.get(above..).unwrap_or_default();
        let mut reach = Reach { depth, within: None, exact: 0 };
        // Harmless: there is one row for each branch.
        for (branch, row) in path.branches.iter().zip(rows) {
            let steps = branch.steps.len();
            if row >> steps & 1 == 0 || !ends(branch) {
                continue;
            }
            if branch.descendant {
                reach.within = reach.within.max(depth.checked_sub(steps))
            } else {
                reach.exact |= 1 << steps
            }
        }
        reach
    }
}

impl Reach {
    /// Visits those of the open elements that are reached. `open` must be sorted, outermost first.
    pub(crate) fn each<T: Deep>(self, open: &mut [T], mut visit: impl FnMut(usize, &mut T)) {
        // Depths begin with 1, so no element is at depth 0.
        let within = self.within.unwrap_or(0);
        let all = open.partition_point(|one| one.depth() <= within);
        // Harmless: the elements after these are not reached by `within`.
        for (at, one) in open.iter_mut().take(all).enumerate() {
            visit(at, one);
        }
        for depth in self.others() {
            // Harmless: if no element is open at this depth, there is nothing to visit.
            if let Ok(at) = open.binary_search_by_key(&depth, T::depth)
                && let Some(one) = open.get_mut(at)
            {
                visit(at, one);
            }
        }
    }

    /// Returns whether any of the open elements is reached.
    pub(crate) fn any<T: Deep>(self, open: &[T]) -> bool {
        let within = self.within.unwrap_or(0);
        open.first().is_some_and(|one| one.depth() <= within)
            || self.others().any(|depth| open.binary_search_by_key(&depth, T::depth).is_ok())
    }

    /// Returns the depths of single reached elements, which are deeper than `within`.
    fn others(self) -> impl Iterator<Item = usize> {
        let mut exact = self.exact;
        let next = move || {
            let up = (exact != 0).then(|| exact.trailing_zeros())?;
            exact &= exact - 1;
            Some(self.depth.saturating_sub(up as usize))
        };
        std::iter::from_fn(next).filter(move |depth| self.within.is_none_or(|all| *depth > all))
    }
}
