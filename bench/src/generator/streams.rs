//! Many long-lived connections on one thread. They are opened over the ramp, and a [`Peer`] processes what is received on each.
//!
//! Owns the opening of connections, its timeouts and their end. The peer decides what an event is.

use std::io;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};

use super::compiled::{Compiled, Turn};
use super::control::Control;
use super::load::Load;
use super::outcome::{ErrorKind, LabelOutcome, Users};
use super::recorder::{Recorder, Sample, Shape};
use super::reply::{Inquiry, Progress, Reader};
use super::wire::{Arrival, Dialer, Wire};

/// What a kind of stream does with its connections.
pub(super) trait Peer: Default {
    /// Processes bytes of an open stream. Appends the bytes to send in return to `answer`.
    fn take(
        &mut self,
        bytes: &[u8],
        at: Duration,
        answer: &mut Vec<u8>,
        recorder: &mut Recorder,
    ) -> Result<(), ErrorKind>;
}

/// Connections that are opened, held open and read.
pub(super) struct Streams<'l, P> {
    pub(super) load: &'l Load,
    pub(super) lines: Vec<Line<P>>,
    pub(super) recorder: Recorder,
    pub(super) now: Duration,
    control: &'l Control,
    start: Instant,
    ramp: Duration,
    request: Compiled,
    asked: Asked,
    dialer: Dialer,
    poll: Poll,
    dialed: usize,
    scratch: Vec<u8>,
    answer: Vec<u8>,
}

/// The request that opens a stream, and the expected reply.
pub(super) struct Asked {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    /// Whether the peer processes the raw bytes after the head. Otherwise it processes the body of the reply.
    pub(super) is_upgrade: bool,
    /// Whether opening the stream counts as a sample.
    pub(super) is_sample: bool,
}

/// One connection.
pub(super) struct Line<P> {
    pub(super) state: LineState,
    pub(super) wire: Option<Wire>,
    pub(super) peer: P,
    reader: Reader,
    begin: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LineState {
    Unopened,
    Connecting,
    Asking,
    Open,
    /// Has been open, and has ended.
    Ended,
    /// Has never been open.
    Failed,
}

const SCRATCH_BYTES: usize = 256 << 10;
const EVENTS_MAX: usize = 1024;
/// Interval between calls of `turn`.
const TICK: Duration = Duration::from_millis(1);

impl<'l, P: Peer> Streams<'l, P> {
    pub(super) fn new(
        load: &'l Load,
        control: &'l Control,
        request: Compiled,
        asked: Asked,
        ramp: Duration,
    ) -> Result<Streams<'l, P>, String> {
        let count = usize::try_from(load.connections()).map_err(|error| error.to_string())?;
        let lines = std::iter::repeat_with(Line::default).take(count).collect();
        Ok(Streams {
            load,
            lines,
            recorder: Recorder::new("HTTP Request".to_owned(), Duration::ZERO, Shape::of(load)),
            now: Duration::ZERO,
            control,
            start: control.start(),
            ramp,
            request,
            asked,
            dialer: Dialer::new(&load.target)?,
            poll: Poll::new().map_err(|error| error.to_string())?,
            dialed: 0,
            scratch: vec![0; SCRATCH_BYTES],
            answer: Vec::new(),
        })
    }

    /// Runs until `turn`, which is called every millisecond, returns true, or until the load is stopped.
    pub(super) fn run(
        &mut self,
        mut turn: impl FnMut(&mut Self) -> bool,
        mut at_warm_up: impl FnMut(),
    ) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let (mut is_warm, mut next_sweep) = (false, Duration::ZERO);
        loop {
            self.read_clock();
            if !is_warm && self.now >= self.load.warm_up {
                is_warm = true;
                at_warm_up();
            }
            self.dial_due();
            if self.now >= next_sweep {
                next_sweep = self.now + Duration::from_millis(20);
                self.end_late();
                self.control.count_of(&mut self.recorder);
            }
            if turn(self) || self.control.is_stopped() {
                return Ok(());
            }
            match self.poll.poll(&mut events, Some(TICK)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            self.read_clock();
            for event in &events {
                let is_writable = event.is_writable() || event.is_error();
                self.advance(event.token().0, is_writable, event.is_read_closed());
            }
        }
    }

    /// Returns the number of connections in this state.
    pub(super) fn count(&self, state: LineState) -> u64 {
        self.lines.iter().filter(|line| line.state == state).count() as u64
    }

    /// Returns true once each connection is open or has failed.
    pub(super) fn is_settled(&self) -> bool {
        let is_opening = |line: &Line<P>| {
            matches!(line.state, LineState::Unopened | LineState::Connecting | LineState::Asking)
        };
        !self.lines.iter().any(is_opening)
    }

    /// Returns the samples, and the numbers of connections as users.
    pub(super) fn finish(self) -> (Vec<LabelOutcome>, Users) {
        let open = (self.count(LineState::Open) + self.count(LineState::Ended)) as f64;
        (vec![self.recorder.finish()], Users { warm_up: open, measured: open })
    }

    #[allow(clippy::disallowed_methods, reason = "the generator's own clock")]
    fn read_clock(&mut self) {
        self.now = Instant::now().saturating_duration_since(self.start);
    }

    /// Opens the connections that are due by now.
    fn dial_due(&mut self) {
        let count = self.lines.len();
        while self.dialed < count
            && self.now < self.load.duration
            && self.now >= self.ramp.mul_f64(self.dialed as f64 / count as f64)
        {
            let at = self.dialed;
            self.dialed += 1;
            let dialed = self.dialer.dial(self.poll.registry(), Token(at));
            let Some(line) = self.lines.get_mut(at) else { return };
            line.begin = self.now;
            line.state = LineState::Connecting;
            match dialed {
                Ok(wire) => line.wire = Some(wire),
                Err(kind) => self.end(at, kind),
            }
        }
    }

    fn advance(&mut self, at: usize, is_writable: bool, is_ending: bool) {
        if let Err(kind) = self.try_advance(at, is_writable, is_ending) {
            self.end(at, kind);
        }
    }

    fn try_advance(
        &mut self,
        at: usize,
        is_writable: bool,
        is_ending: bool,
    ) -> Result<(), ErrorKind> {
        let Some(line) = self.lines.get_mut(at) else { return Ok(()) };
        let Some(wire) = &mut line.wire else { return Ok(()) };
        if line.state == LineState::Connecting {
            if !wire.is_connected()? {
                return Ok(());
            }
            let number =
                u64::from(self.load.share.part) + at as u64 * u64::from(self.load.share.of);
            let turn = Turn { number, user: number, seed: self.load.seed };
            wire.send(self.request.of(&turn))?;
            line.state = LineState::Asking;
        } else if is_writable {
            wire.flush()?;
        }
        let (asked, now, recorder) = (&self.asked, self.now, &mut self.recorder);
        let (reader, peer, answer) = (&mut line.reader, &mut line.peer, &mut self.answer);
        let (state, begin) = (&mut line.state, line.begin);
        let mut is_whole = false;
        let arrival = wire.read(is_ending, &mut self.scratch, |bytes| {
            if *state == LineState::Open && asked.is_upgrade {
                return peer.take(bytes, now, answer, recorder);
            }
            let inquiry = Inquiry { headers: &asked.headers, is_head: false };
            let mut taken = Ok(());
            let progress = reader.take(bytes, &inquiry, |_, piece| {
                if taken.is_ok() {
                    taken = peer.take(piece, now, answer, recorder);
                }
            })?;
            is_whole |= matches!(progress, Progress::Whole(_));
            if *state == LineState::Asking && (is_whole || reader.has_head()) {
                let head = reader.head();
                if head.status != asked.status {
                    return Err(ErrorKind::Status);
                }
                if !head.has_expected {
                    return Err(ErrorKind::Content);
                }
                *state = LineState::Open;
                if asked.is_sample {
                    recorder.record(&Sample::opened(begin, now, head.status));
                }
            }
            taken
        })?;
        if !answer.is_empty() {
            wire.send(answer)?;
            answer.clear();
        }
        if arrival == Arrival::Closed || (is_whole && !asked.is_upgrade) {
            return Err(ErrorKind::Closed);
        }
        Ok(())
    }

    /// Ends a connection.
    fn end(&mut self, at: usize, kind: ErrorKind) {
        let Some(line) = self.lines.get_mut(at) else { return };
        line.wire = None;
        self.answer.clear();
        line.state = match line.state {
            LineState::Open | LineState::Ended => LineState::Ended,
            LineState::Unopened | LineState::Connecting | LineState::Asking | LineState::Failed => {
                if self.asked.is_sample && line.state != LineState::Failed {
                    self.recorder.record(&Sample::failed(line.begin, self.now, kind));
                }
                LineState::Failed
            }
        };
    }

    /// Ends connections that are not open in time.
    fn end_late(&mut self) {
        for at in 0..self.lines.len() {
            let Some(line) = self.lines.get(at) else { return };
            let waited = self.now.saturating_sub(line.begin);
            match line.state {
                LineState::Connecting if waited >= self.load.connect_max => {
                    self.end(at, ErrorKind::ConnectTimeout);
                }
                LineState::Asking if waited >= self.load.response_max => {
                    self.end(at, ErrorKind::ResponseTimeout);
                }
                LineState::Unopened
                | LineState::Connecting
                | LineState::Asking
                | LineState::Open
                | LineState::Ended
                | LineState::Failed => {}
            }
        }
    }
}

impl<P: Peer> Default for Line<P> {
    fn default() -> Line<P> {
        Line {
            state: LineState::Unopened,
            wire: None,
            peer: P::default(),
            reader: Reader::default(),
            begin: Duration::ZERO,
        }
    }
}

impl Sample {
    /// Returns the sample of an opened stream.
    pub(super) fn opened(begin: Duration, end: Duration, status: u16) -> Sample {
        let (sent_bytes, received_bytes) = (0, 0);
        Sample { begin, end, result: Ok(()), status: Some(status), sent_bytes, received_bytes }
    }

    /// Returns the sample of a failed request.
    pub(super) fn failed(begin: Duration, end: Duration, kind: ErrorKind) -> Sample {
        let (sent_bytes, received_bytes) = (0, 0);
        Sample { begin, end, result: Err(kind), status: None, sent_bytes, received_bytes }
    }
}

#[cfg(test)]
mod tests;
