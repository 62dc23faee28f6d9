//! `subscription`: accepts requests of applications that have subscribed to the API, within the plans of the API, the subscription and the
//! application.
//!
//! Owns the map from credentials to subscriptions ([`Subscribers`]) and the counts of plans ([`PlanCounts`]). A policy above has verified
//! the credential. This policy never waits.

mod counts;
mod plan;
mod subscribers;

use std::sync::Arc;
use std::task::{Context, Poll};

use fault::{Fault, Kind};
use message::{Fill, ReplyHead, RequestHead};
use policy::{
    BodyTransform, Exchange, Identity, OnStreamed, Policy, Slot, Slots, Step, Subscribed,
};
use serde_json::Value;

pub use counts::PlanCounts;
pub use plan::{Burst, NamedPlan, PlanLimits, WINDOWS_MAX};
pub use subscribers::{
    ApiNumber, Application, KeyOwner, PlanNumber, PlanTable, Subscribers, Subscription,
    SubscriptionState,
};

use crate::hash::Hash;
use crate::key::KeySource;
use counts::{Charge, OverPlan};

/// Settings of the policy.
#[derive(Debug)]
pub struct SubscriptionSettings {
    pub api: ApiNumber,
    /// How the API is identified in tokens that list their subscriptions.
    pub claim: ListedApi,
    /// Whether requests without a subscription are refused.
    pub required: bool,
    /// The plans that tokens with a list of subscriptions may refer to.
    pub plans: Vec<Arc<NamedPlan>>,
    /// The plan of requests without a subscription.
    pub subscriptionless: Option<Arc<NamedPlan>>,
    /// The plan of the API or of the resource, which all applications share.
    pub own: Option<OwnPlan>,
    /// Whether policies below limit by subscription.
    pub records_subscription: bool,
}

/// An API as identified in `subscribedAPIs`.
#[derive(Debug)]
pub struct ListedApi {
    /// By its context, which includes the version.
    pub by_context: Option<crate::listed_api::ApiReference>,
    /// By its name, if the token or the API has no context.
    pub by_name: crate::listed_api::ApiReference,
}

impl ListedApi {
    fn matches(&self, one: &Value) -> bool {
        match &self.by_context {
            Some(by_context) if one.get("context").is_some() => by_context.matches(one),
            Some(_) | None => self.by_name.matches(one),
        }
    }
}

/// The plan of an API or of one of its resources.
#[derive(Debug)]
pub struct OwnPlan {
    pub plan: Arc<NamedPlan>,
    /// The resource, or `None` for the whole API.
    pub resource: Option<Box<str>>,
}

/// The maps of subscriptions: the one that changes at run time, and the one from the configuration.
#[derive(Debug, Clone)]
pub struct SubscriberMaps {
    pub live: Arc<Subscribers>,
    pub written: Arc<Subscribers>,
}

/// Returns the policy.
pub fn policy(
    settings: SubscriptionSettings,
    subscribers: SubscriberMaps,
    counts: Arc<PlanCounts>,
    slots: &mut Slots,
) -> Policy {
    let own_key = settings.own.as_ref().map_or(0, |own| {
        let mut hash = counts.hash();
        hash.write(b"api");
        hash.write(&settings.api.0.to_le_bytes());
        hash.write(own.resource.as_deref().unwrap_or("").as_bytes());
        hash.finish()
    });
    let mut of_api = counts.hash();
    of_api.write(b"subscription");
    of_api.write(&settings.api.0.to_le_bytes());
    let check = Arc::new(Check {
        settings,
        subscribers,
        counts,
        own_key,
        of_api,
        api_hash: of_api.finish(),
        slot: slots.assign(),
    });
    Policy {
        name: "subscription",
        request: Some(Step::Streamed(Box::new(OnRequest(check.clone())))),
        response: Some(Step::Streamed(Box::new(OnReply(check)))),
    }
}

struct Check {
    settings: SubscriptionSettings,
    subscribers: SubscriberMaps,
    counts: Arc<PlanCounts>,
    /// The key of the counts of the API's or resource's own plan.
    own_key: u64,
    /// The hash that the keys of clients are computed from. It already contains the API.
    of_api: Hash,
    /// The hash of the API alone, which tells the counts of an application's subscriptions apart.
    api_hash: u64,
    slot: Slot<Measured>,
}

struct OnRequest(Arc<Check>);
struct OnReply(Arc<Check>);

/// The keys that the bytes of an exchange are charged to.
#[derive(Clone)]
struct Measured(Arc<[u64]>);

/// A client with its plans.
struct Client {
    /// The key of the subscription's counts.
    digest: u64,
    /// The plan of its subscription.
    plan: Option<Arc<NamedPlan>>,
    /// The key of the application's counts, and the plan of the application.
    application: Option<(u64, Arc<NamedPlan>)>,
}

impl Check {
    /// Returns the client's plans, or the refusal.
    fn client(&self, ex: &Exchange, head: &RequestHead) -> Result<Client, Fault> {
        let identity = ex.identity.as_deref();
        if let Some(found) = identity.and_then(|identity| self.of_application(identity)) {
            return found;
        }
        if let Some(identity) = identity
            && let Some(plan) = self.of_claim(identity)
        {
            let digest = self.digest_of(|hash| hash.write(&identity.digest));
            return Ok(Client { digest, plan: Some(plan), application: None });
        }
        if self.settings.required {
            return Err(missing());
        }
        let digest = self.digest_of(|hash| KeySource::Subject.write(ex, head, hash));
        let plan = self.settings.subscriptionless.clone();
        Ok(Client { digest, plan, application: None })
    }

    fn digest_of(&self, write: impl FnOnce(&mut Hash)) -> u64 {
        let mut hash = self.of_api;
        write(&mut hash);
        hash.finish()
    }

    /// Returns the key of an application's counts at the API. Clients do not choose the digest, so no keyed hash is needed, which would
    /// take as long as all look-ups together.
    fn key_of(&self, application: u64) -> u64 {
        // Multiplying by an odd number keeps different digests different. This number is 2^64 divided by the golden ratio.
        (application ^ self.api_hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Finds the client by the application of the credential. Returns `None` if the credential belongs to no application.
    fn of_application(&self, identity: &Identity) -> Option<Result<Client, Fault>> {
        let key = identity.application.as_ref()?;
        let look = |owner: &KeyOwner, plans: &PlanTable| {
            if owner.is_removed {
                return Err(gone());
            }
            let application = &owner.application;
            let subscription = application.subscription(self.settings.api);
            // A subscription whose plan was removed counts as no subscription.
            let found = subscription.and_then(|one| Some((one, plans.get(one.plan)?)));
            let plan = match found {
                Some((subscription, plan)) => {
                    let is_blocked = match subscription.state {
                        SubscriptionState::Unblocked => false,
                        SubscriptionState::Blocked => true,
                        SubscriptionState::ProductionBlocked => {
                            !owner.sandbox && !is_sandbox(identity)
                        }
                    };
                    if is_blocked {
                        return Err(blocked());
                    }
                    Some(plan.clone())
                }
                None if self.settings.required => return Err(missing()),
                // The plan of the application applies anyway, see below.
                None => self.settings.subscriptionless.clone(),
            };
            let of_all = application.plan.and_then(|plan| plans.get(plan));
            Ok(Client {
                digest: self.key_of(application.digest),
                plan,
                application: of_all.map(|plan| (application.digest, plan.clone())),
            })
        };
        let SubscriberMaps { live, written } = &self.subscribers;
        live.with(key, look).or_else(|| written.with(key, look))
    }

    /// Finds the plan by the subscriptions that the token lists.
    fn of_claim(&self, identity: &Identity) -> Option<Arc<NamedPlan>> {
        let listed = identity.claims.as_ref()?.get("subscribedAPIs")?.as_array()?;
        let found = listed.iter().find(|one| self.settings.claim.matches(one))?;
        let named = found.get("subscriptionTier").and_then(Value::as_str).unwrap_or("Unlimited");
        // A token with an unknown plan counts as one without a subscription, instead of passing without a limit.
        self.settings.plans.iter().find(|plan| *plan.name == *named).cloned()
    }

    /// Charges the request to all plans, or refuses it.
    fn charge(&self, ex: &mut Exchange, client: &Client) -> Result<Option<Measured>, Fault> {
        let own = self.settings.own.as_ref();
        let own_limits = own.map(|own| own.plan.limits());
        let limits = client.plan.as_ref().map(|plan| plan.limits());
        let application = client.application.as_ref();
        let application_limits = application.map(|(_, plan)| plan.limits());
        let own_code = match own.and_then(|own| own.resource.as_ref()) {
            Some(_) => 900_802,
            None => 900_800,
        };
        let charges = [
            own_limits.as_ref().map(|limits| Charge {
                key: self.own_key,
                limits,
                codes: (own_code, own_code),
            }),
            limits.as_ref().map(|limits| Charge {
                key: client.digest,
                limits,
                codes: (900_804, 900_807),
            }),
            // Harmless: the limits exist if the application has a plan, and only then.
            application.zip(application_limits.as_ref()).map(|((digest, _), limits)| Charge {
                key: *digest,
                limits,
                codes: (900_803, 900_803),
            }),
        ];
        match self.counts.take(&charges) {
            Ok(passed) if passed.first_over => {
                tracing::info!(
                    request_id = ex.id.as_str(),
                    "a request is over its plan, which does not refuse requests; further ones are not logged"
                );
            }
            Ok(_) => {}
            Err(over) => return Err(refusal(&over)),
        }
        if self.settings.records_subscription
            && let (Some(plan), Some(limits)) = (&client.plan, &limits)
        {
            let events = limits.events.clone();
            let (digest, plan) = (client.digest, plan.name.clone());
            ex.subscription = Some(Box::new(Subscribed { digest, plan, events }));
        }
        // Harmless: a level without a plan charges nothing.
        let measured = || charges.iter().flatten().filter(|charge| charge.limits.counts_bytes());
        let keys = || Measured(measured().map(|charge| charge.key).collect());
        Ok(measured().next().is_some().then(keys))
    }
}

/// Returns true if the token is for the sandbox.
fn is_sandbox(identity: &Identity) -> bool {
    let claims = identity.claims.as_ref();
    let said = claims.and_then(|claims| claims.get("keytype")).and_then(Value::as_str);
    said.is_some_and(|said| said.eq_ignore_ascii_case("SANDBOX"))
}

fn missing() -> Fault {
    let cause = "subscription: the client's application has no subscription to the API";
    Fault::new(Kind::SubscriptionMissing, cause).with_code(900_908)
}

fn blocked() -> Fault {
    let cause = "subscription: the application's subscription to the API is blocked";
    Fault::new(Kind::SubscriptionBlocked, cause)
        .with_code(900_907)
        .with_header("WWW-Authenticate", "Bearer realm=\"tidegate\", error=\"invalid_token\"")
}

fn gone() -> Fault {
    let cause = "subscription: the application of the token was removed";
    Fault::new(Kind::Unauthenticated, cause)
        .with_code(900_901)
        .with_header("WWW-Authenticate", "Bearer realm=\"tidegate\", error=\"invalid_token\"")
}

fn refusal(over: &OverPlan) -> Fault {
    let level = match over.code {
        900_800 => "of the API",
        900_802 => "of the resource",
        900_803 => "of the application",
        900_807 => "of the subscription's burst",
        _ => "of the subscription",
    };
    let wait = over.wait.div_ceil(1_000_000_000).max(1);
    Fault::new(Kind::RateLimited, format!("subscription: over the plan {level}"))
        .with_code(over.code)
        .with_header("Retry-After", wait.to_string())
}

impl OnStreamed<RequestHead> for OnRequest {
    fn on_streamed(
        &self,
        ex: &mut Exchange,
        head: &mut RequestHead,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault> {
        let OnRequest(check) = self;
        let client = check.client(ex, head)?;
        if let Some(fault) = ex.notes.as_mut().and_then(|notes| notes.scope_fault.take()) {
            return Err(*fault);
        }
        let Some(measured) = check.charge(ex, &client)? else { return Ok(None) };
        let meter = ex.has_body.then(|| Meter::of(check, &measured));
        check.slot.put(ex, measured);
        Ok(meter)
    }
}

impl OnStreamed<ReplyHead> for OnReply {
    fn on_streamed(
        &self,
        ex: &mut Exchange,
        _head: &mut ReplyHead,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault> {
        let OnReply(check) = self;
        let asked_head = ex.notes.as_ref().is_some_and(|notes| notes.asked_head);
        let measured = check.slot.remove(ex).filter(|_| !asked_head);
        Ok(measured.map(|measured| Meter::of(check, &measured)))
    }
}

/// Charges the bytes of a body while it is streamed.
struct Meter {
    counts: Arc<PlanCounts>,
    keys: Measured,
}

impl Meter {
    fn of(check: &Check, measured: &Measured) -> Box<dyn BodyTransform> {
        Box::new(Meter { counts: check.counts.clone(), keys: measured.clone() })
    }
}

impl BodyTransform for Meter {
    fn on_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Fill, Fault> {
        self.counts.charge_bytes(&self.keys.0, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        out.extend_from_slice(bytes);
        Ok(Fill::More)
    }

    fn poll_end(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn on_end(&mut self, _out: &mut Vec<u8>) -> Result<(), Fault> {
        Ok(())
    }

    fn remaining(&self, inner: Option<u64>) -> Option<u64> {
        inner
    }
}
