//! The contract between the pipeline and the policies.
//!
//! The shape of a step is its cost: a step can only use what its variant gets, so nothing waits, copies or buffers by accident. Policies
//! never see sockets, plans or each other. They reach other services only through [`Fetch`] and [`Background`]. Work that runs on every
//! worker, such as deliveries, is a [`Resident`].
#![forbid(unsafe_code)]

mod answerer;
mod call;
mod exchange;
mod exchange_trace;
mod grpc_call;
mod identity;
mod interim;
mod notes;
mod outside;
mod public_origin;
mod relay;
mod reply_cache;
mod request_limit;
mod revoked_tokens;
mod slot;
mod step;
mod subscription;
mod template;
mod traced;
mod upstream_addition;

pub use answerer::{Answer, Answerer, Explanation};
pub use call::{Call, OpenWait, Totals, WaitTime};
pub use exchange::{Caller, Exchange, Parameters, REQUEST_ID_BYTES_MAX, RequestId, Scheme};
pub use exchange_trace::{CallTrace, ExchangeTrace, OpenSpan, attributes_of};
pub use grpc_call::{GrpcCall, GrpcEnd};
pub use identity::{Claims, Identity, Scheme as IdentityScheme, claim_at, states_scope};
pub use interim::{Interim, InterimReplies};
pub use notes::{
    Conditions, MessageFormat, Notes, RemovedCredentials, RouteOverride, StreamNotes,
    UNKNOWN_OPERATION,
};
pub use outside::{Background, EndSignal, Fetch, Resident, ResidentWorker};
pub use relay::{Outbox, Relay, TunnelSide};
pub use reply_cache::{CacheHindrance, CacheTerms, KeptMessage, KeyParts, ReplyCache};
pub use request_limit::{Limited, RequestLimit};
pub use revoked_tokens::{Full, REVOKED_MAX, RevokedTokens, TOKEN_ID_BYTES_MAX};
pub use slot::{Slot, SlotValues, Slots};
pub use step::{
    BodyTransform, Decision, Flow, OnBuffered, OnCall, OnHead, OnPieces, OnStreamed, Onward,
    Policy, Step,
};
pub use subscription::{ApplicationKey, Quota, Subscribed};
pub use template::{Escape, PLACEHOLDERS, Template, UnknownPlaceholder};
pub use traced::{MessageBefore, TracedHead, bytes_in_memory};
pub use upstream_addition::UpstreamAddition;
