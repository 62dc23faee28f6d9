//! The map from credentials to applications and their subscriptions. All workers read it without a lock.
//!
//! The map is divided into shards. A change replaces one of them: readers see the old or the new shard, and with a hundred thousand
//! applications, a change copies some hundred pointers. Subscriptions name their plans by number, so that each takes 16 bytes, and new
//! plans change a table of some dozen rows, but no application.

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
    plans: ArcSwap<PlanTable>,
    /// The lock for changes.
    changing: Mutex<()>,
}

type Shard = HashMap<[u8; 16], KeyOwner, BuildHasherDefault<DigestHash>>;

/// The application that a credential was issued to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyOwner {
    pub application: Arc<Application>,
    /// Whether the key is for the sandbox only.
    pub sandbox: bool,
    /// Whether the application was removed, so that its tokens are revoked.
    pub is_removed: bool,
}

/// An application, with the data that requests need.
#[derive(Debug, PartialEq, Eq)]
pub struct Application {
    /// The key of the application's counts.
    pub digest: u64,
    /// The plan for all its requests together.
    pub plan: Option<PlanNumber>,
    /// Sorted by API.
    subscriptions: Box<[Subscription]>,
}

/// A subscription of an application to an API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    pub api: ApiNumber,
    pub plan: PlanNumber,
    pub state: SubscriptionState,
}

/// The number of a plan in the table of the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanNumber(u32);

/// All plans that subscriptions and applications have named. A removed plan keeps its number.
#[derive(Debug, Default, Clone)]
pub struct PlanTable {
    plans: Vec<Option<Arc<NamedPlan>>>,
    numbers: HashMap<Arc<str>, PlanNumber>,
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
        Subscribers { shards, plans: ArcSwap::default(), changing: Mutex::default() }
    }
}

impl PlanTable {
    /// Returns a plan, or `None` if it was removed.
    pub(crate) fn get(&self, number: PlanNumber) -> Option<&Arc<NamedPlan>> {
        // Harmless: 32 bits fit in a `usize`.
        self.plans.get(usize::try_from(number.0).ok()?)?.as_ref()
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
        plan: Option<PlanNumber>,
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

    /// Calls `look` with the owner of a key, if there is one, and with the plans.
    pub fn with<R>(
        &self,
        key: &ApplicationKey,
        look: impl FnOnce(&KeyOwner, &PlanTable) -> R,
    ) -> Option<R> {
        let shard = self.shard(key)?.load();
        let owner = shard.get(&key.0)?;
        // The table is read after the shard, so it contains all plans that the shard refers to.
        Some(look(owner, &self.plans.load()))
    }

    /// Returns the number of a plan, and takes the plan into the table if its name is new. Returns `None` if there are too many.
    pub fn plan_number(&self, name: &str, plan: Option<&Arc<NamedPlan>>) -> Option<PlanNumber> {
        if let Some(known) = self.plans.load().numbers.get(name) {
            return Some(*known);
        }
        // Harmless: the guard is held until the end of the function.
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = PlanTable::clone(&self.plans.load());
        if let Some(known) = table.numbers.get(name) {
            return Some(*known);
        }
        // Harmless: the caller reports a plan without a number.
        let number = PlanNumber(u32::try_from(table.plans.len()).ok()?);
        table.plans.push(plan.cloned());
        table.numbers.insert(name.into(), number);
        self.plans.store(Arc::new(table));
        Some(number)
    }

    /// Replaces all plans of the table by those that `find` returns for their names.
    pub fn replace_plans(&self, find: impl Fn(&str) -> Option<Arc<NamedPlan>>) {
        // Harmless: the guard is held until the end of the function.
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = PlanTable::clone(&self.plans.load());
        let PlanTable { plans, numbers } = &mut table;
        for (name, number) in numbers {
            // Harmless: each number has a place.
            if let Some(place) = usize::try_from(number.0).ok().and_then(|at| plans.get_mut(at)) {
                *place = find(name);
            }
        }
        self.plans.store(Arc::new(table));
    }

    /// Assigns keys to owners, or removes them. Concurrent readers see each key either as it was before or as it is afterwards.
    pub fn change(&self, changes: impl IntoIterator<Item = (ApplicationKey, Option<KeyOwner>)>) {
        let mut by_shard: HashMap<usize, Vec<(ApplicationKey, Option<KeyOwner>)>> = HashMap::new();
        for (key, owner) in changes {
            let at = key.0.last().map_or(0, |byte| usize::from(*byte));
            by_shard.entry(at).or_default().push((key, owner));
        }
        // Harmless: the guard is held until the end of the function. It is taken after the loop above, since the iterator may call
        // `plan_number`, which takes the same lock.
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, changes) in by_shard {
            let Some(shard) = self.shards.get(at) else { continue };
            let old = shard.load_full();
            if changes.iter().all(|(key, owner)| old.get(&key.0) == owner.as_ref()) {
                continue;
            }
            let mut new = Shard::clone(&old);
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

    fn plan(name: &str) -> Arc<NamedPlan> {
        Arc::new(NamedPlan::new(name, PlanLimits::unlimited()))
    }

    fn owner(all: &Subscribers, name: &str, apis: &[&str]) -> KeyOwner {
        let plan = all.plan_number("Gold", Some(&plan("Gold"))).unwrap();
        let subscription = |api: &&str| Subscription {
            api: ApiNumber::of(api),
            plan,
            state: SubscriptionState::Unblocked,
        };
        let subscriptions = apis.iter().map(subscription).collect();
        let application = Arc::new(Application::new(name, None, subscriptions));
        KeyOwner { application, sandbox: false, is_removed: false }
    }

    #[test]
    fn a_key_leads_to_its_application_until_it_is_removed() {
        let all = Subscribers::default();
        let keys: Vec<String> = (0..2000).map(|number| format!("key {number}")).collect();
        let owned = |key: &String| (consumer_key(key), Some(owner(&all, key, &["a", "b"])));
        all.change(keys.iter().map(owned));
        for key in &keys {
            let has = |api: &str| {
                let found = |owner: &KeyOwner, _: &PlanTable| {
                    owner.application.subscription(ApiNumber::of(api)).is_some()
                };
                all.with(&consumer_key(key), found)
            };
            assert_eq!((has("a"), has("b"), has("c")), (Some(true), Some(true), Some(false)));
        }
        assert!(all.with(&application_name("key 1"), |_, _| ()).is_none());
        all.change([(consumer_key("key 1"), None)]);
        assert!(all.with(&consumer_key("key 1"), |_, _| ()).is_none());
        assert!(all.with(&consumer_key("key 2"), |_, _| ()).is_some());
    }

    #[test]
    fn subscriptions_have_the_current_plans_and_unchanged_applications_are_kept() {
        assert_eq!(size_of::<Subscription>(), 16);
        let all = Subscribers::default();
        let key = consumer_key("key");
        all.change([(key, Some(owner(&all, "app", &["a"])))]);
        let found = || {
            let look = |owner: &KeyOwner, plans: &PlanTable| {
                let one = owner.application.subscription(ApiNumber::of("a")).unwrap();
                (owner.application.clone(), plans.get(one.plan).cloned())
            };
            all.with(&key, look).unwrap()
        };
        let (application, first) = found();
        let second = plan("Gold");
        all.replace_plans(|name| (name == "Gold").then(|| second.clone()));
        assert!(
            Arc::ptr_eq(&found().1.unwrap(), &second) && !Arc::ptr_eq(&first.unwrap(), &second)
        );
        all.replace_plans(|_| None);
        assert!(found().1.is_none(), "the plan is gone");
        all.change([(key, Some(owner(&all, "app", &["a"])))]);
        assert!(Arc::ptr_eq(&found().0, &application), "it is the same");
        all.change([(key, Some(owner(&all, "app", &["a", "b"])))]);
        assert!(!Arc::ptr_eq(&found().0, &application));
    }
}
