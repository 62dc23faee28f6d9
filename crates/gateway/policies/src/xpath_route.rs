//! `xpath_route`: chooses the upstream by the content of the message.
//!
//! Owns the destination of each case. An exchange that matches no case goes to the route's own destination. [`mediation::xpath_search`]
//! finds the matching case.

use mediation::xpath_search::{self, Cases};
use message::{GatheredBody, RequestHead};
use policy::{Decision, Exchange, OnBuffered, Onward, Policy};
use xpath::Expr;

use crate::attachments::{RootUse, RootedStep, rooted};
use crate::reply_coding::Codings;
use crate::xml_fault;

/// The name of the step in faults.
const STEP: &str = "Request - XPath routing failed";

/// One case: the destination of messages with this value.
pub struct Case {
    pub expression: Expr,
    pub equals: String,
    /// The index into the route's diversions.
    pub diversion: usize,
    /// The path and query for the upstream, if the case sets them.
    pub target: Option<Box<[u8]>>,
}

/// Settings of the policy.
pub struct XpathRouteSettings {
    pub cases: Vec<Case>,
    pub verbose: bool,
    pub bytes_max: usize,
    /// Whether only the root part of a message with attachments is read.
    pub attachments: bool,
}

/// Returns the policy.
pub fn policy(settings: XpathRouteSettings) -> Policy {
    let XpathRouteSettings { cases, verbose, bytes_max, attachments } = settings;
    let cases = cases.into_iter().map(|case| {
        let Case { expression, equals, diversion, target } = case;
        (xpath_search::Case { expression, equals }, CaseRoute { diversion, target })
    });
    let (cases, ways): (Vec<_>, Vec<_>) = cases.unzip();
    let routing = RoutingStep { cases: Cases::new(cases), ways, verbose, bytes_max };
    let codings = Codings { gzip_only: false, topmost: false, bytes_max };
    let of = RootedStep { root: RootUse::Edits, step: STEP, verbose, codings };
    let request = Some(rooted(routing, attachments.then_some(of)));
    Policy { name: "xpath_route", request, response: None }
}

struct RoutingStep {
    cases: Cases,
    /// The destination of each case.
    ways: Vec<CaseRoute>,
    verbose: bool,
    bytes_max: usize,
}

/// The destination of messages of a case, see [`Case`].
struct CaseRoute {
    diversion: usize,
    target: Option<Box<[u8]>>,
}

impl OnBuffered<RequestHead> for RoutingStep {
    fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        let flow = match self.cases.first(head.headers.get("content-type"), body) {
            Ok(first) => {
                if let Some(way) = first.and_then(|first| self.ways.get(first)) {
                    let notes = ex.notes();
                    notes.divert = Some(way.diversion);
                    notes.target.clone_from(&way.target);
                }
                Ok(Onward::Next)
            }
            Err(failed) => Err(xml_fault::refused_request(STEP, failed, self.verbose)),
        };
        Decision::Ready(flow)
    }
}
