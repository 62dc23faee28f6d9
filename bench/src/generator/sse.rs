//! Event streams. By their ids, it determines which events were received, repeated, late or lost.

use std::collections::BTreeSet;
use std::time::Duration;

use memchr::memchr;

use super::compiled::Compiled;
use super::control::Control;
use super::load::{Expected, Load, Sse, Template};
use super::outcome::{ErrorKind, SseCounts, Streams as StreamCounts};
use super::recorder::Recorder;
use super::run::{CpuTime, ThreadOutcome};
use super::streams::{Asked, LineState, Peer, Streams};

/// State of one stream.
#[derive(Default)]
struct Events {
    /// Received bytes of an incomplete line.
    line: Vec<u8>,
    id: Option<u64>,
    has_data: bool,
    ids: Ids,
}

/// The ids that have been received.
#[derive(Default)]
struct Ids {
    /// Whether the first id may be any number.
    is_shared: bool,
    highest: u64,
    /// Missing ids below the highest.
    missing: BTreeSet<u64>,
    received: u64,
    duplicated: u64,
    reordered: u64,
}

/// Maximum length of a line. Events of the event source have at most 1 MiB.
const LINE_BYTES_MAX: usize = 2 << 20;
/// Maximum number of missing ids in one stream. With more, the stream is broken.
const MISSING_MAX: u64 = 100_000;

pub(super) fn run(load: &Load, sse: &Sse, control: &Control) -> Result<ThreadOutcome, String> {
    let mut headers = sse.headers.clone();
    let accepts = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept"));
    if !accepts {
        headers.push(("Accept".to_owned(), super::Text::same("text/event-stream")));
    }
    let request = get(load, &sse.path, headers);
    let asked = Asked { status: 200, headers: Vec::new(), is_upgrade: false, is_sample: true };
    let mut streams = Streams::<Events>::new(load, control, request, asked, sse.ramp)?;
    for line in &mut streams.lines {
        line.peer.ids.is_shared = sse.is_shared;
    }
    let is_over = |streams: &mut Streams<'_, Events>| {
        if sse.is_shared {
            return streams.now >= load.duration;
        }
        let is_open = |line: &super::streams::Line<Events>| {
            line.state == LineState::Open && line.peer.ids.received < sse.events
        };
        let is_over = streams.is_settled() && !streams.lines.iter().any(is_open);
        is_over || streams.now >= load.duration + load.response_max
    };
    let cpu = CpuTime::from_warm_up(|at_warm_up| streams.run(is_over, at_warm_up))?;
    let mut counts = SseCounts { attempted: streams.lines.len() as u64, ..SseCounts::default() };
    for line in &streams.lines {
        let ids = &line.peer.ids;
        match line.state {
            LineState::Open | LineState::Ended => {
                counts.received += ids.received;
                // The last event of a shared stream is not known.
                let lost = if sse.is_shared {
                    ids.missing.len() as u64
                } else {
                    sse.events.saturating_sub(ids.received)
                };
                counts.lost += lost;
                counts.duplicated += ids.duplicated;
                counts.reordered += ids.reordered;
            }
            LineState::Unopened | LineState::Connecting | LineState::Asking | LineState::Failed => {
                counts.failed += 1;
            }
        }
    }
    let (labels, users) = streams.finish();
    let streams = Some(StreamCounts::Sse(counts));
    Ok(ThreadOutcome { labels, users, streams, cpu, log_failed: None })
}

/// Returns a request that opens a stream.
pub(super) fn get(
    load: &Load,
    path: &super::Text,
    headers: Vec<(String, super::Text)>,
) -> Compiled {
    let template = Template {
        label: String::new(),
        weight: 1,
        method: "GET".to_owned(),
        path: path.clone(),
        headers,
        body: super::Text::default(),
        expected: Expected::default(),
    };
    Compiled::request(&load.target, &template, &std::collections::BTreeMap::new())
}

impl Peer for Events {
    fn take(
        &mut self,
        bytes: &[u8],
        at: Duration,
        _: &mut Vec<u8>,
        recorder: &mut Recorder,
    ) -> Result<(), ErrorKind> {
        let before = self.ids.seen();
        let taken = self.take_lines(bytes);
        let (events, wrong) = self.ids.seen();
        if events > before.0 {
            recorder.saw(at, events - before.0, wrong.saturating_sub(before.1));
        }
        taken
    }
}

impl Events {
    fn take_lines(&mut self, mut bytes: &[u8]) -> Result<(), ErrorKind> {
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at_checked(end + 1).unwrap_or((bytes, &[]));
            if self.line.is_empty() {
                self.take_line(line)?
            } else {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                let taken = self.take_line(&whole);
                whole.clear();
                self.line = whole;
                taken?;
            }
            bytes = rest;
        }
        if self.line.len() + bytes.len() > LINE_BYTES_MAX {
            return Err(ErrorKind::Protocol);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn take_line(&mut self, line: &[u8]) -> Result<(), ErrorKind> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(id) = line.strip_prefix(b"id:") {
            let id = str::from_utf8(id.trim_ascii()).map_err(|_| ErrorKind::Content)?;
            self.id = Some(id.parse().map_err(|_| ErrorKind::Content)?);
        } else if line.starts_with(b"data:") {
            self.has_data = true;
        } else if line.is_empty() && self.has_data {
            self.has_data = false;
            let id = self.id.take().ok_or(ErrorKind::Content)?;
            self.ids.count(id)?;
        }
        Ok(())
    }
}

impl Ids {
    /// Returns the number of events received so far, and the number of duplicates and missing ids together.
    fn seen(&self) -> (u64, u64) {
        (self.received + self.duplicated, self.duplicated + self.missing.len() as u64)
    }

    fn count(&mut self, id: u64) -> Result<(), ErrorKind> {
        if self.is_shared && self.received == 0 {
            self.highest = id.saturating_sub(1);
        }
        if id > self.highest {
            let gap = id - self.highest - 1;
            if gap + self.missing.len() as u64 > MISSING_MAX {
                return Err(ErrorKind::Content);
            }
            self.missing.extend(self.highest + 1..id);
            self.highest = id;
            self.received += 1;
        } else if self.missing.remove(&id) {
            self.received += 1;
            self.reordered += 1;
        } else {
            self.duplicated += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::recorder::Shape;

    #[test]
    fn events_are_counted_by_their_ids_in_pieces_of_any_size() {
        let text = "id: 1\nevent: tick\ndata: a\n\n: heartbeat\n\nid: 2\r\ndata: b\r\n\r\nid: 5\ndata: c\n\nid: 4\ndata: d\n\nid: 5\ndata: c\n\n";
        let shape = Shape {
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(1),
            step: Duration::from_secs(1),
            interval: Duration::from_secs(1),
        };
        let mut recorder = Recorder::new(String::new(), Duration::ZERO, shape);
        for size in 1..text.len() {
            let mut events = Events::default();
            for piece in text.as_bytes().chunks(size) {
                events.take(piece, Duration::ZERO, &mut Vec::new(), &mut recorder).unwrap();
            }
            let Ids { received, duplicated, reordered, missing, .. } = &events.ids;
            assert_eq!((*received, *duplicated, *reordered, missing.len()), (4, 1, 1, 1), "{size}");
        }
        for wrong in ["id: x\ndata: a\n\n", "data: without\n\n", "id: 999999999\ndata: a\n\n"] {
            let taken = Events::default().take(
                wrong.as_bytes(),
                Duration::ZERO,
                &mut Vec::new(),
                &mut recorder,
            );
            assert_eq!(taken, Err(ErrorKind::Content), "{wrong}");
        }
        let mut shared = Events::default();
        shared.ids.is_shared = true;
        let later = "id: 41\ndata: a\n\nid: 43\ndata: c\n\n";
        shared.take(later.as_bytes(), Duration::ZERO, &mut Vec::new(), &mut recorder).unwrap();
        assert_eq!((shared.ids.received, shared.ids.missing.len()), (2, 1));
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        let taken = Events::default().take(&long, Duration::ZERO, &mut Vec::new(), &mut recorder);
        assert_eq!(taken, Err(ErrorKind::Protocol));
    }
}
