//! HTTP/2 to a target: connections that many exchanges of one worker share.
//!
//! A connection's task owns the wire, as on the side of clients: it connects, reads frames, and writes what the exchanges put down.
//! Each exchange has a stream of the session, which nobody holds while waiting. A connection is shared as soon as it is being
//! opened ([`target_connections`]); how many exchanges it takes is bounded by us and by the target. It ends when it was idle for long enough, when
//! the target says so, or when the target breaks the rules or no longer answers.

mod attempt;
mod body;
mod call;
mod connection;
mod shared;
mod target_connections;
mod upload;

pub(crate) use body::{reply, whole};
pub(crate) use call::{Call, StartedReply};
pub(crate) use connection::apart;
pub(crate) use target_connections::TargetConnections;
