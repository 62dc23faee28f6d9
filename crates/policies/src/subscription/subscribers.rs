//! The map from credentials to applications and their subscriptions. All workers read it without a lock.
//!
//! The map is divided into shards. A change replaces one of them: readers see the old or the new shard, and with a hundred thousand
//! applications, a change copies some hundred pointers.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use policy::ApplicationKey;

use super::plan::NamedPlan;
use crate::application_keys::digest;

/// All applications, by the keys of their credentials.
pub struct Subscribers {
    shards: Box<[ArcSwap<Shard>]>,
    /// The lock for changes.
    changing: Mutex<()>,
}

type Shard = HashMap<[u8; 16], KeyOwner, BuildHasherDefault<DigestHash>>;

/// The application that a credential was issued to.
#[derive(Debug, Clone)]
pub struct KeyOwner {
    pub application: Arc<Application>,
    /// Whether the key is for the sandbox only.
    pub sandbox: bool,
    /// Whether the application was removed, so that its tokens are revoked.
    pub gone: bool,
}

/// An application, with the data that requests need.
#[derive(Debug)]
pub struct Application {
    /// The key of the application's counts.
    pub digest: u64,
    /// The plan for all its requests together.
    pub plan: Option<Arc<NamedPlan>>,
    /// Sorted by API.
    subscriptions: Box<[Subscription]>,
}

/// A subscription of an application to an API.
#[derive(Debug, Clone)]
pub struct Subscription {
    pub api: ApiNumber,
    pub plan: Arc<NamedPlan>,
    pub state: SubscriptionState,
}

/// The id of an API in subscriptions: a digest of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiNumber(pub u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionState {
    Unblocked,
    Blocked,
    /// Only sandbox keys are accepted.
    ProductionBlocked,
}

/// The hasher for digests, which uses the first bytes of the digest.
#[derive(Debug, Default)]
pub(super) struct DigestHash(u64);

impl Hasher for DigestHash {
    fn write(&mut self, bytes: &[u8]) {
        // Harmless: eight bytes of a digest are a sufficient hash.
        if let Some(first) = bytes.first_chunk::<8>() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The number of shards of the map.
const SHARDS: usize = 256;

impl Default for Subscribers {
    fn default() -> Subscribers {
        let shards = (0..SHARDS).map(|_| ArcSwap::default()).collect();
        Subscribers { shards, changing: Mutex::default() }
    }
}

impl ApiNumber {
    /// Returns the id of the API with this name.
    pub fn of(name: &str) -> ApiNumber {
        ApiNumber(number(&digest("api", name)))
    }
}

fn number(digest: &[u8; 16]) -> u64 {
    digest.first_chunk::<8>().map_or(0, |first| u64::from_le_bytes(*first))
}

impl Application {
    /// Creates an application. `name` determines the key of its counts.
    pub fn new(
        name: &str,
        plan: Option<Arc<NamedPlan>>,
        mut subscriptions: Vec<Subscription>,
    ) -> Application {
        subscriptions.sort_by_key(|subscription| subscription.api);
        let digest = number(&digest("counts", name));
        Application { digest, plan, subscriptions: subscriptions.into() }
    }

    /// Returns its subscription to an API.
    pub(crate) fn subscription(&self, api: ApiNumber) -> Option<&Subscription> {
        let at = self.subscriptions.binary_search_by_key(&api, |one| one.api).ok()?;
        self.subscriptions.get(at)
    }
}

impl Subscribers {
    fn shard(&self, key: &ApplicationKey) -> Option<&ArcSwap<Shard>> {
        // The shard is chosen by a byte that the map within the shard does not use.
        self.shards.get(usize::from(*key.0.last()?))
    }

    /// Calls `look` with the owner of a key, if there is one.
    pub fn with<R>(&self, key: &ApplicationKey, look: impl FnOnce(&KeyOwner) -> R) -> Option<R> {
        self.shard(key)?.load().get(&key.0).map(look)
    }

    /// Assigns keys to owners, or removes them. Concurrent readers see each key either as it was before or as it is afterwards.
    pub fn change(&self, changes: impl IntoIterator<Item = (ApplicationKey, Option<KeyOwner>)>) {
        // Harmless: the guard is held until the end of the function.
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut by_shard: HashMap<usize, Vec<(ApplicationKey, Option<KeyOwner>)>> = HashMap::new();
        for (key, owner) in changes {
            let at = key.0.last().map_or(0, |byte| usize::from(*byte));
            by_shard.entry(at).or_default().push((key, owner));
        }
        for (at, changes) in by_shard {
            let Some(shard) = self.shards.get(at) else { continue };
            let mut new = Shard::clone(&shard.load());
            for (key, owner) in changes {
                match owner {
                    Some(owner) => new.insert(key.0, owner),
                    None => new.remove(&key.0),
                };
            }
            shard.store(Arc::new(new));
        }
    }
}

impl fmt::Debug for Subscribers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscribers").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application_keys::{application_name, consumer_key};
    use crate::subscription::plan::PlanLimits;

    fn owner(name: &str, apis: &[&str]) -> KeyOwner {
        let plan = Arc::new(NamedPlan::new("Gold", PlanLimits::unlimited()));
        let subscription = |api: &&str| Subscription {
            api: ApiNumber::of(api),
            plan: plan.clone(),
            state: SubscriptionState::Unblocked,
        };
        let subscriptions = apis.iter().map(subscription).collect();
        let application = Arc::new(Application::new(name, None, subscriptions));
        KeyOwner { application, sandbox: false, gone: false }
    }

    #[test]
    fn a_key_leads_to_its_application_until_it_is_taken_away() {
        let all = Subscribers::default();
        let keys: Vec<String> = (0..2000).map(|number| format!("key {number}")).collect();
        all.change(keys.iter().map(|key| (consumer_key(key), Some(owner(key, &["a", "b"])))));
        for key in &keys {
            let has = |api: &str| {
                let found =
                    |owner: &KeyOwner| owner.application.subscription(ApiNumber::of(api)).is_some();
                all.with(&consumer_key(key), found)
            };
            assert_eq!((has("a"), has("b"), has("c")), (Some(true), Some(true), Some(false)));
        }
        assert!(all.with(&application_name("key 1"), |_| ()).is_none());
        all.change([(consumer_key("key 1"), None)]);
        assert!(all.with(&consumer_key("key 1"), |_| ()).is_none());
        assert!(all.with(&consumer_key("key 2"), |_| ()).is_some());
    }
}
