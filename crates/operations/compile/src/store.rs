//! Compiles `store`: where durable data is kept.
//!
//! The store is created unopened; the gateway that serves the plan opens it. A running gateway keeps its store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{Config, LoadedConfig, Report};
use plan::nodes::PARTITIONS;
use plan::telemetry::{DurableReading, SharedReading, Telemetry};
use plan::{LazyStore, Plan, SYNC_BOUNDS};
use sql::{Address, TlsMode};

/// The default folder. It is next to the configuration, which is a file or a folder.
const FOLDER: &str = "var/tidegate";

/// The store of the plan that is being built.
#[derive(Default)]
pub(crate) struct StoreBuilder {
    /// The store of the previous plan, the configured one, or the default one if something needs it.
    store: Option<Arc<LazyStore>>,
    default: PathBuf,
}

impl StoreBuilder {
    /// Compiles the configured place of the store, if there is one.
    pub(crate) fn new(
        loaded: &LoadedConfig,
        config: &Config,
        previous: Option<&Plan>,
        report: &mut Report,
    ) -> StoreBuilder {
        let file = loaded.files.first().map(|file| file.as_path());
        let default = file.and_then(Path::parent).unwrap_or(Path::new("")).join(FOLDER);
        let running = previous.and_then(|plan| plan.store.clone());
        let Some(written) = &config.store else { return StoreBuilder { store: running, default } };
        let Some(place) = configured(written, report) else {
            return StoreBuilder { store: running, default };
        };
        if let Some(running) = &running
            && *running.place() != place
        {
            let stays = running.place();
            let what = format!("the store stays at {stays} until the gateway is restarted");
            report.warn(written.at, what, "restart it, or restore the value in use");
        }
        StoreBuilder { store: running.or_else(|| Some(Arc::new(LazyStore::at(place)))), default }
    }

    /// Returns the store for durable data. Without `store` in the configuration, it is in the default folder.
    pub(crate) fn get_or_default(&mut self) -> Arc<LazyStore> {
        self.store.get_or_insert_with(|| Arc::new(LazyStore::new(&self.default))).clone()
    }

    /// Returns the store for the plan, and registers its metrics.
    pub(crate) fn finish(self, telemetry: &Telemetry) -> Option<Arc<LazyStore>> {
        if let Some(counted) = self.store.clone() {
            telemetry.set_durable(Box::new(move || reading(&counted)));
        }
        self.store
    }
}

const HELP: &str = "write `postgres://HOST:PORT/DATABASE`, with `USER:PASSWORD@` before the host";

fn configured(
    store: &config::Spanned<config::Store>,
    report: &mut Report,
) -> Option<plan::StoreLocation> {
    match (&store.value.path, &store.value.postgres) {
        (Some(_), Some(postgres)) => {
            let what = "`path` and `postgres` cannot be combined";
            report.error(postgres.at, what, "remove one of the two");
            None
        }
        (Some(path), None) => Some(plan::StoreLocation::Folder(path.value.as_path().to_owned())),
        (None, Some(postgres)) => database(&postgres.value.0)
            .map_err(|why| {
                let what = format!("the URL of the store's database is malformed: {why}");
                report.error(postgres.at, what, HELP);
            })
            .ok(),
        (None, None) => {
            if store.intact {
                let help = "write `path: var/tidegate`, or `postgres` with the URL of a database";
                report.error(store.at, "the store has no location", help);
            }
            None
        }
    }
}

/// Parses the URL of a database. The error does not contain the URL, which may include a password.
fn database(url: &str) -> Result<plan::StoreLocation, String> {
    let begins = || "it does not begin with `postgres://`".to_owned();
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(begins());
    }
    let address = Address::parse(url).map_err(|why| why.to_string())?;
    let Address::Postgres { tls: mode, .. } = &address else { return Err(begins()) };
    let verify = match mode {
        TlsMode::Disable => None,
        // The certificate is not verified. That would not help in this mode, because an attacker could claim that the server has no TLS.
        TlsMode::Prefer => Some(false),
        TlsMode::Require => Some(true),
    };
    let client =
        |verify| tls::Client::new(&tls::ClientSpec { verify, ..tls::ClientSpec::default() });
    let tls = verify.map(client).transpose().map_err(|why| why.to_string())?;
    Ok(plan::StoreLocation::Database(Box::new(store::Database { address, tls })))
}

fn reading(store: &LazyStore) -> Option<DurableReading> {
    let measured = store.measured()?;
    let bounds = SYNC_BOUNDS.iter().map(|bound| bound.as_secs_f64()).chain([f64::INFINITY]);
    Some(DurableReading {
        records: measured.appended,
        written_bytes: measured.appended_bytes,
        commits: measured.commits,
        damaged: measured.damaged,
        // Harmless: there is one count for each bound, and one for all values above.
        syncs: bounds.zip(measured.syncs).collect(),
        sync_seconds: measured.sync_time.as_secs_f64(),
        shared: (!store.nodes().is_single()).then(|| shared(store)),
    })
}

fn shared(store: &LazyStore) -> SharedReading {
    let nodes = store.nodes();
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    SharedReading {
        is_away: store.away().is_some(),
        nodes: count(nodes.views().len()),
        partitions: count((0..PARTITIONS).filter(|partition| nodes.has(*partition)).count()),
        losses: nodes.losses(),
    }
}
