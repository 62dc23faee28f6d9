//! `websocket`: quotas, bounds and permissions for the messages of a WebSocket (RFC 6455).
//!
//! Owns the handshake: which clients may open a WebSocket, at which topic, and that no extension is negotiated, since the policy could not
//! read the frames of an extension. The messages are handled by [`session`]. Requests that do not ask for a WebSocket pass unchanged.

mod end;
mod session;
mod topic;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ::websocket::CloseCode;
use fault::{Fault, Kind};
use mediation::json_schema::Schema;
use message::{ReplyHead, RequestHead, Upgrade};
use policy::{
    Decision, Exchange, Flow, OnCall, OnHead, Onward, Policy, Slot, Slots, Step, StreamNotes,
};
use telemetry::RouteMetrics;

use crate::key::KeySource;
use crate::permits::{Permit, Permits};
use crate::quota::shared::SharedQuotas;
use crate::quota::{CONNECTIONS_CODE, ClientTier, ClientUse, Quotas, Tier};
use crate::tiers::Tiers;

pub use topic::{MalformedTopic, Topic};

use session::Session;
use topic::Rights;

/// Settings of the policy.
#[derive(Debug)]
pub struct WebSocketSettings {
    /// The key by which messages and connections are counted.
    pub by: KeySource,
    /// The quotas of messages and bytes, for both directions together.
    pub tiers: Tiers<Tier>,
    /// Whether the connection is closed when the quota is used up, instead of dropping messages.
    pub closes: bool,
    /// The maximum size of one message, in either direction.
    pub message_bytes_max: Option<u64>,
    /// The longest time without a data frame, if limited.
    pub idle: Option<Duration>,
    /// The interval of pings to each side, if any.
    pub ping: Option<Duration>,
    /// The maximum number of concurrent connections of a client.
    pub connections: Option<u32>,
    /// The schema of the client's messages.
    pub schema: Option<Arc<Schema>>,
    /// The topics, or `None` to allow any path with all permissions.
    pub topics: Option<Vec<Topic>>,
    pub codes: Codes,
}

/// The close codes for refused clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codes {
    pub expired: CloseCode,
    pub forbidden: CloseCode,
    pub throttled: CloseCode,
    pub invalid: CloseCode,
}

impl Codes {
    /// The codes registered by RFC 6455.
    pub const REGISTERED: Codes = Codes {
        expired: CloseCode::POLICY_VIOLATION,
        forbidden: CloseCode::POLICY_VIOLATION,
        throttled: CloseCode::POLICY_VIOLATION,
        invalid: CloseCode::INVALID_PAYLOAD,
    };

    /// The codes of WSO2's API Manager.
    pub const WSO2: Codes = Codes {
        expired: CloseCode(4001),
        forbidden: CloseCode(4007),
        throttled: CloseCode(4008),
        invalid: CloseCode(4010),
    };
}

/// Returns the policy.
pub fn policy(
    settings: WebSocketSettings,
    kept: ClientUse,
    metrics: Arc<RouteMetrics>,
    slots: &mut Slots,
) -> Policy {
    let ClientUse { quotas, permits, shared } = kept;
    let websocket =
        Arc::new(WebSocket { settings, quotas, permits, metrics, slot: slots.assign() });
    Policy {
        name: "websocket",
        request: Some(match shared {
            None => Step::Head(Box::new(Admit(websocket.clone()))),
            Some(shared) => {
                Step::Call(Box::new(SharedAdmit { admit: Admit(websocket.clone()), shared }))
            }
        }),
        response: Some(Step::Head(Box::new(InspectMessages(websocket)))),
    }
}

struct WebSocket {
    settings: WebSocketSettings,
    quotas: Arc<Quotas>,
    permits: Arc<Permits>,
    metrics: Arc<RouteMetrics>,
    slot: Slot<AdmittedSocket>,
}

/// A client that was admitted.
struct AdmittedSocket {
    /// The key by which its messages are counted.
    key: u64,
    tier: ClientTier,
    rights: Rights,
    #[expect(dead_code, reason = "the permit is returned when the connection ends")]
    permit: Option<Permit>,
}

/// The state of an open WebSocket. Dropping it ends its counts.
struct Stream {
    of: Arc<WebSocket>,
    admitted: AdmittedSocket,
    notes: Rc<StreamNotes>,
    worker: usize,
}

impl Stream {
    fn tier(&self) -> Option<&Tier> {
        self.admitted.tier.get(&self.of.settings.tiers)
    }
}

/// The request step, which admits or refuses a client.
struct Admit(Arc<WebSocket>);

/// The request step if counts are shared with other gateways.
struct SharedAdmit {
    admit: Admit,
    shared: Arc<SharedQuotas>,
}

/// The response step, which installs the relay that inspects messages.
struct InspectMessages(Arc<WebSocket>);

/// The value of `Retry-After`, in seconds, if only the end of another connection frees a permit.
const RETRY_AFTER: &str = "1";

impl OnHead<RequestHead> for Admit {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let Admit(websocket) = self;
        if !Upgrade::is_to_websocket(head) {
            return Ok(Onward::Next);
        }
        let rights = websocket.rights(ex, head)?;
        let (key, tier) = websocket.counted(ex, head);
        let mut permit = None;
        if let Some(max) = websocket.settings.connections {
            let refused = || {
                let cause = format!("websocket: {max} connections are open");
                Fault::new(Kind::RateLimited, cause)
                    .with_code(CONNECTIONS_CODE)
                    .with_header("Retry-After", RETRY_AFTER)
            };
            permit = Some(websocket.permits.take(key, max).ok_or_else(refused)?);
        }
        head.headers.remove("sec-websocket-extensions");
        websocket.slot.put(ex, AdmittedSocket { key, tier, rights, permit });
        Ok(Onward::Next)
    }
}

impl OnCall<RequestHead> for SharedAdmit {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        let Admit(websocket) = &self.admit;
        if !Upgrade::is_to_websocket(head) {
            return Decision::Ready(Ok(Onward::Next));
        }
        Decision::Waits(Box::pin(async move {
            let (key, tier) = websocket.counted(ex, head);
            if let Some(tier) = tier.get(&websocket.settings.tiers) {
                self.shared.load_counts(key, tier).await;
            }
            self.admit.on_head(ex, head)
        }))
    }
}

impl WebSocket {
    /// Returns the key and the tier of a client.
    fn counted(&self, ex: &Exchange, head: &RequestHead) -> (u64, ClientTier) {
        let tier = ClientTier::of(&self.settings.tiers, ex);
        let mut hash = self.quotas.hash(&tier);
        self.settings.by.write(ex, head, &mut hash);
        (hash.finish(), tier)
    }

    /// Returns the permissions of the client at the topic of its path, and sets the path for the upstream.
    fn rights(&self, ex: &mut Exchange, head: &RequestHead) -> Result<Rights, Fault> {
        let Some(topics) = &self.settings.topics else { return Ok(Rights::ALL) };
        let path = head.path().get(ex.rest..).unwrap_or_default();
        let found = topics.iter().find_map(|topic| Some((topic, topic.parameters(path)?)));
        let Some((topic, parameters)) = found else {
            return Err(Fault::new(Kind::TopicUnknown, "websocket: no topic matches the path"));
        };
        let claims = ex.identity.as_ref().and_then(|identity| identity.claims.as_deref());
        let rights = topic.rights(claims);
        if rights == Rights::NONE {
            let cause = "websocket: no scope to publish or subscribe";
            return Err(Fault::new(Kind::Forbidden, cause));
        }
        if let Some(target) = topic.target(&parameters, head.query()) {
            ex.notes().target = Some(target);
        }
        Ok(rights)
    }
}

impl OnHead<ReplyHead> for InspectMessages {
    fn on_head(&self, ex: &mut Exchange, head: &mut ReplyHead) -> Flow {
        let InspectMessages(websocket) = self;
        // The permit is only for open connections, so it is returned with any other reply.
        let Some(admitted) = websocket.slot.remove(ex) else { return Ok(Onward::Next) };
        if head.status != 101 {
            return Ok(Onward::Next);
        }
        if head.headers.contains("sec-websocket-extensions") {
            let cause = "websocket: the upstream uses an extension that was not requested";
            return Err(Fault::new(Kind::UpstreamMalformed, cause));
        }
        let expires = ex.identity.as_ref().and_then(|identity| identity.expires);
        let worker = ex.caller.worker;
        let notes = ex.notes().stream.get_or_insert_default().clone();
        let stream = Stream { of: websocket.clone(), admitted, notes, worker };
        ex.notes().relay = Some(Box::new(Session::new(stream, expires)));
        Ok(Onward::Next)
    }
}
