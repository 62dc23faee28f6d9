//! Load tests as values: the backend, the requests, the ramp of users and the warm-up.
//!
//! Whole load-test documents are reproduced from these. It owns no clock and no socket: `load` runs a scenario, `report` shows
//! the outcome.

use std::time::Duration;

use http::Method;

use backends::Kind;

/// A load test.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name on the command line.
    pub name: &'static str,
    /// The purpose, for people.
    pub title: &'static str,
    /// The backend behind the gateway.
    pub backend: Kind,
    /// The gateway's configuration; `LISTEN`, `ADMIN` and `BACKEND` stand for addresses.
    pub gateway: String,
    /// The request that every user repeats.
    pub request: Request,
    /// The pause of a user between a reply and the next request.
    pub think: Duration,
    /// A reply that takes longer counts as an error.
    pub wait_max: Duration,
    /// The ramps, one after the other, beginning with no users.
    pub stages: Vec<Stage>,
    /// The warm-up: requests that end within it are not counted.
    pub warm_up: Duration,
}

/// The limit of the generator of the load-test documents.
pub const WAIT_MAX: Duration = Duration::from_secs(20);

/// One request and the reply it must get.
#[derive(Clone, Debug)]
pub struct Request {
    /// Any method.
    pub method: Method,
    /// The path with the query.
    pub target: &'static str,
    /// Pairs of name and value.
    pub headers: Vec<(&'static str, &'static str)>,
    /// Sent unchanged; its size is the payload's.
    pub body: Vec<u8>,
    /// The expected reply. Any other counts as an error.
    pub expected: Expected,
}

/// The condition for a good reply; the status is always 200.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing more.
    Status,
    /// The reply has the request's body.
    Echo,
    /// The body contains this.
    Contains(&'static str),
}

/// The number of users changes linearly to `users` in this time; whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// At the end of the stage.
    pub users: u32,
    /// The length of the stage.
    pub over: Duration,
}

impl Scenario {
    /// Every scenario there is.
    #[must_use]
    pub fn all() -> Vec<Self> {
        std::iter::once(plain_echo()).chain(crate::soap::scenarios()).collect()
    }

    /// The scenario of that name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|scenario| scenario.name == name)
    }

    /// The time from the first user to the last reply.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.stages.iter().map(|stage| stage.over).sum()
    }

    /// The same shape stretched by a factor, rounded up to whole seconds; for a quick look.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        for stage in &mut self.stages {
            let seconds = (stage.over.as_secs_f64() * factor).ceil().max(1.0);
            stage.over = Duration::from_secs_f64(seconds);
        }
        self.warm_up = self.warm_up.mul_f64(factor);
        self
    }

    /// The part of one of `all` generators that run together; the users have to divide evenly.
    ///
    /// # Errors
    ///
    /// If they do not, or there is no such part.
    pub fn part(&self, part: u32, all: u32) -> Result<Self, String> {
        if part == 0 || part > all {
            return Err(format!("there is no part {part} of {all}"));
        }
        let mut share = self.clone();
        for stage in &mut share.stages {
            if stage.users % all != 0 {
                return Err(format!("{} users do not divide by {all}", stage.users));
            }
            stage.users /= all;
        }
        Ok(share)
    }

    /// The average number of users after the warm-up.
    #[must_use]
    pub fn users_mean(&self) -> f64 {
        let mut start = 0.0;
        let mut users = 0.0;
        let mut area = 0.0;
        let warm_up = self.warm_up.as_secs_f64();
        for stage in &self.stages {
            let (over, target) = (stage.over.as_secs_f64(), f64::from(stage.users));
            let counted = (start + over - warm_up).clamp(0.0, over);
            if over > 0.0 {
                let users_then = target - (target - users) * counted / over;
                area += counted * f64::midpoint(users_then, target);
            }
            (start, users) = (start + over, target);
        }
        area / (self.length().as_secs_f64() - warm_up)
    }
}

/// The gateway only forwards.
fn plain_echo() -> Scenario {
    let body = vec![b'x'; 1024];
    Scenario {
        name: "plain-echo",
        title: "1 KiB echo through one route without policies, 100 users who pause 50 ms",
        backend: Kind::Echo,
        gateway: r#"listen: { public: { address: "LISTEN" } }
admin: { address: "ADMIN" }
upstreams: { echo: { targets: ["http://BACKEND"] } }
routes: { echo: { match: { path: "/**" }, upstream: echo } }
"#
        .to_owned(),
        request: Request {
            method: Method::POST,
            target: "/echo",
            headers: vec![("content-type", "text/plain")],
            body,
            expected: Expected::Echo,
        },
        think: Duration::from_millis(50),
        wait_max: WAIT_MAX,
        stages: vec![
            Stage { users: 100, over: Duration::from_secs(5) },
            Stage { users: 100, over: Duration::from_secs(30) },
        ],
        warm_up: Duration::from_secs(10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_averaged_over_what_is_counted() {
        let seconds = Duration::from_secs;
        let shaped = |warm_up, stages: &[(u32, u64)]| Scenario {
            stages: stages
                .iter()
                .map(|&(users, over)| Stage { users, over: seconds(over) })
                .collect(),
            warm_up: seconds(warm_up),
            ..plain_echo()
        };
        let cases = [
            (0, &[(10, 10)][..], 5.0),
            (5, &[(10, 10)], 7.5),
            (10, &[(10, 10), (10, 20)], 10.0),
            (5, &[(10, 10), (10, 5)], 8.75),
            (10, &[(10, 10), (20, 10)], 15.0),
            (0, &[(10, 10), (0, 10)], 5.0),
        ];
        for (warm_up, stages, expected) in cases {
            let users = shaped(warm_up, stages).users_mean();
            assert!((users - expected).abs() < 1e-9, "{warm_up} {stages:?}: {users}");
        }
    }

    #[test]
    fn users_divide_evenly_or_not_at_all() {
        let whole = plain_echo();
        let half = whole.part(2, 2).unwrap();
        assert_eq!(half.stages.iter().map(|stage| stage.users).collect::<Vec<_>>(), [50, 50]);
        assert_eq!((half.warm_up, half.length()), (whole.warm_up, whole.length()));
        for (part, all) in [(1, 3), (0, 2), (3, 2), (0, 0)] {
            assert!(whole.part(part, all).is_err(), "{part} of {all}");
        }
    }

    #[test]
    fn scenarios_are_well_formed() {
        for scenario in Scenario::all() {
            assert!(scenario.warm_up < scenario.length(), "{}", scenario.name);
            assert!(Scenario::find(scenario.name).is_some());
            for word in ["LISTEN", "ADMIN", "BACKEND"] {
                assert!(scenario.gateway.contains(word), "{}: no {word}", scenario.name);
            }
            for stage in &scenario.stages {
                assert_eq!(stage.over.subsec_nanos(), 0, "{}", scenario.name);
            }
        }
    }
}
