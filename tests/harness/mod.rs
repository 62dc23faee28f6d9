//! The base of all tests: the gateway as a process, a client and an origin that work in bytes.
//!
//! Nothing here waits without a limit, sleeps to synchronise, or binds a port of its choosing.

mod authority;
mod backend;
mod clock;
mod closed_port;
pub(crate) mod collector;
#[allow(dead_code, reason = "the tests of the crate `dns` use the rest")]
mod dns;
pub(crate) mod frames;
mod gateway;
mod h2;
#[allow(dead_code, reason = "the tests of the crate `kafka` use the rest")]
pub(crate) mod kafka;
mod message;
mod origin;
mod plain;
mod postgres;
mod program;
mod wire;

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

pub(crate) use authority::{Authority, Identity, Trust};
pub(crate) use backend::Backend;
pub(crate) use clock::Clock;
pub(crate) use closed_port::ClosedPort;
pub(crate) use dns::{Manner, NameServer};
pub(crate) use gateway::{Gateway, Run, program, tidegate, tidegate_with};
pub(crate) use h2::{H2, Sent, full, whole};
pub(crate) use message::{Message, headers};
pub(crate) use origin::{LEAVE, Origin, Peer, echo};
pub(crate) use plain::Plain;
pub(crate) use postgres::Postgres;
pub(crate) use program::Program;
pub(crate) use wire::Wire;

/// The longest wait for anything that is sure to happen. Long, for a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `holds`, for things that no socket tells.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for as long as what `count` counts grows: a slow machine needs its time for all of it.
#[track_caller]
pub(crate) fn until_at_last(what: &str, count: impl Fn() -> usize, holds: impl Fn() -> bool) {
    while !holds() {
        let had = count();
        until(what, || count() > had || holds());
    }
}

/// A body in which a lost, doubled or moved piece shows.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 11).to_le_bytes()[0]).collect()
}

/// Holds one thread back until another lets it go on.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    open: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    pub(crate) fn open(&self) {
        *self.open.0.lock().unwrap() = true;
        self.open.1.notify_all();
    }

    #[track_caller]
    pub(crate) fn wait(&self) {
        let open = self.open.0.lock().unwrap();
        let (open, _) = self.open.1.wait_timeout_while(open, PATIENCE, |open| !*open).unwrap();
        assert!(*open, "the gate stayed shut");
    }
}
