//! `databases.NAME`: databases that steps of flows query.

use std::time::Duration;

use crate::decode::keys;
use crate::sections::UpstreamTls;
use crate::values::{Between, DatabaseUrl, Secret, Spanned, Timeout};

keys! {
    /// A database, for the step `sql` of flows.
    pub struct Database {
        /// PostgreSQL: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, perhaps with `?sslmode=require`; MySQL and MariaDB the same with
        /// `mysql://`; or a file of SQLite: `sqlite:FILE`, perhaps with `?mode=ro`.
        url: Spanned<DatabaseUrl>,
        /// The password, if it is not in the URL.
        password: Option<Secret>,
        /// How to verify the server, and the certificate to present to it.
        tls: UpstreamTls,
        /// The maximum number of connections of all workers together. Statements wait for one within their `timeout`.
        // A PostgreSQL server accepts 100 by default, and there may be several gateways.
        connections: Between<1, 1000> = const { Between::new(10) },
        /// The longest time for a statement, including its wait for a connection. Then it is cancelled at the server.
        // A client waits for the message, and a look-up takes milliseconds.
        timeout: Timeout = Timeout(Duration::from_secs(5)),
        /// The maximum number of rows of one result.
        // Larger results should be read in pages.
        rows_max: Between<1, 1_000_000> = const { Between::new(10_000) },
    }
}
