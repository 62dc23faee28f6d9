//! `databases.NAME`: databases that steps of flows ask.

use std::time::Duration;

use crate::decode::keys;
use crate::sections::UpstreamTls;
use crate::values::{Between, DatabaseUrl, Secret, Spanned, Timeout};

keys! {
    /// A database, for the step `sql` of flows.
    pub struct Database {
        /// PostgreSQL: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, perhaps with `?sslmode=require`; or a file of SQLite:
        /// `sqlite:FILE`, perhaps with `?mode=ro`.
        url: Spanned<DatabaseUrl>,
        /// The password, if it is not in the URL.
        password: Option<Secret>,
        /// How to verify the server, and the certificate to show to it.
        tls: UpstreamTls,
        /// Connections at once, of all workers together. Statements wait for one within their `timeout`.
        // A server of PostgreSQL takes 100 by default, and there may be several gateways.
        connections: Between<1, 1000> = const { Between::new(10) },
        /// The longest that a statement may take, with its wait for a connection. It is cancelled at the server then.
        // Somebody waits for the message, and a look-up takes milliseconds.
        timeout: Timeout = Timeout(Duration::from_secs(5)),
        /// The most rows of one answer.
        // Whoever needs more is better off with pages.
        rows_max: Between<1, 1_000_000> = const { Between::new(10_000) },
    }
}
