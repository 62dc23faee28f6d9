//! Lists of exceptions that may only shrink.
//!
//! Owns the reading of a list and the comparison with what the tree holds. An entry that allows more than the tree has must be lowered, so
//! that a violation that was fixed cannot return.

use std::collections::BTreeMap;

use super::Complaint;

/// A number in the tree that is over its limit.
pub(crate) struct Measured {
    /// The name of its entry in the list.
    pub(crate) name: String,
    pub(crate) count: usize,
    /// The violation, unless the list allows the number.
    pub(crate) complaint: Complaint,
}

/// A list of exceptions, with one `NAME NUMBER` per line.
pub(crate) struct List<'t> {
    /// The path from the root of the workspace.
    pub(crate) file: &'static str,
    pub(crate) text: &'t str,
    /// What is counted, in the plural.
    pub(crate) unit: &'static str,
    /// The form of an entry.
    pub(crate) form: &'static str,
}

impl List<'_> {
    /// Numbers that the list does not allow, and entries that are wrong or allow too much.
    pub(crate) fn check(&self, over: impl IntoIterator<Item = Measured>) -> Vec<Complaint> {
        let (mut allowed, mut complaints) = self.entries();
        for Measured { name, count, complaint } in over {
            match allowed.remove(name.as_str()) {
                None => complaints.push(complaint),
                Some((_, most)) if count > most => complaints.push(complaint),
                Some((line, most)) if count < most => {
                    let what = format!("`{name}` has {count} {}, not {most}", self.unit);
                    complaints.push(self.complain(line, what, format!("write {count}")));
                }
                Some(_) => {}
            }
        }
        let left = allowed.into_iter().map(|(name, (line, _))| {
            let what = format!("`{name}` is within the limit, or gone");
            self.complain(line, what, "remove the line".to_owned())
        });
        complaints.extend(left);
        complaints
    }

    fn entries(&self) -> (BTreeMap<&str, (usize, usize)>, Vec<Complaint>) {
        let mut allowed = BTreeMap::new();
        let mut complaints = Vec::new();
        for (index, line) in self.text.lines().enumerate().filter(|(_, line)| is_entry(line)) {
            let entry = line.rsplit_once(' ');
            let entry = entry.and_then(|(name, most)| Some((name.trim(), most.parse().ok()?)));
            let what = match entry {
                None => format!("`{line}` is not an entry"),
                Some((name, most)) => match allowed.insert(name, (index + 1, most)) {
                    None => continue,
                    Some(_) => format!("`{name}` is here twice"),
                },
            };
            complaints.push(self.complain(index + 1, what, format!("write `{}` once", self.form)));
        }
        (allowed, complaints)
    }

    fn complain(&self, line: usize, what: String, instead: String) -> Complaint {
        Complaint { file: self.file.to_owned(), line, what, instead }
    }
}

/// True for a line that is not empty and not a comment.
pub(crate) fn is_entry(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, count: usize) -> Vec<String> {
        let list = List { file: "list.txt", text, unit: "lines", form: "FILE LINES" };
        let complaint = Complaint {
            file: "a.rs".to_owned(),
            line: 2,
            what: "too long".to_owned(),
            instead: "split it".to_owned(),
        };
        let over = Measured { name: "a.rs".to_owned(), count, complaint };
        list.check([over]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_list_only_shrinks() {
        assert_eq!(found("# why\n\na.rs 80\n", 80), [""; 0]);
        let cases = [
            ("a.rs 79", "a.rs:2: too long; split it"),
            ("a.rs 90", "list.txt:1: `a.rs` has 80 lines, not 90; write 80"),
            (
                "a.rs 80\nb.rs 900",
                "list.txt:2: `b.rs` is within the limit, or gone; remove the line",
            ),
            (
                "a.rs 80\nnonsense",
                "list.txt:2: `nonsense` is not an entry; write `FILE LINES` once",
            ),
            ("a.rs 80\na.rs 80", "list.txt:2: `a.rs` is here twice; write `FILE LINES` once"),
        ];
        for (text, expected) in cases {
            assert_eq!(found(text, 80), [expected]);
        }
    }
}
