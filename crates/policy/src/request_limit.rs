//! A limit of requests, as steps that stand in no list of policies ask it.

use std::pin::Pin;

use fault::Fault;
use message::{Headers, RequestHead};

use crate::Exchange;

/// The header lines that say how much is left, or the refusal.
pub type Limited<'a> = Pin<Box<dyn Future<Output = Result<Option<Headers>, Fault>> + 'a>>;

/// The counts of one step.
pub trait RequestLimit: Send + Sync {
    /// Takes one request, which came by this route. It waits only where other gateways count too.
    fn admit<'a>(&'a self, ex: &'a Exchange, head: &'a RequestHead, route: &'a str) -> Limited<'a>;
}
