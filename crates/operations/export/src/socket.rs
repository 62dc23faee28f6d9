//! Sends lines over a socket: a TCP stream, with or without TLS, or datagrams. It blocks the log's own thread, for a bounded
//! time.

use std::io::{self, ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::time::Duration;

use telemetry::access::{LineSink, SendFailure};

use crate::syslog::{self, Header};

/// A receiver with a socket.
#[derive(Debug, Clone, PartialEq)]
pub struct SocketReceiver {
    pub host: String,
    pub port: u16,
    pub transport: Transport,
    /// The time for connecting, and for each write.
    pub timeout: Duration,
}

/// The transport of lines.
#[derive(Debug, Clone, PartialEq)]
pub enum Transport {
    Udp,
    Tcp,
    Tls(tls::Client),
}

/// The framing of a line.
pub(crate) enum Framing {
    /// The line itself. In a stream it is followed by a line end.
    Lines,
    Syslog(Header),
}

/// A receiver and the connection to it.
pub(crate) struct SocketSink {
    receiver: SocketReceiver,
    framing: Framing,
    connection: Option<Connection>,
}

enum Connection {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Tls(Box<tls::BlockingStream>),
}

/// The number of a name's addresses that are tried.
const ADDRESSES_TRIED_MAX: usize = 4;

impl SocketReceiver {
    /// Its address, for logs.
    pub fn name(&self) -> String {
        let scheme = match &self.transport {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
            Transport::Tls(_) => "tls",
        };
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{scheme}://{host}:{}", self.port)
    }

    fn connect(&self) -> io::Result<Connection> {
        let addresses = (self.host.as_str(), self.port).to_socket_addrs()?;
        let mut failed = io::Error::new(ErrorKind::NotFound, "the name has no address");
        // Harmless: names of receivers have one or two addresses.
        for address in addresses.take(ADDRESSES_TRIED_MAX) {
            match self.connect_to(address) {
                Ok(connection) => return Ok(connection),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn connect_to(&self, address: SocketAddr) -> io::Result<Connection> {
        let tls = match &self.transport {
            Transport::Udp => {
                let any: SocketAddr = match address {
                    SocketAddr::V4(_) => ([0; 4], 0).into(),
                    SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                socket.set_write_timeout(Some(self.timeout))?;
                return Ok(Connection::Udp(socket));
            }
            Transport::Tcp => None,
            Transport::Tls(client) => Some(client),
        };
        let stream = TcpStream::connect_timeout(&address, self.timeout)?;
        stream.set_write_timeout(Some(self.timeout))?;
        stream.set_read_timeout(Some(self.timeout))?;
        Ok(match tls {
            None => Connection::Tcp(stream),
            Some(client) => Connection::Tls(Box::new(client.wrap(&self.host, stream)?)),
        })
    }
}

impl Framing {
    pub(crate) fn syslog(log: &'static str) -> Framing {
        Framing::Syslog(Header::new(log))
    }

    /// Encodes lines for a stream.
    fn stream(&self, lines: &[u8]) -> Vec<u8> {
        match self {
            Framing::Lines => lines.to_vec(),
            Framing::Syslog(header) => {
                let mut out = Vec::new();
                each(lines).for_each(|line| syslog::counted(&header.message(line), &mut out));
                out
            }
        }
    }

    /// Encodes one line as a datagram.
    fn datagram(&self, line: &[u8]) -> Vec<u8> {
        match self {
            Framing::Lines => line.to_vec(),
            Framing::Syslog(header) => header.message(line),
        }
    }
}

/// Lines without their line ends.
fn each(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

impl SocketSink {
    pub(crate) fn new(receiver: SocketReceiver, framing: Framing) -> SocketSink {
        SocketSink { receiver, framing, connection: None }
    }

    /// The open connection, or a new one.
    fn open(&mut self) -> io::Result<&mut Connection> {
        let open = self.connection.take().filter(Connection::is_open);
        let open = match open {
            Some(open) => open,
            None => self.receiver.connect()?,
        };
        Ok(self.connection.insert(open))
    }

    fn try_send(&mut self, lines: &[u8]) -> io::Result<u64> {
        let stream = match self.receiver.transport {
            Transport::Udp => Vec::new(),
            Transport::Tcp | Transport::Tls(_) => self.framing.stream(lines),
        };
        match self.open()? {
            Connection::Tcp(to) => to.write_all(&stream).map(|()| 0),
            Connection::Tls(to) => {
                to.write_all(&stream)?;
                to.flush().map(|()| 0)
            }
            Connection::Udp(_) => self.send_datagrams(lines),
        }
    }

    /// Sends a datagram for each line, and counts those that were lost, as far as known.
    fn send_datagrams(&mut self, lines: &[u8]) -> io::Result<u64> {
        let Some(Connection::Udp(socket)) = &self.connection else { return Ok(0) };
        let mut lost = 0;
        for line in each(lines) {
            let datagram = self.framing.datagram(line);
            match socket.send(&datagram) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    // This error is the answer to the previous datagram: the port was closed.
                    lost += 1;
                    if socket.send(&datagram).is_err() {
                        lost += 1;
                    }
                }
                // The line exceeds the size of a datagram, or the network is down.
                Err(error) => {
                    tracing::debug!(bytes = datagram.len(), "a datagram cannot be sent: {error}");
                    lost += 1;
                }
            }
        }
        Ok(lost)
    }
}

impl LineSink for SocketSink {
    fn send(&mut self, lines: &[u8]) -> Result<u64, SendFailure> {
        self.try_send(lines).map_err(|error| {
            // A part of a line may have been sent, so the connection cannot be reused.
            self.connection = None;
            SendFailure::temporary(error.to_string())
        })
    }
}

impl Connection {
    /// False if the peer has closed the connection. Data written to it then would be lost without an error.
    fn is_open(&self) -> bool {
        let stream = match self {
            Connection::Udp(_) => return true,
            Connection::Tcp(stream) => stream,
            Connection::Tls(stream) => &stream.sock,
        };
        let peek = || {
            stream.set_nonblocking(true)?;
            let peeked = stream.peek(&mut [0]);
            stream.set_nonblocking(false)?;
            peeked
        };
        match peek() {
            Ok(bytes) => bytes > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}
