//! Character sets of the escapes `\p{..}`, `\d`, `\w`, `\s`, `\i` and `\c`.
//!
//! Owns the table `categories.txt` (the general categories of Unicode 14, from the Unicode Character Database), which is parsed on first
//! use. Blocks come from the crate `xml`.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::set::CharSet;

type Sets = HashMap<&'static str, CharSet>;

/// Returns the set of `\p{name}`: a category (`Lu`), a group of categories (`L`) or a block (`IsBasicLatin`).
pub(crate) fn property(name: &str) -> Option<CharSet> {
    if let Some(block) = name.strip_prefix("Is") {
        return xml::block(block).map(|ranges| CharSet::from_ranges(ranges.collect()));
    }
    categories().get(name).cloned()
}

/// Returns the set of a multi-character escape: `\s \i \c \d \w` and their complements.
pub(crate) fn multi(letter: char) -> Option<CharSet> {
    let set = match letter.to_ascii_lowercase() {
        's' => CharSet::from_ranges(vec![(0x9, 0xA), (0xD, 0xD), (0x20, 0x20)]),
        'i' => CharSet::from_ranges(name_start()),
        'c' => {
            let mut ranges = name_start();
            ranges.extend(crate::datatype::NAME_REST);
            CharSet::from_ranges(ranges)
        }
        'd' => property("Nd")?,
        'w' => word().clone(),
        _ => return None,
    };
    Some(if letter.is_ascii_uppercase() { set.complement() } else { set })
}

fn name_start() -> Vec<(u32, u32)> {
    crate::datatype::NAME_START.to_vec()
}

/// Returns all characters except punctuation, separators and others.
fn word() -> &'static CharSet {
    static SET: OnceLock<CharSet> = OnceLock::new();
    SET.get_or_init(|| {
        let others: Vec<&CharSet> =
            // Harmless: these groups are in the table.
            ["P", "Z", "C"].iter().filter_map(|name| categories().get(name)).collect();
        CharSet::union(&others).complement()
    })
}

fn categories() -> &'static Sets {
    static SETS: OnceLock<Sets> = OnceLock::new();
    SETS.get_or_init(|| {
        let mut sets = read(include_str!("categories.txt"));
        // Surrogates are not characters of XML.
        sets.insert("Cs", CharSet::default());
        for group in ["L", "M", "N", "P", "Z", "S", "C"] {
            let parts: Vec<&CharSet> = sets
                .iter()
                // Harmless: other categories belong to other groups.
                .filter_map(|(category, set)| category.starts_with(group).then_some(set))
                .collect();
            let union = CharSet::union(&parts);
            sets.insert(group, union);
        }
        sets
    })
}

/// Parses lines with a name and its ranges in hexadecimal.
fn read(table: &'static str) -> Sets {
    // Harmless: the table is part of the program and has no other digits.
    let code = |digits: &str| u32::from_str_radix(digits, 16).unwrap_or_default();
    table
        .lines()
        // Harmless: the table is part of the program and has no malformed line.
        .filter_map(|line| {
            let mut words = line.split(' ');
            let name = words.next()?;
            let ranges = words.map(|word| match word.split_once('-') {
                Some((first, last)) => (code(first), code(last)),
                None => (code(word), code(word)),
            });
            Some((name, CharSet::from_ranges(ranges.collect())))
        })
        .collect()
}
