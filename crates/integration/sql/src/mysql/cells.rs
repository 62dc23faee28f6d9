//! Rows of MySQL in its binary format, as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mysql_common::constants::{ColumnFlags, ColumnType};
use mysql_common::packets::Column;

/// The reason why a row cannot be converted to JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CellError {
    /// The column with this number is of a type that JSON cannot represent.
    Type(usize),
    /// The column with this number is not UTF-8.
    Text(usize),
    /// The row does not match its columns.
    Malformed,
}

/// The unread rest of a row.
struct Reader<'a>(&'a [u8]);

/// The number of the character set `binary`.
const BINARY: u16 = 63;

/// Limits on JSON in a column, the same as for messages.
const JSON: json::Limits = json::Limits { depth_max: 500, entries_max: 1_000_000 };

/// Appends a row as a JSON object. `names` are the names of the columns as JSON strings.
pub(super) fn push_row(
    out: &mut String,
    columns: &[Column],
    names: &[String],
    packet: &[u8],
) -> Result<(), CellError> {
    let mut reader = Reader(packet);
    let bitmap_bytes = (columns.len() + 9) / 8;
    let head = reader.split(1 + bitmap_bytes).ok_or(CellError::Malformed)?;
    out.push('{');
    // Harmless: both lists have one item per column.
    for (number, (column, name)) in columns.iter().zip(names).enumerate() {
        out.push_str(if number == 0 { "" } else { "," });
        out.push_str(name);
        out.push(':');
        // The first two bits of the map are unused.
        let (byte, bit) = ((number + 2) / 8, (number + 2) % 8);
        if head.get(1 + byte).is_some_and(|byte| byte >> bit & 1 == 1) {
            out.push_str("null");
        } else {
            reader.push(out, column, number)?;
        }
    }
    out.push('}');
    if reader.0.is_empty() { Ok(()) } else { Err(CellError::Malformed) }
}

impl<'a> Reader<'a> {
    fn push(&mut self, out: &mut String, column: &Column, number: usize) -> Result<(), CellError> {
        use ColumnType as Type;
        let kind = column.column_type();
        let is_unsigned = column.flags().contains(ColumnFlags::UNSIGNED_FLAG);
        let text = match (kind, is_unsigned) {
            (Type::MYSQL_TYPE_NULL, _) => Some("null".to_owned()),
            (Type::MYSQL_TYPE_TINY, true) => self.array().map(|b| u8::from_le_bytes(b).to_string()),
            (Type::MYSQL_TYPE_TINY, false) => {
                self.array().map(|b| i8::from_le_bytes(b).to_string())
            }
            (Type::MYSQL_TYPE_SHORT | Type::MYSQL_TYPE_YEAR, true) => {
                self.array().map(|b| u16::from_le_bytes(b).to_string())
            }
            (Type::MYSQL_TYPE_SHORT | Type::MYSQL_TYPE_YEAR, false) => {
                self.array().map(|b| i16::from_le_bytes(b).to_string())
            }
            (Type::MYSQL_TYPE_LONG | Type::MYSQL_TYPE_INT24, true) => {
                self.array().map(|b| u32::from_le_bytes(b).to_string())
            }
            (Type::MYSQL_TYPE_LONG | Type::MYSQL_TYPE_INT24, false) => {
                self.array().map(|b| i32::from_le_bytes(b).to_string())
            }
            (Type::MYSQL_TYPE_LONGLONG, true) => {
                self.array().map(|b| u64::from_le_bytes(b).to_string())
            }
            (Type::MYSQL_TYPE_LONGLONG, false) => {
                self.array().map(|b| i64::from_le_bytes(b).to_string())
            }
            (Type::MYSQL_TYPE_FLOAT, _) => {
                let number = self.array().map(f32::from_le_bytes);
                number.map(|number| finite(number.is_finite(), number.to_string()))
            }
            (Type::MYSQL_TYPE_DOUBLE, _) => {
                let number = self.array().map(f64::from_le_bytes);
                number.map(|number| finite(number.is_finite(), number.to_string()))
            }
            (
                Type::MYSQL_TYPE_DATE
                | Type::MYSQL_TYPE_NEWDATE
                | Type::MYSQL_TYPE_DATETIME
                | Type::MYSQL_TYPE_TIMESTAMP,
                _,
            ) => self.date(kind).map(|text| format!("\"{text}\"")),
            (Type::MYSQL_TYPE_TIME, _) => self.time().map(|text| format!("\"{text}\"")),
            _ => {
                let bytes = self.bytes().ok_or(CellError::Malformed)?;
                return push_bytes(out, column, number, bytes);
            }
        };
        out.push_str(&text.ok_or(CellError::Malformed)?);
        Ok(())
    }

    /// Reads a date, with the time of day unless it is of the type `date`. A `timestamp` is in UTC.
    fn date(&mut self, kind: ColumnType) -> Option<String> {
        let length = self.byte()?;
        let mut reader = Reader(self.split(usize::from(length))?);
        let (year, month, day) = match length {
            0 => (0, 0, 0),
            4 | 7 | 11 => (u16::from_le_bytes(reader.array()?), reader.byte()?, reader.byte()?),
            _ => return None,
        };
        let date = format!("{year:04}-{month:02}-{day:02}");
        if matches!(kind, ColumnType::MYSQL_TYPE_DATE | ColumnType::MYSQL_TYPE_NEWDATE) {
            return Some(date);
        }
        let (hour, minute, second) = match length {
            7 | 11 => (reader.byte()?, reader.byte()?, reader.byte()?),
            _ => (0, 0, 0),
        };
        let fraction = if length == 11 { reader.fraction()? } else { String::new() };
        let zone = if kind == ColumnType::MYSQL_TYPE_TIMESTAMP { "Z" } else { "" };
        Some(format!("{date}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}"))
    }

    /// Reads a time, which may be negative and longer than a day.
    fn time(&mut self) -> Option<String> {
        let length = self.byte()?;
        let mut reader = Reader(self.split(usize::from(length))?);
        if length == 0 {
            return Some("00:00:00".to_owned());
        }
        if !matches!(length, 8 | 12) {
            return None;
        }
        let sign = if reader.byte()? == 1 { "-" } else { "" };
        let days = u64::from(u32::from_le_bytes(reader.array()?));
        let hours = days * 24 + u64::from(reader.byte()?);
        let (minutes, seconds) = (reader.byte()?, reader.byte()?);
        let fraction = if length == 12 { reader.fraction()? } else { String::new() };
        Some(format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{fraction}"))
    }

    /// Reads microseconds, as the digits of a fraction.
    fn fraction(&mut self) -> Option<String> {
        match u32::from_le_bytes(self.array()?) {
            0 => Some(String::new()),
            us => Some(format!(".{us:06}").trim_end_matches('0').to_owned()),
        }
    }

    fn split(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(u8::from_le_bytes)
    }

    /// Reads a length, and the bytes of this length.
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.split(usize::try_from(length).ok()?)
    }

    /// Reads a number of variable length.
    fn number(&mut self) -> Option<u64> {
        match self.byte()? {
            0xFC => self.array().map(u16::from_le_bytes).map(u64::from),
            0xFD => {
                let [first, second, third] = self.array()?;
                Some(u64::from(u32::from_le_bytes([first, second, third, 0])))
            }
            0xFE => self.array().map(u64::from_le_bytes),
            0xFB | 0xFF => None,
            small => Some(u64::from(small)),
        }
    }
}

/// Reads the number of columns of a result.
pub(super) fn column_count(packet: &[u8]) -> Option<u64> {
    let mut reader = Reader(packet);
    let count = reader.number()?;
    reader.0.is_empty().then_some(count)
}

fn finite(is_finite: bool, text: String) -> String {
    if is_finite { text } else { format!("\"{text}\"") }
}

fn push_bytes(
    out: &mut String,
    column: &Column,
    number: usize,
    bytes: &[u8],
) -> Result<(), CellError> {
    use ColumnType as Type;
    match column.column_type() {
        Type::MYSQL_TYPE_BIT if bytes.len() <= 8 => {
            let bits = bytes.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
            out.push_str(&bits.to_string());
        }
        Type::MYSQL_TYPE_DECIMAL | Type::MYSQL_TYPE_NEWDECIMAL | Type::MYSQL_TYPE_JSON => {
            let text = std::str::from_utf8(bytes).map_err(|_| CellError::Text(number))?;
            // A decimal with leading zeros is not a JSON number.
            if json::Tape::read(text, &JSON).is_ok() {
                out.push_str(text);
            } else {
                json::push_string(out, text);
            }
        }
        Type::MYSQL_TYPE_TINY_BLOB
        | Type::MYSQL_TYPE_MEDIUM_BLOB
        | Type::MYSQL_TYPE_LONG_BLOB
        | Type::MYSQL_TYPE_BLOB
        | Type::MYSQL_TYPE_VAR_STRING
        | Type::MYSQL_TYPE_VARCHAR
        | Type::MYSQL_TYPE_STRING
        | Type::MYSQL_TYPE_ENUM
        | Type::MYSQL_TYPE_SET => {
            if column.character_set() == BINARY {
                json::push_string(out, &STANDARD.encode(bytes));
            } else {
                let text = std::str::from_utf8(bytes).map_err(|_| CellError::Text(number))?;
                json::push_string(out, text);
            }
        }
        // Geometries and vectors, types that only the server's own files have, a `bit` that is too long, and types that are read elsewhere.
        Type::MYSQL_TYPE_GEOMETRY
        | Type::MYSQL_TYPE_VECTOR
        | Type::MYSQL_TYPE_UNKNOWN
        | Type::MYSQL_TYPE_TYPED_ARRAY
        | Type::MYSQL_TYPE_TIMESTAMP2
        | Type::MYSQL_TYPE_DATETIME2
        | Type::MYSQL_TYPE_TIME2
        | Type::MYSQL_TYPE_BIT
        | Type::MYSQL_TYPE_NULL
        | Type::MYSQL_TYPE_TINY
        | Type::MYSQL_TYPE_SHORT
        | Type::MYSQL_TYPE_YEAR
        | Type::MYSQL_TYPE_INT24
        | Type::MYSQL_TYPE_LONG
        | Type::MYSQL_TYPE_LONGLONG
        | Type::MYSQL_TYPE_FLOAT
        | Type::MYSQL_TYPE_DOUBLE
        | Type::MYSQL_TYPE_DATE
        | Type::MYSQL_TYPE_NEWDATE
        | Type::MYSQL_TYPE_DATETIME
        | Type::MYSQL_TYPE_TIMESTAMP
        | Type::MYSQL_TYPE_TIME => return Err(CellError::Type(number)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(columns: &[Column], packet: &[u8]) -> Result<String, CellError> {
        let names: Vec<String> = (0..columns.len()).map(|n| format!("\"{n}\"")).collect();
        let mut out = String::new();
        push_row(&mut out, columns, &names, packet).map(|()| out)
    }

    fn columns() -> Vec<Column> {
        use ColumnType as Type;
        let unsigned = |kind| Column::new(kind).with_flags(ColumnFlags::UNSIGNED_FLAG);
        vec![
            Column::new(Type::MYSQL_TYPE_TINY),
            unsigned(Type::MYSQL_TYPE_LONGLONG),
            Column::new(Type::MYSQL_TYPE_NEWDECIMAL),
            Column::new(Type::MYSQL_TYPE_DATE),
            Column::new(Type::MYSQL_TYPE_TIMESTAMP),
            Column::new(Type::MYSQL_TYPE_TIME),
            Column::new(Type::MYSQL_TYPE_BLOB).with_character_set(BINARY),
            Column::new(Type::MYSQL_TYPE_VAR_STRING).with_character_set(45),
            Column::new(Type::MYSQL_TYPE_BIT),
            Column::new(Type::MYSQL_TYPE_JSON),
            Column::new(Type::MYSQL_TYPE_DOUBLE),
            Column::new(Type::MYSQL_TYPE_VAR_STRING).with_character_set(45),
        ]
    }

    fn packet() -> Vec<u8> {
        // The last column is null.
        let mut packet = vec![0, 0, 0b10_0000];
        packet.push(0xFF);
        packet.extend(u64::MAX.to_le_bytes());
        packet.extend(b"\x041.10");
        packet.extend([4, 0xE8, 0x07, 2, 29]);
        packet.extend([11, 0xE8, 0x07, 2, 29, 13, 14, 15, 0x20, 0xA1, 0x07, 0]);
        packet.extend([8, 1, 4, 0, 0, 0, 5, 2, 3]);
        packet.extend([2, 0, 0xFF]);
        packet.extend(b"\x03a\"b");
        packet.extend([2, 1, 1]);
        packet.extend(b"\x08{\"a\": 1}");
        packet.extend(f64::NAN.to_le_bytes());
        packet
    }

    #[test]
    fn rows_are_json() {
        let text = concat!(
            r#"{"0":-1,"1":18446744073709551615,"2":1.10,"3":"2024-02-29","4":"2024-02-29T13:14:15.5Z","#,
            r#""5":"-101:02:03","6":"AP8=","7":"a\"b","8":257,"9":{"a": 1},"10":"NaN","11":null}"#
        );
        assert_eq!(row(&columns(), &packet()).as_deref(), Ok(text));
    }

    #[test]
    fn a_row_is_read_within_its_bytes() {
        let (columns, packet) = (columns(), packet());
        for end in 0..packet.len() {
            assert_eq!(row(&columns, &packet[..end]), Err(CellError::Malformed), "{end}");
        }
        let longer = [&packet[..], &[0]].concat();
        assert_eq!(row(&columns, &longer), Err(CellError::Malformed));
    }

    #[test]
    fn what_is_not_json_is_refused() {
        use ColumnType as Type;
        let text = |kind| Column::new(kind).with_character_set(45);
        for (column, value, result) in [
            (text(Type::MYSQL_TYPE_VAR_STRING), &b"\x01\xff"[..], Err(CellError::Text(0))),
            (text(Type::MYSQL_TYPE_GEOMETRY), b"\x01a", Err(CellError::Type(0))),
            (text(Type::MYSQL_TYPE_UNKNOWN), b"\x01a", Err(CellError::Type(0))),
            (text(Type::MYSQL_TYPE_BIT), b"\x09123456789", Err(CellError::Type(0))),
            (text(Type::MYSQL_TYPE_DATE), b"\x0312345", Err(CellError::Malformed)),
            (text(Type::MYSQL_TYPE_TIME), b"\x0112345", Err(CellError::Malformed)),
            (
                text(Type::MYSQL_TYPE_STRING),
                b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff",
                Err(CellError::Malformed),
            ),
            (text(Type::MYSQL_TYPE_JSON), b"\x03{a}", Ok("{\"0\":\"{a}\"}")),
            (text(Type::MYSQL_TYPE_NEWDECIMAL), b"\x03007", Ok("{\"0\":\"007\"}")),
        ] {
            let packet = [&[0, 0], value].concat();
            assert_eq!(row(&[column], &packet), result.map(str::to_owned), "{value:?}");
        }
    }
}
