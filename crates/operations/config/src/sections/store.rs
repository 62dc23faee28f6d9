//! `store`: where durable data is kept.

use crate::decode::keys;
use crate::values::{FilePath, Secret, Spanned};

keys! {
    /// The store of durable data: events of hubs, messages of queues. It needs one of `path` and `postgres`.
    pub struct Store {
        /// A folder of this machine, which only one gateway at a time can open. It is created if it does not exist.
        path: Option<Spanned<FilePath>>,
        /// A PostgreSQL database that several gateways share: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
        postgres: Option<Spanned<Secret>>,
    }
}
