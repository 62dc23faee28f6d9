//! A path as it is followed through a document: which elements below a node it selects.

use super::path::{Branch, Path};

/// The state of one path from one node on.
///
/// For each open element from the node down and each branch there is a word; bit `i` says that the first `i` steps lead
/// to that element.
#[derive(Debug)]
pub(crate) struct Matcher {
    rows: Vec<u64>,
}

impl Matcher {
    /// Begins at a node.
    pub(crate) fn new(path: &Path) -> Matcher {
        Matcher { rows: path.branches.iter().map(|_| 1).collect() }
    }

    /// An element starts below.
    pub(crate) fn start(&mut self, path: &Path, uri: &str, local: &str) {
        let above = self.rows.len().saturating_sub(path.branches.len());
        for (at, branch) in path.branches.iter().enumerate() {
            let before = self.rows.get(above + at).copied().unwrap_or_default();
            let mut row = u64::from(branch.descendant);
            for (bit, step) in branch.steps.iter().enumerate() {
                if before >> bit & 1 == 1 && step.takes(uri, local) {
                    row |= 2 << bit;
                }
            }
            self.rows.push(row);
        }
    }

    /// The innermost element ends.
    pub(crate) fn end(&mut self, path: &Path) {
        self.rows.truncate(self.rows.len().saturating_sub(path.branches.len()));
    }

    /// Whether the path selects the innermost element.
    pub(crate) fn selects_element(&self, path: &Path) -> bool {
        self.complete(path).any(|branch| branch.attribute.is_none())
    }

    /// Whether the path selects this attribute of the innermost element.
    pub(crate) fn selects_attribute(&self, path: &Path, uri: &str, local: &str) -> bool {
        self.complete(path)
            .any(|branch| branch.attribute.as_ref().is_some_and(|test| test.takes(uri, local)))
    }

    /// The branches all of whose steps lead to the innermost element.
    fn complete<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Branch> {
        let above = self.rows.len().saturating_sub(path.branches.len());
        let rows = self.rows.get(above..).unwrap_or_default();
        path.branches
            .iter()
            .zip(rows)
            .filter_map(|(branch, row)| (row >> branch.steps.len() & 1 == 1).then_some(branch))
    }
}
