//! What the rigs share: sockets on one epoll, both ends of the gateway in one thread, and the keeping of a rate.
//!
//! A rig is the clients and the backend at once, so it knows of everything that was sent whether it came.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use bench::process::check_stopped;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Socket, Type};

/// The ends of one kind of stream: its clients, its backend, and what passes.
pub(crate) trait Ends {
    /// A connection of one end. A client asks for its stream.
    fn begin(&mut self, end: End, wire: Wire) -> io::Result<()>;

    /// Takes what has come at an end, and sends what waits where it can be written.
    fn on_ready(&mut self, end: End, is_writable: bool, hand: &mut Hand) -> io::Result<()>;

    /// Sends what is next; false where nothing may be sent now.
    fn send(&mut self, tally: &mut Tally) -> io::Result<bool>;

    /// Writes what [`Ends::send`] left to be written together.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Clients whose stream is open.
    fn open(&self) -> usize;
}

/// What the ends work with.
pub(crate) struct Hand {
    pub(crate) scratch: Vec<u8>,
    pub(crate) tally: Tally,
}

/// What was counted since the rig began. What is sent once may come several times, and is counted as often.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) sent: u64,
    pub(crate) came: u64,
    pub(crate) wrong: u64,
}

/// Both ends of one kind of stream, in one thread.
pub(crate) struct Rig {
    sockets: Sockets,
    ends: Box<dyn Ends>,
    hand: Hand,
    found: Vec<PollEvent>,
    /// Clients in the end, and how many connections the backend has.
    clients: usize,
    accepted: usize,
    /// What one thing sent makes come.
    each: u64,
}

/// What came of one run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) sent: u64,
    pub(crate) came: u64,
    /// Came altered, twice or in the wrong place, or its stream has ended.
    pub(crate) wrong: u64,
    /// Had not come soon after the time was over.
    pub(crate) late: u64,
    /// The time in which it was sent, without that for the rest to come.
    pub(crate) wall: Duration,
}

/// The client's, or the backend's, end of a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Client(usize),
    Backend(usize),
}

/// What the kernel reports.
enum PollEvent {
    /// A new connection of the backend.
    Accepted(TcpStream),
    Ready {
        end: End,
        is_writable: bool,
    },
}

/// The sockets of a rig.
struct Sockets {
    poll: Poll,
    events: Events,
    listener: TcpListener,
    port: u16,
}

/// A connection with what the kernel has not taken.
pub(crate) struct Wire {
    stream: TcpStream,
    unsent: Vec<u8>,
}

/// A rate as it is kept: what is behind is caught up with, a few at a time, and what comes is read between.
struct Pace {
    rate: f64,
    began: Instant,
    time: Duration,
    sent: u64,
}

/// Connections that are opened before the first of them has to be there.
const OPENED_AT_ONCE: usize = 50;

/// What is sent between two looks at what came.
const BURST: u64 = 64;
/// What comes so soon after the end was on its way, and is not late.
const GRACE: Duration = Duration::from_millis(50);
const TICK: Duration = Duration::from_millis(1);
/// Without anything that comes, the rest is lost.
const REST_MAX: Duration = Duration::from_secs(5);
const BACKLOG: i32 = 8192;
const EVENTS_MAX: usize = 1024;
const LISTENER: Token = Token(usize::MAX);
const SCRATCH_BYTES: usize = 256 << 10;

impl Tally {
    fn missing(self) -> u64 {
        self.sent.saturating_sub(self.came)
    }
}

impl Count {
    pub(crate) fn is_whole(&self) -> bool {
        self.sent == self.came && self.wrong == 0 && self.sent > 0
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.sent as f64 / self.wall.as_secs_f64()
    }
}

impl Pace {
    fn begin(rate: f64, time: Duration) -> Pace {
        Pace { rate, began: Instant::now(), time, sent: 0 }
    }

    /// How many are to be sent now; none once the time is over.
    fn due(&self) -> io::Result<Option<u64>> {
        check_stopped()?;
        let elapsed = self.began.elapsed();
        if elapsed >= self.time {
            return Ok(None);
        }
        #[expect(clippy::cast_possible_truncation, reason = "a count, not negative")]
        let due = (elapsed.as_secs_f64() * self.rate) as u64;
        Ok(Some(due.saturating_sub(self.sent)))
    }

    /// So many were sent of those that were due. Gives how long to wait for what comes.
    fn sent(&mut self, sent: u64, due: u64) -> Duration {
        self.sent += sent;
        if due > sent && sent == BURST { Duration::ZERO } else { TICK }
    }
}

/// Lets `turn` read until it says that all has come, or that has stood still for too long.
fn rest(mut turn: impl FnMut(Duration) -> io::Result<(u64, bool)>) -> io::Result<()> {
    let (mut before, mut since) = (0, Instant::now());
    loop {
        check_stopped()?;
        let (came, is_all) = turn(TICK)?;
        if came != before {
            (before, since) = (came, Instant::now());
        }
        if is_all || since.elapsed() > REST_MAX {
            return Ok(());
        }
    }
}

impl Rig {
    /// A rig of so many clients, where one thing sent makes `each` come.
    pub(crate) fn new(ends: Box<dyn Ends>, clients: usize, each: u64) -> io::Result<Rig> {
        let hand = Hand { scratch: vec![0; SCRATCH_BYTES], tally: Tally::default() };
        let (sockets, found) = (Sockets::new()?, Vec::new());
        Ok(Rig { sockets, ends, hand, found, clients, accepted: 0, each })
    }

    /// The backend's port.
    pub(crate) fn port(&self) -> u16 {
        self.sockets.port
    }

    /// Opens all streams through the gateway at this port, or right to the backend. Gives how many did not open.
    pub(crate) fn open(&mut self, port: u16) -> io::Result<usize> {
        for at in 0..self.clients {
            let end = End::Client(at);
            let wire = self.sockets.connect(port, end)?;
            self.ends.begin(end, wire)?;
            let begun = at + 1;
            if begun % OPENED_AT_ONCE == 0 || begun == self.clients {
                rest(|wait| {
                    self.turn(wait)?;
                    let open = self.ends.open();
                    Ok((open as u64, open == begun))
                })?;
            }
        }
        Ok(self.clients - self.ends.open())
    }

    /// Sends at this rate for this time, then waits for what is still on its way. The rate is that of what comes.
    pub(crate) fn run(&mut self, rate: f64, time: Duration) -> io::Result<Count> {
        let before = self.hand.tally;
        let mut pace = Pace::begin(rate / self.each as f64, time);
        while let Some(due) = pace.due()? {
            let mut sent = 0;
            while sent < due.min(BURST) && self.ends.send(&mut self.hand.tally)? {
                sent += 1;
            }
            self.ends.flush()?;
            self.turn(pace.sent(sent, due))?;
        }
        let wall = pace.began.elapsed();
        let over = Instant::now();
        while self.hand.tally.missing() > before.missing() && over.elapsed() < GRACE {
            self.turn(TICK)?;
        }
        // What an earlier run lost is not late now.
        let late = self.hand.tally.missing().saturating_sub(before.missing());
        rest(|wait| {
            self.turn(wait)?;
            let tally = self.hand.tally;
            Ok((tally.came, tally.missing() <= before.missing()))
        })?;
        let Tally { sent, came, wrong } = self.hand.tally;
        let (sent, came, wrong) = (sent - before.sent, came - before.came, wrong - before.wrong);
        Ok(Count { sent, came, wrong, late, wall })
    }

    /// Reads what comes within this time.
    fn turn(&mut self, wait: Duration) -> io::Result<()> {
        let mut found = std::mem::take(&mut self.found);
        self.sockets.look(wait, &mut found)?;
        for found in found.drain(..) {
            match found {
                PollEvent::Accepted(stream) => {
                    let end = End::Backend(self.accepted);
                    self.accepted += 1;
                    let wire = self.sockets.add(stream, end)?;
                    self.ends.begin(end, wire)?;
                }
                PollEvent::Ready { end, is_writable } => {
                    self.ends.on_ready(end, is_writable, &mut self.hand)?;
                }
            }
        }
        self.found = found;
        self.ends.flush()
    }
}

impl Sockets {
    fn new() -> io::Result<Sockets> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let mut listener = TcpListener::from_std(socket.into());
        let (poll, port) = (Poll::new()?, listener.local_addr()?.port());
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Sockets { poll, events: Events::with_capacity(EVENTS_MAX), listener, port })
    }

    fn connect(&self, port: u16, end: End) -> io::Result<Wire> {
        let stream = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nonblocking(true)?;
        self.add(TcpStream::from_std(stream), end)
    }

    fn add(&self, mut stream: TcpStream, end: End) -> io::Result<Wire> {
        stream.set_nodelay(true)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, token(end), interest)?;
        Ok(Wire { stream, unsent: Vec::new() })
    }

    /// Waits for so long and gives what there is.
    fn look(&mut self, wait: Duration, found: &mut Vec<PollEvent>) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            polled => polled?,
        }
        for event in &self.events {
            if event.token() != LISTENER {
                let (end, is_writable) = (end(event.token()), event.is_writable());
                found.push(PollEvent::Ready { end, is_writable });
                continue;
            }
            loop {
                match self.listener.accept() {
                    Ok((stream, _)) => found.push(PollEvent::Accepted(stream)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

fn token(end: End) -> Token {
    match end {
        End::Client(at) => Token(2 * at),
        End::Backend(at) => Token(2 * at + 1),
    }
}

fn end(token: Token) -> End {
    match token.0 % 2 {
        0 => End::Client(token.0 / 2),
        _ => End::Backend(token.0 / 2),
    }
}

impl Wire {
    /// Sends, and keeps what the kernel does not take.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        if self.unsent.is_empty() {
            sent = match self.stream.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                sent => sent?,
            };
        }
        self.unsent.extend_from_slice(bytes.get(sent..).unwrap_or_default());
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads once; nothing where nothing has come. True if there may be more.
    pub(crate) fn read<'s>(&mut self, scratch: &'s mut [u8]) -> io::Result<(&'s [u8], bool)> {
        match self.stream.read(scratch) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                let is_full = count == scratch.len();
                Ok((scratch.get(..count).unwrap_or_default(), is_full))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((&[], false)),
            Err(error) => Err(error),
        }
    }
}

/// The head at the front of the bytes, and what is behind it.
pub(crate) fn split_head(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memmem::find(bytes, b"\r\n\r\n")?;
    bytes.split_at_checked(end + 4)
}

/// Letters that differ from one stream and number to the next: nothing can be right by being the same.
pub(crate) fn noise(stream: usize, number: u64, out: &mut [u8]) {
    let mut state = (stream as u64) << 40 ^ number;
    for piece in out.chunks_mut(8) {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let letters = (mixed ^ (mixed >> 31)) & 0x0f0f_0f0f_0f0f_0f0f | 0x6060_6060_6060_6060;
        let letters = letters.to_le_bytes();
        piece.iter_mut().zip(letters).for_each(|(to, letter)| *to = letter.max(b'a'));
    }
}
