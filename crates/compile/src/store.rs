//! `store`: where what must not be lost is kept.
//!
//! The store is made unopened: whoever serves the plan opens it. A running gateway keeps the one it has.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{Config, Loaded, Report};
use plan::telemetry::{DurableReading, Telemetry};
use plan::{Late, Plan, SYNC_BOUNDS};

/// The folder of a configuration that names none, beside its file.
const FOLDER: &str = "var/tidegate";

/// The store of the plan that is made.
#[derive(Default)]
pub(crate) struct Place {
    /// The one of the plan before, or the configured one, or the one that something asked for.
    late: Option<Arc<Late>>,
    default: PathBuf,
}

impl Place {
    /// The place that is configured, if it is, with complaints about it.
    pub(crate) fn new(
        loaded: &Loaded,
        config: &Config,
        previous: Option<&Plan>,
        report: &mut Report,
    ) -> Place {
        let file = loaded.files.first().map(|file| file.as_path());
        let default = file.and_then(Path::parent).unwrap_or(Path::new("")).join(FOLDER);
        let running = previous.and_then(|plan| plan.store.clone());
        let Some(written) = &config.store else { return Place { late: running, default } };
        let Some(path) = configured(written, report) else {
            return Place { late: running, default };
        };
        if let Some(running) = &running
            && running.path() != path
        {
            let stays = running.path().display();
            let what = format!("the store stays at {stays} until the gateway is started again");
            report.warn(written.at, what, "restart it, or write what is running");
        }
        Place { late: running.or_else(|| Some(Arc::new(Late::new(&path)))), default }
    }

    /// The store, for what must not be lost. Without `store` in the configuration it is in the default's place.
    pub(crate) fn late(&mut self) -> Arc<Late> {
        self.late.get_or_insert_with(|| Arc::new(Late::new(&self.default))).clone()
    }

    /// What goes into the plan; its counts become metrics.
    pub(crate) fn finish(self, telemetry: &Telemetry) -> Option<Arc<Late>> {
        if let Some(counted) = self.late.clone() {
            telemetry.set_durable(Box::new(move || reading(&counted)));
        }
        self.late
    }
}

fn configured(store: &config::Spanned<config::Store>, report: &mut Report) -> Option<PathBuf> {
    if let Some(postgres) = &store.value.postgres {
        let what = "this version keeps nothing in PostgreSQL yet";
        report.error(postgres.at, what, "write `path: var/tidegate`, a folder of this machine");
        return None;
    }
    if store.value.path.is_none() && store.intact {
        report.error(store.at, "a store without a place", "write `path: var/tidegate`");
    }
    store.value.path.as_ref().map(|path| path.value.as_path().to_owned())
}

fn reading(store: &Late) -> Option<DurableReading> {
    let measured = store.measured()?;
    let bounds = SYNC_BOUNDS.iter().map(|bound| bound.as_secs_f64()).chain([f64::INFINITY]);
    Some(DurableReading {
        records: measured.appended,
        written_bytes: measured.appended_bytes,
        commits: measured.commits,
        damaged: measured.damaged,
        syncs: bounds.zip(measured.syncs).collect(),
        sync_seconds: measured.sync_time.as_secs_f64(),
    })
}
