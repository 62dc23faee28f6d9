//! `canary`: sends some of the requests to another upstream, such as a new version of a service.
//!
//! Owns the choice: by a header of the request, by the client's groups, or by a share of all requests. A client chosen by a key gets the
//! same version each time, on every gateway.

use std::time::Duration;

use message::RequestHead;
use policy::{Exchange, Flow, OnHead, Onward, Policy, Step};

use crate::hash::Key;
use crate::key::KeySource;

/// Settings of the policy.
#[derive(Debug)]
pub struct CanarySettings {
    /// The index of the upstream among the route's diversions.
    pub diversion: usize,
    /// The share of requests that go there, in millionths.
    pub share: u32,
    /// How the share grows to this value, or `None` if it is constant.
    pub ramp: Option<Ramp>,
    /// The key by which a client is chosen, or `None` for a random choice per request.
    pub by: Option<KeySource>,
    /// The name of a header whose value `always` or `never` decides.
    pub header: Option<String>,
    /// Clients in one of these groups always go there.
    pub allow: Vec<String>,
    /// If not empty, all clients go there except those in one of these groups.
    pub deny: Vec<String>,
}

/// The growth of a share: linear, from zero at `start` to its full value after `over`. `start` is a time since the Unix epoch, so that
/// all gateways use the same share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ramp {
    pub start: Duration,
    pub over: Duration,
}

impl Ramp {
    /// Returns the part of a share that is reached at `now`, the time since the Unix epoch.
    fn reached(&self, share: u32, now: Duration) -> u64 {
        let elapsed = now.saturating_sub(self.start).min(self.over);
        // Harmless: a ramp of zero length is complete at once.
        let part = elapsed
            .as_millis()
            .saturating_mul(u128::from(share))
            .checked_div(self.over.as_millis());
        part.map_or(u64::from(share), |part| u64::try_from(part).unwrap_or(u64::MAX))
    }
}

const MILLION: u64 = 1_000_000;

/// Returns the policy.
pub fn policy(settings: CanarySettings) -> Policy {
    Policy { name: "canary", request: Some(Step::Head(Box::new(settings))), response: None }
}

impl OnHead<RequestHead> for CanarySettings {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        if self.takes(ex, head) {
            ex.notes().divert = Some(self.diversion);
        }
        Ok(Onward::Next)
    }
}

impl CanarySettings {
    fn takes(&self, ex: &Exchange, head: &RequestHead) -> bool {
        let said = self.header.as_ref().and_then(|name| head.headers.get(name));
        match said {
            Some(said) if said.eq_ignore_ascii_case(b"always") => return true,
            Some(said) if said.eq_ignore_ascii_case(b"never") => return false,
            Some(_) | None => {}
        }
        let groups = ex.identity.as_ref().map_or(&[][..], |identity| &identity.groups);
        let is_in = |list: &[String]| groups.iter().any(|g| list.iter().any(|one| **one == **g));
        if !self.deny.is_empty() {
            return !is_in(&self.deny);
        }
        is_in(&self.allow) || self.is_drawn(ex, head)
    }

    fn is_drawn(&self, ex: &Exchange, head: &RequestHead) -> bool {
        let drawn = match &self.by {
            // The hash includes the name of the policy. Otherwise, clients with a low hash would be chosen first by every policy that
            // hashes clients.
            Some(by) => by.hash(Key::of("canary"), ex, head),
            None => fastrand::u64(..),
        };
        let share = match &self.ramp {
            None => u64::from(self.share),
            Some(ramp) => ramp.reached(self.share, kit::clock::wall()),
        };
        drawn % MILLION < share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_grows_evenly_and_stays() {
        let seconds = Duration::from_secs;
        let ramp = Ramp { start: seconds(1_000), over: seconds(100) };
        for (now, reached) in [
            (0, 0),
            (1_000, 0),
            (1_025, 125_000),
            (1_050, 250_000),
            (1_100, 500_000),
            (9_999, 500_000),
        ] {
            assert_eq!(ramp.reached(500_000, seconds(now)), reached, "{now}");
        }
        let at_once = Ramp { start: seconds(0), over: Duration::ZERO };
        assert_eq!(at_once.reached(7, seconds(1)), 7);
        let long = Ramp { start: seconds(0), over: Duration::MAX };
        assert_eq!(long.reached(1_000_000, Duration::MAX), 1_000_000);
    }
}
