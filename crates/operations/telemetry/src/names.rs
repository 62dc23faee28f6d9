//! All metrics and labels of this process, in one place: a typo does not compile, and the values of a label are
//! reviewed here. Names have the form `tidegate_<noun>_<unit>`; `scrape` appends `_total` to counters and `_info` to
//! infos. `process_*` are the usual names of Prometheus client libraries for the process itself.

/// The type of a metric in the exposition format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

/// The kind of a row. A `Total` is a counter without labels, for which its row is enough.
macro_rules! metric_kind {
    (Total) => {
        MetricKind::Counter
    };
    ($kind:ident) => {
        MetricKind::$kind
    };
}

/// The constant of a row that is a `Total`.
macro_rules! total {
    (Total, $metric:ident) => {
        #[allow(non_upper_case_globals, reason = "it has the name of its row")]
        pub const $metric: Total = Total(Metric::$metric);
    };
    ($kind:ident, $metric:ident) => {};
}

macro_rules! is_total {
    (Total) => {
        true
    };
    ($kind:ident) => {
        false
    };
}

/// A counter of the whole process without labels. [`Telemetry::total`](crate::Telemetry::total) returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Total(pub(crate) Metric);

macro_rules! metrics {
    ($($metric:ident = $kind:ident $name:literal $([$($label:ident),*])?, $help:literal;)*) => {
        /// A family of metrics.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Metric { $(#[doc = $help] $metric),* }

        impl Metric {
            /// All metrics, in the order of this table.
            pub const ALL: &'static [Metric] = &[$(Metric::$metric),*];

            /// The labels of its series, without the bounds of buckets.
            pub const fn labels(self) -> &'static [Label] {
                match self { $(Metric::$metric => &[$($(Label::$label),*)?]),* }
            }

            /// The registered name, without the suffix of its type.
            pub const fn name(self) -> &'static str { match self { $(Metric::$metric => $name),* } }

            /// The help text.
            pub const fn help(self) -> &'static str { match self { $(Metric::$metric => $help),* } }

            pub(crate) const fn kind(self) -> MetricKind { match self { $(Metric::$metric => metric_kind!($kind)),* } }

            pub(crate) const fn is_total(self) -> bool { match self { $(Metric::$metric => is_total!($kind)),* } }

            /// The kind of metric, and the name of its series with the suffix of that kind. A histogram has several.
            pub fn shown(self) -> (&'static str, String) {
                let kind = self.kind();
                (kind.name(), format!("{}{}", self.name(), kind.suffix()))
            }
        }

        impl Total { $( total!($kind, $metric); )* }
    };
}

metrics! {
    BuildInfo = Info "tidegate_build" [Version], "The version of the program.";
    Workers = Gauge "tidegate_workers", "Workers, each a thread with its own connections and pools.";
    WorkerRequests = Counter "tidegate_worker_requests" [Worker], "Requests by worker.";
    WorkerConnections = Gauge "tidegate_worker_connections_open" [Worker], "Open client connections by worker.";
    WorkerPanics = Counter "tidegate_worker_panics" [Worker], "Exchanges that ended in a panic, each a defect of the gateway.";
    Requests = Counter "tidegate_requests" [Route, StatusClass], "Requests by route and status class.";
    Duration = Histogram "tidegate_request_duration_seconds" [Route], "From the first byte of a request to the last of its reply.";
    OwnDuration = Histogram "tidegate_own_duration_seconds" [Route], "The gateway's own part of the duration: all but the waits for an upstream and for the client to take the reply.";
    UpstreamDuration = Histogram "tidegate_upstream_duration_seconds" [Route], "The wait for an upstream.";
    RequestBytes = Counter "tidegate_request_bytes" [Route], "Bytes received from clients.";
    ReplyBytes = Counter "tidegate_reply_bytes" [Route], "Bytes sent to clients.";
    Faults = Counter "tidegate_faults" [Route, Reason], "Exchanges that ended in a fault, by reason.";
    GrpcCalls = Counter "tidegate_grpc_calls" [Route, GrpcStatus], "Calls of gRPC by route and status: those of services, and those that the gateway refused.";
    Mirrored = Counter "tidegate_mirror_requests" [Route, Outcome], "Copies of requests for a mirror, by route and by what became of them.";
    SseEvents = Counter "tidegate_sse_events" [Route], "Events that passed on routes with the policy `sse`, by route.";
    WebSocketMessages = Counter "tidegate_websocket_messages" [Route, Direction], "Messages that passed on routes with the policy `websocket`, by route: received from clients, or sent to them.";
    WebSocketDropped = Counter "tidegate_websocket_messages_dropped" [Route], "Messages that the policy `websocket` dropped, by route.";
    StreamsOpen = Gauge "tidegate_streams_open" [Route, Kind], "Streams that are open, by route and kind: event streams (sse), WebSockets, other tunnels, and calls of gRPC.";
    StreamEnds = Counter "tidegate_stream_ends" [Route, Reason], "Streams that ended early on routes with `sse` or `websocket`, by route and reason.";
    ConnectionsOpen = Gauge "tidegate_connections_open" [Listener], "Open client connections by listener.";
    Connections = Counter "tidegate_connections" [Listener], "Client connections accepted, by listener.";
    ConnectionsRefused = Counter "tidegate_connections_refused" [Listener, Reason], "Client connections turned away, by listener and reason.";
    ConnectionsDisplaced = Counter "tidegate_connections_displaced" [Listener], "Idle client connections closed to make room for new ones, by listener.";
    UpstreamOpen = Gauge "tidegate_upstream_connections_open" [Upstream], "Open connections to an upstream.";
    UpstreamIdle = Gauge "tidegate_upstream_connections_idle" [Upstream], "Idle connections in the pools of an upstream.";
    UpstreamCreated = Counter "tidegate_upstream_connections_created" [Upstream], "Connections made to an upstream.";
    UpstreamFailed = Counter "tidegate_upstream_connections_failed" [Upstream], "Connections to an upstream that could not be made.";
    UpstreamActive = Gauge "tidegate_upstream_requests_active" [Upstream], "Requests an upstream is working on.";
    UpstreamPending = Gauge "tidegate_upstream_requests_pending" [Upstream], "Requests that wait for a connection to an upstream.";
    UpstreamRetries = Counter "tidegate_upstream_retries" [Upstream], "Retries of requests to an upstream.";
    UpstreamRefused = Counter "tidegate_upstream_breaker_refused" [Upstream], "Requests refused because an upstream was at its limits.";
    UpstreamLookUpsFailed = Counter "tidegate_upstream_lookups_failed" [Upstream], "Failed look-ups of an upstream's names. Its targets do not change then.";
    UpstreamLeftOut = Gauge "tidegate_upstream_targets_left_out" [Upstream], "Targets that DNS names beyond the 1,000 that an upstream may have. They get no requests.";
    TargetHealthy = Gauge "tidegate_upstream_target_healthy" [Upstream, Target], "1 if a target is healthy, 0 if its health checks or, without them, its last exchange failed; absent while its health is unknown.";
    TargetHealth = Gauge "tidegate_upstream_target_health" [Upstream, Target, State], "1 for the state of a target: unknown, healthy, failing (its last exchange, without health checks) or unhealthy (its health checks).";
    TargetEjected = Gauge "tidegate_upstream_target_ejected" [Upstream, Target], "1 while a target is kept out of the rotation because it keeps failing.";
    TargetEjections = Counter "tidegate_upstream_target_ejections" [Upstream, Target], "How often a target was taken out of the rotation.";
    TargetSuspended = Gauge "tidegate_upstream_target_suspended" [Upstream, Target], "1 while a target gets no requests because of a failure that suspends it.";
    TargetSuspensions = Counter "tidegate_upstream_target_suspensions" [Upstream, Target], "How often a target was suspended.";
    IssuerKeys = Gauge "tidegate_issuer_keys" [Issuer], "Keys of an issuer that are in use.";
    IssuerReads = Counter "tidegate_issuer_key_reads" [Issuer, Result], "Attempts to read an issuer's keys, by result.";
    StoreAnswers = Gauge "tidegate_store_answers" [Store], "Whether a store of shared limits answered the last time: 1, or 0 while it is unavailable.";
    StoreCalls = Counter "tidegate_store_calls" [Store, Result], "Calls of a store of shared limits, by result.";
    StoreSync = Histogram "tidegate_store_sync_seconds", "Time until a batch of records or changes was durable in the store.";
    StoreRecords = Counter "tidegate_store_records", "Records appended to logs of the store.";
    StoreBytes = Counter "tidegate_store_written_bytes", "Bytes written to logs of the store.";
    StoreCommits = Counter "tidegate_store_commits", "Transactions of the store's tables.";
    StoreDamaged = Counter "tidegate_store_damaged", "Places with damaged data in the store, found at the start or by a reader. `tidegate store check` shows details.";
    StoreAway = Gauge "tidegate_store_away", "Whether the store's database is unavailable: 1, or 0 while it answers.";
    StoreNodes = Gauge "tidegate_store_nodes", "Gateways that share the store, as last seen by this one.";
    StorePartitions = Gauge "tidegate_store_partitions", "Partitions of the work (deliveries, queues, schedules) that this gateway owns, of 16.";
    StoreLosses = Counter "tidegate_store_lease_losses", "How often another gateway took over the work of this one.";
    IssuerRead = Gauge "tidegate_issuer_keys_read_timestamp_seconds" [Issuer], "When an issuer's keys were last read, since the Unix epoch.";
    DefinitionCompilations = Counter "tidegate_definition_compilations" [Definition, Result], "How often an XML schema, description or stylesheet was compiled, by result.";
    DefinitionFetches = Counter "tidegate_definition_fetches" [Definition, Result], "Documents that a definition names by URL and that were fetched, by result.";
    SoapOperations = Counter "tidegate_soap_operations" [Route, Operation, Fault], "Requests by operation of the service's description and by the code of the fault they ended in.";
    FlowRuns = Counter "tidegate_flow_runs" [Flow], "Runs of flows, those that other flows run by `sequence` not included.";
    FlowFaults = Counter "tidegate_flow_faults" [Flow, Reason], "Runs of flows that ended in a fault, by reason.";
    FlowStepRuns = Counter "tidegate_flow_step_runs" [Flow, FlowStep], "Runs of steps, by the name of the step, or else what it is and its path in the flow.";
    FlowStepFaults = Counter "tidegate_flow_step_faults" [Flow, FlowStep, Reason], "Runs of steps that ended in a fault, by reason; those that hold other steps count theirs too.";
    FlowBranchFaults = Counter "tidegate_flow_branch_faults" [Flow, FlowStep, Reason], "Branches of `scatter` and `split` that failed, by reason, whether or not their step did.";
    FlowTapsDropped = Counter "tidegate_flow_taps_dropped" [Flow, FlowStep], "Messages that a `wire_tap` did not copy, because `max` copies were in progress.";
    FlowStepOwn = Counter "tidegate_flow_step_own_seconds" [Flow, FlowStep], "Time that steps took in the gateway. Steps that hold other steps have none of their own.";
    FlowStepCall = Counter "tidegate_flow_step_call_seconds" [Flow, FlowStep], "Time that steps waited for upstreams.";
    ScheduleRuns = Counter "tidegate_schedule_runs" [Schedule, Result], "Runs of schedules that have ended, by result.";
    ScheduleSkipped = Counter "tidegate_schedule_skipped" [Schedule], "Times at which a schedule was due while its last run was in progress.";
    ScheduleLast = Gauge "tidegate_schedule_last_run_timestamp_seconds" [Schedule], "When the last run of a schedule ended, since the Unix epoch.";
    HubPublished = Counter "tidegate_hub_published" [Hub, Topic], "Events published, by hub and topic.";
    HubDeliveries = Counter "tidegate_hub_deliveries" [Hub, Topic, Outcome], "Attempts to deliver an event to a subscription, by hub, topic and outcome: success, failure (it is retried), dead (it was the last attempt), limited (over the hub's limits) or expired (dropped before it could be sent).";
    HubLag = Gauge "tidegate_hub_lag_events" [Hub, Topic], "Events that the slowest subscription of a topic has not received yet.";
    QueueStored = Counter "tidegate_queue_stored" [Queue], "Messages put into a queue by the step `store`, or as dead messages of another queue.";
    QueueRuns = Counter "tidegate_queue_runs" [Queue, Outcome], "Attempts to process a message of a queue, by outcome: success, failure (it is retried, or the queue pauses) or dead (it was the last attempt).";
    QueueDepth = Gauge "tidegate_queue_depth" [Queue], "Messages of a queue that are not processed yet.";
    QueueAge = Gauge "tidegate_queue_oldest_age_seconds" [Queue], "The age of the oldest message of a queue that is not processed yet.";
    QueueDead = Gauge "tidegate_queue_dead_messages" [Queue], "Messages of a queue that are dead and kept for operators.";
    QueueDeadBytes = Gauge "tidegate_queue_dead_bytes" [Queue], "Bytes of the dead messages of a queue.";
    QueueDeadAge = Gauge "tidegate_queue_dead_oldest_age_seconds" [Queue], "The age of the oldest dead message of a queue.";
    QueueDeadRemoved = Counter "tidegate_queue_dead_removed" [Queue], "Dead messages that were removed because they exceeded the limits in `dead`.";
    EngineThreads = Gauge "tidegate_saxon_threads", "Threads of the JVM that transform messages.";
    EnginePending = Gauge "tidegate_saxon_pending", "Messages that wait to be transformed by Saxon.";
    EngineHeap = Gauge "tidegate_saxon_heap_used_bytes", "The JVM's heap in use, including garbage that is not collected yet.";
    EngineHeapMax = Gauge "tidegate_saxon_heap_max_bytes", "The largest heap of the JVM.";
    EngineCalls = Counter "tidegate_saxon_transforms" [Result], "Messages transformed by Saxon, by result; refused ones were turned away because too many waited.";
    EngineOnWorkers = Counter "tidegate_saxon_on_workers", "Messages transformed by Saxon on a worker's own thread.";
    EngineStopped = Counter "tidegate_saxon_stopped", "Transformations that were stopped because they took too long.";
    EngineBusy = Counter "tidegate_saxon_busy_seconds", "Time that transformations by Saxon took, without waits for a thread.";
    MessageParses = Counter "tidegate_message_parses" [Format], "Messages parsed into a JSON tape or an XML tree, by format. Policies that read the same bytes share one; what passes through unread and what is checked as it streams has none.";
    MemoryUsed = Gauge "tidegate_memory_used_bytes", "Memory that the process allocated since it began to serve and has not freed, without caches: bodies, trees, results, connections.";
    MemoryLimit = Gauge "tidegate_memory_limit_bytes", "The limit of allocated memory, set by `limits.memory`.";
    MemoryRefused = Counter "tidegate_memory_refused", "How often there was no memory for a message.";
    ConfigInfo = Info "tidegate_config" [Hash], "The configuration in service, by the hash of its content.";
    ConfigGeneration = Gauge "tidegate_config_generation", "The number of the configuration in service, as in the history.";
    PlansAlive = Gauge "tidegate_plans_alive", "Configurations in memory: the one in service, and those with unanswered requests.";
    ConfigReloads = Counter "tidegate_config_reloads" [Result], "Attempts to bring a configuration into effect, by result.";
    ConfigReloaded = Gauge "tidegate_config_last_reload_success_timestamp_seconds", "When the plan in service came into effect.";
    CertificateExpiry = Gauge "tidegate_certificate_expiry_timestamp_seconds" [Certificate], "When a certificate that the gateway shows to clients or upstreams expires, since the Unix epoch, by its place in the configuration.";
    AccessLogDropped = Total "tidegate_access_log_dropped", "Access log lines lost because the log could not be written fast enough, or its receiver did not accept them.";
    AuditLogDropped = Total "tidegate_audit_log_dropped", "Audit log lines that their receiver did not accept. Lines that could not be sent at all are in the program's own log.";
    TracesDropped = Total "tidegate_traces_dropped", "Spans that were lost because there were too many, or the collector did not accept them.";
    ProcessResident = Gauge "process_resident_memory_bytes", "Resident memory.";
    ProcessVirtual = Gauge "process_virtual_memory_bytes", "Virtual memory.";
    ProcessCpu = Counter "process_cpu_seconds", "User and system CPU time.";
    ProcessThreads = Gauge "process_threads", "Threads.";
    ProcessFds = Gauge "process_open_fds", "Open file descriptors.";
    ProcessFdsMax = Gauge "process_max_fds", "The largest number of file descriptors.";
    ProcessStart = Gauge "process_start_time_seconds", "When the process started, since the Unix epoch.";
}

/// The name of a label, with the limit of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// Names of routes: at most [`ROUTES_MAX`](crate::ROUTES_MAX).
    Route,
    /// `1xx` to `5xx`.
    StatusClass,
    /// Labels of an [`Outcome`](grpc::Outcome): `0` to `16`, or `other`.
    GrpcStatus,
    /// Labels of fault kinds, of refusals of a connection, or of the ends of streams.
    Reason,
    /// Names of listeners: at most [`LISTENERS_MAX`](crate::LISTENERS_MAX).
    Listener,
    /// Places of certificates in the configuration in service.
    Certificate,
    /// Names of upstreams: at most [`UPSTREAMS_MAX`](crate::UPSTREAMS_MAX).
    Upstream,
    /// Names of issuers: at most [`ISSUERS_MAX`](crate::ISSUERS_MAX).
    Issuer,
    /// Names of stores: at most [`STORES_MAX`](crate::STORES_MAX).
    Store,
    /// Locations of definitions: at most [`DEFINITIONS_MAX`](crate::DEFINITIONS_MAX).
    Definition,
    /// Names of operations, from descriptions alone: at most [`OPERATIONS_MAX`](crate::OPERATIONS_MAX) with their routes.
    Operation,
    /// Names of flows: at most [`FLOWS_MAX`](crate::FLOWS_MAX) with their steps.
    Flow,
    /// Names of schedules: at most [`SCHEDULES_MAX`](crate::SCHEDULES_MAX).
    Schedule,
    /// Names of queues: at most [`QUEUES_MAX`](crate::QUEUES_MAX).
    Queue,
    /// Names of hubs: with their topics at most [`TOPICS_MAX`](crate::TOPICS_MAX).
    Hub,
    /// Names of topics, from the configuration alone.
    Topic,
    /// Numbers and names of steps.
    FlowStep,
    /// `none`, or a label of a [`SoapFault`](crate::SoapFault).
    Fault,
    /// Targets of one upstream: at most [`TARGETS_MAX`](crate::upstream::TARGETS_MAX).
    Target,
    /// Names of a [`TargetHealth`](crate::TargetHealth).
    State,
    /// Indices of workers.
    Worker,
    /// `success`, `failure` or `refused`.
    Result,
    /// Labels of a [`Format`](crate::parses::Format).
    Format,
    /// Labels of a [`MirrorOutcome`](crate::MirrorOutcome), a [`DeliveryOutcome`](crate::DeliveryOutcome) or a
    /// [`QueueRun`](crate::QueueRun).
    Outcome,
    /// `received` from clients or `sent` to them.
    Direction,
    /// Labels of a [`StreamKind`](crate::StreamKind).
    Kind,
    /// The hash of the configuration: one value at a time.
    Hash,
    /// The version of the program: one value.
    Version,
}

impl Label {
    pub const fn name(self) -> &'static str {
        match self {
            Label::Route => "route",
            Label::StatusClass => "status_class",
            Label::GrpcStatus => "grpc_status",
            Label::Reason => "reason",
            Label::Certificate => "certificate",
            Label::Listener => "listener",
            Label::Upstream => "upstream",
            Label::Issuer => "issuer",
            Label::Store => "store",
            Label::Definition => "definition",
            Label::Operation => "operation",
            Label::Flow => "flow",
            Label::Schedule => "schedule",
            Label::Queue => "queue",
            Label::Hub => "hub",
            Label::Topic => "topic",
            Label::FlowStep => "step",
            Label::Fault => "fault",
            Label::Target => "target",
            Label::State => "state",
            Label::Worker => "worker",
            Label::Result => "result",
            Label::Format => "format",
            Label::Outcome => "outcome",
            Label::Direction => "direction",
            Label::Kind => "kind",
            Label::Hash => "hash",
            Label::Version => "version",
        }
    }
}
