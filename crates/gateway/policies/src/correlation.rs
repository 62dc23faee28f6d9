//! `correlation`: adds a header that identifies a request in the logs of several systems.
//!
//! Owns the format of the id. An id sent by the client is kept.

use std::sync::atomic::{AtomicU64, Ordering};

use fault::{Fault, Kind};
use kit::clock;
use message::{ReplyHead, RequestHead};
use policy::{Exchange, Flow, OnHead, Onward, Policy, Slot, Slots, Step};

/// The format of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generator {
    /// A new UUID for each request.
    Uuid,
    /// A UUID, which each instance of the policy generates once, and a growing number.
    Counter,
    /// Address and port of the gateway, process id, worker, number and time.
    Tracker,
}

struct Correlation {
    header: String,
    generator: Generator,
    /// The constant first part of the ids of [`Generator::Counter`].
    prefix: String,
    count: AtomicU64,
    /// The slot that keeps the id for the reply, or `None` if the reply does not get the header.
    id: Option<Slot<Box<[u8]>>>,
}

struct Echo {
    header: String,
    id: Slot<Box<[u8]>>,
}

/// Returns the policy. With `echo`, the reply has the header, too.
pub fn policy(header: &str, generator: Generator, echo: bool, slots: &mut Slots) -> Policy {
    let id = echo.then(|| slots.assign());
    let response = id.map(|id| Step::Head(Box::new(Echo { header: header.to_owned(), id }) as _));
    let (prefix, count) = (uuid(), AtomicU64::new(0));
    let step = Correlation { header: header.to_owned(), generator, prefix, count, id };
    Policy { name: "correlation", request: Some(Step::Head(Box::new(step))), response }
}

impl OnHead<RequestHead> for Correlation {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let given = head.headers.get(&self.header).filter(|value| !value.is_empty());
        let id = match given.map(<[u8]>::to_vec) {
            Some(given) => given,
            None => {
                let made = self.made(ex).into_bytes();
                head.headers.remove(&self.header);
                add(&mut head.headers, &self.header, &made)?;
                made
            }
        };
        if let Some(slot) = self.id {
            slot.put(ex, id.into());
        }
        Ok(Onward::Next)
    }
}

impl OnHead<ReplyHead> for Echo {
    fn on_head(&self, ex: &mut Exchange, head: &mut ReplyHead) -> Flow {
        if let Some(id) = self.id.remove(ex) {
            head.headers.remove(&self.header);
            add(&mut head.headers, &self.header, &id)?;
        }
        Ok(Onward::Next)
    }
}

impl Correlation {
    fn made(&self, ex: &Exchange) -> String {
        let number = || self.count.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        match self.generator {
            Generator::Uuid => uuid(),
            Generator::Counter => format!("{}#{}", self.prefix, number()),
            Generator::Tracker => {
                let local = ex.caller.local;
                let (process, worker) = (std::process::id(), ex.caller.worker);
                let time = clock::wall().as_secs_f64();
                let address = local.ip().to_canonical();
                format!("{address}-{}-{process}-{worker}-{}-{time:.3}", local.port(), number())
            }
        }
    }
}

fn add(headers: &mut message::Headers, name: &str, value: &[u8]) -> Result<(), Fault> {
    headers.add(name, value).map_err(|_| {
        Fault::new(Kind::ProcessingFailed, "correlation: the id is not a valid header value")
    })
}

/// Generates a random UUID (RFC 9562, 5.4). It is unique, but not secret.
fn uuid() -> String {
    let random = fastrand::u128(..);
    let version = (random & !(0xf << 76)) | (0x4 << 76);
    let variant = (version & !(0b11 << 62)) | (0b10 << 62);
    let hex = format!("{variant:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| hex.get(range).unwrap_or(""));
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::uuid;

    #[test]
    fn uuids_have_their_version_and_variant() {
        let made = uuid();
        assert_eq!(made.len(), 36);
        assert_eq!(made.as_bytes()[14], b'4', "{made}");
        assert!(b"89ab".contains(&made.as_bytes()[19]), "{made}");
        assert_ne!(made, uuid());
    }
}
