//! Segments: the files with the records of all logs, in the order of their arrival.
//!
//! A segment begins with a head frame, and each batch begins with a mark. A mark is written only after the previous batch was
//! synced. So if a bad frame is followed by a valid mark, the data in between was durable and is damaged. Otherwise the bad frame
//! is in the last batch, which may have been incomplete when the machine stopped; then it was not acknowledged. Such
//! a batch is recognized by sectors that never reached the disk (`Walker::is_torn`), as in the log of etcd.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::{Disk, DiskFile};
use crate::frame::{HEAD, Head, OWN};
use crate::index::Slot;

/// The version of the format of segments.
pub(crate) const VERSION: u32 = 1;

/// The kinds of the engine's own frames, in `Head::more`.
const MARK: u16 = 0;
const BEGIN: u16 = 1;

/// The salt of the head frame, which contains the salt of all other frames.
const BEGIN_SALT: u32 = 0x7469_6465;
/// The payload of a head frame: version, salt, number, covers, compacted, the previous segment's number and its length.
const BEGIN_LEN: usize = 4 + 4 + 8 + 8 + 4 + 8 + 8;
/// The size of a segment's head frame, after which the first batch begins.
pub(crate) const BEGIN_BYTES: u64 = BEGIN_FRAME as u64;
const BEGIN_FRAME: usize = HEAD + BEGIN_LEN;

/// The smallest unit that a disk writes. Disks with larger sectors write several of them.
const SECTOR: u64 = 512;

/// The size of one read when a whole segment is read.
const CHUNK: usize = 1 << 20;

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begin {
    pub(crate) salt: u32,
    pub(crate) number: u64,
    /// The last segment number that it replaces. This is its own number, unless it was built from several segments.
    pub(crate) covers: u64,
    /// True if it was built from other segments, and so was written as a whole.
    pub(crate) compacted: bool,
    /// The number of the previous segment, and how many of its bytes count.
    pub(crate) previous: (u64, u64),
}

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) slot: Slot,
    pub(crate) begin: Begin,
    pub(crate) file: Arc<dyn DiskFile>,
    /// The number of durable bytes. Nothing after them is read.
    pub(crate) durable: AtomicU64,
}

/// Returns the name of a segment's file.
pub(crate) fn name(number: u64) -> String {
    format!("log-{number:010}.seg")
}

/// Returns the name of the file of an unfinished segment.
pub(crate) fn new_name(number: u64) -> String {
    format!("log-{number:010}.new")
}

/// Returns the number of the segment whose file has this name, or `None` if it is not the name of a segment.
pub(crate) fn number(name: &str) -> Option<u64> {
    // Harmless: a name that does not parse is not that of a segment.
    name.strip_prefix("log-")?.strip_suffix(".seg")?.parse().ok()
}

impl Segment {
    /// Creates an empty segment, and makes it and its name durable.
    pub(crate) fn create(disk: &dyn Disk, slot: Slot, begin: Begin) -> io::Result<Segment> {
        let file = disk.open(&name(begin.number))?;
        file.set_size(0)?;
        file.write_at(0, &begin.frame())?;
        file.sync()?;
        disk.sync()?;
        Ok(Segment { slot, begin, file, durable: AtomicU64::new(BEGIN_BYTES) })
    }

    /// Opens a segment. Returns `None` if its head is invalid.
    pub(crate) fn open(file: Arc<dyn DiskFile>, slot: Slot) -> io::Result<Option<Segment>> {
        let size = file.size()?;
        let mut bytes = [0; BEGIN_FRAME];
        if size < BEGIN_BYTES {
            return Ok(None);
        }
        file.read_at(0, &mut bytes)?;
        let begin = Begin::read(&bytes);
        Ok(begin.map(|begin| Segment { slot, begin, file, durable: AtomicU64::new(size) }))
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }
}

impl Begin {
    /// Encodes the head frame.
    pub(crate) fn frame(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(BEGIN_LEN);
        payload.extend_from_slice(&VERSION.to_le_bytes());
        payload.extend_from_slice(&self.salt.to_le_bytes());
        payload.extend_from_slice(&self.number.to_le_bytes());
        payload.extend_from_slice(&self.covers.to_le_bytes());
        payload.extend_from_slice(&u32::from(self.compacted).to_le_bytes());
        payload.extend_from_slice(&self.previous.0.to_le_bytes());
        payload.extend_from_slice(&self.previous.1.to_le_bytes());
        let mut frame = Vec::new();
        Head::new(OWN, 0, 0, BEGIN).write(&payload, BEGIN_SALT, &mut frame);
        frame
    }

    fn read(frame: &[u8]) -> Option<Begin> {
        let head = Head::read(frame)?;
        let payload = frame.get(HEAD..)?;
        if (head.log, head.more) != (OWN, BEGIN) || !head.fits(payload, BEGIN_SALT) {
            return None;
        }
        let (version, rest) = payload.split_first_chunk()?;
        let (salt, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (covers, rest) = rest.split_first_chunk()?;
        let (compacted, rest) = rest.split_first_chunk()?;
        let (previous, rest) = rest.split_first_chunk()?;
        let (previous_len, _) = rest.split_first_chunk()?;
        (u32::from_le_bytes(*version) == VERSION).then_some(Begin {
            salt: u32::from_le_bytes(*salt),
            number: u64::from_le_bytes(*number),
            covers: u64::from_le_bytes(*covers),
            compacted: u32::from_le_bytes(*compacted) != 0,
            previous: (u64::from_le_bytes(*previous), u64::from_le_bytes(*previous_len)),
        })
    }
}

/// Writes the mark before a batch.
pub(crate) fn mark(batch: u64, time: u64, salt: u32, into: &mut Vec<u8>) {
    Head::new(OWN, batch, time, MARK).write(&[], salt, into);
}

/// A walk through the frames of a segment.
#[derive(Debug)]
pub(crate) struct Walker<'a> {
    segment: &'a Segment,
    buffer: Vec<u8>,
    /// The offset of the buffer's first byte.
    buffer_at: u64,
    offset: u64,
    limit: u64,
    chunk: usize,
}

impl<'a> Walker<'a> {
    /// Starts a walk from an offset to a limit, with this read size.
    pub(crate) fn new(segment: &'a Segment, offset: u64, limit: u64, chunk: usize) -> Walker<'a> {
        Walker { segment, buffer: Vec::new(), buffer_at: offset, offset, limit, chunk }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.offset >= self.limit
    }

    /// Returns the head of the current frame, or `None` if it is invalid.
    pub(crate) fn head(&mut self) -> io::Result<Option<Head>> {
        let limit = self.limit;
        let offset = self.offset;
        let head = self.bytes(offset, HEAD)?.and_then(Head::read);
        Ok(head.filter(|head| head.frame_len() <= limit - offset))
    }

    /// Returns the payload of the current frame, or `None` if it is damaged.
    pub(crate) fn payload(&mut self, head: &Head) -> io::Result<Option<&[u8]>> {
        let (offset, salt) = (self.offset + HEAD as u64, self.segment.begin.salt);
        let payload = self.bytes(offset, head.len)?;
        Ok(payload.filter(|payload| head.fits(payload, salt)))
    }

    /// Moves to the next frame.
    pub(crate) fn skip(&mut self, head: &Head) {
        self.offset += head.frame_len();
    }

    /// Moves to the next mark that is before the offset `before` and belongs to a batch after `batch`. Returns false and does not move if
    /// there is none.
    pub(crate) fn resync(&mut self, batch: u64, before: u64) -> io::Result<bool> {
        let salt = self.segment.begin.salt;
        let mut offset = self.offset + 1;
        while offset < before {
            let Some(bytes) = self.bytes(offset, HEAD)? else { return Ok(false) };
            let head =
                Head::read(bytes).filter(|head| (head.log, head.more, head.len) == (OWN, MARK, 0));
            if head.is_some_and(|head| head.position > batch && head.fits(&[], salt)) {
                self.offset = offset;
                return Ok(true);
            }
            offset += 1;
        }
        Ok(false)
    }

    /// Returns true if the data here, in the last batch, may be the result of a crash: the file ends within the frame, or a sector is
    /// missing. A sector that never reached the disk reads as zeros.
    fn is_torn(&mut self) -> io::Result<bool> {
        let (limit, mut at) = (self.limit, self.offset);
        let Some(bytes) = self.bytes(at, HEAD)? else { return Ok(true) };
        if Head::read(bytes).is_some_and(|head| head.frame_len() > limit - at) {
            return Ok(true);
        }
        while at < limit {
            let end = limit.min((at / SECTOR + 1) * SECTOR);
            let sector = self.bytes(at, usize::try_from(end - at).unwrap_or(0))?;
            if sector.is_some_and(|sector| sector.iter().all(|byte| *byte == 0)) {
                return Ok(true);
            }
            at = end;
        }
        Ok(false)
    }

    /// Returns bytes of the segment, or `None` if they extend beyond the limit.
    fn bytes(&mut self, offset: u64, len: usize) -> io::Result<Option<&[u8]>> {
        let end = offset.saturating_add(len as u64);
        if end > self.limit {
            return Ok(None);
        }
        if offset < self.buffer_at || end > self.buffer_at + self.buffer.len() as u64 {
            let read = (len.max(self.chunk) as u64).min(self.limit - offset);
            self.buffer.resize(usize::try_from(read).unwrap_or(len), 0);
            self.buffer_at = offset;
            self.segment.file.read_at(offset, &mut self.buffer)?;
        }
        let from = usize::try_from(offset - self.buffer_at).unwrap_or(usize::MAX);
        Ok(self.buffer.get(from..).and_then(|rest| rest.get(..len)))
    }
}

/// The result of a scan of a whole segment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentScan {
    /// The end of the last complete append, or of the damage after it.
    pub(crate) end: u64,
    /// Durable data that cannot be read.
    pub(crate) damage: Vec<Range<u64>>,
    /// The number of the last batch.
    pub(crate) batch: u64,
    /// The offset at which the last batch begins.
    pub(crate) batch_at: u64,
}

/// Calls a function for each record of a segment, in order and with its offset. An append that is incomplete at the end is left out, but
/// the records of an append before damaged data are not.
///
/// `known` is the number of bytes that count. It is `None` for the last segment, whose end is to be found.
pub(crate) fn scan(
    segment: &Segment,
    known: Option<u64>,
    batch: u64,
    each: &mut dyn FnMut(u64, &Head, &[u8]),
) -> io::Result<SegmentScan> {
    let size = segment.file.size()?;
    let limit = known.unwrap_or(size).min(size);
    let mut walker = Walker::new(segment, BEGIN_BYTES.min(limit), limit, CHUNK);
    let begin = walker.offset();
    let mut found = SegmentScan { end: begin, damage: Vec::new(), batch, batch_at: begin };
    let mut part: Vec<(u64, Head, Vec<u8>)> = Vec::new();
    while !walker.is_at_end() {
        let at = walker.offset();
        let head = walker.head()?;
        let payload = match &head {
            Some(head) => walker.payload(head)?,
            None => None,
        };
        let (Some(head), Some(payload)) = (head, payload) else {
            let goes_on = walker.resync(found.batch, limit)?;
            if !goes_on && known.is_none() && walker.is_torn()? {
                return Ok(found);
            }
            part.drain(..).for_each(|(offset, head, payload)| each(offset, &head, &payload));
            if goes_on {
                found.damage.push(at..walker.offset());
                continue;
            }
            found.damage.push(at..limit);
            found.end = limit;
            return Ok(found);
        };
        match head.log {
            OWN if head.more == MARK => {
                (found.batch, found.batch_at) = (found.batch.max(head.position), at);
            }
            OWN => {}
            _ if head.more > 0 => part.push((at, head, payload.to_vec())),
            _ => {
                part.drain(..).for_each(|(offset, head, payload)| each(offset, &head, &payload));
                each(at, &head, payload);
            }
        }
        walker.skip(&head);
        if part.is_empty() {
            found.end = walker.offset();
        }
    }
    Ok(found)
}
