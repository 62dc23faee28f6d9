//! Runs a scenario: goose starts the users, ramps them and sends; we time, check and count.
//!
//! goose's own figures are off: its buckets are 0.8 % wide and it counts from the first user. To reproduce a document, three
//! digits and a cut warm-up are needed.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use goose::config::GooseConfiguration;
use goose::goose::{GooseMethod, GooseUser, Scenario as Users, Transaction};
use goose::{GooseAttack, GooseError};
use http::Method;
use tokio::time::Instant;

use crate::report::Recorder;
use crate::results::Results;
use crate::scenario::{Expected, Request, Scenario};

/// Runs the scenario's load against the URL (scheme and authority) and returns the measurements.
///
/// # Errors
///
/// If the load cannot be started.
pub async fn run(scenario: &Scenario, url: &str) -> io::Result<Results> {
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
    let (_, wall) = user.started.get().copied().ok_or_else(|| io::Error::other("no user came"))?;
    let from = wall.duration_since(UNIX_EPOCH).unwrap_or_default() + scenario.warm_up;
    let recorder = user.recorder.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Results {
        scenario: scenario.name.to_owned(),
        users: scenario.users_mean(),
        payload_bytes: scenario.request.body.len(),
        from,
        to: from + window,
        recorder: recorder.clone(),
    })
}

async fn attack(scenario: &Scenario, url: &str, users: Users) -> Result<(), GooseError> {
    let steps = scenario.stages.iter();
    let steps: Vec<String> =
        steps.map(|stage| format!("{},{}s", stage.users, stage.over.as_secs())).collect();
    // Without a last step to zero users, goose would hold them until it is stopped.
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

/// The state that all users share.
struct User {
    scenario: Scenario,
    /// The time of the first request of any user.
    started: OnceLock<(Instant, SystemTime)>,
    recorder: Mutex<Recorder>,
}

impl User {
    #[allow(clippy::disallowed_methods, reason = "a file of results says when they were taken")]
    async fn iterate(&self, goose: &mut GooseUser) {
        let sent = Instant::now();
        let (started, _) = *self.started.get_or_init(|| (sent, SystemTime::now()));
        let wait_max = self.scenario.wait_max;
        let reply = tokio::time::timeout(wait_max, send(goose, &self.scenario.request)).await;
        let good = reply.unwrap_or(false);
        let received = Instant::now();
        // If a user is stopped during this pause, no half-recorded reply remains.
        tokio::time::sleep(self.scenario.think).await;
        let counted = self.scenario.warm_up..self.scenario.length();
        if counted.contains(&(received - started)) {
            self.record(good, received - sent, received.elapsed());
        }
    }

    fn record(&self, good: bool, latency: Duration, think: Duration) {
        let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        recorder.record(good, latency, think);
    }
}

/// Sends, reads the whole reply, and checks it.
async fn send(goose: &mut GooseUser, request: &Request) -> bool {
    let Some(method) = method_of(&request.method) else { return false };
    let Ok(mut builder) = goose.get_request_builder(&method, request.target) else { return false };
    for (name, value) in &request.headers {
        builder = builder.header(*name, *value);
    }
    // Sent without goose's own accounting, which would write a line for every failure.
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
    use crate::scenario::Stage;
    use backends::{Kind, Options, spawn_thread};

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
        let report = run(&short(Expected::Echo), &url).await.unwrap().report();
        assert_eq!(report.errors, 0, "{report}");
        assert!(report.requests > 100, "{report}");
        assert!(report.is_believable(), "{report}");
        let report = run(&short(Expected::Contains("no such text")), &url).await.unwrap().report();
        assert_eq!(report.requests, report.errors, "{report}");
        assert!(report.errors > 100, "{report}");
    }

    /// The generator of the documents waits 20 s and counts a reply after 21 s as an error; here it is 300 ms and 800 ms.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_reply_after_the_longest_wait_is_an_error() {
        let delay = Duration::from_millis(800);
        let backend = spawn_thread(Kind::Echo, Options { delay, ..Options::default() }).unwrap();
        let url = format!("http://{}", backend.address());
        let of = |wait_max| Scenario { wait_max, ..short(Expected::Echo) };
        assert_eq!(short(Expected::Echo).wait_max, Duration::from_secs(20));
        let late = run(&of(Duration::from_millis(300)), &url).await.unwrap().report();
        assert!(late.errors > 10 && late.errors == late.requests, "{late}");
        assert!(late.latency.max < delay, "nobody waits longer: {late}");
        let within = run(&of(Duration::from_secs(20)), &url).await.unwrap().report();
        assert!(within.errors == 0 && within.requests > 10, "{within}");
    }

    /// Two generators with half of the users each; their measurements are merged.
    #[tokio::test(flavor = "multi_thread")]
    async fn users_split_over_two_generators_are_measured_as_one() {
        let backend = spawn_thread(Kind::Echo, Options::default()).unwrap();
        let url = format!("http://{}", backend.address());
        let mut whole = Scenario::find("plain-echo").unwrap().scaled(0.1);
        whole.warm_up = Duration::from_millis(1500);
        let (one, two) = (whole.part(1, 2).unwrap(), whole.part(2, 2).unwrap());
        let (one, two) = tokio::join!(run(&one, &url), run(&two, &url));
        let (one, two) = (one.unwrap(), two.unwrap());
        let merged = Results::merge(&[one.clone(), two.clone()]).unwrap().report();
        let (one, two) = (one.report(), two.report());
        assert_eq!((one.users, two.users, merged.users), (50.0, 50.0, 100.0));
        assert!(one.requests > 100 && two.requests > 100, "{one}{two}");
        assert_eq!((merged.requests, merged.errors), (one.requests + two.requests, 0), "{merged}");
        assert_eq!(merged.latency.max, one.latency.max.max(two.latency.max));
        assert!(merged.is_believable(), "{merged}");
    }
}
