//! The body transforms of the cache: one replaces a received body with a stored one, the other stores a body as it passes.

use std::sync::Arc;

use bytes::Bytes;
use fault::Fault;
use message::Fill;
use policy::BodyTransform;

use super::entry::CachedReply;
use super::store::{Leader, Store};

/// A stored body that replaces the received one.
pub(super) struct CachedBody {
    pub(super) bytes: Bytes,
}

impl BodyTransform for CachedBody {
    fn on_bytes(&mut self, _bytes: &[u8], _out: &mut Vec<u8>) -> Result<Fill, Fault> {
        Ok(Fill::More)
    }

    fn on_end(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        out.extend_from_slice(&std::mem::take(&mut self.bytes));
        Ok(())
    }

    fn remaining(&self, _inner: Option<u64>) -> Option<u64> {
        Some(u64::try_from(self.bytes.len()).unwrap_or(u64::MAX))
    }
}

/// Copies a body as it passes, and stores the reply when the body is complete.
pub(super) struct Record {
    pub(super) entry: CachedReply,
    pub(super) key: Box<[u8]>,
    /// The bytes so far, or `None` once the body is too large.
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) bytes_max: usize,
    pub(super) store: Arc<Store>,
    /// Waiting requests are notified once the body is complete, or will not be stored.
    pub(super) leader: Option<Leader>,
}

impl BodyTransform for Record {
    fn on_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Fill, Fault> {
        out.extend_from_slice(bytes);
        self.bytes = self.bytes.take().filter(|kept| kept.len() + bytes.len() <= self.bytes_max);
        match &mut self.bytes {
            Some(kept) => {
                kept.extend_from_slice(bytes);
                self.leader.iter().for_each(Leader::moved);
            }
            None => {
                if let Some(leader) = self.leader.take() {
                    leader.release();
                }
            }
        }
        Ok(Fill::More)
    }

    fn on_end(&mut self, _out: &mut Vec<u8>) -> Result<(), Fault> {
        if let Some(bytes) = self.bytes.take() {
            let entry = self.entry.with_body(bytes.into());
            self.store.insert(&self.key, Arc::new(entry));
        }
        self.leader = None;
        Ok(())
    }

    fn remaining(&self, inner: Option<u64>) -> Option<u64> {
        inner
    }
}
