//! Keeps the map that all workers read equal to the catalog's applications and subscriptions.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use plan::CatalogSettings;
use policies::application_keys::consumer_key;
use policies::subscription::{self, ApiNumber, KeyOwner};

use crate::objects::{Api, Application, GoneKey, KeyKind, SubscriptionState, config_name};
use crate::shelf::Shelf;

/// The entries that this catalog has made in the map.
#[derive(Default)]
pub(crate) struct Live(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Applications by their consumer keys.
    owners: HashMap<Arc<str>, Arc<str>>,
    /// The consumer keys of each application.
    keys: HashMap<String, Box<[Arc<str>]>>,
}

impl Live {
    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The application of a consumer key.
    pub(crate) fn owner(&self, key: &str) -> Option<Arc<str>> {
        self.lock().owners.get(key).cloned()
    }

    /// Rebuilds the entries of all applications.
    pub(crate) fn sync_all(&self, shelf: &Shelf, settings: &CatalogSettings) {
        // Applications that are gone lose their keys.
        let mut applications: HashSet<String> = self.lock().keys.keys().cloned().collect();
        shelf.each::<Application>(|one, _| {
            applications.insert(one.id.clone());
        });
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
            let mut kept: Vec<Arc<str>> = Vec::new();
            if let Some(read) = &read {
                let made = Arc::new(made(&read.object, shelf, settings));
                let owner =
                    |sandbox| Some(KeyOwner { application: made.clone(), sandbox, gone: false });
                // API keys name the application by its id.
                changes.push((consumer_key(id), owner(false)));
                let id: Arc<str> = id.into();
                kept.push(id.clone());
                for key in &read.object.keys {
                    let sandbox = key.kind == KeyKind::Sandbox;
                    changes.push((consumer_key(&key.consumer_key), owner(sandbox)));
                    let key: Arc<str> = key.consumer_key.as_str().into();
                    known.owners.insert(key.clone(), id.clone());
                    kept.push(key);
                }
            }
            let before = if read.is_some() {
                known.keys.insert(id.to_owned(), kept.clone().into())
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

/// The owner of a removed application's key. None once all tokens of the key have expired.
fn gone_owner(key: &str, shelf: &Shelf) -> Option<KeyOwner> {
    shelf.get::<GoneKey>(key)?;
    let application = Arc::new(subscription::Application::new("gone", None, Vec::new()));
    Some(KeyOwner { application, sandbox: false, gone: true })
}

/// An application in the form that workers read.
fn made(
    application: &Application,
    shelf: &Shelf,
    settings: &CatalogSettings,
) -> subscription::Application {
    let plan = settings.plans.get(&application.plan).cloned();
    let written = shelf.subscriptions_of(&application.id).into_iter();
    // Harmless: a subscription to an API that is gone leads nowhere, and one on a plan that is gone is as blocked.
    let all = written.filter_map(|one| {
        let api = shelf.get::<Api>(&one.api)?;
        let plan = settings.plans.get(&one.plan).cloned()?;
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
    subscription::Application::new(&format!("catalog {}", application.id), plan, all.collect())
}
