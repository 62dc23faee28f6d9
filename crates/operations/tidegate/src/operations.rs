//! The command line of `tidegate ctl`, and the operator's credentials.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::argument_values::duration;

/// The operator's credentials.
#[derive(Args, Clone, Default)]
pub(crate) struct Access {
    /// The operator's bearer token; the variable TIDEGATE_TOKEN if absent.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// PEM file of trusted authorities, with https; the system's if absent.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// PEM file of the operator's certificate.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) certificate: Option<PathBuf>,
    /// PEM file of its key.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
}

/// Objects with dead messages.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Holder {
    Queue,
    Hub,
}

/// Objects that can be paused.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pausable {
    Queue,
    Hub,
    Schedule,
}

#[derive(Subcommand)]
pub(crate) enum Ctl {
    /// The plan in service, with the state of its configuration.
    Plan,
    /// The routes.
    Routes,
    /// Requests, errors and times of the last hour: of all routes, or of one.
    Traffic { route: Option<String> },
    /// Exchanges as they end, one line of JSON each, until the program is stopped.
    Tail {
        /// Only this route.
        #[arg(long)]
        route: Option<String>,
        /// End after this time.
        #[arg(long, value_name = "TIME", value_parser = duration)]
        r#for: Option<Duration>,
    },
    /// The open streams of each route.
    Streams,
    /// The memory of the process, and what each worker has.
    Memory,
    /// The upstreams with their targets, or one.
    Upstreams { name: Option<String> },
    /// Set the weight of a target, or stop new requests to it, until its upstream changes.
    Target {
        upstream: String,
        /// Its id, as `upstreams` shows it.
        id: String,
        /// Its weight, 0 to 65535.
        #[arg(long)]
        weight: Option<u16>,
        /// Whether to stop new requests to it.
        #[arg(long)]
        drain: Option<bool>,
    },
    /// The flows, or one with its steps.
    Flows { name: Option<String> },
    /// The last refused requests, newest first.
    Refusals {
        /// How many, at most 1,000.
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// The recorded traces; with a condition or a count, record some.
    Trace {
        #[arg(long)]
        route: Option<String>,
        #[arg(long)]
        flow: Option<String>,
        /// The path of the request; with `/**` at its end, all paths below it too.
        #[arg(long)]
        path: Option<String>,
        #[arg(long, value_name = "ID")]
        request_id: Option<String>,
        /// How many messages, 1 to 100.
        #[arg(long)]
        count: Option<u32>,
    },
    /// The gateway's certificates, with their expiry times.
    Certificates,
    /// The level of the log; with a level, set it for a while: error, warn, info, debug, trace, off, or reset for the initial one.
    Log {
        level: Option<String>,
        /// How long, at most 1d; 10m if absent.
        #[arg(long, value_name = "TIME")]
        r#for: Option<String>,
    },
    /// Collect data for remote support into a ZIP archive: masked configuration, plan, metrics, refusals, states.
    Support {
        /// The archive.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// The gateway's own log; its last 4 MiB are added.
        #[arg(long, value_name = "FILE")]
        log: Option<PathBuf>,
    },
    #[command(flatten)]
    Messages(OnMessages),
    /// The schedules.
    Schedules,
    /// Run a schedule now.
    Run { schedule: String },
    /// The revoked tokens.
    Revoked,
    /// Revoke a token by its `jti`.
    Revoke {
        jti: String,
        /// The end of the revocation, in seconds since 1970; one year from now if absent.
        #[arg(long)]
        until: Option<u64>,
    },
    /// Undo a revocation.
    Unrevoke { jti: String },
    /// The bundles.
    Bundles,
    /// The configurations that were in service, or one of them.
    History { generation: Option<u64> },
    /// The differences from an earlier configuration to another one, or to the one in service.
    Changes {
        generation: u64,
        #[arg(long)]
        to: Option<u64>,
    },
    /// Bring an earlier configuration into service again.
    Rollback { generation: u64 },
}

/// Operations on queues, hubs and their messages.
#[derive(Subcommand)]
pub(crate) enum OnMessages {
    /// The queues, or one.
    Queues { name: Option<String> },
    /// The hubs, or one.
    Hubs { name: Option<String> },
    /// The subscriptions of a hub.
    Subscriptions {
        hub: String,
        /// `next` of the previous page.
        #[arg(long)]
        after: Option<String>,
    },
    /// Remove a subscription of a hub.
    Unsubscribe { hub: String, id: String },
    /// The waiting messages of a queue.
    Messages {
        queue: String,
        /// `next` of the previous page.
        #[arg(long)]
        after: Option<String>,
    },
    /// The dead messages of a queue or a hub, or one with its body and its attempts.
    Dead {
        kind: Holder,
        name: String,
        id: Option<String>,
        /// `next` of the previous page.
        #[arg(long)]
        after: Option<String>,
    },
    /// Process or deliver dead messages again: one, or all.
    Retry { kind: Holder, name: String, id: Option<String> },
    /// Delete dead messages: one, or all.
    Remove { kind: Holder, name: String, id: Option<String> },
    /// Pause a queue, the deliveries of a hub, or a schedule.
    Pause { kind: Pausable, name: String },
    /// Resume a queue, the deliveries of a hub, or a schedule.
    Resume { kind: Pausable, name: String },
}
