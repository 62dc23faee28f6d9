//! What policies may reach beside the exchange: another service, and work at their own pace.

use std::rc::Rc;
use std::time::Duration;

use fault::Fault;
use kit::LocalBoxFuture;
use message::{Reply, Request};

use crate::{Call, Caller};

/// A way to another service, with its pools, balancing, health and timeouts. A policy that calls out gets one when it is
/// built, and knows nothing of what is behind it.
pub trait Fetch: Send + Sync {
    /// Sends a request and gives the reply as soon as its head is there, without the lines of its connection. The request needs
    /// no `Host`, and gets the id of the exchange it is for.
    fn fetch<'a>(
        &'a self,
        call: Call<'a>,
        request: Request,
    ) -> LocalBoxFuture<'a, Result<Reply, Fault>>;
}

/// Work beside the requests: key sets that are fetched anew, counters that are told to others. It runs on a thread of its
/// own, for as long as somebody holds it.
pub trait Background: Send + Sync {
    /// One round of work; gives the pause until the next. `caller` is who it may fetch as.
    fn round<'a>(&'a self, caller: &'a Rc<Caller>) -> LocalBoxFuture<'a, Duration>;
}
