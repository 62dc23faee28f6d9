//! `correlation`: a header by which a request is found again.

use crate::decode::{keys, words};
use crate::values::Spanned;

keys! {
    /// Gives each request an id in a header, unless the client gave it one. It is beside `X-Request-Id`, which every request has.
    pub struct Correlation {
        /// The name of the header.
        header: Spanned<String>,
        /// What an id is made of: `uuid`, `counter` (`UUID#NUMBER`), or `tracker` (address, port, process, worker, number and time).
        // It tells nothing of the gateway.
        generator: CorrelationGenerator = CorrelationGenerator::Uuid,
        /// Whether the reply has the header too.
        echo: bool = false,
    }
}

words! {
    /// What an id is made of.
    pub enum CorrelationGenerator {
        /// A UUID.
        Uuid = "uuid",
        /// A UUID of the gateway and a number.
        Counter = "counter",
        /// Address, port, process, worker, number and time.
        Tracker = "tracker",
    }
}
