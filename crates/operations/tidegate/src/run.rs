//! `tidegate run`: the gateway, its control, its admin API, and the signals.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use catalog::Catalog;
use control::{AuditSink, Control, Plan, Report, StoreLocation};
use kit::LocalBoxFuture;
use listen::{Gateway, Upkeep};
use tokio::net::TcpListener;
use tokio::runtime::LocalRuntime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::status::{NextStatus, StatusSocket, bound};
use crate::{log, notify, upgrade};

/// The start of another process: its id once it serves, or why it failed.
type StartingProcess = LocalBoxFuture<'static, Result<u32, String>>;

/// A gateway in service.
pub(crate) struct RunningGateway {
    pub(crate) control: Arc<Control>,
    pub(crate) gateway: Arc<Gateway>,
    /// The address of the admin API, if there is one.
    pub(crate) admin: Option<std::net::SocketAddr>,
    /// True once another process has the sockets.
    handed: watch::Sender<bool>,
    status: Arc<StatusSocket>,
    /// Watches the files for changes.
    watching: JoinHandle<()>,
    /// Takes over changes by other gateways.
    following: JoinHandle<()>,
}

/// Why the gateway did not start.
pub(crate) enum NotStarted {
    Complaints(Report),
    Failed(anyhow::Error),
}

pub(crate) fn run(file: &Path) -> anyhow::Result<ExitCode> {
    upgrade::inherit()?;
    // Harmless: without this thread, the first user of a random number waits for the seed.
    let _ = std::thread::Builder::new().name("random".to_owned()).spawn(tls::seed_random_numbers);
    let runtime = LocalRuntime::new()?;
    runtime.block_on(async {
        let mut signals = Signals::catch().context("cannot catch signals")?;
        let running = match start(file).await {
            Ok(running) => {
                log::serve()?;
                upgrade::serving();
                notify::serving();
                running
            }
            Err(NotStarted::Complaints(report)) => {
                log::say_error(&format!("{report:#}"));
                return Ok(ExitCode::FAILURE);
            }
            Err(NotStarted::Failed(error)) => return Err(error),
        };
        let ending = signals.steer(&running).await;
        if let StopMode::Replaced(pid) = ending {
            notify::replaced(pid);
            let gateway = running.gateway.clone();
            running.hand_over(signals.second(&gateway)).await;
            log::finish();
            return Ok(ExitCode::SUCCESS);
        }
        let plan = running.control.plan();
        notify::stopping(plan.drain_delay.saturating_add(plan.drain));
        let gateway = running.gateway.clone();
        if ending == StopMode::Announced && !running.announce_end(signals.second(&gateway)).await {
            gateway.cut();
        }
        running.end(signals.second(&gateway)).await;
        log::finish();
        Ok(ExitCode::SUCCESS)
    })
}

/// Starts everything for a configuration. Background work runs on the caller's runtime.
pub(crate) async fn start(file: &Path) -> Result<RunningGateway, NotStarted> {
    raise_descriptors();
    avoid_huge_pages();
    let gateway: Arc<OnceLock<Arc<Gateway>>> = Arc::default();
    let status: Arc<StatusSocket> = Arc::default();
    let publish = {
        let (gateway, status) = (gateway.clone(), status.clone());
        move |plan: Arc<Plan>| -> control::PublishFuture {
            let (gateway, status) = (gateway.get().cloned(), status.clone());
            Box::pin(async move {
                let gateway = gateway.ok_or_else(|| "the gateway has not started".to_owned())?;
                open_store(&plan).await?;
                let next = status.open(plan.status.as_ref()).await?;
                gateway.publish(plan).await?;
                status.adopt(next);
                Ok(())
            })
        }
    };
    let control = Control::start(file, Box::new(publish)).map_err(NotStarted::Complaints)?;
    let plan = control.plan();
    let (started, upkeep) = workers(&plan, &control).map_err(NotStarted::Failed)?;
    let started = gateway.get_or_init(|| Arc::new(started)).clone();
    kit::spawn(upkeep.run());
    kit::spawn(crate::allocator::give_back());
    let has_company = take_work(&plan).await.map_err(NotStarted::Failed)?;
    let opened = open_store(&plan).await;
    opened.map_err(|why| NotStarted::Failed(anyhow::anyhow!(why)))?;
    serve_store(&plan, has_company).map_err(NotStarted::Failed)?;
    // Before the listeners, so that a gateway that cannot start accepts no requests.
    let admin = admin_socket(&plan).await.map_err(NotStarted::Failed)?;
    let opened = status.open(plan.status.as_ref()).await;
    let next = opened.map_err(|why| NotStarted::Failed(anyhow::anyhow!(why)))?;
    let catalog_socket = catalog_socket(&plan).await.map_err(NotStarted::Failed)?;
    // Also before the listeners, since requests of applications need the catalog.
    let listeners = started.clone();
    let catalog = Catalog::start(control.clone(), Box::new(move || listeners.addresses())).await;
    let published = started.publish(plan.clone()).await;
    published.map_err(|why| NotStarted::Failed(anyhow::anyhow!(why)))?;
    control.announce();
    control.restore_targets().await;
    control.on_log_level(Box::new(log::set_level));
    let handed = watch::Sender::new(false);
    // Harmless: without a catalog there are no pages of it.
    let pages = catalog.clone().map(catalog::pages).unwrap_or_default();
    let admin = admin.map(|socket| admin_api(socket, &control, pages, &handed)).transpose();
    let admin = admin.map_err(NotStarted::Failed)?;
    kit::spawn(status.clone().run(control.clone()));
    status.adopt(next);
    if let (Some(socket), Some(catalog)) = (catalog_socket, catalog) {
        serve_catalog(socket, catalog, &handed).map_err(NotStarted::Failed)?;
    }
    let watching = kit::spawn(control.clone().watch());
    kit::spawn(control.clone().sample_traffic());
    let following = kit::spawn(control.clone().follow());
    Ok(RunningGateway { control, gateway: started, admin, handed, status, watching, following })
}

/// Takes over the work of the previous process, if there is one. Returns true if that process had the store of the plan.
async fn take_work(plan: &Plan) -> anyhow::Result<bool> {
    let folder = match plan.store.as_ref().map(|store| store.place()) {
        Some(StoreLocation::Folder(folder)) => Some(folder.clone()),
        Some(StoreLocation::Database(_)) | None => None,
    };
    let taken = kit::task::run_blocking(move || upgrade::take_work(folder.as_deref())).await;
    let has_company = taken.unwrap_or_else(|| Err(anyhow::anyhow!("a defect of the gateway")))?;
    if let Some(store) = plan.store.as_ref().filter(|_| has_company) {
        store.expect_company();
    }
    Ok(has_company)
}

/// Lets the previous process use the store, for its streams and for requests that it has begun.
fn serve_store(plan: &Plan, has_company: bool) -> anyhow::Result<()> {
    let Some(store) = plan.store.as_ref().filter(|_| has_company) else { return Ok(()) };
    store.serve().context("store: it cannot be served to the previous process")
}

/// Opens the store of a plan, if it has one that is not open. This may take as long as reading all its data.
async fn open_store(plan: &Plan) -> Result<(), String> {
    let Some(store) = plan.store.clone() else { return Ok(()) };
    let path = store.place().to_string();
    let opened = kit::task::run_blocking(move || store.open()).await;
    let opened = opened.ok_or_else(|| format!("store: {path}: opening it has failed"))?;
    let Some(found) = opened.map_err(|why| format!("store: {why}"))? else { return Ok(()) };
    tracing::info!(path, logs = found.logs, records = found.records, bytes = found.bytes, "store");
    take_part(plan);
    if found.torn_bytes > 0 {
        let bytes = found.torn_bytes;
        tracing::warn!(bytes, "store: incomplete writes of the last stop were removed");
    }
    for (file, range) in &found.damage {
        let (from, to) = (range.start, range.end);
        tracing::error!(file, from, to, "store: damaged; `tidegate store check` has the details");
    }
    for (log, positions) in &found.missing {
        let (from, to) = (positions.start(), positions.end());
        tracing::error!(
            log,
            from,
            to,
            "store: damaged: records are missing, since their file was truncated or replaced with an older one"
        );
    }
    Ok(())
}

/// Joins the gateways that share the store of a plan, until the plan's store is closed.
fn take_part(plan: &Plan) {
    let Some(store) = plan.store.clone() else { return };
    kit::spawn(async move { store.nodes().run(&*store).await });
}

fn workers(plan: &Plan, control: &Control) -> anyhow::Result<(Gateway, Upkeep)> {
    Gateway::start(plan.workers, control.telemetry().clone()).context("cannot start the workers")
}

async fn admin_socket(plan: &Plan) -> anyhow::Result<Option<TcpListener>> {
    let Some(address) = plan.admin.as_ref().map(|admin| admin.address) else { return Ok(None) };
    bound("admin", address).await.map(Some).map_err(anyhow::Error::msg)
}

async fn catalog_socket(plan: &Plan) -> anyhow::Result<Option<TcpListener>> {
    let Some(catalog) = &plan.catalog else { return Ok(None) };
    bound("catalog", catalog.listen).await.map(Some).map_err(anyhow::Error::msg)
}

fn serve_catalog(
    listener: TcpListener,
    catalog: Arc<Catalog>,
    handed: &watch::Sender<bool>,
) -> anyhow::Result<()> {
    let (handed, follows_until) = (is_handed(handed), is_handed(handed));
    let address = listener.local_addr()?;
    tracing::info!(%address, "catalog");
    let following = catalog.clone();
    kit::spawn(async move {
        // The next process uses the same folder for deployments.
        tokio::select! {
            never = following.follow() => never,
            () = follows_until => {}
        }
    });
    kit::spawn(async move {
        if let Err(e) = catalog::serve(listener, catalog, handed).await {
            tracing::error!("catalog: {e}");
        }
    });
    Ok(())
}

fn admin_api(
    listener: TcpListener,
    control: &Arc<Control>,
    pages: admin::MorePaths,
    handed: &watch::Sender<bool>,
) -> anyhow::Result<std::net::SocketAddr> {
    let address = listener.local_addr()?;
    tracing::info!(%address, "admin API");
    // It answers probes until the end: a draining gateway reports that it is alive but not ready.
    let served = admin::serve(listener, control.clone(), pages, is_handed(handed));
    kit::spawn(async move {
        if let Err(e) = served.await {
            tracing::error!("admin API: {e}");
        }
    });
    Ok(address)
}

/// Ready once another process has the sockets.
fn is_handed(handed: &watch::Sender<bool>) -> impl Future<Output = ()> + Send + 'static {
    let mut handed = handed.subscribe();
    async move {
        if handed.wait_for(|handed| *handed).await.is_err() {
            // The process ends anyway.
            std::future::pending().await
        }
    }
}

impl RunningGateway {
    /// Starts another program on these sockets. Returns its id once it serves, or why it failed.
    fn start_next(&self) -> StartingProcess {
        let plan = self.control.plan();
        let (gateway, patience) = (self.gateway.clone(), plan.upgrade.timeout);
        let work = upgrade::Work::of(plan.store.clone());
        Box::pin(async move {
            let sockets = gateway.handed_sockets().map_err(|e| e.to_string())?;
            let start = move || upgrade::start_next(&sockets, work, patience);
            let started = kit::task::run_blocking(start).await;
            started.unwrap_or_else(|| Err("a defect of the gateway".to_owned()))
        })
    }

    /// Leaves new connections to the other process, and completes open exchanges.
    async fn hand_over(self, hurried: impl Future<Output = ()>) {
        let plan = self.control.plan();
        self.handed.send_replace(true);
        self.status.adopt(NextStatus::None);
        self.watching.abort();
        self.following.abort();
        let (streams, limit) = (plan.upgrade.drain, plan.drain);
        tracing::info!(
            ?streams,
            ?limit,
            "another process serves; open exchanges are completed here"
        );
        if let Some(store) = plan.store.clone() {
            // Other gateways take over its work from now on, although streams may stay long.
            kit::spawn(async move { store.nodes().leave().await });
        }
        let cutting = async {
            hurried.await;
            self.gateway.cut();
            std::future::pending().await
        };
        let all = tokio::select! {
            all = self.gateway.hand_over(streams, limit) => all,
            never = cutting => never,
        };
        self.end_audit_log().await;
        tracing::info!(all, "all open exchanges have ended");
    }

    /// Reports that it is not ready, and continues to serve for the delay. Returns false if `hurried` completes first.
    async fn announce_end(&self, hurried: impl Future<Output = ()>) -> bool {
        self.control.set_draining();
        let delay = self.control.plan().drain_delay;
        if delay.is_zero() {
            return true;
        }
        tracing::info!(?delay, "/readyz says 503; listeners stay open for the delay");
        tokio::time::timeout(delay, hurried).await.is_err()
    }

    /// Completes open exchanges, then stops. If `hurried` becomes ready, it stops at once.
    pub(crate) async fn end(self, hurried: impl Future<Output = ()>) {
        self.control.set_draining();
        let limit = self.control.plan().drain;
        tracing::info!(limit = ?limit, "draining");
        let store = self.control.plan().store.clone();
        let cutting = async {
            hurried.await;
            self.gateway.cut();
            std::future::pending().await
        };
        let all = tokio::select! {
            all = self.gateway.drain(limit) => all,
            never = cutting => never,
        };
        if let Some(store) = store {
            store.nodes().leave().await;
        }
        self.end_audit_log().await;
        if all {
            tracing::info!("all requests have ended")
        } else {
            tracing::warn!("requests that did not end in time were cut")
        }
    }
}

impl RunningGateway {
    /// Sends the last lines of the audit log to the receiver, if there is one.
    async fn end_audit_log(&self) {
        let plan = self.control.plan();
        let AuditSink::Receiver(receiver) = &plan.audit_log else { return };
        let receiver = receiver.clone();
        if kit::task::run_blocking(move || receiver.close()).await != Some(true) {
            tracing::warn!("the last lines of the audit log could not be sent");
        }
    }
}

/// Raises the limit of descriptors, which connections need. The usual soft limit of 1,024 is for programs that use
/// select().
fn raise_descriptors() {
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(limit) => {
            tracing::debug!(limit, "descriptors");
            listen::set_descriptors(limit);
        }
        Err(e) => tracing::warn!("the limit of descriptors cannot be raised: {e}"),
    }
}

/// Turns transparent huge pages off. A page of 2 MiB becomes resident as a whole once one byte of it is used, and the allocator does not
/// return the unused part. With huge pages, a gateway with 2,000 routes that is reloaded often takes half as much memory again, and
/// 100,000 subscriptions take 137 MiB instead of 105. Without them, a request costs 5 % more CPU time at a thousand connections, and no
/// more at a hundred.
fn avoid_huge_pages() {
    if let Err(e) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!("transparent huge pages cannot be turned off: {e}");
    }
}

/// The signals from an operator.
struct Signals {
    hangup: Signal,
    terminate: Signal,
    quit: Signal,
    interrupt: Signal,
    reopen: Signal,
    upgrade: Signal,
}

/// How the gateway was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopMode {
    /// By SIGTERM or SIGQUIT, usually from a service manager: `/readyz` reports the end before listeners close.
    Announced,
    /// By Ctrl-C, from an operator at a terminal.
    Interrupted,
    /// Another process with this id has replaced it.
    Replaced(u32),
}

/// The request of a signal.
enum SignalAction {
    Reload,
    Reopen,
    Upgrade,
    End(StopMode),
}

impl Signals {
    fn catch() -> std::io::Result<Signals> {
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            interrupt: signal(SignalKind::interrupt())?,
            reopen: signal(SignalKind::user_defined1())?,
            upgrade: signal(SignalKind::user_defined2())?,
        })
    }

    async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.hangup.recv() => SignalAction::Reload,
            _ = self.reopen.recv() => SignalAction::Reopen,
            _ = self.upgrade.recv() => SignalAction::Upgrade,
            _ = self.terminate.recv() => SignalAction::End(StopMode::Announced),
            _ = self.quit.recv() => SignalAction::End(StopMode::Announced),
            _ = self.interrupt.recv() => SignalAction::End(StopMode::Interrupted),
        }
    }

    /// Handles signals. Returns when the program must end.
    async fn steer(&mut self, running: &RunningGateway) -> StopMode {
        let mut next: Option<StartingProcess> = None;
        loop {
            let action = tokio::select! {
                action = self.next() => action,
                started = started(&mut next) => {
                    next = None;
                    match started {
                        Ok(pid) => return StopMode::Replaced(pid),
                        Err(why) => tracing::error!("SIGUSR2: the new process failed, this process continues: {why}"),
                    }
                    continue;
                }
            };
            match action {
                SignalAction::Upgrade if next.is_some() => {
                    tracing::warn!("SIGUSR2 is ignored: another process is already starting");
                }
                SignalAction::Upgrade => {
                    tracing::info!("SIGUSR2: starting a new process");
                    next = Some(running.start_next());
                }
                SignalAction::Reload => {
                    running.gateway.reopen_log();
                    // Harmless: the result is logged and counted where it is determined.
                    let _ = notify::reloading(running.control.reload()).await;
                }
                SignalAction::Reopen => reopen(&running.gateway),
                SignalAction::End(ending) => {
                    if next.is_some() {
                        upgrade::give_up();
                        // Harmless: the start was aborted, so its result does not matter.
                        let _ = started(&mut next).await;
                    }
                    return ending;
                }
            }
        }
    }

    /// Returns when a stopping program is told to stop again.
    async fn second(&mut self, gateway: &Gateway) {
        loop {
            match self.next().await {
                SignalAction::Reload => {
                    tracing::warn!("SIGHUP: not reloaded, the gateway is stopping")
                }
                SignalAction::Reopen => reopen(gateway),
                SignalAction::Upgrade => {
                    tracing::warn!("SIGUSR2: not replaced, the gateway is stopping")
                }
                SignalAction::End(_) => {
                    tracing::warn!("second stop signal: the remaining exchanges are cut");
                    return;
                }
            }
        }
    }
}

fn reopen(gateway: &Gateway) {
    gateway.reopen_log();
    tracing::info!("SIGUSR1: the access log is reopened");
}

/// The result of starting another process. If none is being started, this never completes.
async fn started(next: &mut Option<StartingProcess>) -> Result<u32, String> {
    match next {
        Some(next) => next.await,
        None => std::future::pending().await,
    }
}
