//! The load generator.
//!
//! A [`Load`] says what is sent and which reply is right. An [`Outcome`] holds what was measured. Both can be sent to and from other
//! machines, and outcomes of several generators are merged without loss. It starts no gateway and writes no report.

mod agent;
mod calls;
mod check;
mod compiled;
mod control;
mod interval_log;
mod latencies;
mod load;
mod log;
mod outcome;
mod recorder;
mod reply;
mod run;
mod sse;
mod streams;
mod text;
mod users;
mod websocket;
mod websub;
mod wire;

pub use agent::{run_agents, serve_agent};
pub use control::Control;
pub use interval_log::write_interval_log;
pub use latencies::{Counts, Latencies};
pub use load::{
    Calls, Expected, ExpectedBody, Group, Load, Requests, RowBy, Share, Sse, Stage, Table, Target,
    Template, TlsTarget, WebSocket, WebSub, Work,
};
pub use outcome::{
    ErrorKind, GeneratorUse, Interval, LabelOutcome, Outcome, Phase, SseCounts, Step, Streams,
    Users, WebSocketCounts, WebSubCounts,
};
pub use run::run;
pub use text::{Part, Text};
pub use websub::is_signed;
