//! `store`: where what must not be lost is kept.

use crate::decode::keys;
use crate::values::{FilePath, Secret, Spanned};

keys! {
    /// The store of what must not be lost: events of hubs, messages of queues. It needs one of `path` and `postgres`.
    pub struct Store {
        /// A folder of this machine, which one gateway at a time opens; it is made if it is not there.
        path: Option<Spanned<FilePath>>,
        /// A PostgreSQL database that several gateways share: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
        postgres: Option<Spanned<Secret>>,
    }
}
