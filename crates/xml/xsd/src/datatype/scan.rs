//! Byte scanner for fixed formats.

/// The unread rest of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan<'a> {
    rest: &'a [u8],
}

impl<'a> Scan<'a> {
    pub(crate) fn new(text: &'a str) -> Scan<'a> {
        Scan { rest: text.as_bytes() }
    }

    pub(crate) fn take(&mut self, wanted: u8) -> Option<()> {
        let (&first, rest) = self.rest.split_first()?;
        (first == wanted).then(|| self.rest = rest)
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Reads exactly two digits whose number is in this range.
    pub(crate) fn two(&mut self, min: u8, max: u8) -> Option<u8> {
        let &[tens @ b'0'..=b'9', ones @ b'0'..=b'9', ref rest @ ..] = self.rest else {
            return None;
        };
        self.rest = rest;
        let number = (tens - b'0') * 10 + (ones - b'0');
        (min <= number && number <= max).then_some(number)
    }

    /// Reads all digits that follow, possibly none.
    pub(crate) fn digits(&mut self) -> &'a [u8] {
        let len = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at_checked(len).unwrap_or((self.rest, b""));
        self.rest = rest;
        digits
    }

    /// Reads at least one digit after a point, in units of 10^-18. Further digits are skipped.
    pub(crate) fn fraction(&mut self) -> Option<u64> {
        let digits = self.digits();
        if digits.is_empty() {
            return None;
        }
        let kept = digits.get(..18).unwrap_or(digits);
        let number = kept.iter().fold(0u64, |sum, b| sum * 10 + u64::from(b - b'0'));
        let missing = 18u32.saturating_sub(u32::try_from(kept.len()).unwrap_or(18));
        Some(number * 10u64.pow(missing))
    }

    pub(crate) fn done(&self) -> Option<()> {
        self.rest.is_empty().then_some(())
    }
}
