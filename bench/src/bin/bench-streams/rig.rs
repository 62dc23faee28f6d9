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

/// One kind of stream: its clients, its backend, and what passes.
pub(crate) trait Rig {
    /// The backend's port.
    fn port(&self) -> u16;

    /// Opens all streams through the gateway at this port, or right to the backend. Gives how many did not open.
    fn open(&mut self, port: u16) -> io::Result<usize>;

    /// Sends at this rate for this time, then waits for what is still on its way.
    fn run(&mut self, rate: f64, time: Duration) -> io::Result<Count>;
}

/// What came of one run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) sent: u64,
    pub(crate) came: u64,
    /// Came altered, twice or in the wrong place, or its stream has ended.
    pub(crate) wrong: u64,
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
pub(crate) enum Found {
    /// A new connection of the backend.
    Accepted(TcpStream),
    Ready {
        end: End,
        is_writable: bool,
    },
}

/// The sockets of a rig.
pub(crate) struct Sockets {
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
pub(crate) struct Pace {
    rate: f64,
    began: Instant,
    time: Duration,
    sent: u64,
}

/// What is sent between two looks at what came.
const BURST: u64 = 64;
const TICK: Duration = Duration::from_millis(1);
/// Without anything that comes, the rest is lost.
const REST_MAX: Duration = Duration::from_secs(5);
const BACKLOG: i32 = 8192;
const EVENTS_MAX: usize = 1024;
const LISTENER: Token = Token(usize::MAX);
pub(crate) const SCRATCH_BYTES: usize = 256 << 10;

impl Count {
    pub(crate) fn is_whole(&self) -> bool {
        self.sent == self.came && self.wrong == 0 && self.sent > 0
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.sent as f64 / self.wall.as_secs_f64()
    }
}

impl Pace {
    pub(crate) fn begin(rate: f64, time: Duration) -> Pace {
        Pace { rate, began: Instant::now(), time, sent: 0 }
    }

    /// How many are to be sent now, at most so many, and how long to wait for what comes then; none once the time is over.
    pub(crate) fn due(&mut self, most: u64) -> io::Result<Option<(u64, Duration)>> {
        check_stopped()?;
        let elapsed = self.began.elapsed();
        if elapsed >= self.time {
            return Ok(None);
        }
        #[expect(clippy::cast_possible_truncation, reason = "a count, not negative")]
        let due = ((elapsed.as_secs_f64() * self.rate) as u64).saturating_sub(self.sent);
        let now = due.min(BURST).min(most);
        self.sent += now;
        Ok(Some((now, if due > now && now < most { Duration::ZERO } else { TICK })))
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Lets `turn` read until it says that all has come, or that has stood still for too long.
pub(crate) fn rest(mut turn: impl FnMut(Duration) -> io::Result<(u64, bool)>) -> io::Result<()> {
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

impl Sockets {
    pub(crate) fn new() -> io::Result<Sockets> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let mut listener = TcpListener::from_std(socket.into());
        let (poll, port) = (Poll::new()?, listener.local_addr()?.port());
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Sockets { poll, events: Events::with_capacity(EVENTS_MAX), listener, port })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn connect(&self, port: u16, end: End) -> io::Result<Wire> {
        let stream = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nonblocking(true)?;
        self.add(TcpStream::from_std(stream), end)
    }

    pub(crate) fn add(&self, mut stream: TcpStream, end: End) -> io::Result<Wire> {
        stream.set_nodelay(true)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, token(end), interest)?;
        Ok(Wire { stream, unsent: Vec::new() })
    }

    /// Waits for so long and gives what there is.
    pub(crate) fn look(&mut self, wait: Duration, found: &mut Vec<Found>) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            polled => polled?,
        }
        for event in &self.events {
            if event.token() != LISTENER {
                let (end, is_writable) = (end(event.token()), event.is_writable());
                found.push(Found::Ready { end, is_writable });
                continue;
            }
            loop {
                match self.listener.accept() {
                    Ok((stream, _)) => found.push(Found::Accepted(stream)),
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
