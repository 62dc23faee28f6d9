//! The catalog: APIs, applications, subscriptions and tokens, managed by a REST interface in the format of WSO2's API Manager.
//!
//! Owns the objects and their states, the token endpoint, and the effects of a change: the bundle of a deployed API, and the map of
//! applications that workers read. The gateway answers the requests of APIs with these; they do not pass through the catalog. The catalog
//! runs on other threads than the workers.
#![forbid(unsafe_code)]

mod answers;
mod api_kind;
mod application_rows;
mod asyncapi;
mod bundle;
mod definition;
mod devportal;
mod digest;
mod document;
mod endpoints;
mod foreign_changes;
mod guesses;
mod http;
mod ids;
mod imports;
mod keyring;
mod live;
mod mediation;
mod oauth;
mod object_store;
mod objects;
pub mod offline;
mod openapi;
mod pages;
mod parts;
mod plans;
mod portal;
mod publisher;
mod publishing;
mod rights;
mod secrets;
mod subscription_rows;
#[cfg(test)]
mod tests;
mod try_out;
mod unsupported;
mod wsdl_document;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use control::{Control, Failure};
use plan::CatalogSettings;
use tokio::sync::Semaphore;

use definition::Site;
use foreign_changes::ForeignChanges;
use guesses::GuessLimiter;
use http::Refusal;
use keyring::Keyring;
use live::Live;
use object_store::{Batch, ObjectStore, Read, WriteError};
use objects::{
    Api, Application, Client, Family, Object, Plan, RemovedKey, Revoked, SigningKey, Subscription,
};
use openapi::Interface;
use secrets::Secrets;

pub use answers::serve;
pub use pages::pages;
pub use unsupported::Unsupported;

/// The catalog of a gateway.
pub struct Catalog {
    control: Arc<Control>,
    objects: ObjectStore,
    live: Live,
    keyring: Keyring,
    secrets: Secrets,
    guesses: GuessLimiter,
    interface: Interface,
    /// The addresses of the gateway's listeners by name.
    addresses: Addresses,
    /// The limit of concurrent requests.
    places: Semaphore,
    /// True once all objects were read from the store.
    is_ready: AtomicBool,
    /// The generation of the plan whose throttling plans are in the map of applications.
    generation: AtomicU64,
    /// Held from the change of a bundle to that of its row, so that an older bundle cannot replace a newer one.
    deploying: tokio::sync::Mutex<()>,
    /// The settings that the bundles in service depend on.
    site: Mutex<String>,
}

/// Returns the addresses of the gateway's listeners by name.
pub type Addresses = Box<dyn Fn() -> Vec<(String, SocketAddr)> + Send + Sync>;

/// The interval of checks for changes by other gateways.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The number of checks between two turns, which rotate keys and remove expired objects.
const LOOKS_PER_TURN: u32 = 240;

/// The limit of concurrent requests. There are few managers, and issuing a token takes a moment.
const PLACES: usize = 256;

/// The name of the catalog in the history of the configuration.
const CHANGER: &str = "catalog";

/// The prefix of bundle names.
const BUNDLE: &str = "catalog-";

/// The bundle with the plans of administrators.
const PLANS: &str = "catalog-plans";

/// Milliseconds since the Unix epoch.
fn now() -> u64 {
    kit::clock::millis(kit::clock::wall())
}

impl Catalog {
    /// The catalog of the plan in service, if it has one. Reads all objects from the store, which has to be open.
    pub async fn start(control: Arc<Control>, addresses: Addresses) -> Option<Arc<Catalog>> {
        let plan = control.plan();
        plan.catalog.as_ref()?;
        let Some(secrets) = Secrets::new() else {
            tracing::error!("catalog: the system has no random numbers");
            return None;
        };
        let interface = match Interface::read() {
            Ok(interface) => interface,
            Err(why) => {
                tracing::error!(why, "catalog: the description of its interface is invalid");
                return None;
            }
        };
        let store = plan.store.clone()?;
        let catalog = Arc::new(Catalog {
            interface,
            control,
            addresses,
            objects: ObjectStore::new(store.clone(), store.nodes().clone()),
            live: Live::default(),
            keyring: Keyring::default(),
            secrets,
            guesses: GuessLimiter::default(),
            places: Semaphore::new(PLACES),
            is_ready: AtomicBool::new(false),
            generation: AtomicU64::new(0),
            deploying: tokio::sync::Mutex::new(()),
            site: Mutex::default(),
        });
        if let Err(error) = catalog.read_all().await {
            // If the store is unavailable, the catalog starts anyway and becomes ready later.
            tracing::warn!(?error, "catalog: the store cannot be read; trying again");
        }
        Some(catalog)
    }

    /// Applies the changes of other gateways, and rotates keys. It never ends.
    pub async fn follow(self: Arc<Catalog>) {
        let mut watch = self.objects.watch();
        let mut looks: u32 = 0;
        // The first check finds earlier changes, and those that a crash interrupted between a bundle and its row.
        self.objects.set_unsure();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            looks = looks.wrapping_add(1);
            let plan = self.control.plan();
            let has_company = plan.store.as_ref().is_some_and(|store| store.nodes().has_company());
            let has_changed = watch.has_changed() && has_company;
            if has_changed || self.objects.is_unsure() || !self.is_ready.load(Ordering::Acquire) {
                self.look().await;
            } else if plan.generation != self.generation.load(Ordering::Acquire) {
                self.sync_plans();
                if plan.catalog.as_ref().is_some_and(|settings| self.has_moved(settings)) {
                    self.deploy_all().await;
                }
            }
            if looks.is_multiple_of(LOOKS_PER_TURN) {
                self.turn().await;
            }
        }
    }

    /// Applies the changes of other gateways.
    async fn look(&self) {
        let done = match self.objects.foreign_changes().await {
            Ok(ForeignChanges::Rows(rows)) => self.take_over(rows).await,
            Ok(ForeignChanges::Everything) => self.load().await,
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            tracing::warn!(?error, "catalog: the store cannot be read; trying again");
            self.objects.set_unsure();
        }
    }

    fn settings(&self) -> Result<Arc<CatalogSettings>, Refusal> {
        self.control.plan().catalog.clone().ok_or_else(Refusal::unready)
    }

    /// Reads all objects from the store, and puts them into service.
    async fn load(&self) -> Result<(), WriteError> {
        self.read_all().await?;
        self.deploy_all().await;
        Ok(())
    }

    /// Reads all objects from the store.
    async fn read_all(&self) -> Result<(), WriteError> {
        self.objects.load::<Api>().await?;
        self.objects.load::<Application>().await?;
        self.objects.load::<Subscription>().await?;
        self.objects.load::<Plan>().await?;
        self.objects.load::<Client>().await?;
        self.objects.load::<SigningKey>().await?;
        self.objects.load::<Family>().await?;
        self.objects.load::<Revoked>().await?;
        self.objects.load::<RemovedKey>().await?;
        self.sync_all();
        self.publish_revoked();
        self.turn().await;
        self.is_ready.store(true, Ordering::Release);
        Ok(())
    }

    /// Reads rows that other gateways have changed, and puts the changes into service.
    async fn take_over(&self, rows: BTreeSet<String>) -> Result<(), WriteError> {
        let (mut apis, mut applications) = (BTreeSet::new(), BTreeSet::new());
        let (mut gone, mut plans, mut keys) = (Vec::new(), false, false);
        for row in &rows {
            let Some((kind, id)) = row.split_once('/') else { continue };
            match kind {
                Api::KIND => {
                    self.objects.refresh::<Api>(id).await?;
                    apis.insert(id);
                    applications.extend(self.objects.subscribers_of(id));
                }
                Application::KIND => {
                    self.objects.refresh::<Application>(id).await?;
                    applications.insert(id.to_owned());
                }
                Subscription::KIND => {
                    let before = self.objects.refresh::<Subscription>(id).await?;
                    let now = self.objects.get::<Subscription>(id);
                    let both = before.into_iter().chain(now);
                    applications.extend(both.map(|read| read.object.application.clone()));
                }
                Plan::KIND => {
                    self.objects.refresh::<Plan>(id).await?;
                    plans = true;
                }
                Client::KIND => drop(self.objects.refresh::<Client>(id).await?),
                SigningKey::KIND => {
                    self.objects.refresh::<SigningKey>(id).await?;
                    keys = true;
                }
                Family::KIND => drop(self.objects.refresh::<Family>(id).await?),
                Revoked::KIND => drop(self.objects.refresh::<Revoked>(id).await?),
                RemovedKey::KIND => {
                    self.objects.refresh::<RemovedKey>(id).await?;
                    gone.push(id);
                }
                other => {
                    tracing::warn!(kind = other, "catalog: a row of an unknown kind is ignored")
                }
            }
        }
        self.publish_revoked();
        let Ok(settings) = self.settings() else { return Ok(()) };
        if keys {
            self.keyring.publish(&self.objects, &settings);
        }
        self.live.sync_gone(gone, &self.objects, &settings);
        self.live.sync(applications.iter().map(String::as_str), &self.objects, &settings);
        let plans_placed = if plans { self.deploy_plans().await } else { Ok(()) };
        for id in apis {
            report(id, self.deploy_api(id).await);
        }
        self.report_plans(plans_placed).await;
        Ok(())
    }

    /// Rotates keys, and removes expired objects.
    async fn turn(&self) {
        let Ok(settings) = self.settings() else { return };
        if let Err(error) = self.keyring.maintain(&self.objects, &settings).await {
            tracing::warn!(?error, "catalog: keys cannot be rotated");
        }
        let now = kit::clock::wall().as_secs();
        // Applications whose removal was interrupted, for example by a crash.
        let mut removed = Vec::new();
        self.objects.each::<Application>(|one, _| {
            removed.extend(one.removed.then(|| one.id.clone()));
        });
        for id in removed {
            if let Err(error) = self.finish_removal(&id).await {
                tracing::debug!(?error, "catalog: a removed application has rows left");
            }
        }
        let removed = async {
            self.objects.remove_old_changes(now).await?;
            self.remove_over::<Revoked>(|one| one.until <= now).await?;
            self.remove_over::<Family>(|one| one.until <= now).await?;
            self.remove_over::<RemovedKey>(|one| one.until <= now).await
        };
        if let Err(error) = removed.await {
            tracing::debug!(?error, "catalog: expired objects cannot be removed");
        }
    }

    async fn remove_over<T: Object>(&self, is_over: impl Fn(&T) -> bool) -> Result<(), WriteError> {
        let over = self.objects.all::<T>().into_iter().filter(|read| is_over(&read.object));
        let mut batch = Batch::default();
        // Harmless: one turn removes a limited number, and the next turns remove the rest.
        over.take(100).for_each(|read| batch.remove(&read));
        self.objects.commit(batch).await
    }

    /// Removes the subscriptions of a removed application, and then the application itself.
    async fn finish_removal(&self, application: &str) -> Result<(), WriteError> {
        let all = self.objects.subscriptions_of(application);
        // Each subscription also has a row for its name.
        for some in all.chunks(object_store::CHANGES_MAX / 2) {
            let mut batch = Batch::default();
            // Harmless: a subscription that is gone needs no removal.
            let found = some.iter().filter_map(|one| self.objects.get::<Subscription>(&one.id));
            found.for_each(|read| batch.remove(&read));
            self.objects.commit(batch).await?;
        }
        match self.objects.get::<Application>(application) {
            Some(read) => self.objects.remove(&read).await,
            None => Ok(()),
        }
    }

    /// Rebuilds the map of applications from the store and from the throttling plans in service.
    fn sync_all(&self) {
        let plan = self.control.plan();
        if let Some(settings) = &plan.catalog {
            self.live.sync_all(&self.objects, settings);
            self.keyring.publish(&self.objects, settings);
            self.generation.store(plan.generation, Ordering::Release);
        }
    }

    /// Replaces the throttling plans in the map of applications with those in service.
    fn sync_plans(&self) {
        let plan = self.control.plan();
        if let Some(settings) = &plan.catalog {
            self.live.sync_plans(&self.objects, settings);
            self.keyring.publish(&self.objects, settings);
            self.generation.store(plan.generation, Ordering::Release);
        }
    }

    /// Rebuilds the entries of an application in the map of applications.
    fn sync(&self, application: &str) -> Result<(), Refusal> {
        self.live.sync([application], &self.objects, &*self.settings()?);
        Ok(())
    }

    /// Stores a changed subscription. Requests see the change at once.
    async fn change_subscription(
        &self,
        read: &Read<Subscription>,
        changed: Subscription,
    ) -> Result<(), Refusal> {
        self.objects.change(read, changed).await?;
        self.sync(&read.object.application)
    }

    /// Publishes revoked tokens to the workers.
    fn publish_revoked(&self) {
        let (plan, now) = (self.control.plan(), kit::clock::wall().as_secs());
        for read in self.objects.all::<Revoked>() {
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
        for subscription in self.objects.subscriptions_of(application) {
            let api = self.objects.get::<Api>(&subscription.api);
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
        let files = bundle::files(
            &revision.dto,
            revision.document.as_ref(),
            api.state,
            &Site::of(&settings),
        );
        self.place(bundle_name(api), files).await
    }

    /// Puts a bundle into service. The map of applications gets the limits of the new plan.
    async fn place(&self, name: String, files: control::BundleFiles) -> Result<(), Refusal> {
        let outcome = self.control.place_bundle(name, files).await.map_err(refusal)?;
        if !matches!(outcome, control::Outcome::Unchanged(_)) {
            self.sync_plans();
        }
        Ok(())
    }

    /// Stores a new API, and puts it into service if it is deployed.
    async fn add_api(&self, api: Api) -> Result<(), Refusal> {
        let is_taken = |known: &Read<Api>| {
            let known = known.object.names();
            api.names().iter().any(|name| known.contains(name))
        };
        let taken = "An API with this name and version, or with this context, exists already";
        let _alone = self.deploying.lock().await;
        if self.objects.all::<Api>().iter().any(is_taken) {
            return Err(Refusal::conflict(taken));
        }
        let deployed = api.deployed().is_some().then(|| api.clone());
        if let Some(api) = &deployed {
            self.bring_into_service(api).await?;
        }
        let added = self.objects.add(api).await;
        if let (Err(_), Some(api)) = (&added, &deployed) {
            self.take_out(api).await?;
        }
        added.map_err(|error| Refusal::unwritten(error, taken))
    }

    /// Puts a changed API into service, and stores it. If storing fails, the stored version is put back into service.
    async fn change_deployed(&self, read: &Read<Api>, changed: Api) -> Result<(), Refusal> {
        let _alone = self.deploying.lock().await;
        self.bring_into_service(&changed).await?;
        self.restored_unless_written(&read.object.id, self.objects.change(read, changed).await)
            .await
    }

    /// Takes an API out of service, and removes it.
    async fn remove_api(&self, read: &Read<Api>) -> Result<(), Refusal> {
        let _alone = self.deploying.lock().await;
        self.take_out(&read.object).await?;
        self.restored_unless_written(&read.object.id, self.objects.remove(read).await).await
    }

    /// Returns the result of a write that followed a change of a bundle. If it failed, the stored version is put back into
    /// service.
    async fn restored_unless_written(
        &self,
        id: &str,
        written: Result<(), WriteError>,
    ) -> Result<(), Refusal> {
        let Err(error) = written else { return Ok(()) };
        if let Err(unread) = self.objects.refresh::<Api>(id).await {
            tracing::warn!(?unread, "catalog: the store cannot be read; trying again");
            self.objects.set_unsure();
        }
        self.deploy_known(id).await?;
        Err(error.into())
    }

    /// Puts the current version of an API into service.
    async fn deploy_api(&self, id: &str) -> Result<(), Refusal> {
        let _alone = self.deploying.lock().await;
        self.deploy_known(id).await
    }

    async fn deploy_known(&self, id: &str) -> Result<(), Refusal> {
        match self.objects.get::<Api>(id) {
            Some(read) => self.bring_into_service(&read.object).await,
            None => self.take_out_bundle(name_of_bundle(id)).await,
        }
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

    /// Refuses an API whose bundle would not compile.
    async fn check_bundle(&self, api: &Api) -> Result<(), Refusal> {
        let settings = self.settings()?;
        let files = bundle::files(
            &api.dto,
            api.document.as_ref(),
            objects::ApiState::Published,
            &Site::of(&settings),
        );
        self.control.try_bundle(bundle_name(api), files).await.map_err(refusal)
    }

    /// Puts the administrators' plans into service.
    async fn deploy_plans(&self) -> Result<(), Refusal> {
        let _alone = self.deploying.lock().await;
        self.deploy_known_plans().await
    }

    /// Puts the administrators' plans into service. The caller holds `deploying`.
    async fn deploy_known_plans(&self) -> Result<(), Refusal> {
        self.place(PLANS.to_owned(), plans::bundle(&self.plans())).await
    }

    /// The administrators' plans.
    fn plans(&self) -> Vec<Arc<Plan>> {
        self.objects.all::<Plan>().into_iter().map(|read| read.object).collect()
    }

    /// True if the bundles in service were made for other settings.
    fn has_moved(&self, settings: &CatalogSettings) -> bool {
        *self.site.lock().unwrap_or_else(PoisonError::into_inner) != site_of(settings)
    }

    /// Puts all stored APIs and plans into service, and takes removed APIs out: after a start, after changes by other gateways, and after
    /// a change of settings that bundles depend on.
    async fn deploy_all(&self) {
        let Ok(settings) = self.settings() else { return };
        *self.site.lock().unwrap_or_else(PoisonError::into_inner) = site_of(&settings);
        // Harmless: without a folder there is no bundle.
        let known = self.control.bundles().await.unwrap_or_default();
        // The last plan may have been removed.
        let has_plans = !self.objects.all::<Plan>().is_empty()
            || known.iter().any(|bundle| bundle.name == PLANS);
        let plans_placed = if has_plans { self.deploy_plans().await } else { Ok(()) };
        for read in self.objects.all::<Api>() {
            if read.object.deployed().is_some() {
                report(read.object.name(), self.deploy_api(&read.object.id).await);
            }
        }
        for bundle in known {
            let Some(id) = bundle.name.strip_prefix(BUNDLE) else { continue };
            let is_wanted = |read: Read<Api>| read.object.deployed().is_some();
            if bundle.name != PLANS && !self.objects.get::<Api>(id).is_some_and(is_wanted) {
                report(&bundle.name, self.deploy_api(id).await);
            }
        }
        self.report_plans(plans_placed).await;
    }

    /// Reports plans that cannot be put into service. Plans that were refused before the APIs were changed are tried again first: an API that
    /// has gone may have used a removed plan.
    async fn report_plans(&self, placed: Result<(), Refusal>) {
        let placed = if placed.is_err() { self.deploy_plans().await } else { placed };
        report(PLANS, placed);
    }
}

/// Logs an API or plans that cannot be put into service.
fn report(what: &str, done: Result<(), Refusal>) {
    if let Err(error) = done {
        let why = "catalog: an API or plan cannot be put into service";
        tracing::error!(what, ?error, "{why}");
    }
}

/// The settings that bundles depend on.
fn site_of(settings: &CatalogSettings) -> String {
    format!("{:?} {:?} {:?}", settings.gateway, settings.issuers, settings.callbacks)
}

/// The name of an API's bundle.
fn bundle_name(api: &Api) -> String {
    name_of_bundle(&api.id)
}

fn name_of_bundle(id: &str) -> String {
    format!("{BUNDLE}{id}")
}

/// The answer to a change whose configuration was refused.
fn refusal(failure: Failure) -> Refusal {
    let Failure::Complaints(report) = failure else {
        return Refusal::internal(&failure.to_string());
    };
    let errors: Vec<String> = report.errors().map(|wrong| wrong.what.clone()).collect();
    Refusal::invalid(errors)
}
