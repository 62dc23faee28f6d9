//! Message flows: a list of steps between a client and services, as the destination of a route.
//!
//! Owns the effect of steps on a message, the message itself, and the faults of steps. Flows come compiled: texts are expressions,
//! names are numbers, upstreams are ways to them. A request enters by [`FlowEnd`], an [`Answerer`](policy::Answerer), and leaves
//! as a reply. A message is bytes until a step looks inside; bytes that several steps read are parsed once.
//!
//! ```text
//! FlowEnd::answer -> Block::run -> step::run -> steps::{call, payload, gather, ...}
//!                        │ fault -> catch
//! ```
#![forbid(unsafe_code)]

mod content;
mod edit;
mod end;
mod infoset;
mod message;
mod names;
mod needs;
mod soap;
mod spans;
mod state;
mod step;
mod steps;
mod trace;
mod values;

pub use end::{Flow, FlowEnd};
pub use mediation::soap::Version as SoapVersion;
pub use tracing::Level;

pub use names::{FlowNames, NameTable, Slots, Variables};
pub use step::{
    Action, Block, Cache, Call, CallPath, CallTo, CallUrl, Condition, Convert, Endpoint,
    EndpointFinder, Enrich, EnrichAction, FaultTemplate, Foreach, Gather, Header, Into, Method,
    Payload, PayloadSource, Query, Respond, Scatter, Schemas, Script, SoapHeader, Source, Split,
    Sql, Status, Step, Steps, Store, TapPlaces, Test, Throttle, Type, Validate, WireTap, Xslt,
};
