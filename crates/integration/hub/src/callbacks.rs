//! Connections to callbacks: one upstream for each origin that the worker has called recently.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fault::Fault;
use kit::clock::{self, Instant};
use message::{Reply, Request};
use policy::{Call, CallTrace, Caller, Totals};
use telemetry::UpstreamMetrics;
use upstream::{
    AddressRule, Balance, Breaker, Dns, Failures, HostSent, Retry, TargetSettings, Targets,
    Timeouts, Upstream,
};

use crate::callback::{self, Callback};
use crate::usage::Usage;

/// The number of origins to which a worker keeps connections. Above it, connections to the least recently used origins are dropped.
const ORIGINS_MAX: usize = 4096;

/// The limit of concurrent requests to one server.
pub(crate) const OF_ORIGIN_MAX: u32 = 128;
/// Idle connections kept for each origin: as many as its concurrent requests. Otherwise a burst would close connections and
/// open them again.
const IDLE_MAX: usize = OF_ORIGIN_MAX as usize;
/// How long an idle connection is kept. Servers close theirs after about a minute.
const IDLE: Duration = Duration::from_secs(30);

/// What all connections to callbacks have in common.
pub(crate) struct CallbackSettings {
    pub(crate) tls: tls::Client,
    pub(crate) rule: Arc<AddressRule>,
    pub(crate) metrics: Arc<UpstreamMetrics>,
    pub(crate) timeout: Duration,
}

/// The origins of a worker's callbacks.
pub(crate) struct Callbacks {
    settings: CallbackSettings,
    origins: RefCell<HashMap<String, Rc<Origin>>>,
    /// The origins by their spelling in callbacks, so that finding one needs no parsing of a URL.
    written: RefCell<HashMap<Box<str>, Rc<Origin>>>,
    /// All requests in progress.
    pub(crate) all: Rc<Usage>,
}

/// A server of callbacks.
pub(crate) struct Origin {
    /// `http://host:port`.
    pub(crate) url: Box<str>,
    /// `host:port`.
    pub(crate) authority: Box<str>,
    upstream: Arc<Upstream>,
    used: Cell<Instant>,
    /// True if it answered the last request.
    works: Cell<bool>,
    /// Requests in progress to it.
    pub(crate) usage: Usage,
}

impl Callbacks {
    /// A set of callbacks that is never called.
    #[cfg(test)]
    pub(crate) fn for_tests() -> Callbacks {
        let rule = AddressRule { allow: Vec::new(), public: true };
        Callbacks::new(CallbackSettings {
            tls: tls::Client::new(&tls::ClientSpec::default()).unwrap(),
            rule: Arc::new(rule),
            metrics: telemetry::Telemetry::new(1).upstream("callbacks"),
            timeout: Duration::from_secs(1),
        })
    }

    pub(crate) fn new(settings: CallbackSettings) -> Callbacks {
        Callbacks {
            settings,
            origins: RefCell::default(),
            written: RefCell::default(),
            all: Rc::default(),
        }
    }

    /// Returns the origin of a callback, given the callback's URL as written, or `None` if the URL is not valid.
    pub(crate) fn origin(&self, written: &str) -> Option<Rc<Origin>> {
        let (server, _) = callback::split(written)?;
        if let Some(origin) = self.written.borrow().get(server) {
            origin.used.set(clock::now());
            return Some(origin.clone());
        }
        let callback = Callback::parse(written).inspect_err(|why| {
            tracing::warn!(callback = server, "a stored callback cannot be called: {why}");
        });
        let origin = self.origin_of(&callback.ok()?);
        let mut all = self.written.borrow_mut();
        if all.len() >= ORIGINS_MAX {
            all.clear();
        }
        all.insert(server.into(), origin.clone());
        Some(origin)
    }

    fn origin_of(&self, callback: &Callback) -> Rc<Origin> {
        let target = callback.url.origin.clone();
        let url = target.url();
        let mut origins = self.origins.borrow_mut();
        if let Some(origin) = origins.get(&url) {
            origin.used.set(clock::now());
            return origin.clone();
        }
        if origins.len() >= ORIGINS_MAX {
            make_room(&mut origins);
            self.written.borrow_mut().clear();
        }
        let origin = Rc::new(Origin {
            url: url.as_str().into(),
            authority: target.authority().into(),
            upstream: self.upstream(target),
            used: Cell::new(clock::now()),
            works: Cell::new(false),
            usage: Usage::default(),
        });
        origins.insert(url, origin.clone());
        origin
    }

    /// Clears the queues of subscriptions that wait for a permit.
    pub(crate) fn clear_waiting(&self) {
        self.all.clear_waiting();
        self.origins.borrow().values().for_each(|origin| origin.usage.clear_waiting());
    }

    fn upstream(&self, target: TargetSettings) -> Arc<Upstream> {
        let none = Failures::default();
        let settings = upstream::UpstreamSettings {
            protocol: upstream::Protocol::Http1,
            name: "(callbacks)".to_owned(),
            addresses: Some(self.settings.rule.clone()),
            targets: Targets::Fixed(vec![target]),
            balance: Balance::RoundRobin,
            available_min_percent: 0,
            timeout: Timeouts {
                connect: self.settings.timeout,
                response: self.settings.timeout,
                write: None,
                total: Some(self.settings.timeout),
                idle: IDLE,
            },
            retry: Retry { elsewhere: false, ..Retry::none(none) },
            sticky: None,
            suspend: None,
            health: None,
            outlier: None,
            breaker: Breaker {
                connections: OF_ORIGIN_MAX,
                requests: OF_ORIGIN_MAX,
                pending: OF_ORIGIN_MAX,
            },
            idle_max: IDLE_MAX,
            // Names are looked up for each new connection.
            dns: Dns::never(),
            writes_at_once: true,
            tls: self.settings.tls.clone(),
            additions: upstream::Additions::default(),
        };
        Upstream::new(settings, self.settings.metrics.clone())
    }
}

/// Drops the least recently used half of the origins, except those with requests in progress.
fn make_room(origins: &mut HashMap<String, Rc<Origin>>) {
    let mut times: Vec<Instant> = origins.values().map(|origin| origin.used.get()).collect();
    let middle = times.len() / 2;
    let (_, median, _) = times.select_nth_unstable(middle);
    let median = *median;
    origins.retain(|_, origin| origin.used.get() > median || origin.usage.under_way() > 0);
}

impl Origin {
    /// True if it answered the last request. An origin without requests so far counts as not answering, so that it does not take permits
    /// from servers that work.
    pub(crate) fn works(&self) -> bool {
        self.works.get()
    }

    /// Sends a request. Returns the reply once its head has arrived.
    pub(crate) async fn send(
        &self,
        caller: &Caller,
        deadline: Option<Instant>,
        mut request: Request,
        trace: Option<CallTrace<'_>>,
    ) -> Result<Reply, Fault> {
        let totals = Totals::default();
        let mut call = Call { trace, ..Call::detached(caller, deadline, &totals) };
        let sent = self.upstream.send(&mut call, &mut request, &HostSent::Target).await;
        kit::alarm::give(call.alarm);
        sent
    }

    /// Records whether it answers.
    pub(crate) fn note(&self, works: bool) {
        self.works.set(works);
    }
}
