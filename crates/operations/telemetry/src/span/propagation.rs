//! Span ids in headers: W3C Trace Context and B3.
//!
//! Values are parsed strictly: an invalid one is ignored.

use super::{SpanId, SpanIds, TraceId};

/// A format of headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// `traceparent`, of W3C Trace Context.
    W3c,
    /// `b3`, one header.
    B3,
    /// `X-B3-TraceId` and others.
    B3Multi,
}

/// The parent span of a request according to its headers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ParentSpan {
    pub ids: Option<(TraceId, SpanId)>,
    /// The sampling decision of the sender, if it made one.
    pub sampled: Option<bool>,
}

impl ParentSpan {
    /// Parses a `traceparent` (W3C Trace Context, 3.2). Later versions may have more data after the flags.
    pub fn of_traceparent(value: &[u8]) -> Option<ParentSpan> {
        let (version, rest) = split(value, 2)?;
        let (trace_id, rest) = split(rest, 32)?;
        let (span_id, flags) = split(rest, 16)?;
        let [version] = lower_hex::<1>(version)?;
        let is_known = match (version, flags.len()) {
            (0xff, _) => false,
            (0, length) => length == 2,
            (_, 2) => true,
            (_, _) => flags.get(2) == Some(&b'-'),
        };
        let [flags] = lower_hex::<1>(flags.get(..2).filter(|_| is_known)?)?;
        let ids = (not_zero(lower_hex(trace_id)?)?, not_zero(lower_hex(span_id)?)?);
        Some(ParentSpan { ids: Some(ids), sampled: Some(flags & 1 == 1) })
    }

    /// Parses the single header `b3`: `TRACE-SPAN`, `TRACE-SPAN-STATE`, `TRACE-SPAN-STATE-PARENT`, or only a state.
    pub fn of_b3(value: &[u8]) -> Option<ParentSpan> {
        if let Some(sampled) = b3_state(value) {
            return Some(ParentSpan { ids: None, sampled: Some(sampled) });
        }
        let mut parts = value.split(|byte| *byte == b'-');
        let ids = b3_ids(parts.next()?, parts.next()?)?;
        let sampled = match parts.next() {
            Some(state) => Some(b3_state(state)?),
            None => None,
        };
        let parent_is_id = parts.next().is_none_or(|parent| lower_hex::<8>(parent).is_some());
        (parent_is_id && parts.next().is_none()).then_some(ParentSpan { ids: Some(ids), sampled })
    }

    /// Parses the headers `X-B3-TraceId`, `X-B3-SpanId`, `X-B3-Sampled` and `X-B3-Flags`.
    pub fn of_b3_lines(
        trace_id: Option<&[u8]>,
        span_id: Option<&[u8]>,
        sampled: Option<&[u8]>,
        flags: Option<&[u8]>,
    ) -> Option<ParentSpan> {
        let sampled = match (flags, sampled) {
            (Some(b"1"), _) => Some(true),
            // Older senders use words.
            (_, Some(b"1" | b"true")) => Some(true),
            (_, Some(b"0" | b"false")) => Some(false),
            (_, Some(_)) => return None,
            (_, None) => None,
        };
        match (trace_id, span_id) {
            (Some(trace_id), Some(span_id)) => {
                Some(ParentSpan { ids: Some(b3_ids(trace_id, span_id)?), sampled })
            }
            (None, None) => sampled.map(|_| ParentSpan { ids: None, sampled }),
            (Some(_), None) | (None, Some(_)) => None,
        }
    }
}

impl SpanIds {
    /// Formats it as the value of `traceparent`. The result is an array, since each request needs one, sampled or not.
    pub fn traceparent(&self) -> [u8; 55] {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        text[3..35].copy_from_slice(&self.trace_id_text().0);
        text[36..52].copy_from_slice(&self.span_id_text().0);
        text[54] = self.state();
        text
    }

    /// Formats it as a complete header line, which a head takes over in one copy.
    pub fn traceparent_line(&self) -> [u8; 70] {
        let mut line = *b"traceparent: 00-00000000000000000000000000000000-0000000000000000-00\r\n";
        line[13..68].copy_from_slice(&self.traceparent());
        line
    }

    /// Formats it as `b3`.
    pub fn b3(&self) -> [u8; 51] {
        let mut text = *b"00000000000000000000000000000000-0000000000000000-0";
        text[..32].copy_from_slice(&self.trace_id_text().0);
        text[33..49].copy_from_slice(&self.span_id_text().0);
        text[50] = self.state();
        text
    }

    fn state(&self) -> u8 {
        if self.sampled { b'1' } else { b'0' }
    }

    /// The trace id in hexadecimal digits.
    pub fn trace_id_text(&self) -> HexText<32> {
        HexText::of(&self.trace_id)
    }

    /// The span id in hexadecimal digits.
    pub fn span_id_text(&self) -> HexText<16> {
        HexText::of(&self.span_id)
    }
}

/// Hexadecimal digits without an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HexText<const N: usize>([u8; N]);

impl<const N: usize> HexText<N> {
    fn of(bytes: &[u8]) -> HexText<N> {
        let mut digits = [b'0'; N];
        // Harmless: each four bytes are eight digits, and ids have eight or sixteen bytes.
        for (eight, four) in digits.as_chunks_mut::<8>().0.iter_mut().zip(bytes.as_chunks::<4>().0)
        {
            *eight = eight_digits(*four);
        }
        HexText(digits)
    }

    pub fn as_str(&self) -> &str {
        // Harmless: digits are ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl<const N: usize> std::fmt::Display for HexText<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Formats four bytes as eight hexadecimal digits, all at once. Each request has 24 bytes of ids, and a look-up for each digit takes
/// longer than finding the route.
fn eight_digits(bytes: [u8; 4]) -> [u8; 8] {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // Spreads the eight halves of bytes over eight bytes.
    let mut halves = u64::from(u32::from_be_bytes(bytes));
    halves = (halves << 16 | halves) & 0x0000_ffff_0000_ffff;
    halves = (halves << 8 | halves) & 0x00ff_00ff_00ff_00ff;
    halves = (halves << 4 | halves) & 0x0f0f_0f0f_0f0f_0f0f;
    // Values of ten and more become letters. No sum exceeds a byte.
    let letters = (halves + 6 * EACH) >> 4 & EACH;
    let digits = halves + u64::from(b'0') * EACH + letters * u64::from(b'a' - b'0' - 10);
    digits.to_be_bytes()
}

/// Splits off the first bytes, and removes the dash after them.
fn split(value: &[u8], bytes: usize) -> Option<(&[u8], &[u8])> {
    let (first, rest) = value.split_at_checked(bytes)?;
    Some((first, rest.strip_prefix(b"-")?))
}

/// Parses exactly `N` bytes of hexadecimal digits in lower case.
fn lower_hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let value = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    // Harmless: both have the same length.
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some(bytes)
}

fn not_zero<const N: usize>(id: [u8; N]) -> Option<[u8; N]> {
    (id != [0; N]).then_some(id)
}

/// Trace ids of B3 may also have 64 bits, which are the low ones.
fn b3_ids(trace_id: &[u8], span_id: &[u8]) -> Option<(TraceId, SpanId)> {
    let trace_id = match lower_hex::<8>(trace_id) {
        Some([a, b, c, d, e, f, g, h]) => [0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d, e, f, g, h],
        None => lower_hex(trace_id)?,
    };
    Some((not_zero(trace_id)?, not_zero(lower_hex(span_id)?)?))
}

fn b3_state(state: &[u8]) -> Option<bool> {
    match state {
        b"1" | b"d" => Some(true),
        b"0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    #[test]
    fn headers_are_read_strictly() {
        let parent = |text: String| ParentSpan::of_traceparent(text.as_bytes());
        let read = parent(format!("00-{TRACE}-{SPAN}-01")).unwrap();
        assert_eq!(read.sampled, Some(true));
        let (trace_id, span_id) = read.ids.unwrap();
        let context = SpanIds { trace_id, span_id, sampled: true };
        let line = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\n");
        assert_eq!(context.traceparent_line(), line.as_bytes());
        assert_eq!(context.b3(), format!("{TRACE}-{SPAN}-1").as_bytes());
        for (text, sampled) in [
            (format!("00-{TRACE}-{SPAN}-00"), Some(false)),
            (format!("00-{TRACE}-{SPAN}-03"), Some(true)),
            (format!("cc-{TRACE}-{SPAN}-01"), Some(true)),
            (format!("cc-{TRACE}-{SPAN}-01-what"), Some(true)),
            (format!("00-{TRACE}-{SPAN}-01-what"), None),
            (format!("cc-{TRACE}-{SPAN}-01.what"), None),
            (format!("ff-{TRACE}-{SPAN}-01"), None),
            (format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), None),
            (format!("00-{TRACE}-{SPAN}-0"), None),
            (format!("00-{TRACE}-{SPAN}-0x"), None),
            (format!("00-{}-{SPAN}-01", "0".repeat(32)), None),
            (format!("00-{TRACE}-{}-01", "0".repeat(16)), None),
            (format!("00{TRACE}{SPAN}01"), None),
            (format!(" 00-{TRACE}-{SPAN}-01"), None),
            (String::new(), None),
        ] {
            assert_eq!(parent(text.clone()).and_then(|read| read.sampled), sampled, "{text}");
        }
        let b3 = |text: &str| ParentSpan::of_b3(text.as_bytes());
        assert_eq!(b3(&format!("{TRACE}-{SPAN}-d")).unwrap().ids, Some((trace_id, span_id)));
        assert_eq!(b3(&format!("{TRACE}-{SPAN}")).unwrap().sampled, None);
        assert_eq!(b3(&format!("{TRACE}-{SPAN}-0-{SPAN}")).unwrap().sampled, Some(false));
        assert_eq!(b3("0"), Some(ParentSpan { ids: None, sampled: Some(false) }));
        let short = b3(&format!("{SPAN}-{SPAN}-1")).unwrap().ids.unwrap().0;
        assert_eq!((&short[..8], &short[8..]), (&[0; 8][..], &span_id[..]));
        for bad in
            ["", "2", "1-1", &format!("{TRACE}-{SPAN}-2"), &format!("{TRACE}-{SPAN}-1-{SPAN}-1")]
        {
            assert_eq!(b3(bad), None, "{bad}");
        }
        let lines = |sampled: Option<&[u8]>, flags: Option<&[u8]>| {
            let (trace_id, span_id) = (Some(TRACE.as_bytes()), Some(SPAN.as_bytes()));
            ParentSpan::of_b3_lines(trace_id, span_id, sampled, flags).map(|read| read.sampled)
        };
        assert_eq!(lines(None, None), Some(None));
        assert_eq!(lines(Some(b"true"), None), Some(Some(true)));
        assert_eq!(lines(Some(b"0"), Some(b"1")), Some(Some(true)));
        assert_eq!(lines(Some(b"yes"), None), None);
        assert_eq!(ParentSpan::of_b3_lines(Some(b"a"), None, None, None), None);
    }
}
