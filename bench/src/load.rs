//! Runs a scenario: goose brings the users, ramps them and sends; we time, check and count.
//!
//! goose's own figures stay off: they are kept in buckets 0.8 % wide and counted from the first user, and a
//! document that is to be reproduced wants three digits and its warm-up cut off.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use goose::config::GooseConfiguration;
use goose::goose::{GooseMethod, GooseUser, Scenario as Users, Transaction};
use goose::{GooseAttack, GooseError};
use http::Method;
use tokio::time::Instant;

use crate::report::{Recorder, Report};
use crate::scenario::{Expected, Request, Scenario};

/// Puts the scenario's load on the URL (scheme and authority) and reports.
///
/// # Errors
/// When the load cannot be started.
pub async fn run(scenario: &Scenario, url: &str) -> io::Result<Report> {
    let recorder = Mutex::new(Recorder::new().map_err(io::Error::other)?);
    let user = Arc::new(User { scenario: scenario.clone(), started: OnceLock::new(), recorder });
    let every = Arc::clone(&user);
    let iteration = Transaction::new(Arc::new(move |goose| {
        let user = Arc::clone(&every);
        Box::pin(async move {
            user.iterate(goose).await;
            Ok(())
        })
    }));
    let users = Users::new(scenario.name).register_transaction(iteration);
    attack(scenario, url, users).await.map_err(io::Error::other)?;
    let window = scenario.length().saturating_sub(scenario.warm_up);
    let recorder = user.recorder.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(recorder.report(scenario.name, window, scenario.users_mean()))
}

async fn attack(scenario: &Scenario, url: &str, users: Users) -> Result<(), GooseError> {
    let steps = scenario.stages.iter();
    let steps: Vec<String> =
        steps.map(|stage| format!("{},{}s", stage.users, stage.over.as_secs())).collect();
    // Without a last step to none, goose holds the users until it is stopped.
    let plan = format!("{};0,0s", steps.join(";"));
    let configuration = GooseConfiguration::parse_args_default(&[
        "--host",
        url,
        "--test-plan",
        &plan,
        "--accept-invalid-certs",
        "--no-metrics",
        "--no-telnet",
        "--quiet",
    ])?;
    let attack = GooseAttack::initialize_with_config(configuration)?.register_scenario(users);
    Box::pin(attack.execute()).await?;
    Ok(())
}

/// What all users share.
struct User {
    scenario: Scenario,
    /// When the first of them sent its first request.
    started: OnceLock<Instant>,
    recorder: Mutex<Recorder>,
}

impl User {
    async fn iterate(&self, goose: &mut GooseUser) {
        let sent = Instant::now();
        let started = *self.started.get_or_init(|| sent);
        let good = send(goose, &self.scenario.request).await;
        let received = Instant::now();
        // A user that is stopped while it waits leaves no half-recorded reply behind.
        tokio::time::sleep(self.scenario.think).await;
        let counted = self.scenario.warm_up..self.scenario.length();
        if counted.contains(&(received - started)) {
            self.record(good, received - sent, received.elapsed());
        }
    }

    fn record(&self, good: bool, latency: Duration, think: Duration) {
        let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        if good { recorder.record(latency, think) } else { recorder.record_error() }
    }
}

/// Sends, reads the whole reply, and says whether it is the expected one.
async fn send(goose: &mut GooseUser, request: &Request) -> bool {
    let Some(method) = method_of(&request.method) else { return false };
    let Ok(mut builder) = goose.get_request_builder(&method, request.target) else { return false };
    for (name, value) in &request.headers {
        builder = builder.header(*name, *value);
    }
    // Sent past goose's own account, which would write a line for every failure.
    let Ok(reply) = builder.body(request.body.clone()).send().await else { return false };
    let status = reply.status();
    let Ok(body) = reply.bytes().await else { return false };
    status == http::StatusCode::OK
        && match request.expected {
            Expected::Status => true,
            Expected::Echo => body == request.body,
            Expected::Contains(part) => memchr::memmem::find(&body, part.as_bytes()).is_some(),
        }
}

fn method_of(method: &Method) -> Option<GooseMethod> {
    match method.as_str() {
        "GET" => Some(GooseMethod::Get),
        "HEAD" => Some(GooseMethod::Head),
        "POST" => Some(GooseMethod::Post),
        "PUT" => Some(GooseMethod::Put),
        "PATCH" => Some(GooseMethod::Patch),
        "DELETE" => Some(GooseMethod::Delete),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Kind, Options, spawn_thread};
    use crate::scenario::Stage;

    fn short(expected: Expected) -> Scenario {
        let mut scenario = Scenario::find("plain-echo").unwrap();
        let seconds = Duration::from_secs;
        scenario.stages =
            vec![Stage { users: 20, over: seconds(1) }, Stage { users: 20, over: seconds(2) }];
        scenario.warm_up = Duration::from_millis(1500);
        scenario.request.expected = expected;
        scenario
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn users_come_send_and_are_counted() {
        let backend = spawn_thread(Kind::Echo, Options::default()).unwrap();
        let url = format!("http://{}", backend.address());
        let report = run(&short(Expected::Echo), &url).await.unwrap();
        assert_eq!(report.errors, 0, "{report}");
        assert!(report.requests > 100, "{report}");
        assert!(report.is_believable(), "{report}");
        let report = run(&short(Expected::Contains("no such text")), &url).await.unwrap();
        assert_eq!(report.requests, 0, "{report}");
        assert!(report.errors > 100, "{report}");
    }
}
