//! Finds out whether a reply is a stream, and makes its body end properly when it has to leave.

use std::rc::Rc;

use message::Reply;
use pipeline::Account;

use crate::calls::{self, CallLifetime};
use crate::connection::Connection;
use crate::events;
use crate::stream_lifetime::StreamLifetime;

impl StreamLifetime {
    /// Returns the lifetime of a reply that is a stream: an event stream or the reply of a gRPC call, without an announced length. Makes
    /// its body end properly when it has to leave. Returns `None` for any other reply.
    pub(crate) fn of_reply(
        reply: &mut Reply,
        account: &Account,
        connection: &Connection,
        call: &CallLifetime<'_>,
    ) -> Option<Rc<StreamLifetime>> {
        if reply.body.remaining().is_some() {
            return None;
        }
        let stay = events::end_between_events(reply, account, connection, call.progress())
            .or_else(|| calls::end_call_with_status(reply, account, call));
        if let (Some(_), Some(progress)) = (&stay, call.progress()) {
            progress.begin_stream();
        }
        stay
    }
}
