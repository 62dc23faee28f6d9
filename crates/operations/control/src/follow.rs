//! `control: { follow: store }`: a change on one gateway is applied to all gateways that share its store, in stages.
//!
//! Owns the state in the store (`plan::shared_configuration`): the number of the configuration for all gateways, the number of the one on
//! trial, and the gateways on trial. Each gateway checks it every second. It offers its own change, applies the configuration that it
//! should serve, and watches its errors during a trial. If they rise, it ends the trial. If they do not, the gateway that made the change
//! releases it to all at the end. There is no leader: the first gateway to write the state decides, and the others follow. If the store is
//! unavailable, a gateway continues to serve.

use std::sync::Arc;
use std::time::Duration;

use kit::clock::millis;
use plan::shared_configuration::{self as shared, SharedChange};
use plan::{Follow, LazyStore};
use serde_json::{Value, json};

use crate::changes::{ChangeRequest, Sent};
use crate::{Control, lock};

/// The interval of checks of the store.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The minimum number of requests before the errors of a trial are judged.
const REQUESTS_MIN: u64 = 20;

/// How long other gateways wait after the end of a trial for the gateway that began it. Then they withdraw the change.
const LATE_MAX: Duration = Duration::from_secs(60);

/// The state that the gateways of a store share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Shared {
    /// The last number assigned.
    last: u64,
    /// The configuration of all gateways.
    stable: u64,
    trial: Option<Trial>,
    /// The reason why the last trial ended early, if it did.
    withdrawn: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Trial {
    number: u64,
    /// The gateways that serve it.
    canaries: Vec<String>,
    /// The gateway that made the change.
    origin: String,
    /// The author of the change.
    by: String,
    /// The end, in milliseconds since the Unix epoch.
    until: u64,
}

/// The state of this gateway.
#[derive(Default)]
struct Follower {
    /// The number of the configuration that it serves. None before the first check.
    number: Option<u64>,
    /// The hash of that configuration. If the hash in service differs, the configuration was changed on this gateway.
    hash: String,
    /// The numbers of requests and of server errors when it put that configuration into service.
    began: (u64, u64),
    /// The share of server errors before that time.
    share_before: f64,
}

impl Control {
    /// Follows the store for as long as the program runs.
    pub async fn follow(self: Arc<Self>) {
        let (mut follower, mut is_told) = (Follower::default(), false);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let plan = self.plan();
            let (Some(settings), Some(store)) = (plan.follow, plan.store.clone()) else {
                follower = Follower::default();
                *lock(&self.shared) = None;
                continue;
            };
            let result = self.follow_once(settings, &store, &mut follower).await;
            // Logs only the first of several failures, so that an unavailable database does not fill the log.
            if let (Err(why), false) = (&result, is_told) {
                tracing::warn!("the shared configuration cannot be followed: {why}");
            }
            is_told = result.is_err();
        }
    }

    /// The shared state, for operators.
    pub fn shared_view(&self) -> Value {
        lock(&self.shared).as_ref().map_or(Value::Null, Shared::to_json)
    }

    async fn follow_once(
        self: &Arc<Self>,
        settings: Follow,
        store: &LazyStore,
        follower: &mut Follower,
    ) -> Result<(), String> {
        let seen = store.nodes().views();
        // Harmless: a gateway that is not listed has not joined yet, and checks again later.
        let Some(me) = seen.iter().find(|node| node.is_this).map(|node| node.name.clone()) else {
            return Ok(());
        };
        let found = shared::state(store).await.map_err(|error| error.to_string())?;
        let version = found.as_ref().map(|found| found.version);
        let state = match &found {
            None => None,
            Some(found) => Some(Shared::read(&found.bytes).ok_or("its state cannot be read")?),
        };
        lock(&self.shared).clone_from(&state);
        let others = seen.iter().filter(|node| !node.is_this).map(|node| node.name.clone());
        let turn = Turn { me, others: others.collect(), settings, store, version };
        let Some(state) = state else {
            return self.offer(&turn, Shared::default(), follower).await;
        };
        let wanted = state.wanted(&turn.me);
        if follower.number.is_some() && self.status().hash != follower.hash {
            return self.offer(&turn, state, follower).await;
        }
        if follower.number != Some(wanted) {
            return self.take(&turn, &state, wanted, follower).await;
        }
        self.judge(&turn, state, follower).await
    }

    /// Offers the configuration of this gateway to all. It goes on trial first if there are other gateways, canaries are configured,
    /// and all gateways have a configuration already.
    async fn offer(
        self: &Arc<Self>,
        turn: &Turn<'_>,
        state: Shared,
        follower: &mut Follower,
    ) -> Result<(), String> {
        let hash = self.status().hash;
        let archive = self.shown_archive(true).await.map_err(|failure| failure.to_string())?;
        let by = self.history().first().map_or_else(String::new, |entry| entry.by.clone());
        let number = state.last + 1;
        let removed = state.trial.as_ref().map(|trial| trial.number);
        let canaries = turn.canaries();
        let next = if canaries.is_empty() || state.stable == 0 {
            let removed = [state.stable].into_iter().filter(|stable| *stable > 0).chain(removed);
            (Shared { last: number, stable: number, ..Shared::default() }, removed.collect())
        } else {
            let until = millis(kit::clock::wall().saturating_add(turn.settings.hold));
            let trial = Trial { number, canaries, origin: turn.me.clone(), by, until };
            let state = Shared { last: number, trial: Some(trial), withdrawn: None, ..state };
            (state, removed.into_iter().collect())
        };
        let (next, removed) = next;
        if turn.write(&next, Some((number, archive)), removed).await? {
            tracing::info!(
                number,
                on_trial = next.trial.is_some(),
                "the configuration is offered to all gateways of the store"
            );
            self.begin(number, hash, follower);
        } else {
            tracing::warn!(
                "another gateway has changed the shared configuration first: the change made here is undone"
            );
            // The next check applies the shared configuration.
            *follower = Follower { number: Some(0), hash, ..Follower::default() };
        }
        Ok(())
    }

    /// Puts a configuration from the store into service.
    async fn take(
        self: &Arc<Self>,
        turn: &Turn<'_>,
        state: &Shared,
        number: u64,
        follower: &mut Follower,
    ) -> Result<(), String> {
        let files = shared::files(turn.store, number).await.map_err(|error| error.to_string())?;
        // Harmless: the configuration has just been replaced, and the next check finds the new one.
        let Some(files) = files else { return Ok(()) };
        let by = state.by(number).map_or("store".to_owned(), |by| format!("store: {by}"));
        let demand = ChangeRequest { by: Some(by), condition: None };
        let taken = self.put(Sent::Archive(files.into()), demand).await;
        self.begin(number, self.status().hash, follower);
        let Err(failure) = taken else { return Ok(()) };
        // The complaints are in the log and in the status.
        if state.trial.as_ref().is_some_and(|trial| trial.number == number) {
            let why = format!("{} refused it: {failure}", turn.me);
            return turn.withdraw(state.clone(), why).await;
        }
        Err(format!("configuration {number} is refused here, and the old one stays in service"))
    }

    fn begin(&self, number: u64, hash: String, follower: &mut Follower) {
        let (requests, errors) = self.telemetry.exchanges();
        let (requests_before, errors_before) = self.telemetry.traffic_sum();
        let share_before = share(requests_before, errors_before);
        *follower =
            Follower { number: Some(number), hash, began: (requests, errors), share_before };
    }

    /// Ends a trial: successfully when it is over, or early if errors have risen here.
    async fn judge(
        &self,
        turn: &Turn<'_>,
        state: Shared,
        follower: &Follower,
    ) -> Result<(), String> {
        let Some(trial) = state.trial.clone() else { return Ok(()) };
        let now = millis(kit::clock::wall());
        if trial.canaries.contains(&turn.me) {
            let (requests, errors) = self.telemetry.exchanges();
            let requests = requests.saturating_sub(follower.began.0);
            let errors = errors.saturating_sub(follower.began.1);
            let (before, now) = (follower.share_before, share(requests, errors));
            if requests >= REQUESTS_MIN && now > before + turn.settings.error_rate {
                let why = format!(
                    "{}: {:.2} % of {} requests failed, {:.2} % before",
                    turn.me,
                    100.0 * now,
                    requests,
                    100.0 * before
                );
                return turn.withdraw(state, why).await;
            }
        }
        if trial.origin == turn.me && now >= trial.until {
            let removed = vec![state.stable];
            let next = Shared { stable: trial.number, trial: None, ..state };
            if turn.write(&next, None, removed).await? {
                tracing::info!(
                    number = trial.number,
                    "the trial succeeded: all gateways apply the configuration"
                );
            }
            return Ok(());
        }
        if now > trial.until.saturating_add(millis(LATE_MAX)) {
            let why = format!("{}, which began the trial, has not ended it", trial.origin);
            return turn.withdraw(state, why).await;
        }
        Ok(())
    }
}

/// One check of the store.
struct Turn<'s> {
    me: String,
    others: Vec<String>,
    settings: Follow,
    store: &'s LazyStore,
    /// The version of the state that was read.
    version: Option<u64>,
}

impl Turn<'_> {
    /// The gateways on trial, including this one. Empty if all gateways apply the change at once.
    fn canaries(&self) -> Vec<String> {
        if self.others.is_empty() || self.settings.canary == 0 {
            return Vec::new();
        }
        let first = std::iter::once(&self.me).chain(&self.others);
        // Harmless: the other gateways follow after the trial.
        first.take(self.settings.canary).cloned().collect()
    }

    async fn write(
        &self,
        state: &Shared,
        files: Option<(u64, Vec<u8>)>,
        removed: Vec<u64>,
    ) -> Result<bool, String> {
        let state = state.to_json().to_string().into_bytes();
        let change = SharedChange { state, version: self.version, files, removed };
        shared::write(self.store, change).await.map_err(|error| error.to_string())
    }

    async fn withdraw(&self, state: Shared, why: String) -> Result<(), String> {
        let removed = state.trial.iter().map(|trial| trial.number).collect();
        let number = state.trial.as_ref().map(|trial| trial.number);
        let next = Shared { trial: None, withdrawn: Some(why.clone()), ..state };
        if self.write(&next, None, removed).await? {
            tracing::error!(number, "the configuration on trial is withdrawn: {why}");
        }
        Ok(())
    }
}

impl Shared {
    /// The number of the configuration that a gateway should serve.
    fn wanted(&self, me: &str) -> u64 {
        let trial = self.trial.as_ref();
        let trial = trial.filter(|trial| trial.canaries.iter().any(|canary| canary == me));
        trial.map_or(self.stable, |trial| trial.number)
    }

    /// The author of a change that is on trial.
    fn by(&self, number: u64) -> Option<&str> {
        let trial = self.trial.as_ref().filter(|trial| trial.number == number)?;
        Some(&trial.by)
    }

    fn to_json(&self) -> Value {
        let trial = self.trial.as_ref().map(|trial| {
            json!({
                "number": trial.number,
                "canaries": trial.canaries,
                "origin": trial.origin,
                "by": trial.by,
                "until_unix_ms": trial.until,
            })
        });
        json!({
            "last": self.last,
            "stable": self.stable,
            "trial": trial,
            "withdrawn": self.withdrawn,
        })
    }

    fn read(bytes: &[u8]) -> Option<Shared> {
        // Harmless: an unreadable state is reported to the operator.
        let told: Value = serde_json::from_slice(bytes).ok()?;
        let trial = told.get("trial")?;
        let trial = if trial.is_null() { None } else { Some(Trial::read(trial)?) };
        Some(Shared {
            last: told.get("last")?.as_u64()?,
            stable: told.get("stable")?.as_u64()?,
            trial,
            withdrawn: text(&told, "withdrawn"),
        })
    }
}

impl Trial {
    fn read(told: &Value) -> Option<Trial> {
        let canaries = told.get("canaries")?.as_array()?.iter();
        let canaries = canaries.map(|name| name.as_str().map(str::to_owned));
        Some(Trial {
            number: told.get("number")?.as_u64()?,
            canaries: canaries.collect::<Option<_>>()?,
            origin: text(told, "origin")?,
            by: text(told, "by")?,
            until: told.get("until_unix_ms")?.as_u64()?,
        })
    }
}

fn text(told: &Value, name: &str) -> Option<String> {
    told.get(name)?.as_str().map(str::to_owned)
}

#[allow(clippy::cast_precision_loss, reason = "a share needs no more than 52 bits of precision")]
fn share(requests: u64, errors: u64) -> f64 {
    if requests == 0 { 0.0 } else { errors as f64 / requests as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canaries_serve_the_configuration_on_trial() {
        let trial = Trial {
            number: 3,
            canaries: vec!["a".to_owned()],
            origin: "a".to_owned(),
            by: "ann".to_owned(),
            until: 7,
        };
        let state = Shared { last: 3, stable: 2, trial: Some(trial), withdrawn: None };
        assert_eq!((state.wanted("a"), state.wanted("b")), (3, 2));
        assert_eq!(Shared::read(state.to_json().to_string().as_bytes()), Some(state.clone()));
        let state = Shared { trial: None, withdrawn: Some("why".to_owned()), ..state };
        assert_eq!(state.wanted("a"), 2);
        assert_eq!(Shared::read(state.to_json().to_string().as_bytes()), Some(state));
        for wrong in ["", "{}", "[]", r#"{"last":1,"stable":"1","trial":null}"#] {
            assert_eq!(Shared::read(wrong.as_bytes()), None, "{wrong}");
        }
    }

    /// Gateways of two versions share the state, so what a release has written stays as it is.
    #[test]
    fn the_state_of_each_release_is_read_and_written_alike() {
        for of_release in [
            // 0.1.0
            r#"{"last":3,"stable":2,"trial":{"number":3,"canaries":["a"],"origin":"b","by":"ann","until_unix_ms":7},"withdrawn":null}"#,
            r#"{"last":3,"stable":2,"trial":null,"withdrawn":"why"}"#,
        ] {
            let state = Shared::read(of_release.as_bytes()).unwrap();
            assert_eq!((state.last, state.stable), (3, 2));
            let written: Value = serde_json::from_str(of_release).unwrap();
            assert_eq!(state.to_json(), written);
        }
    }
}
