//! The gateway: a plan that was compiled from a text, and a worker without sockets that serves it.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use kit::Wire as Stream;
use listen::UnboundListener;
use plan::Plan;
use plan::telemetry::Telemetry;
use policy::{Caller, Scheme};

use crate::client::{Client, Outcome};
use crate::services::Services;
use crate::wire::Wire;

/// The wall clock when a gateway is made: 2030-01-01 00:00:00 UTC.
pub const NOW: Duration = Duration::from_secs(1_893_456_000);

/// Longer than anything lasts that an exchange leaves behind.
const SETTLED_AFTER: Duration = Duration::from_secs(300);

/// The rounds of background work before the first request; it fetches key sets among others.
const ROUNDS: usize = 2;

/// As often as a worker looks after its connections.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

const CLIENT: (Ipv4Addr, u16) = (Ipv4Addr::new(198, 51, 100, 7), 40_000);
const LOCAL: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 100), 8080);

/// A configuration in service. The thread connects to the services of the one whose exchange began last.
pub struct Gateway {
    plan: Arc<Plan>,
    telemetry: Arc<Telemetry>,
    unbound: UnboundListener,
    services: Services,
}

/// Work under way, by the gateway's own counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gauges {
    /// Connections of clients, requests and connections under way to upstreams: each that is not 0.
    pub left: Vec<String>,
    /// Records written.
    pub records: u64,
    /// Panics contained.
    pub panics: u64,
}

impl Gateway {
    /// Compiles a configuration whose relative paths begin at `folder`, or gives its complaints.
    pub fn new(text: &str, folder: &Path, services: Services) -> Result<Gateway, String> {
        kit::fake::wall(NOW);
        let telemetry = Telemetry::new(1);
        let loaded = config::parse(text, &folder.join("gateway.yaml"));
        let compiled = compile::compile(&loaded, None, &telemetry);
        let plan = Arc::new(compiled.map_err(|report| report.to_string())?.plan);
        let listener = plan.listeners.first().ok_or("no listener")?.clone();
        let unbound = UnboundListener::new(plan.clone(), listener, telemetry.clone());
        Ok(Gateway { plan, telemetry, unbound, services })
    }

    /// Runs the work beside the requests.
    pub async fn begin(&self) {
        self.services.stand_in();
        let caller = Rc::new(Caller::new(LOCAL.into(), LOCAL.into(), Scheme::Http, 0));
        for _ in 0..ROUNDS {
            for background in &self.plan.background {
                background.round(&caller).await;
            }
        }
        self.services.asked();
    }

    /// Begins the work of upstreams beside the requests, which looks their names up among others, until the thread's runtime ends.
    pub fn keep_up(&self) {
        self.services.stand_in();
        self.plan.upstreams.iter().for_each(upstream::maintain);
        drop(kit::spawn(async {
            loop {
                tokio::time::sleep(SWEEP_EVERY).await;
                upstream::sweep();
            }
        }));
    }

    /// Serves one connection to its end, or until it was polled as often as the client says, and all that comes of it.
    pub async fn exchange(&self, client: &Client) -> Outcome {
        self.services.stand_in();
        let wire = Wire::new(client.acts(), client.piece);
        let stream = Stream::Wrapped(Box::new(wire.clone()));
        let ends = (SocketAddr::from(CLIENT), SocketAddr::from(LOCAL));
        let mut serving = Box::pin(self.unbound.serve(stream, ends.0, ends.1));
        let mut polls = 0;
        let ended = poll_fn(|cx| {
            if client.polls_max == Some(polls) {
                return Poll::Ready(false);
            }
            polls += 1;
            serving.as_mut().poll(cx).map(|()| true)
        });
        let ended = ended.await;
        drop(serving);
        tokio::time::sleep(SETTLED_AFTER).await;
        Outcome { written: wire.written(), ended, polls }
    }

    /// The services behind it.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// The names of the policies of its first route.
    pub fn policies(&self) -> Vec<&'static str> {
        let route = self.plan.table.routes().next();
        route
            .map(|(_, route)| route.policies.iter().map(|policy| policy.name).collect())
            // Harmless: a configuration without routes has no policies.
            .unwrap_or_default()
    }

    /// Reads the gauges from the gateway's metrics.
    pub fn gauges(&self) -> Gauges {
        let text = self.telemetry.render();
        let mut gauges = Gauges::default();
        let (mut open, mut idle) = (0_u64, 0_u64);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            // An unreadable value must not pass for a count.
            let value = || value.parse().unwrap_or(u64::MAX >> 1);
            match series.split('{').next().unwrap_or_default() {
                "tidegate_requests_total" => gauges.records += value(),
                "tidegate_worker_panics_total" => gauges.panics += value(),
                "tidegate_upstream_connections_open" => open += value(),
                "tidegate_upstream_connections_idle" => idle += value(),
                "tidegate_connections_open"
                | "tidegate_worker_connections_open"
                | "tidegate_upstream_requests_active"
                | "tidegate_upstream_requests_pending"
                    if value() != 0 =>
                {
                    gauges.left.push(line.to_owned());
                }
                // Harmless: the judges look at no other metric.
                _ => {}
            }
        }
        if open != idle {
            gauges.left.push(format!("{open} connections to upstreams are open and {idle} idle"));
        }
        for upstream in &self.plan.upstreams {
            let set = upstream.targets();
            let busy = set.members().iter().filter(|member| member.target.active() > 0);
            gauges.left.extend(busy.map(|member| format!("{} is busy", member.target.url())));
        }
        gauges
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.unbound.close();
    }
}
