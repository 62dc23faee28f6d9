//! The configuration as the operator wrote it: text is read into types that keep the place of every value.
//!
//! Owns the keys of the configuration, their defaults, the JSON Schema that editors use, and the complaints about text that cannot be read.
//! It does not check meaning: `compile` checks whether a route's upstream exists, or whether a certificate matches its key. It never sees
//! traffic.
//!
//! Text enters by [`load()`] (a file or a folder) or [`parse`] (text in hand) and leaves as a [`LoadedConfig`]
//! or as a [`Report`] with every complaint.
//!
//! The public names:
//!
//! - [`load()`], [`parse`], [`json_schema`], [`reference()`], [`LoadedConfig`]: in and out.
//! - [`differences`]: the differences of two configurations; [`shown`] and [`is_secret`]: a configuration without secrets, and which keys
//!   are secret.
//! - [`Report`], [`Complaint`], [`Severity`], [`At`], [`Sources`]: what is wrong, where, and what to write instead. `compile` uses the same
//!   types for its complaints.
//! - [`Config`] and one struct for each section below it: [`Listener`], [`Upstream`], [`Route`], ...
//!   A field is a key, its type says what may be written, and its default is next to it in the source.
//! - [`Policy`]: one variant for each kind of policy, each kind in its own file under `policies/`.
//! - [`Map`], [`Spanned`], [`FilePath`], [`Size`], ...: the shapes values are written in.
//! - [`read`], [`keys!`], [`words!`]: files of other kinds with their own keys, such as scenarios of load tests.
//! - [`Decode`]: one definition gives reading, writing back (`explain`), and the schema.
//!   [`Decode::encode`] of a [`Config`] is the configuration with every default spelt out.

#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod decode;
mod difference;
mod document;
mod excerpt;
mod flows;
mod hidden;
mod load;
mod masks;
#[doc(hidden)]
pub mod node;
mod policies;
mod reference;
mod report;
mod scalars;
#[doc(hidden)]
pub mod schema;
mod schema_document;
mod secret_words;
mod sections;
mod sources;
mod substitute;
mod values;
mod yaml;

pub use decode::{Decode, Decoder};
pub use difference::{Change, Difference, ShownValue, differences, shown};
pub use document::{decode, document, json_text, path_at, place_of, read};
pub use excerpt::is_secret;
pub use flows::*;
pub use load::{
    LoadedConfig, bundles_in, folder_of_bundles, is_configuration, load, parse, parse_with,
    read_again,
};
pub use masks::{masked, unmasked};
pub use node::Node;
pub use policies::*;
pub use reference::reference;
pub use report::{Complaint, Report, Severity};
pub use schema::SchemaBuilder;
pub use schema_document::{json_schema, json_schema_of};
pub use secret_words::MASK;
pub use sections::{
    AccessLog, Admin, AdminRole, AdminTls, AdminUser, Api, ApiSubscription, Application,
    ApplicationKeys, ApplicationSubscription, AuditLog, Balance, Breaker, Bundles, Case,
    CaseAnswer, CaseCall, CaseExpect, CaseMessage, CaseReply, CaseRequest, Catalog,
    CatalogAlgorithm, CatalogCallbacks, CatalogEndpoints, CatalogListen, CatalogRole, CatalogToken,
    CatalogUser, Certificate, ClientAuth, ClientAuthMode, Config, Database, Defaults, Dns,
    EmptySegments, EndpointAllow, EndpointTimeout, Endpoints, Errors, EscapedSlash, Health, Hub,
    HubAlgorithm, HubCallbacks, HubDelivery, HubKafka, HubLeases, HubLimitBy, HubLimits, HubLog,
    HubRetention, HubSasl, HubSaslMechanism, Introspection, Issuer, KeyUse, LimitPlan, LimitStore,
    Listener, ListenerLimits, ListenerPaths, ListenerTimeout, ListenerTls, LogAddress, LogFormat,
    LogReceiver, LogTo, Match, Outlier, OutlierUntil, PathParameters, PlanBurst, PlanWindow, Pool,
    ProcessLimits, Queue, QueueExhausted, QueueOrder, QueueRetry, Respond, Retry, Route, RouteHost,
    RouteLimits, RouteMirror, RoutePath, RouteServices, RouteShare, RouteStreams, RouteUpstream,
    Saxon, Schedule, ScheduleMessage, SharedControl, Shutdown, Status, StatusTls, Sticky, Store,
    StreamsOnReload, SubscriptionState, Suspend, Target, Telemetry, TimeClaim, TokenAuthentication,
    TracePropagation, Traces, UnhealthyAfter, UnhealthyAfterEach, Upgrade, Upstream,
    UpstreamAddresses, UpstreamBasic, UpstreamOauth, UpstreamProtocol, UpstreamTimeout,
    UpstreamTls, UpstreamWsAddressing, UpstreamWsSecurity, Validate, WsAddressingVersion,
    ready_plans,
};
pub use sources::{At, Source, Sources};
pub use substitute::{open, read_text, reason};
pub use values::{
    Address, Between, CollectorUrl, CookieName, CookiePath, Credential, Credentials, DatabaseUrl,
    DefinitionAt, Factor, FilePath, Fraction, HashBy, JsonText, Map, MemoryLimit, NameServer,
    Network, OneOrMore, Percent, Priority, RetryOn, Secret, Size, SocketScheme, SocketUrl, Spanned,
    SrvUrl, StatusRange, TargetAddress, TargetUrl, Timeout, TlsVersion, ValueMatch, WebUrl,
    duration,
};
pub use yaml::FILE_BYTES_MAX;
