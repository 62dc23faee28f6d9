//! Record batches of Kafka. They are written by a library, and parsed here, since any producer may have written them.

use bytes::{Buf as _, Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, Record, RecordBatchEncoder, RecordEncodeOptions,
    TimestampType,
};

use crate::{Message, compression};

/// The header with the content type (CloudEvents, Kafka protocol binding).
const CONTENT_TYPE: &str = "content-type";

/// A producer id, and the sequence number of its next record. A broker accepts each number only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Producer {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
    pub(crate) sequence: i32,
}

/// A parsed record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FetchedRecord {
    pub(crate) offset: i64,
    /// The timestamp, in milliseconds since the Unix epoch.
    pub(crate) time: i64,
    pub(crate) message: Message,
}

/// The content of a fetch response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Batches {
    pub(crate) found: Vec<FetchedRecord>,
    /// The offset after the last batch, or `None` if there was no batch.
    pub(crate) next: Option<i64>,
    /// The first offsets of batches that cannot be parsed.
    pub(crate) unread: Vec<i64>,
}

/// An aborted transaction: its producer id, and its first offset.
pub(crate) type AbortedTransaction = (i64, i64);

/// The error for a batch with an invalid length, format version or checksum.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DamagedBatch;

/// The length of a batch's header, before its records.
const HEAD_BYTES: usize = 61;

/// The maximum overhead of a batch with one event: the header, a record's lengths and the name of one header.
pub(crate) const AROUND_BYTES: usize = 256;

/// The size in memory after which the rest of a response is left for the next fetch. Batches that cannot be read count as far as they were
/// decompressed. The last batch may exceed it, up to its own limits.
const UNPACKED_BYTES_MAX: usize = 64 << 20;

/// The maximum number of records and headers in one batch: seven times the number of the smallest records that fit into 1 MiB. A header may
/// have only two bytes in a batch, but takes over sixty in memory.
const ITEMS_MAX: usize = 1 << 20;

/// The format version of batches since Kafka 0.11 (2017). Older ones are refused.
const MAGIC: u8 = 2;

/// Encodes messages as one batch. Returns `None` if the library cannot encode it.
pub(crate) fn encode<'m>(
    messages: impl Iterator<Item = &'m Message>,
    producer: Producer,
    time: i64,
) -> Option<Bytes> {
    let records = messages.zip(0_i32..).map(|(message, number)| {
        let content_type = (StrBytes::from_static_str(CONTENT_TYPE), message.content_type.clone());
        // Harmless: a header's name is a token of ASCII characters, so no header is omitted.
        let others = message.headers.iter().filter_map(|(name, value)| {
            Some((StrBytes::try_from(name.clone()).ok()?, value.clone()))
        });
        Record {
            transactional: false,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            timestamp_type: TimestampType::Creation,
            offset: number.into(),
            sequence: producer.sequence.wrapping_add(number),
            timestamp: time,
            key: None,
            value: Some(message.value.clone()),
            headers: Some(content_type)
                .filter(|(_, value)| !value.is_empty())
                .into_iter()
                .chain(others)
                .map(|(name, value)| (name, Some(value)))
                .collect(),
        }
    });
    let records: Vec<Record> = records.collect();
    let mut bytes = BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut bytes, &records, &options).ok()?;
    Some(bytes.freeze())
}

/// Parses the batches of a response from an offset on, without those of aborted transactions.
pub(crate) fn decode(
    mut bytes: Bytes,
    from: i64,
    mut aborted: Vec<AbortedTransaction>,
) -> Result<Batches, DamagedBatch> {
    let mut batches = Batches::default();
    aborted.sort_by_key(|(_, first)| *first);
    let mut aborted = aborted.into_iter().peekable();
    let mut aborted_producers = Vec::new();
    let mut spent = 0;
    // A response may end in the middle of a batch. Data beyond the bound is fetched again.
    while spent < UNPACKED_BYTES_MAX
        && let Some(batch) = Batch::next(&mut bytes)?
    {
        while let Some((producer, _)) = aborted.next_if(|(_, first)| *first <= batch.last()) {
            aborted_producers.push(producer);
        }
        batches.next = Some(batch.last().saturating_add(1));
        if batch.is(CONTROL) {
            // A control batch, which ends a transaction.
            aborted_producers.retain(|producer| *producer != batch.producer);
            continue;
        }
        if batch.is(TRANSACTIONAL) && aborted_producers.contains(&batch.producer) {
            continue;
        }
        match batch.read(from, &mut spent) {
            Some(found) => batches.found.extend(found),
            None => batches.unread.push(batch.first),
        }
    }
    Ok(batches)
}

/// One batch with its parsed header.
struct Batch {
    first: i64,
    last_delta: i32,
    attributes: u16,
    time_first: i64,
    time_max: i64,
    producer: i64,
    count: i32,
    records: Bytes,
}

const COMPRESSION: u16 = 0b111;
/// The flag for a timestamp set by the broker.
const APPENDED: u16 = 1 << 3;
const TRANSACTIONAL: u16 = 1 << 4;
const CONTROL: u16 = 1 << 5;

impl Batch {
    /// Takes the next batch. Returns `None` if it is incomplete.
    fn next(bytes: &mut Bytes) -> Result<Option<Batch>, DamagedBatch> {
        let Some(head) = bytes.get(..HEAD_BYTES) else { return Ok(None) };
        let mut head = Bytes::copy_from_slice(head);
        let first = head.get_i64();
        let len = usize::try_from(head.get_i32()).map_err(|_| DamagedBatch)?;
        let whole = len.checked_add(12).filter(|whole| *whole >= HEAD_BYTES).ok_or(DamagedBatch)?;
        if bytes.len() < whole {
            return Ok(None);
        }
        let mut records = bytes.split_to(whole);
        // Skips the epoch of the leader.
        head.advance(4);
        let magic = head.get_u8();
        let sum = head.get_u32();
        if magic != MAGIC || crc32c::crc32c(records.get(21..).unwrap_or_default()) != sum {
            return Err(DamagedBatch);
        }
        let batch = Batch {
            first,
            attributes: head.get_u16(),
            last_delta: head.get_i32(),
            time_first: head.get_i64(),
            time_max: head.get_i64(),
            producer: head.get_i64(),
            count: {
                let (_epoch, _sequence) = (head.get_u16(), head.get_i32());
                head.get_i32()
            },
            records: records.split_off(HEAD_BYTES),
        };
        Ok(Some(batch))
    }

    fn is(&self, attribute: u16) -> bool {
        self.attributes & attribute != 0
    }

    fn last(&self) -> i64 {
        self.first.saturating_add(i64::from(self.last_delta.max(0)))
    }

    /// Returns the batch's records from an offset on, or `None` if they cannot be parsed. Increases `spent` by the size in
    /// memory of what was decompressed and parsed, even if the result is `None`.
    fn read(&self, from: i64, spent: &mut usize) -> Option<Vec<FetchedRecord>> {
        let mut records = match self.attributes & COMPRESSION {
            0 => {
                *spent = spent.saturating_add(self.records.len());
                self.records.clone()
            }
            kind => compression::unpack(kind, &self.records, spent)?,
        };
        let mut all = Vec::new();
        let mut items_left = ITEMS_MAX;
        for _ in 0..usize::try_from(self.count).unwrap_or(0) {
            items_left = items_left.checked_sub(1)?;
            let found = self.record(&mut records, items_left)?;
            let headers = found.message.headers.len();
            items_left = items_left.checked_sub(headers)?;
            let bytes = size_of::<FetchedRecord>() + headers * size_of::<(Bytes, Bytes)>();
            *spent = spent.saturating_add(bytes);
            if found.offset >= from {
                all.push(found);
            }
        }
        Some(all)
    }

    /// Parses the next record. Returns `None` if it is invalid or has more than `headers_max` headers.
    fn record(&self, bytes: &mut Bytes, headers_max: usize) -> Option<FetchedRecord> {
        let len = usize::try_from(number(bytes)?).ok()?;
        let mut record = take(bytes, len)?;
        let _attributes = take(&mut record, 1)?;
        let time = number(&mut record)?;
        let offset = number(&mut record)?;
        let _key = field(&mut record)?;
        // Harmless: a null value is treated as an empty one.
        let value = field(&mut record)?.unwrap_or_default();
        let (mut content_type, mut headers) = (Bytes::new(), Vec::new());
        let count = usize::try_from(number(&mut record)?).ok()?;
        if count > headers_max {
            return None;
        }
        for _ in 0..count {
            let name = field(&mut record)??;
            let value = field(&mut record)?;
            if name.eq_ignore_ascii_case(CONTENT_TYPE.as_bytes()) {
                // Harmless: a null value is treated as an empty one.
                content_type = value.unwrap_or_default();
            } else {
                // Harmless: a null value is treated as an empty one.
                headers.push((name, value.unwrap_or_default()));
            }
        }
        let time =
            if self.is(APPENDED) { self.time_max } else { self.time_first.checked_add(time)? };
        let offset = self.first.checked_add(offset)?;
        if !(self.first..=self.last()).contains(&offset) {
            return None;
        }
        Some(FetchedRecord { offset, time, message: Message { content_type, headers, value } })
    }
}

fn take(bytes: &mut Bytes, len: usize) -> Option<Bytes> {
    (len <= bytes.len()).then(|| bytes.split_to(len))
}

/// Parses a length-prefixed field. A negative length means null, the inner `None`.
fn field(bytes: &mut Bytes) -> Option<Option<Bytes>> {
    match usize::try_from(number(bytes)?) {
        Ok(len) => take(bytes, len).map(Some),
        Err(_) => Some(None),
    }
}

/// Parses a zigzag-encoded varint.
fn number(bytes: &mut Bytes) -> Option<i64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.first()?;
        bytes.advance(1);
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            let half = i64::try_from(value >> 1).ok()?;
            return Some(if value & 1 == 1 { !half } else { half });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: Producer = Producer { id: -1, epoch: -1, sequence: -1 };

    fn message(content_type: &'static str, value: &'static str) -> Message {
        Message { content_type: content_type.into(), headers: Vec::new(), value: value.into() }
    }

    fn batch(values: &[&'static str]) -> Bytes {
        let messages: Vec<_> = values.iter().map(|value| message("text/plain", value)).collect();
        encode(messages.iter(), NOBODY, 1_700_000_000_000).unwrap()
    }

    fn values(batches: &Batches) -> Vec<(i64, &[u8])> {
        batches.found.iter().map(|found| (found.offset, &*found.message.value)).collect()
    }

    /// Returns the bytes of a changed batch, with a valid checksum.
    fn changed(values: &[&'static str], change: impl FnOnce(&mut Vec<u8>)) -> Bytes {
        let mut bytes = batch(values).to_vec();
        change(&mut bytes);
        let sum = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&sum.to_be_bytes());
        bytes.into()
    }

    #[test]
    fn encoded_messages_are_decoded_from_an_offset_on() {
        let bytes = batch(&["a", "", "c"]);
        let all = decode(bytes.clone(), 0, Vec::new()).unwrap();
        assert_eq!(values(&all), [(0, &b"a"[..]), (1, b""), (2, b"c")]);
        assert_eq!(all.next, Some(3));
        assert_eq!(all.found[0].time, 1_700_000_000_000);
        assert_eq!(&*all.found[0].message.content_type, b"text/plain");
        assert_eq!(values(&decode(bytes, 2, Vec::new()).unwrap()), [(2, &b"c"[..])]);
        let none = encode([message("", "x")].iter(), NOBODY, 0).unwrap();
        assert_eq!(decode(none, 0, Vec::new()).unwrap().found[0].message, message("", "x"));
    }

    #[test]
    fn incomplete_batches_are_ignored_and_damage_is_detected() {
        let bytes = batch(&["a", "b"]);
        for end in 0..bytes.len() {
            assert_eq!(decode(bytes.slice(..end), 0, Vec::new()), Ok(Batches::default()), "{end}");
        }
        for at in 8..bytes.len() {
            let mut wrong = bytes.to_vec();
            wrong[at] ^= 0x10;
            // The leader's epoch is not covered by the checksum, and a batch with a larger length is incomplete.
            let read = decode(wrong.into(), 0, Vec::new());
            let is_seen = matches!(read, Err(DamagedBatch)) || read == Ok(Batches::default());
            assert!(is_seen || (12..16).contains(&at), "{at}: {read:?}");
        }
    }

    #[test]
    fn a_batch_with_invalid_records_is_skipped() {
        let len = batch(&["abc"]).len();
        for at in HEAD_BYTES..len {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let bytes = changed(&["abc"], |bytes| bytes[at] = byte);
                let read = decode(bytes, 0, Vec::new()).unwrap();
                assert_eq!(read.next, Some(1), "{at}");
                assert!(read.found.len() + read.unread.len() == 1, "{at}: {read:?}");
            }
        }
        // The header announces two billion records.
        let bytes = changed(&["abc"], |bytes| bytes[57..61].copy_from_slice(&[0x7f; 4]));
        assert_eq!(decode(bytes, 0, Vec::new()).unwrap().unread, [0]);
    }

    /// Small batches that decompress to many times their size.
    #[test]
    fn the_decoded_size_of_a_response_is_bounded() {
        // The second size is above the limit of one batch, so the batch is refused before it was decompressed to its end.
        for (size, batches) in [(20 << 20, 4), (65 << 20, 1)] {
            let packed = zstd::encode_all(&vec![0; size][..], 1).unwrap();
            let bomb = |first: u8| {
                changed(&["x"], |bytes| {
                    bytes.truncate(HEAD_BYTES);
                    bytes.extend_from_slice(&packed);
                    bytes[7] = first;
                    bytes[22] = 4;
                    let len = u32::try_from(bytes.len() - 12).unwrap();
                    bytes[8..12].copy_from_slice(&len.to_be_bytes());
                })
            };
            let bytes = (0..100).map(bomb).collect::<Vec<_>>().concat();
            assert!(bytes.len() < 1 << 20, "{}", bytes.len());
            let read = decode(bytes.into(), 0, Vec::new()).unwrap();
            let next = i64::try_from(batches).unwrap();
            assert_eq!((read.unread.len(), read.next), (batches, Some(next)), "then it is fetched");
        }
    }

    /// Headers of two bytes each, which take much more memory.
    #[test]
    fn the_number_of_headers_is_bounded() {
        for (count, is_read) in [(1000, true), (ITEMS_MAX, false), (10 * ITEMS_MAX, false)] {
            let mut record = vec![0, 0, 0, 1, 0];
            let mut number = count * 2;
            while number > 0x7f {
                record.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
                number >>= 7;
            }
            record.push(u8::try_from(number).unwrap());
            record.resize(record.len() + 2 * count, 0);
            let mut len = record.len() * 2;
            let bytes = changed(&["x"], |bytes| {
                bytes.truncate(HEAD_BYTES);
                while len > 0x7f {
                    bytes.push(u8::try_from(len & 0x7f).unwrap() | 0x80);
                    len >>= 7;
                }
                bytes.push(u8::try_from(len).unwrap());
                bytes.extend_from_slice(&record);
                let len = u32::try_from(bytes.len() - 12).unwrap();
                bytes[8..12].copy_from_slice(&len.to_be_bytes());
            });
            let read = decode(bytes, 0, Vec::new()).unwrap();
            assert_eq!((read.found.len(), read.unread.is_empty()), (is_read.into(), is_read));
        }
    }

    #[test]
    fn records_of_aborted_transactions_are_left_out() {
        let part = |first: u8, producer: u8, attributes: u8, value: &'static str| {
            changed(&[value], |bytes| {
                bytes[7] = first;
                bytes[22] = attributes;
                bytes[43..51].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, producer]);
            })
        };
        let parts = [
            part(0, 7, 0b01_0000, "lost"),
            part(1, 8, 0b01_0000, "kept"),
            part(2, 7, 0b11_0000, ""),
            part(3, 7, 0b01_0000, "next"),
            part(4, 7, 0, "plain"),
        ];
        let read = decode(parts.concat().into(), 0, vec![(7, 0)]).unwrap();
        assert_eq!(values(&read), [(1, &b"kept"[..]), (3, b"next"), (4, b"plain")]);
        assert_eq!(read.next, Some(5));
    }

    #[test]
    fn a_timestamp_set_by_the_broker_takes_precedence() {
        let bytes = changed(&["a"], |bytes| {
            bytes[22] = 0b1000;
            bytes[35..43].copy_from_slice(&42_i64.to_be_bytes());
        });
        assert_eq!(decode(bytes, 0, Vec::new()).unwrap().found[0].time, 42);
    }

    #[test]
    fn varints_are_parsed_and_overlong_ones_are_refused() {
        for (bytes, value) in [
            (&b"\x00"[..], Some(0)),
            (b"\x01", Some(-1)),
            (b"\x02", Some(1)),
            (b"\xfe\xff\xff\xff\x0f", Some(i64::from(i32::MAX))),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Some(i64::MIN)),
            (b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", None),
            (b"\x80", None),
            (b"", None),
        ] {
            assert_eq!(number(&mut Bytes::copy_from_slice(bytes)), value, "{bytes:?}");
        }
    }
}
