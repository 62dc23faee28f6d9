//! The parts that policies are built with in addition to their own keys: connections to upstreams, state of the previous plan, background
//! work.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use config::{Report, Spanned};
use plan::telemetry::Telemetry;
use plan::upstreams::{Upstream, UpstreamSettings};
use plan::{Background, CarriedState, Fetch, Plan, UpstreamHandle};

use crate::names;
use crate::policies::openapi_file::ReadDocument;
use crate::store::StoreBuilder;
use crate::subscription_state::Subscriptions;
use crate::tokens::Tokens;

/// The parts that are collected while policies are built.
pub(crate) struct PolicyBuilder<'p> {
    pub(crate) tokens: Tokens,
    pub(crate) subscriptions: Subscriptions,
    /// The store for data that must not be lost.
    pub(crate) store: StoreBuilder,
    pub(crate) telemetry: &'p Telemetry,
    /// The generation of the plan that is being built.
    pub(crate) generation: u64,
    previous: Option<&'p CarriedState>,
    kept: CarriedState,
    background: Vec<Arc<dyn Background>>,
    /// The names of the configured upstreams, including those that got a complaint: what names one of these needs no second complaint.
    upstreams: Vec<String>,
    /// The settings of the configured upstreams without a complaint.
    settings: Vec<UpstreamSettings>,
    /// Upstreams that are not in the configuration: one for each URL that a policy calls.
    made: Vec<UpstreamSettings>,
    handles: HashMap<String, Arc<UpstreamHandle>>,
    /// API documents by file, so that each is read only once for all routes.
    pub(crate) documents: HashMap<PathBuf, Arc<ReadDocument>>,
    /// The engine for stylesheets of XSLT 2.0 and 3.0, which runs in a JVM. `None` until a stylesheet needs it.
    pub(crate) saxon: Option<Result<Arc<saxon::Engine>, saxon::Unavailable>>,
    /// The steps of flows in the order in which they are compiled: the flow, and the label of the step.
    pub(crate) flow_steps: Vec<(String, String)>,
}

impl<'p> PolicyBuilder<'p> {
    pub(crate) fn new(previous: Option<&'p Plan>, telemetry: &'p Telemetry) -> PolicyBuilder<'p> {
        PolicyBuilder {
            tokens: Tokens::default(),
            subscriptions: Subscriptions::default(),
            store: StoreBuilder::default(),
            telemetry,
            generation: previous.map_or(1, |plan| plan.generation + 1),
            previous: previous.map(|plan| &plan.kept),
            kept: CarriedState::default(),
            background: Vec::new(),
            upstreams: Vec::new(),
            settings: Vec::new(),
            made: Vec::new(),
            handles: HashMap::new(),
            documents: HashMap::new(),
            saxon: None,
            flow_steps: Vec::new(),
        }
    }

    /// Sets the configured upstreams, which policies may name from then on.
    pub(crate) fn set_upstreams(&mut self, names: Vec<String>, settings: &[UpstreamSettings]) {
        self.upstreams = names;
        self.settings = settings.to_vec();
    }

    /// Returns the names of the configured upstreams.
    pub(crate) fn upstream_names(&self) -> &[String] {
        &self.upstreams
    }

    /// Returns the settings of a configured upstream as text, to detect changes.
    pub(crate) fn settings_fingerprint(&self, name: &str) -> String {
        let settings = self.settings.iter().find(|settings| settings.name == name);
        settings.map(|settings| format!("{settings:?}")).unwrap_or_default()
    }

    /// Returns the names of all upstreams, including those that exist only for a policy.
    pub(crate) fn all_upstream_names(&self) -> Vec<String> {
        let made = self.made.iter().map(|settings| &settings.name);
        self.upstreams.iter().chain(made).cloned().collect()
    }

    /// Returns the value that this plan or the previous one has under this key, or else makes a new one.
    pub(crate) fn try_reuse_or_build<T: Send + Sync + 'static, E>(
        &mut self,
        key: &str,
        make: impl FnOnce() -> Result<Arc<T>, E>,
    ) -> Result<Arc<T>, E> {
        self.kept.take_over(self.previous, key, make)
    }

    /// Like `try_reuse_or_build`, for a value whose creation cannot fail.
    pub(crate) fn reuse_or_build<T: Send + Sync + 'static>(
        &mut self,
        key: &str,
        make: impl FnOnce() -> Arc<T>,
    ) -> Arc<T> {
        let made = self.try_reuse_or_build(key, || Ok::<_, std::convert::Infallible>(make()));
        match made {
            Ok(thing) => thing,
            Err(never) => match never {},
        }
    }

    /// Returns the value that the previous plan has under this key if `will_do` accepts it, or else `new`.
    pub(crate) fn reuse_if<T: Send + Sync + 'static>(
        &mut self,
        key: &str,
        will_do: impl FnOnce(&T) -> bool,
        new: &Arc<T>,
    ) -> Arc<T> {
        self.kept.take_over_if(self.previous, key, will_do, new)
    }

    /// Adds background work that runs for as long as the plan serves. Work that several policies share is added once.
    pub(crate) fn work(&mut self, work: Arc<dyn Background>) {
        if !self
            .background
            .iter()
            .any(|known| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(&work)))
        {
            self.background.push(work);
        }
    }

    /// Returns a connection to a configured upstream.
    pub(crate) fn upstream_fetch(
        &mut self,
        name: &Spanned<String>,
        report: &mut Report,
    ) -> Option<Arc<dyn Fetch>> {
        if !self.upstreams.contains(&name.value) {
            let meant = report.suggest(&name.value, self.upstreams.iter().map(String::as_str));
            report.error(
                name.at,
                names::unknown("upstream", &name.value, meant),
                "name one of the `upstreams`",
            );
            return None;
        }
        Some(self.handle_of(&name.value))
    }

    /// Returns a connection to an upstream that exists only for a policy. Equal settings share one upstream; different settings of the same
    /// name get a number.
    pub(crate) fn own_fetch(&mut self, settings: UpstreamSettings) -> Arc<dyn Fetch> {
        let name = self.own_upstream(settings);
        self.handle_of(&name)
    }

    /// Adds an upstream that exists only for a policy. Returns its name.
    pub(crate) fn own_upstream(&mut self, mut settings: UpstreamSettings) -> String {
        let name = settings.name.clone();
        let mut number = 1;
        while let Some(made) = self.made.iter().find(|made| made.name == settings.name) {
            if *made == settings {
                return settings.name;
            }
            number += 1;
            settings.name = format!("{name}#{number}");
        }
        let name = settings.name.clone();
        self.made.push(settings);
        name
    }

    fn handle_of(&mut self, name: &str) -> Arc<UpstreamHandle> {
        self.handles.entry(name.to_owned()).or_default().clone()
    }

    /// Returns the settings of the upstreams that exist only for policies.
    pub(crate) fn made(&self) -> Vec<UpstreamSettings> {
        self.made.clone()
    }

    /// Connects all handles to their upstreams. Returns the carried state and the background work of the plan.
    pub(crate) fn finish(
        self,
        upstreams: &[Arc<Upstream>],
    ) -> (CarriedState, Vec<Arc<dyn Background>>) {
        for upstream in upstreams {
            if let Some(handle) = self.handles.get(&upstream.settings().name) {
                handle.connect(upstream.clone());
            }
        }
        (self.kept, self.background)
    }
}
