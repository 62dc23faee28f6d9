//! The two ways in which a policy reaches beyond its exchange: calls to another service, and background work.

use std::rc::Rc;
use std::time::Duration;

use fault::Fault;
use kit::LocalBoxFuture;
use message::{Reply, Request};

use crate::{Call, Caller};

/// A way to another service, with its pools, balancing, health and timeouts. A policy that calls out gets one when it is built,
/// and does not know the upstream behind it.
pub trait Fetch: Send + Sync {
    /// Sends a request and returns the reply as soon as its head is there, without hop-by-hop headers. The request needs no
    /// `Host`, and gets the id of its exchange.
    fn fetch<'a>(
        &'a self,
        call: Call<'a>,
        request: Request,
    ) -> LocalBoxFuture<'a, Result<Reply, Fault>>;
}

/// Work beside the requests: fetching key sets anew, reporting counts to a store. It runs on a thread of its own until it is
/// dropped by its last holder.
pub trait Background: Send + Sync {
    /// Does one round of work and returns the pause until the next. `caller` is the caller to make its fetches with.
    fn round<'a>(&'a self, caller: &'a Rc<Caller>) -> LocalBoxFuture<'a, Duration>;
}
