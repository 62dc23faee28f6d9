//! The load generator.
//!
//! A [`Load`] says what is sent and what reply is right; an [`Outcome`] holds what was measured. Both can be sent to and from
//! other machines, and outcomes of several generators are merged without loss. It starts no gateway and writes no report.

mod latencies;
mod load;
mod outcome;
mod text;

pub use latencies::Latencies;
pub use load::{
    Expected, ExpectedBody, Group, Load, Requests, RowBy, Share, Sse, Stage, Table, Target,
    Template, TlsTarget, WebSocket, WebSub, Work,
};
pub use outcome::{
    ErrorKind, GeneratorUse, Interval, LabelOutcome, Outcome, Phase, SseCounts, Step, Streams,
    Users, WebSocketCounts, WebSubCounts,
};
pub use text::{Part, Text};
