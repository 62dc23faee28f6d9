//! Keeps the map that all workers read consistent with the catalog's applications and subscriptions.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use plan::CatalogSettings;
use policies::application_keys::consumer_key;
use policies::subscription::{self, ApiNumber, KeyOwner, PlanNumber, Subscribers};

use crate::ids::{self, Id};
use crate::object_store::ObjectStore;
use crate::objects::{Api, Application, KeyKind, RemovedKey, SubscriptionState, config_name};

/// The entries of this catalog in the map.
#[derive(Default)]
pub(crate) struct Live(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// The map with these entries.
    map: Option<Arc<Subscribers>>,
    /// Applications by the digests of their consumer keys.
    owners: HashMap<[u8; 16], Id>,
    /// The consumer keys of each application, with [`BETWEEN`] between them.
    keys: HashMap<Id, Box<str>>,
}

/// The separator of consumer keys. No key contains it, since the catalog generates keys from hexadecimal digits.
const BETWEEN: char = '\n';

/// The number of applications updated at once. A change copies parts of the map: many small changes would take long, and one large one
/// would temporarily double the memory.
const AT_ONCE: usize = 4096;

impl Live {
    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The application of a consumer key.
    pub(crate) fn owner(&self, key: &str) -> Option<String> {
        self.lock().owners.get(&consumer_key(key).0).copied().map(ids::text)
    }

    /// Replaces the throttling plans in the map with those of `settings`. If these settings have a new map, fills it.
    pub(crate) fn sync_plans(&self, objects: &ObjectStore, settings: &CatalogSettings) {
        let is_same = |map: &Arc<Subscribers>| Arc::ptr_eq(map, &settings.live);
        if self.lock().map.as_ref().is_some_and(is_same) {
            settings.live.replace_plans(|name| settings.plans.get(name).cloned());
        } else {
            self.sync_all(objects, settings);
        }
    }

    /// Rebuilds the entries of all applications.
    pub(crate) fn sync_all(&self, objects: &ObjectStore, settings: &CatalogSettings) {
        // Includes applications that were removed since, so that their keys are removed too.
        let mut applications: HashSet<Id> = self.lock().keys.keys().copied().collect();
        // Harmless: rows with invalid ids were refused.
        objects.each::<Application>(|one, _| applications.extend(ids::number(&one.id)));
        let gone = objects.all::<RemovedKey>();
        self.sync_gone(gone.iter().map(|read| read.object.id.as_str()), objects, settings);
        let applications: Vec<Id> = applications.into_iter().collect();
        for some in applications.chunks(AT_ONCE) {
            let some: Vec<String> = some.iter().copied().map(ids::text).collect();
            self.sync(some.iter().map(String::as_str), objects, settings);
        }
        settings.live.replace_plans(|name| settings.plans.get(name).cloned());
        self.lock().map = Some(settings.live.clone());
    }

    /// Rebuilds the entries of removed applications' keys.
    pub(crate) fn sync_gone<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a str>,
        objects: &ObjectStore,
        settings: &CatalogSettings,
    ) {
        let gone = keys.into_iter().map(|id| (consumer_key(id), gone_owner(id, objects)));
        settings.live.change(gone.collect::<Vec<_>>());
    }

    /// Rebuilds the entries of these applications.
    pub(crate) fn sync<'a>(
        &self,
        applications: impl IntoIterator<Item = &'a str>,
        objects: &ObjectStore,
        settings: &CatalogSettings,
    ) {
        let mut changes = Vec::new();
        let mut known = self.lock();
        for id in applications {
            // Harmless: rows with invalid ids were refused.
            let Some(number) = ids::number(id) else { continue };
            let read = objects.get::<Application>(id).filter(|read| !read.object.removed);
            let mut kept = Vec::new();
            if let Some(read) = &read {
                let made = Arc::new(made(&read.object, objects, settings));
                let owner = |sandbox| {
                    Some(KeyOwner { application: made.clone(), sandbox, is_removed: false })
                };
                // API keys name the application by its id.
                changes.push((consumer_key(id), owner(false)));
                for key in &read.object.keys {
                    let (digest, sandbox) =
                        (consumer_key(&key.consumer_key), key.kind == KeyKind::Sandbox);
                    changes.push((digest, owner(sandbox)));
                    known.owners.insert(digest.0, number);
                    kept.push(key.consumer_key.as_str());
                }
            }
            let now = kept.join(&BETWEEN.to_string()).into_boxed_str();
            let before = match &read {
                Some(_) => known.keys.insert(number, now),
                None => known.keys.remove(&number),
            };
            let Some(before) = before else { continue };
            let own = read.is_none().then_some(id);
            let before = before.split(BETWEEN).filter(|key| !key.is_empty());
            for gone in before.chain(own).filter(|key| !kept.contains(key)) {
                let digest = consumer_key(gone);
                changes.push((digest, gone_owner(gone, objects)));
                known.owners.remove(&digest.0);
            }
        }
        settings.live.change(changes);
    }
}

/// The owner of a removed application's key, whose tokens are refused. None once all of them have expired.
fn gone_owner(key: &str, objects: &ObjectStore) -> Option<KeyOwner> {
    objects.get::<RemovedKey>(key)?;
    let application = Arc::new(subscription::Application::new("gone", None, Vec::new()));
    Some(KeyOwner { application, sandbox: false, is_removed: true })
}

/// An application in the form for workers.
fn made(
    application: &Application,
    objects: &ObjectStore,
    settings: &CatalogSettings,
) -> subscription::Application {
    let number = |name: &str| -> Option<PlanNumber> {
        settings.live.plan_number(name, settings.plans.get(name))
    };
    let written = objects.subscriptions_of(&application.id).into_iter();
    // Harmless: a subscription to a removed API has no effect.
    let all = written.filter_map(|one| {
        let api = objects.get::<Api>(&one.api)?;
        let plan = number(&one.plan)?;
        let state = match one.state {
            SubscriptionState::Unblocked => subscription::SubscriptionState::Unblocked,
            SubscriptionState::Blocked => subscription::SubscriptionState::Blocked,
            SubscriptionState::ProdOnlyBlocked => {
                subscription::SubscriptionState::ProductionBlocked
            }
        };
        let api = ApiNumber::of(&config_name(&api.object.dto));
        Some(subscription::Subscription { api, plan, state })
    });
    let (name, plan) = (format!("catalog {}", application.id), number(&application.plan));
    subscription::Application::new(&name, plan, all.collect())
}
