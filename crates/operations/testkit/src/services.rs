//! The services behind the gateway: a script answers at any address of a target, a key set or an interceptor.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use kit::Duplex;

use crate::message::{Message, MessageKind, read_messages};
use crate::wire::{Act, Wire};

/// A request as a service received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRequest {
    pub to: SocketAddr,
    pub request: Message,
}

/// What a service does after it has read a whole request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceAnswer {
    /// Sends these bytes as they are, and waits for the next request.
    Reply(Vec<u8>),
    /// Sends these bytes and resets the connection.
    Cut(Vec<u8>),
    /// Does not answer.
    Silent,
}

/// All services of a gateway.
#[derive(Clone)]
pub struct Services(Rc<Inner>);

struct Inner {
    answers: Box<dyn Fn(&ServiceRequest) -> ServiceAnswer>,
    asked: RefCell<Vec<ServiceRequest>>,
    refuses: Cell<bool>,
    piece: Cell<Option<usize>>,
    /// Bytes that are not an HTTP/1 request.
    broken: RefCell<Vec<String>>,
}

impl Services {
    /// Creates services that answer with this function.
    pub fn new(answers: impl Fn(&ServiceRequest) -> ServiceAnswer + 'static) -> Services {
        Services(Rc::new(Inner {
            answers: Box::new(answers),
            asked: RefCell::default(),
            refuses: Cell::new(false),
            piece: Cell::new(None),
            broken: RefCell::default(),
        }))
    }

    /// Returns the requests to the services since the last call, in order.
    pub fn take_requests(&self) -> Vec<ServiceRequest> {
        self.0.asked.take()
    }

    /// Returns the bytes written to the services since the last call that are not a request.
    pub fn broken(&self) -> Vec<String> {
        self.0.broken.take()
    }

    /// Sets whether new connections are refused.
    pub fn refuse(&self, refuses: bool) {
        self.0.refuses.set(refuses);
    }

    /// Sets the number of bytes per read and write of new connections, see [`Wire::new`].
    pub fn piece(&self, piece: Option<usize>) {
        self.0.piece.set(piece);
    }

    /// Makes these services answer at every address that this thread connects to.
    pub(crate) fn stand_in(&self) {
        let services = self.clone();
        kit::fake::network(move |to| services.connect(to));
    }

    fn connect(&self, to: SocketAddr) -> io::Result<Box<dyn Duplex>> {
        if self.0.refuses.get() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (services, mut heard) = (self.clone(), Vec::new());
        let hears = Box::new(move |bytes: &[u8]| services.hear(to, &mut heard, bytes));
        Ok(Box::new(Wire::answered(self.0.piece.get(), hears)))
    }

    fn hear(&self, to: SocketAddr, heard: &mut Vec<u8>, bytes: &[u8]) -> Vec<Act> {
        heard.extend_from_slice(bytes);
        let (requests, begun) = match read_messages(heard, MessageKind::Requests, false) {
            Ok((requests, begun)) => (requests, begun.to_vec()),
            Err(why) => {
                self.0.broken.borrow_mut().push(why);
                return vec![Act::Reset];
            }
        };
        if requests.last().is_none_or(|last| !last.whole) {
            return Vec::new();
        }
        *heard = begun;
        let acts = requests.into_iter().flat_map(|request| {
            let asked = ServiceRequest { to, request };
            let answer = (self.0.answers)(&asked);
            self.0.asked.borrow_mut().push(asked);
            answer.acts()
        });
        acts.collect()
    }
}

impl ServiceAnswer {
    /// Creates a reply with these lines, which end in CRLF, and a `Content-Length`.
    pub fn with(status: u16, lines: &str, body: &str) -> ServiceAnswer {
        let len = body.len();
        ServiceAnswer::Reply(
            format!("HTTP/1.1 {status} Ok\r\nContent-Length: {len}\r\n{lines}\r\n{body}").into(),
        )
    }

    fn acts(self) -> Vec<Act> {
        match self {
            ServiceAnswer::Reply(bytes) => vec![Act::Send(bytes)],
            ServiceAnswer::Cut(bytes) if bytes.is_empty() => vec![Act::Reset],
            ServiceAnswer::Cut(bytes) => vec![Act::Send(bytes), Act::Reset],
            ServiceAnswer::Silent => Vec::new(),
        }
    }
}
