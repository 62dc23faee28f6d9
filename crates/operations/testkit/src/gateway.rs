//! The gateway under test: a plan compiled from a text, and a worker without sockets that serves it.

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

/// The time of the wall clock when a gateway is created: 2030-01-01 00:00:00 UTC.
pub const NOW: Duration = Duration::from_secs(1_893_456_000);

/// The time to wait after an exchange, longer than anything it started can take.
const SETTLED_AFTER: Duration = Duration::from_secs(300);

/// The rounds of background work before the first request, which fetch key sets, for example.
const ROUNDS: usize = 2;

/// The interval at which a worker checks its connections.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

const CLIENT: (Ipv4Addr, u16) = (Ipv4Addr::new(198, 51, 100, 7), 40_000);
const LOCAL: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 100), 8080);

/// A configuration in service. All connections of the thread go to the services of the gateway whose exchange began last.
pub struct Gateway {
    plan: Arc<Plan>,
    telemetry: Arc<Telemetry>,
    unbound: UnboundListener,
    services: Services,
}

/// The work in progress, according to the gateway's metrics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gauges {
    /// The gauges that are not 0, of client connections, requests and connection attempts to upstreams.
    pub left: Vec<String>,
    /// The number of records written.
    pub records: u64,
    /// The number of panics caught.
    pub panics: u64,
}

impl Gateway {
    /// Compiles a configuration whose relative paths start at `folder`, or returns the complaints.
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

    /// Runs the background work.
    pub async fn begin(&self) {
        self.services.stand_in();
        let caller = Rc::new(Caller::new(LOCAL.into(), LOCAL.into(), Scheme::Http, 0));
        for _ in 0..ROUNDS {
            for background in &self.plan.background {
                background.round(&caller).await;
            }
        }
        self.services.take_requests();
    }

    /// Starts the background work of upstreams, such as DNS look-ups. It runs until the thread's runtime ends.
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

    /// Serves one connection to its end, or up to the client's limit of polls, and everything it started.
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

    /// Returns the services behind the gateway.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// Returns the names of the policies of the first route.
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
            // An unreadable value must differ from any count.
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
                // Harmless: the judges do not use other metrics.
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
