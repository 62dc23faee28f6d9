//! Routes: what happens to a request once it is known where it goes.

use std::num::NonZero;
use std::sync::Arc;

use bytes::Bytes;
use message::Headers;
use policy::{Escape, Policy, Template};
use telemetry::{OperationMetrics, RouteMetrics};
use upstream::{HostSent, Upstream};

/// One route. Its policies are a list in the order they were written: down on the request, up on the reply.
pub struct Route {
    pub name: String,
    pub policies: Box<[Policy]>,
    pub preflights: Preflights,
    pub destination: Destination,
    /// Upstreams that a policy or the route's split may send an exchange to, by index.
    pub diversions: Box<[Arc<Upstream>]>,
    /// How faults are written to the client.
    pub errors: Errors,
    /// Query parameters whose values are credentials: the access log does not tell them.
    pub secrets: Box<[String]>,
    /// A request body over this is 413, from its announced length where it has one.
    pub body_bytes_max: Option<u64>,
    pub metrics: Arc<RouteMetrics>,
    /// The operations of the service that policies tell apart; the last is for what is none of them.
    pub operations: Box<[Operation]>,
}

/// An operation of the service behind a route.
pub struct Operation {
    pub name: Box<str>,
    pub metrics: Arc<OperationMetrics>,
}

/// Which of a route's policies answer a browser's question whether it may send a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Preflights {
    /// One of them does.
    pub answered: bool,
    /// How many of the topmost do. A body's bound is looked at below these, so that a page can read the 413.
    pub topmost: usize,
}

/// The form of error replies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Errors {
    /// RFC 9457.
    #[default]
    Problem,
    /// The JSON bodies and codes of WSO2 Choreo Connect.
    Wso2,
    /// A SOAP fault of the caller's version, or RFC 9457 where the caller speaks JSON.
    Soap { verbose: bool },
    /// The SOAP faults and JSON bodies of Kong's SOAP/XML plugins.
    Kong { verbose: bool },
}

/// Where a route ends.
pub enum Destination {
    Upstream(Forward),
    Respond(FixedReply),
}

/// An upstream and what the request looks like when it gets there.
pub struct Forward {
    pub upstream: Arc<Upstream>,
    /// How requests are shared among upstreams, where there are several.
    pub split: Option<Split>,
    /// What else is sent the same, where something is.
    pub mirror: Option<Arc<Mirror>>,
    pub path: PathSent,
    pub host: HostSent,
}

/// An upstream that gets copies of requests, and whose replies nobody reads.
pub struct Mirror {
    pub upstream: Arc<Upstream>,
    /// How many of [`Mirror::WHOLE`] requests are copied.
    pub share: u32,
    /// Requests with a larger body are not copied.
    pub body_bytes_max: usize,
    pub host: HostSent,
    pub metrics: Arc<RouteMetrics>,
}

/// Upstreams with their shares of requests.
#[derive(Debug)]
pub struct Split {
    shares: Box<[Share]>,
    /// The sum of all weights; never 0.
    total: NonZero<u32>,
}

/// One upstream of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Its index among the route's diversions.
    pub diversion: usize,
    pub weight: u32,
}

/// The path the upstream sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathSent {
    AsItCame,
    /// Without these bytes at its front; what is left begins with a slash.
    Without(Box<[u8]>),
    /// Made of pieces; the query is kept.
    Made(Box<[Piece]>),
}

/// A piece of a rewritten path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(Box<[u8]>),
    /// The path parameter at this index.
    Parameter(usize),
    /// What `**` matched, without its leading slash.
    Rest,
}

/// A reply that needs nobody.
pub struct FixedReply {
    pub status: u16,
    pub headers: Headers,
    pub body: Bytes,
    /// What is made for each exchange, where something is.
    pub filled: Option<Box<Filled>>,
}

/// What a fixed reply says of the exchange.
#[derive(Default)]
pub struct Filled {
    /// Lines beside those that are the same for every exchange.
    pub lines: Vec<(String, Template)>,
    /// The body, and the language it is in; the fixed one where there is none.
    pub body: Option<(Template, Escape)>,
}

impl Mirror {
    /// All requests: a percent is 10,000 of them.
    pub const WHOLE: u32 = 1_000_000;
}

impl Split {
    /// Nothing where no upstream has a share.
    pub fn new(shares: Vec<Share>) -> Option<Split> {
        let total = shares.iter().fold(0_u32, |sum, share| sum.saturating_add(share.weight));
        Some(Split { shares: shares.into(), total: NonZero::new(total)? })
    }

    /// The sum of all weights.
    pub fn total(&self) -> u32 {
        self.total.get()
    }

    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// The diversion that a number below [`Split::total`] falls to.
    pub fn at(&self, number: u32) -> Option<usize> {
        let mut left = number;
        let share = self.shares.iter().find(|share| match left.checked_sub(share.weight) {
            Some(less) => {
                left = less;
                false
            }
            None => true,
        });
        share.map(|share| share.diversion)
    }
}

impl Route {
    /// The operation of that index, which may be [`policy::UNKNOWN_OPERATION`].
    pub fn operation(&self, index: u32) -> Option<&Operation> {
        let known = usize::try_from(index).ok().and_then(|index| self.operations.get(index));
        known.or(self.operations.last())
    }

    /// The upstream that an exchange of this route ends in, if it ends in one; with the index that its notes say it was diverted to.
    pub fn upstream(&self, divert: Option<usize>) -> Option<&Arc<Upstream>> {
        match &self.destination {
            Destination::Upstream(forward) => {
                let diverted = divert.and_then(|at| self.diversions.get(at));
                Some(diverted.unwrap_or(&forward.upstream))
            }
            Destination::Respond(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_gives_each_its_share() {
        let shares = [(4, 3), (0, 0), (2, 1)];
        let shares = shares.map(|(diversion, weight)| Share { diversion, weight });
        let split = Split::new(shares.into()).unwrap();
        let all: Vec<_> = (0..split.total()).map(|number| split.at(number)).collect();
        assert_eq!(all, [Some(4), Some(4), Some(4), Some(2)]);
        assert_eq!(split.at(4), None);
        assert!(Split::new(vec![Share { diversion: 0, weight: 0 }]).is_none());
    }
}
