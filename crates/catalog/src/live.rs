//! Keeps the map that all workers read equal to the catalog's applications and subscriptions.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use plan::CatalogSettings;
use policies::application_keys::consumer_key;
use policies::subscription::{self, ApiNumber, KeyOwner};

use crate::objects::{
    Api, Application, GoneKey, KeyKind, Subscription, SubscriptionState, config_name,
};
use crate::shelf::Shelf;

/// The entries that this catalog has made in the map.
#[derive(Default)]
pub(crate) struct Live(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Applications by their consumer keys.
    owners: HashMap<String, String>,
    /// The consumer keys of each application.
    keys: HashMap<String, HashSet<String>>,
    /// The subscriptions of each application.
    subscriptions: HashMap<String, HashSet<String>>,
    /// The applications of each API.
    subscribers: HashMap<String, HashSet<String>>,
}

impl Live {
    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The application of a consumer key.
    pub(crate) fn owner(&self, key: &str) -> Option<String> {
        self.lock().owners.get(key).cloned()
    }

    /// The subscriptions of an application.
    pub(crate) fn of_application(&self, id: &str) -> Vec<String> {
        // Harmless: an application that is not there has none.
        self.lock().subscriptions.get(id).into_iter().flatten().cloned().collect()
    }

    /// The applications that have subscribed to an API.
    pub(crate) fn of_api(&self, id: &str) -> Vec<String> {
        // Harmless: an API that is not there has none.
        self.lock().subscribers.get(id).into_iter().flatten().cloned().collect()
    }

    /// Rebuilds the entries of all applications.
    pub(crate) fn sync_all(&self, shelf: &Shelf, settings: &CatalogSettings) {
        let mut applications: HashSet<String> =
            shelf.all::<Application>().iter().map(|read| read.object.id.clone()).collect();
        {
            let mut known = self.lock();
            // Applications that are gone lose their keys.
            applications.extend(known.keys.keys().cloned());
            known.subscriptions.clear();
            known.subscribers.clear();
            for read in shelf.all::<Subscription>() {
                known.add(&read.object);
            }
        }
        let gone = shelf.all::<GoneKey>();
        self.sync_gone(gone.iter().map(|read| read.object.id.as_str()), shelf, settings);
        self.sync(applications.iter().map(String::as_str), shelf, settings);
    }

    /// Rebuilds the entries of removed applications' keys.
    pub(crate) fn sync_gone<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a str>,
        shelf: &Shelf,
        settings: &CatalogSettings,
    ) {
        let gone = keys.into_iter().map(|id| (consumer_key(id), gone_owner(id, shelf)));
        settings.live.change(gone.collect::<Vec<_>>());
    }

    /// Notes a subscription that is new or was changed.
    pub(crate) fn add(&self, subscription: &Subscription) {
        self.lock().add(subscription);
    }

    /// Notes that a subscription is gone.
    pub(crate) fn remove(&self, subscription: &Subscription) {
        let mut known = self.lock();
        if let Some(all) = known.subscriptions.get_mut(&subscription.application) {
            all.remove(&subscription.id);
        }
        if let Some(all) = known.subscribers.get_mut(&subscription.api) {
            all.remove(&subscription.application);
        }
    }

    /// Rebuilds the entries of these applications.
    pub(crate) fn sync<'a>(
        &self,
        applications: impl IntoIterator<Item = &'a str>,
        shelf: &Shelf,
        settings: &CatalogSettings,
    ) {
        let mut changes = Vec::new();
        let mut known = self.lock();
        for id in applications {
            let read = shelf.get::<Application>(id).filter(|read| !read.object.removed);
            let mut kept: HashSet<String> = HashSet::new();
            if let Some(read) = &read {
                let made = Arc::new(made(&read.object, &known, shelf, settings));
                let owner =
                    |sandbox| Some(KeyOwner { application: made.clone(), sandbox, gone: false });
                // API keys name the application by its id.
                changes.push((consumer_key(id), owner(false)));
                kept.insert(id.to_owned());
                for key in &read.object.keys {
                    let sandbox = key.kind == KeyKind::Sandbox;
                    changes.push((consumer_key(&key.consumer_key), owner(sandbox)));
                    known.owners.insert(key.consumer_key.clone(), id.to_owned());
                    kept.insert(key.consumer_key.clone());
                }
            }
            let before = if read.is_some() {
                known.keys.insert(id.to_owned(), kept.clone())
            } else {
                known.keys.remove(id)
            };
            // Harmless: an application without keys lost none.
            for gone in before.into_iter().flatten().filter(|key| !kept.contains(key)) {
                changes.push((consumer_key(&gone), gone_owner(&gone, shelf)));
                known.owners.remove(&gone);
            }
        }
        settings.live.change(changes);
    }
}

impl Known {
    fn add(&mut self, subscription: &Subscription) {
        let Subscription { id, api, application, .. } = subscription;
        self.subscriptions.entry(application.clone()).or_default().insert(id.clone());
        self.subscribers.entry(api.clone()).or_default().insert(application.clone());
    }
}

/// The owner of a removed application's key. None once all tokens of the key have expired.
fn gone_owner(key: &str, shelf: &Shelf) -> Option<KeyOwner> {
    shelf.get::<GoneKey>(key)?;
    let application = Arc::new(subscription::Application::new("gone", None, Vec::new()));
    Some(KeyOwner { application, sandbox: false, gone: true })
}

/// An application in the form that workers read.
fn made(
    application: &Application,
    known: &Known,
    shelf: &Shelf,
    settings: &CatalogSettings,
) -> subscription::Application {
    let plan = settings.plans.get(&application.plan).cloned();
    // Harmless: an application without subscriptions has none.
    let ids = known.subscriptions.get(&application.id).into_iter().flatten();
    // Harmless: a subscription to an API that is gone leads nowhere, and one on a plan that is gone is as blocked.
    let all = ids.filter_map(|id| {
        let read = shelf.get::<Subscription>(id)?;
        let api = shelf.get::<Api>(&read.object.api)?;
        let plan = settings.plans.get(&read.object.plan).cloned()?;
        let state = match read.object.state {
            SubscriptionState::Unblocked => subscription::SubscriptionState::Unblocked,
            SubscriptionState::Blocked => subscription::SubscriptionState::Blocked,
            SubscriptionState::ProdOnlyBlocked => {
                subscription::SubscriptionState::ProductionBlocked
            }
        };
        let api = ApiNumber::of(&config_name(&api.object.dto));
        Some(subscription::Subscription { api, plan, state })
    });
    subscription::Application::new(&format!("catalog {}", application.id), plan, all.collect())
}
