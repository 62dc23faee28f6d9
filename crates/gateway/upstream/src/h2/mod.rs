//! HTTP/2 to a target: connections that many exchanges of one worker share.
//!
//! As for clients, the connection's task owns the wire: it connects, reads frames, and writes the output of the exchanges. Each exchange
//! has a stream of the session, which is never borrowed across an await. A connection is shared from the moment it is being opened
//! ([`target_connections`]). Its number of exchanges is limited by us and by the target. It ends when it has been idle for long enough,
//! when the target closes it, or when the target violates the protocol or no longer answers.

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
