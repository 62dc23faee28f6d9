//! The base of all tests: the gateway as a process, and a client and an origin that work with bytes.
//!
//! All waits have a limit and end as soon as their condition holds. All ports are chosen by the system.

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
mod kong;
#[allow(dead_code, reason = "not all suites use it")]
mod mariadb;
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
pub(crate) use kong::{import_kong, start_imported};
#[allow(unused_imports, reason = "not all suites use it")]
pub(crate) use mariadb::MariaDb;
pub(crate) use message::{Message, headers};
pub(crate) use origin::{LEAVE, Origin, Peer, echo};
pub(crate) use plain::Plain;
pub(crate) use postgres::Postgres;
pub(crate) use program::Program;
pub(crate) use wire::Wire;

/// The longest wait for anything that must happen. It is long because the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `holds` returns true, for events that cannot be seen on a socket.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until `holds` returns true, as long as `count` keeps growing: a slow machine may take long for the whole.
#[track_caller]
pub(crate) fn until_at_last(what: &str, count: impl Fn() -> usize, holds: impl Fn() -> bool) {
    while !holds() {
        let had = count();
        until(what, || count() > had || holds());
    }
}

/// Returns a body in which lost, repeated or moved parts can be detected.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 11).to_le_bytes()[0]).collect()
}

/// Blocks one thread until another opens the gate.
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
