//! The catalog's ids: new ones, and their form as numbers. Shared texts as numbers.

use std::collections::HashMap;

/// An identifier in the form of a UUID, as a number.
pub(crate) type Id = [u8; 16];

/// An identifier in the form of a UUID: unique, not secret.
pub(crate) fn uuid() -> String {
    let hex = format!("{:032x}", fastrand::u128(..));
    // Harmless: the text has 32 digits.
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
    // RFC 9562: version 4, variant 10.
    let (version, variant) = (part(13, 16), part(17, 20));
    format!("{}-{}-4{version}-a{variant}-{}", part(0, 8), part(8, 12), part(20, 32))
}

/// Parses a UUID in the format of the catalog: in lower case with dashes.
pub(crate) fn number(id: &str) -> Option<Id> {
    let digits: String = id.split('-').collect();
    // Harmless: a text with other characters is not an id.
    let number = u128::from_str_radix(&digits, 16).ok()?.to_be_bytes();
    (text(number) == id).then_some(number)
}

pub(crate) fn text(id: Id) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(id));
    let ends = [8, 12, 16, 20, 32];
    let begins = [0, 8, 12, 16, 20];
    // Harmless: the text has 32 digits.
    let parts = begins.iter().zip(ends).map(|(from, to)| hex.get(*from..to).unwrap_or_default());
    parts.collect::<Vec<_>>().join("-")
}

/// Maps shared texts to numbers and back. There are few; an unused one remains until the next start.
#[derive(Default)]
pub(crate) struct Words {
    all: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
}

impl Words {
    pub(crate) fn number(&mut self, text: &str) -> Option<u32> {
        if let Some(known) = self.known(text) {
            return Some(known);
        }
        let number = u32::try_from(self.all.len()).ok()?;
        self.all.push(text.into());
        self.numbers.insert(text.into(), number);
        Some(number)
    }

    pub(crate) fn known(&self, text: &str) -> Option<u32> {
        self.numbers.get(text).copied()
    }

    pub(crate) fn text(&self, number: u32) -> String {
        // Harmless: each number has a text.
        self.all.get(number as usize).map(|text| text.to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_in_the_format_of_the_catalog_are_parsed() {
        for _ in 0..100 {
            let made = uuid();
            assert_eq!(number(&made).map(text), Some(made));
        }
        for bad in [
            "",
            "a",
            "01234567-89AB-4cde-af01-23456789abcd",
            "0123456789ab4cdeaf0123456789abcd",
            "+1234567-89ab-4cde-af01-23456789abcd",
        ] {
            assert_eq!(number(bad), None, "{bad}");
        }
    }
}
