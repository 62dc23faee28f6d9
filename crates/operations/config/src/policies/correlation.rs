//! `correlation`: adds a header that identifies a request across systems.

use crate::decode::{keys, words};
use crate::values::Spanned;

keys! {
    /// Gives each request an id in a header, unless the client has sent one. It is independent of `X-Request-Id`, which every request has.
    pub struct Correlation {
        /// The name of the header.
        header: Spanned<String>,
        /// The format of ids: `uuid`, `counter` (`UUID#NUMBER`), or `tracker` (address, port, process, worker, number and time).
        // A UUID reveals nothing about the gateway.
        generator: CorrelationGenerator = CorrelationGenerator::Uuid,
        /// Whether the reply also has the header.
        echo: bool = false,
    }
}

words! {
    /// The format of an id.
    pub enum CorrelationGenerator {
        /// A UUID.
        Uuid = "uuid",
        /// A UUID of the policy and a number.
        Counter = "counter",
        /// Address, port, process, worker, number and time.
        Tracker = "tracker",
    }
}
