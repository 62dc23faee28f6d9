//! Finds routes by a textual prefix of the path: `/p` also matches `/p2`.

use std::collections::BTreeMap;
use std::ops::Bound;

/// The routes of all path prefixes of a host.
#[derive(Default)]
pub(crate) struct Prefixes(BTreeMap<Box<[u8]>, PrefixRoutes>);

/// The routes of one prefix.
#[derive(Default)]
pub(crate) struct PrefixRoutes {
    /// Indices of the routes, most specific first.
    entries: Vec<usize>,
    /// The length of the longest other prefix that this prefix begins with, or 0 if there is none.
    shorter: usize,
}

/// The prefixes of one path that have not been tried yet, longest first.
pub(crate) struct RemainingPrefixes<'t, 'p> {
    all: &'t Prefixes,
    path: &'p [u8],
    next: Option<(usize, &'t PrefixRoutes)>,
}

impl Prefixes {
    /// Returns the list of entries for a prefix, which is created if necessary.
    pub(crate) fn list(&mut self, prefix: &[u8]) -> &mut Vec<usize> {
        &mut self.0.entry(prefix.into()).or_default().entries
    }

    /// Links each prefix to the longest other prefix that it begins with. Must be called after all prefixes are added.
    pub(crate) fn link(&mut self) {
        let mut around: Vec<&[u8]> = Vec::new();
        for (prefix, routes) in &mut self.0 {
            while around.last().is_some_and(|shorter| !prefix.starts_with(shorter)) {
                around.pop();
            }
            routes.shorter = around.last().map_or(0, |shorter| shorter.len());
            around.push(prefix);
        }
    }

    /// Returns the prefixes of a path.
    pub(crate) fn of<'t, 'p>(&'t self, path: &'p [u8]) -> RemainingPrefixes<'t, 'p> {
        // In the order of the map, every prefix of a path is at or before the path itself. The last entry up to there is the longest
        // prefix, or begins with all prefixes of the path.
        let range = (Bound::Unbounded, Bound::Included(path));
        let beside = self.0.range::<[u8], _>(range).next_back();
        let mut untried = RemainingPrefixes { all: self, path, next: None };
        if let Some((prefix, routes)) = beside {
            untried.next = Some((prefix.len(), routes));
            if !path.starts_with(prefix) {
                // Harmless: a common prefix is no longer than the shorter text.
                let same = path.iter().zip(prefix).take_while(|(a, b)| a == b).count();
                untried.shorten(prefix, same);
            }
        }
        untried
    }
}

impl<'t> RemainingPrefixes<'t, '_> {
    /// Returns the length and the entries of the longest untried prefix if it is longer than `bytes`, and marks it as tried.
    pub(crate) fn longer_than(&mut self, bytes: usize) -> Option<(usize, &'t [usize])> {
        let (length, routes) = self.next.filter(|(length, _)| *length > bytes)?;
        self.shorten(self.path, routes.shorter);
        Some((length, &routes.entries))
    }

    /// Advances to the longest known prefix of `text` that has at most `bytes_max` bytes. `text` must begin with every prefix that `next`
    /// is linked to.
    fn shorten(&mut self, text: &[u8], bytes_max: usize) {
        while let Some((length, routes)) = self.next {
            if length <= bytes_max {
                return;
            }
            let shorter = text.get(..routes.shorter).filter(|shorter| !shorter.is_empty());
            let known = shorter.and_then(|shorter| Some((shorter.len(), self.all.0.get(shorter)?)));
            self.next = known;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_a_path_come_longest_first() {
        let mut prefixes = Prefixes::default();
        for (at, prefix) in ["/a", "/", "/ab/", "/abc", "/ab", "/b", "/abd/x"].iter().enumerate() {
            prefixes.list(prefix.as_bytes()).push(at);
        }
        prefixes.link();
        for (path, expected) in [
            ("/", vec![1]),
            ("/a", vec![0, 1]),
            ("/abcd", vec![3, 4, 0, 1]),
            ("/ab/c", vec![2, 4, 0, 1]),
            ("/abd/a", vec![4, 0, 1]),
            ("/c", vec![1]),
            ("/aZ", vec![0, 1]),
            ("*", vec![]),
        ] {
            let mut untried = prefixes.of(path.as_bytes());
            let found = std::iter::from_fn(|| untried.longer_than(0));
            let found: Vec<usize> = found.flat_map(|(_, entries)| entries.to_vec()).collect();
            assert_eq!(found, expected, "{path}");
        }
        let mut untried = prefixes.of(b"/abcd");
        assert_eq!(untried.longer_than(3).map(|(length, _)| length), Some(4));
        assert_eq!(untried.longer_than(3).map(|(length, _)| length), None);
    }
}
