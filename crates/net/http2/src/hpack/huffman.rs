//! Huffman-coded text (RFC 7541, 5.2 and appendix B).
//!
//! The code is canonical: codes of one length are consecutive in the order of their symbols, and longer codes follow shorter ones.
//! Therefore the lengths define the code, and the tables here are computed from them at compile time.

use crate::{Code, Error};

/// The length in bits of each byte's code, and of the end-of-string symbol.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const SHORTEST: usize = 5;
const LONGEST: usize = 30;
const END: u16 = 256;

const WRONG: Error = Error::new(Code::COMPRESSION_ERROR, "text that is not Huffman-coded");

/// The codes of one length, left-aligned in 32 bits.
#[derive(Clone, Copy)]
struct Codes {
    first: u32,
    /// One past the last code; 2^32 for the longest length.
    end: u64,
    /// The index in [`SYMBOLS`] of the first symbol with this length.
    symbols: usize,
}

/// The codes by length.
#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated at compile time, where an index out of bounds is an error"
)]
static CODES: [Codes; LONGEST + 1] = {
    let mut codes = [Codes { first: 0, end: 0, symbols: 0 }; LONGEST + 1];
    let (mut next, mut symbols, mut len) = (0u64, 0, SHORTEST);
    while len <= LONGEST {
        let mut count = 0;
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            count += (LENGTHS[symbol] as usize == len) as usize;
            symbol += 1;
        }
        let end = next + ((count as u64) << (32 - len));
        codes[len] = Codes { first: next as u32, end, symbols };
        (next, symbols, len) = (end, symbols + count, len + 1);
    }
    codes
};

/// Symbols in the order of their codes.
#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated at compile time, where an index out of bounds is an error"
)]
static SYMBOLS: [u16; 257] = {
    let mut sorted = [0; 257];
    let (mut at, mut len) = (0, SHORTEST);
    while len <= LONGEST {
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == len {
                sorted[at] = symbol as u16;
                at += 1;
            }
            symbol += 1;
        }
        len += 1;
    }
    sorted
};

/// Symbol and length by the next eight bits, for codes of up to eight bits. The length is 0 for longer codes.
#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated at compile time, where an index out of bounds is an error"
)]
static SHORT: [(u8, u8); 256] = {
    let mut table = [(0, 0); 256];
    let mut byte = 0;
    while byte < 256 {
        let (symbol, len) = search((byte as u32) << 24, SHORTEST);
        if len <= 8 {
            table[byte] = (symbol as u8, len as u8);
        }
        byte += 1;
    }
    table
};

/// Returns the symbol at the front of `bits`, and the length of its code, which is at least `len`.
#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "`len` is at most `LONGEST`, and `at` is checked before its use"
)]
const fn search(bits: u32, mut len: usize) -> (u16, usize) {
    while len < LONGEST && bits as u64 >= CODES[len].end {
        len += 1;
    }
    let codes = CODES[len];
    let nth = (bits.wrapping_sub(codes.first) >> (32 - len)) as usize;
    // The codes cover the whole space, so the index is within the symbols. A test of all codes verifies this.
    let at = codes.symbols + nth;
    (if at < SYMBOLS.len() { SYMBOLS[at] } else { END }, len)
}

/// Decodes a text, and appends it.
pub(super) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    // Unused bits, left-aligned.
    let (mut bits, mut count) = (0u64, 0u32);
    for &byte in coded {
        bits |= u64::from(byte) << (56 - count);
        count += 8;
        loop {
            let (symbol, len) = match SHORT.get(usize::from(bits.to_be_bytes()[0])) {
                Some(&(symbol, len)) if len != 0 => (u16::from(symbol), u32::from(len)),
                _ => {
                    let next = u32::try_from(bits >> 32).map_err(|_| WRONG)?;
                    let (symbol, len) = search(next, 9);
                    (symbol, u32::try_from(len).map_err(|_| WRONG)?)
                }
            };
            if len > count {
                break;
            }
            out.push(u8::try_from(symbol).map_err(|_| WRONG)?);
            bits <<= len;
            count -= len;
        }
    }
    // The rest must be the beginning of the end-of-string symbol, which is all ones, and shorter than a byte.
    let padding = bits.leading_ones() >= count && count < 8;
    if padding { Ok(()) } else { Err(WRONG) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a text, padded with ones.
    fn encode(text: &[u8]) -> Vec<u8> {
        let mut bits = String::new();
        for byte in text {
            let len = usize::from(LENGTHS[usize::from(*byte)]);
            let codes = CODES[len];
            let of_len = &SYMBOLS[codes.symbols..];
            let nth = of_len.iter().position(|s| *s == u16::from(*byte)).unwrap();
            let code = (u64::from(codes.first) >> (32 - len)) + nth as u64;
            bits += &format!("{code:0len$b}");
        }
        while !bits.len().is_multiple_of(8) {
            bits.push('1');
        }
        bits.as_bytes()
            .chunks(8)
            .map(|b| u8::from_str_radix(std::str::from_utf8(b).unwrap(), 2).unwrap())
            .collect()
    }

    #[track_caller]
    fn decoded(coded: &[u8]) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        decode(coded, &mut out).map(|()| out)
    }

    #[test]
    fn the_codes_fill_the_space() {
        assert_eq!(CODES[LONGEST].end, 1 << 32);
    }

    /// RFC 7541, C.4.1 and C.6.1.
    #[test]
    fn the_examples_of_the_rfc_are_decoded() {
        let host = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(decoded(&host).unwrap(), b"www.example.com");
        assert_eq!(decoded(&[0x64, 0x02]).unwrap(), b"302");
        assert_eq!(encode(b"www.example.com"), host);
    }

    #[test]
    fn every_byte_is_decoded_again() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decoded(&encode(&all)).unwrap(), all);
        for byte in all {
            assert_eq!(decoded(&encode(&[byte, b'a', byte])).unwrap(), [byte, b'a', byte]);
        }
    }

    #[test]
    fn padding_must_be_ones_and_shorter_than_a_byte() {
        // `a` is 00011.
        assert_eq!(decoded(&[0b0001_1111]).unwrap(), b"a");
        for bad in [&[0b0001_1000][..], &[0b0001_1111, 0xff], &[0xff], &[0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(decoded(bad), Err(WRONG), "{bad:x?}");
        }
    }
}
