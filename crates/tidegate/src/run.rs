//! `tidegate run`: the gateway, its control, its admin API, and the signals that steer them.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use control::{Control, Plan, Report};
use listen::{Gateway, Upkeep};
use tokio::runtime::LocalRuntime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::log;

/// A gateway in service.
pub(crate) struct Running {
    pub(crate) control: Arc<Control>,
    pub(crate) gateway: Arc<Gateway>,
    /// Where the admin API is, where there is one.
    pub(crate) admin: Option<std::net::SocketAddr>,
}

/// Why there is no gateway.
pub(crate) enum NotStarted {
    Complaints(Report),
    Failed(anyhow::Error),
}

pub(crate) fn run(file: &Path) -> anyhow::Result<ExitCode> {
    let runtime = LocalRuntime::new()?;
    runtime.block_on(async {
        let mut signals = Signals::catch().context("cannot catch signals")?;
        let running = match start(file).await {
            Ok(running) => running,
            Err(NotStarted::Complaints(report)) => {
                log::say_error(&format!("{report:#}"));
                return Ok(ExitCode::FAILURE);
            }
            Err(NotStarted::Failed(error)) => return Err(error),
        };
        signals.steer(&running).await;
        running.end().await;
        Ok(ExitCode::SUCCESS)
    })
}

/// Starts everything for a configuration. Background work goes to the caller's runtime.
pub(crate) async fn start(file: &Path) -> Result<Running, NotStarted> {
    raise_descriptors();
    let gateway: Arc<OnceLock<Arc<Gateway>>> = Arc::default();
    let publish = {
        let gateway = gateway.clone();
        move |plan: Arc<Plan>| -> control::Publishing {
            let gateway = gateway.get().cloned();
            Box::pin(async move {
                let gateway = gateway.ok_or_else(|| "the gateway has not started".to_owned())?;
                gateway.publish(plan).await
            })
        }
    };
    let control = Control::start(file, Box::new(publish)).map_err(NotStarted::Complaints)?;
    let plan = control.plan();
    let (started, upkeep) = workers(&plan, &control).map_err(NotStarted::Failed)?;
    let started = gateway.get_or_init(|| Arc::new(started)).clone();
    kit::spawn(upkeep.run());
    let published = started.publish(plan.clone()).await;
    published.map_err(|why| NotStarted::Failed(anyhow::anyhow!(why)))?;
    control.announce();
    let admin = admin_api(&plan, &control).await.map_err(NotStarted::Failed)?;
    kit::spawn(control.clone().watch());
    Ok(Running { control, gateway: started, admin })
}

fn workers(plan: &Plan, control: &Control) -> anyhow::Result<(Gateway, Upkeep)> {
    Gateway::start(plan.workers, control.telemetry().clone()).context("cannot start the workers")
}

async fn admin_api(
    plan: &Plan,
    control: &Arc<Control>,
) -> anyhow::Result<Option<std::net::SocketAddr>> {
    let Some(address) = plan.admin else { return Ok(None) };
    let listener = tokio::net::TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("admin: {address} cannot be bound"))?;
    let address = listener.local_addr()?;
    tracing::info!(%address, "admin API");
    // It answers probes to the very end: a draining gateway still says that it is alive, and not ready.
    let served = admin::serve(listener, control.clone(), std::future::pending());
    kit::spawn(async move {
        if let Err(e) = served.await {
            tracing::error!("admin API: {e}");
        }
    });
    Ok(Some(address))
}

impl Running {
    /// Lets exchanges end, then stops.
    pub(crate) async fn end(self) {
        self.control.set_draining();
        let limit = self.control.plan().drain;
        tracing::info!(limit = ?limit, "draining");
        match self.gateway.drain(limit).await {
            true => tracing::info!("every exchange has ended"),
            false => tracing::warn!("exchanges that did not end in time were cut"),
        }
    }
}

/// Connections need descriptors; the usual soft limit of 1,024 is for programs that use select().
fn raise_descriptors() {
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(limit) => tracing::debug!(limit, "descriptors"),
        Err(e) => tracing::warn!("the limit of descriptors cannot be raised: {e}"),
    }
}

/// The signals an operator sends.
struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn catch() -> std::io::Result<Signals> {
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Reloads on SIGHUP; returns when the program shall end.
    async fn steer(&mut self, running: &Running) {
        loop {
            tokio::select! {
                _ = self.hangup.recv() => {
                    running.gateway.reopen_log();
                    // The outcome is logged and counted where it is decided.
                    let _told = running.control.reload().await;
                }
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
            }
        }
    }
}
