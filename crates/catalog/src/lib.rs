//! The catalog: APIs, applications, subscriptions and tokens, managed over REST in the shapes of WSO2's API Manager.
//!
//! Owns the objects and their states, the token endpoint, and what follows from a change: the bundle of a deployed API, and the map of
//! applications that workers read. The gateway answers the requests of APIs, by the bundles and the map; the catalog sees none of them. It
//! runs beside the workers, never on one.
#![forbid(unsafe_code)]

mod answers;
mod definition;
mod devportal;
mod guesses;
mod http;
mod keyring;
mod live;
mod oauth;
mod objects;
mod openapi;
mod parts;
mod plans;
mod portal;
mod publisher;
mod rights;
mod secrets;
mod shelf;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use control::{Control, Failure};
use plan::CatalogSettings;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use guesses::Guesses;
use http::Refusal;
use keyring::Keyring;
use live::Live;
use objects::{
    Api, Application, Client, Family, GoneKey, Object, Plan, Revoked, SigningKey, Subscription,
};
use secrets::Secrets;
use shelf::{Batch, Read, Shelf, WriteError};

pub use answers::serve;

/// The catalog of a gateway.
pub struct Catalog {
    control: Arc<Control>,
    shelf: Shelf,
    live: Live,
    keyring: Keyring,
    secrets: Secrets,
    guesses: Guesses,
    /// Requests at once.
    places: Semaphore,
    /// True once the store was read.
    is_ready: AtomicBool,
    /// The generation of the plan whose limits the map of applications has.
    generation: AtomicU64,
}

/// How often the catalog looks for changes of other gateways.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Looks between two turns, which rotate keys and remove what has expired.
const LOOKS_PER_TURN: u32 = 240;

/// Requests at once. Managers are few, and each token takes a moment.
const PLACES: usize = 256;

/// The name of the catalog in the history of the configuration.
const CHANGER: &str = "catalog";

/// The bundle with the plans of administrators.
const PLANS: &str = "catalog-plans";

/// Milliseconds since the Unix epoch.
fn now() -> u64 {
    u64::try_from(kit::clock::wall().as_millis()).unwrap_or(u64::MAX)
}

impl Catalog {
    /// The catalog of the plan in service, if it has one. Reads what is in the store, which has to be open.
    pub async fn start(control: Arc<Control>) -> Option<Arc<Catalog>> {
        let plan = control.plan();
        plan.catalog.as_ref()?;
        let Some(secrets) = Secrets::new() else {
            tracing::error!("catalog: the system has no random numbers");
            return None;
        };
        let catalog = Arc::new(Catalog {
            control,
            shelf: Shelf::new(plan.store.clone()?),
            live: Live::default(),
            keyring: Keyring::default(),
            secrets,
            guesses: Guesses::default(),
            places: Semaphore::new(PLACES),
            is_ready: AtomicBool::new(false),
            generation: AtomicU64::new(0),
        });
        // Without a store the catalog starts all the same, and is ready later.
        catalog.load().await;
        Some(catalog)
    }

    /// Follows the changes of other gateways, and rotates keys. Never ends.
    pub async fn follow(self: Arc<Catalog>) {
        let mut watch = self.shelf.watch();
        let mut looks: u32 = 0;
        // The first look finds changes from before the watch, and those that a crash cut off between a bundle and its row.
        let mut is_first = true;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            looks = looks.wrapping_add(1);
            let is_alone =
                self.control.plan().store.as_ref().is_none_or(|store| store.nodes().is_alone());
            let has_changed = (watch.has_changed() && !is_alone) || std::mem::take(&mut is_first);
            if has_changed || !self.is_ready.load(Ordering::Acquire) {
                self.load().await;
                self.deploy_all().await;
            } else if self.control.plan().generation != self.generation.load(Ordering::Acquire) {
                self.sync_all();
            }
            if looks.is_multiple_of(LOOKS_PER_TURN) {
                self.turn().await;
            }
        }
    }

    fn settings(&self) -> Result<Arc<CatalogSettings>, Refusal> {
        self.control.plan().catalog.clone().ok_or_else(Refusal::unready)
    }

    /// Reads everything of the store.
    async fn load(&self) {
        let loaded = async {
            self.shelf.load::<Api>().await?;
            self.shelf.load::<Application>().await?;
            self.shelf.load::<Subscription>().await?;
            self.shelf.load::<Plan>().await?;
            self.shelf.load::<Client>().await?;
            self.shelf.load::<SigningKey>().await?;
            self.shelf.load::<Family>().await?;
            self.shelf.load::<Revoked>().await?;
            self.shelf.load::<GoneKey>().await
        };
        if let Err(error) = loaded.await {
            return tracing::warn!(?error, "catalog: the store cannot be read; trying again");
        }
        self.sync_all();
        self.publish_revoked();
        self.turn().await;
        self.is_ready.store(true, Ordering::Release);
    }

    /// Rotates keys, and removes what has expired.
    async fn turn(&self) {
        let Ok(settings) = self.settings() else { return };
        if let Err(error) = self.keyring.turn(&self.shelf, &settings).await {
            tracing::warn!(?error, "catalog: keys cannot be turned");
        }
        let now = kit::clock::wall().as_secs();
        let removed = async {
            self.remove_over::<Revoked>(|one| one.until <= now).await?;
            self.remove_over::<Family>(|one| one.until <= now).await?;
            self.remove_over::<GoneKey>(|one| one.until <= now).await
        };
        if let Err(error) = removed.await {
            tracing::debug!(?error, "catalog: what is over cannot be removed");
        }
    }

    async fn remove_over<T: Object>(&self, is_over: impl Fn(&T) -> bool) -> Result<(), WriteError> {
        let over = self.shelf.all::<T>().into_iter().filter(|read| is_over(&read.object));
        let mut batch = Batch::default();
        // Harmless: one change takes no more, and the next turns remove the rest.
        over.take(100).for_each(|read| batch.remove(&read));
        self.shelf.commit(batch).await
    }

    /// Makes the map of applications anew, with the plans of the plan in service.
    fn sync_all(&self) {
        let plan = self.control.plan();
        if let Some(settings) = &plan.catalog {
            self.live.sync_all(&self.shelf, settings);
            self.keyring.publish(&self.shelf, settings);
            self.generation.store(plan.generation, Ordering::Release);
        }
    }

    /// Makes the entry of an application anew.
    fn sync(&self, application: &str) -> Result<(), Refusal> {
        self.live.sync([application], &self.shelf, &*self.settings()?);
        Ok(())
    }

    /// Writes a subscription that was read, changed; requests see it at once.
    async fn change_subscription(
        &self,
        read: &Read<Subscription>,
        changed: Subscription,
    ) -> Result<(), Refusal> {
        self.shelf.change(read, changed).await?;
        self.sync(&read.object.application)
    }

    /// Gives revoked tokens to the workers.
    fn publish_revoked(&self) {
        let (plan, now) = (self.control.plan(), kit::clock::wall().as_secs());
        for read in self.shelf.all::<Revoked>() {
            let Revoked { id, until } = &*read.object;
            if *until > now
                && !plan.revoked.contains(id, now)
                && plan.revoked.add(id, *until, now).is_err()
            {
                tracing::error!("catalog: too many tokens are revoked");
                return;
            }
        }
    }

    /// The scopes that the APIs of an application define.
    fn scopes_of(&self, application: &str) -> Vec<String> {
        let mut scopes = Vec::new();
        for id in self.live.of_application(application) {
            let api = self
                .shelf
                .get::<Subscription>(&id)
                .and_then(|read| self.shelf.get::<Api>(&read.object.api));
            let operations = api.as_ref().and_then(|read| read.object.dto.get("operations"));
            for operation in objects::items(operations) {
                scopes.extend(objects::texts(operation.get("scopes")));
            }
        }
        scopes.sort();
        scopes.dedup();
        scopes
    }

    /// Puts the deployed revision of an API into service, or takes the API out if none is.
    async fn bring_into_service(&self, api: &Api) -> Result<(), Refusal> {
        let Some(revision) = api.deployed() else { return self.take_out(api).await };
        let settings = self.settings()?;
        let files =
            definition::bundle(&revision.dto, revision.document.as_ref(), api.state, &settings);
        self.control.place_bundle(bundle_name(api), files).await.map_err(refusal)?;
        self.sync_all();
        Ok(())
    }

    async fn take_out(&self, api: &Api) -> Result<(), Refusal> {
        self.take_out_bundle(bundle_name(api)).await
    }

    async fn take_out_bundle(&self, name: String) -> Result<(), Refusal> {
        match self.control.take_out(name, CHANGER.to_owned()).await {
            Ok(_) | Err(Failure::NoBundle(_)) => Ok(()),
            Err(failure) => Err(refusal(failure)),
        }
    }

    /// Refuses an API that would not compile.
    async fn check_bundle(&self, api: &Api) -> Result<(), Refusal> {
        let settings = self.settings()?;
        let files = definition::bundle(
            &api.dto,
            api.document.as_ref(),
            objects::ApiState::Published,
            &settings,
        );
        self.control.try_bundle(bundle_name(api), files).await.map_err(refusal)
    }

    /// Puts the plans of administrators into service.
    async fn deploy_plans(&self) -> Result<(), Refusal> {
        let plans = self.shelf.all::<Plan>();
        // Harmless: a plan was checked before it was stored.
        let limits = plans.iter().filter_map(|read| {
            Some((read.object.name.clone(), plans::limits(&read.object.dto).ok()?))
        });
        let plans: Map<String, Value> = limits.collect();
        let files =
            vec![("tidegate.yaml".to_owned(), json!({ "plans": plans }).to_string().into_bytes())];
        self.control.place_bundle(PLANS.to_owned(), files).await.map_err(refusal)?;
        self.sync_all();
        Ok(())
    }

    /// Puts the APIs and plans of the store into service after other gateways have changed them, and takes out those that are gone.
    async fn deploy_all(&self) {
        let report = |what: &str, done: Result<(), Refusal>| {
            if let Err(error) = done {
                tracing::error!(
                    what,
                    ?error,
                    "catalog: a change of another gateway cannot be put into service"
                );
            }
        };
        if !self.shelf.all::<Plan>().is_empty() {
            report(PLANS, self.deploy_plans().await);
        }
        let mut wanted = HashSet::new();
        for read in self.shelf.all::<Api>() {
            let api = &read.object;
            if api.deployed().is_some() {
                wanted.insert(bundle_name(api));
                report(api.name(), self.bring_into_service(api).await);
            }
        }
        // Harmless: without a folder there is no bundle.
        let known = self.control.bundles().await.unwrap_or_default();
        let ours = known.into_iter().filter(|bundle| bundle.name.starts_with("catalog-"));
        for bundle in ours.filter(|bundle| !wanted.contains(&bundle.name) && bundle.name != PLANS) {
            report(&bundle.name, self.take_out_bundle(bundle.name.clone()).await);
        }
    }
}

/// The bundle of an API.
fn bundle_name(api: &Api) -> String {
    format!("catalog-{}", api.id)
}

/// The answer to a change whose configuration is refused.
fn refusal(failure: Failure) -> Refusal {
    let Failure::Complaints(report) = failure else {
        return Refusal::internal(&failure.to_string());
    };
    let errors: Vec<String> = report.errors().map(|wrong| wrong.what.clone()).collect();
    Refusal::wrong(errors)
}
