//! The interface of a request limit, for flow steps that are not in a list of policies.

use std::pin::Pin;

use fault::Fault;
use message::{Headers, RequestHead};

use crate::Exchange;

/// A future that resolves to the header lines with the remaining quota, or to the refusal.
pub type Limited<'a> = Pin<Box<dyn Future<Output = Result<Option<Headers>, Fault>> + 'a>>;

/// The counts of one step.
pub trait RequestLimit: Send + Sync {
    /// Counts one request of this route. It waits only if the count is shared with other gateways.
    fn admit<'a>(&'a self, ex: &'a Exchange, head: &'a RequestHead, route: &'a str) -> Limited<'a>;
}
