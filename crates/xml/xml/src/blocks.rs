//! Unicode blocks and categories: the escapes `\p{Is..}` and `\p{..}` in regular expressions of XML Schema, XPath and JSONPath.
//!
//! This is the only table of blocks. It has the blocks of XSD 1.0, each also under the name that later versions of Unicode use.

/// Returns the ranges of a block, without surrogates, which are not characters. Returns `None` if no block has that name.
pub fn block(name: &str) -> Option<impl Iterator<Item = (u32, u32)>> {
    let mut lines = include_str!("blocks.txt").lines().map(|line| line.split(' '));
    let mut line = lines.find(|line| line.clone().next() == Some(name))?;
    line.next();
    // Harmless: the table is part of the program, and every code in it is hexadecimal.
    let code = |digits: &str| u32::from_str_radix(digits, 16).ok();
    // Harmless: the table is part of the program and has no malformed range.
    Some(line.filter_map(move |range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some((code(first)?, code(last)?))
    }))
}

/// Returns true for the name of a general category, or of a group of them. `Cs`, the category of surrogates, has no characters and is left
/// out.
pub fn is_category(name: &str) -> bool {
    let mut letters = name.chars();
    let (first, second) = (letters.next(), letters.next());
    let seconds = match first {
        Some('L') => "ultmo",
        Some('M') => "nce",
        Some('N') => "dlo",
        Some('P') => "cdseifo",
        Some('Z') => "slp",
        Some('S') => "mcko",
        Some('C') => "cfon",
        _ => return false,
    };
    letters.next().is_none() && second.is_none_or(|second| seconds.contains(second))
}

#[cfg(test)]
mod tests {
    use super::block;

    #[test]
    fn each_line_is_a_block_of_characters() {
        for line in include_str!("blocks.txt").lines() {
            let name = line.split(' ').next().unwrap();
            let ranges: Vec<(u32, u32)> = block(name).unwrap().collect();
            assert_eq!(ranges.len(), line.split(' ').count() - 1, "{line}");
            for (first, last) in ranges {
                let is_range = char::from_u32(first).zip(char::from_u32(last)).is_some();
                assert!(is_range && first <= last, "{line}");
            }
        }
        assert!(block("Nowhere").is_none());
    }
}
