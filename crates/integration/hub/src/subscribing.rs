//! Subscribing and unsubscribing.

use std::net::{IpAddr, Ipv6Addr};

use bytes::Bytes;
use fault::{Fault, Kind};
use message::{Body, Reply, Request};
use policy::Exchange;
use store::{Change, Error, Expect};

use crate::callback;
use crate::end::parameter;
use crate::hub::{Hub, Topic};
use crate::hub_state::{Full, Reservation, SubscriptionUpdate};
use crate::lease_clock::LeaseClock;
use crate::own_url;
use crate::reader::store_fault;
use crate::subscribe::{self, Mode, SubscriptionRequest};
use crate::subscription::{Id, Intent, Subscription, Terms, read, stored};

/// How often a change is attempted if other requests change the subscription at the same time.
const TRIES: usize = 4;

/// WSO2 API Manager's code for too many subscriptions.
const SUBSCRIPTIONS_CODE: u32 = 900_808;

/// The smallest limit on an asker's unconfirmed subscriptions. A callback that works confirms faster than most subscribers send the next
/// request.
const PENDING_MIN: usize = 256;
/// The limit on an asker's unconfirmed subscriptions is the hub's limit on subscriptions divided by this, or [`PENDING_MIN`] if that is
/// more.
const PENDING_PART: usize = 100;

/// The `Retry-After` in seconds when too many subscriptions are unconfirmed.
const RETRY_AFTER: &str = "1";

/// A subscriber's request with the values derived from it.
struct SubscriptionAttempt<'a> {
    asked: SubscriptionRequest,
    topic: &'a Topic,
    subject: String,
    /// Who asked, for the limits on look-ups and on unconfirmed subscriptions.
    asker: String,
    plan: Option<String>,
    id: Id,
    terms: Terms,
}

impl Hub {
    /// Answers a request of a subscriber. `base` is the hub's URL as the subscriber sees it.
    pub(crate) async fn serve_subscriber(
        &self,
        ex: &Exchange,
        request: &mut Request,
        base: String,
    ) -> Result<Reply, Fault> {
        let form = if subscribe::is_form(&request.head.headers) {
            let body = std::mem::take(&mut request.body);
            body.gather(subscribe::FORM_BYTES_MAX, Kind::BodyTooLarge).await?
        } else {
            Bytes::new()
        };
        let topic_of = |text: &str| self.topic_of(text, &base);
        let publish = self.settings.publish.first().map_or("/publish", |path| &**path);
        let (asked, topic) = subscribe::read(&request.head, Some(&form), &base, publish, topic_of)?;
        // A client that may no longer subscribe may still unsubscribe.
        if asked.mode == Mode::Subscribe {
            topic.check_scopes(ex)?;
        }
        let subject = ex.identity.as_ref().map_or("", |identity| &*identity.subject).to_owned();
        let plan = ex.plan().map(str::to_owned);
        let id = Id::of(&subject, &topic.name, &asked.callback);
        let settings = &self.settings;
        let lease = subscribe::given(asked.lease, settings.lease_default, settings.lease_max);
        let terms = Terms {
            asked: asked.topic.clone(),
            secret: asked.secret.clone(),
            lease_seconds: lease.as_secs().max(1),
            base,
        };
        let status = asked.form.status();
        let asker = asker(ex, &subject);
        let attempt = SubscriptionAttempt { asked, topic, subject, asker, plan, id, terms };
        match attempt.asked.mode {
            Mode::Subscribe => self.subscribe(attempt).await?,
            Mode::Unsubscribe => self.unsubscribe(attempt).await?,
        }
        Ok(Reply::new(status, Body::Empty))
    }

    /// Finds the topic for a text: a name, or a URL of the topic at this hub, with or without a query.
    fn topic_of(&self, text: &str, base: &str) -> Result<&Topic, Fault> {
        if let Some(topic) = self.topic(text.as_bytes()) {
            return Ok(topic);
        }
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return Err(subscribe::unknown_topic());
        }
        match own_url::below(base, text) {
            Some(rest) => self.topic_below(rest).ok_or_else(subscribe::unknown_topic),
            None if self.is_topic_elsewhere(text) => Err(subscribe::wrong(&format!(
                "`hub.topic` is not a URL of this hub: its topics are below `{base}/topics`."
            ))),
            None => Err(subscribe::unknown_topic()),
        }
    }

    /// The topic of a URL's rest after the hub's URL: in its path or in the parameter `topic`.
    fn topic_below(&self, rest: &str) -> Option<&Topic> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        match path.strip_prefix("/topics")? {
            "" => self.topic(&parameter(query.as_bytes(), b"topic")?),
            name => self.topic(&kit::percent::decoded(name.strip_prefix('/')?.as_bytes(), false)),
        }
    }

    /// True if a URL of another server names a topic in the same form as this hub's URLs.
    fn is_topic_elsewhere(&self, url: &str) -> bool {
        let path = url.split_once('?').map_or(url, |(path, _)| path);
        let starts = path.match_indices("/topics").map(|(at, _)| at);
        // Harmless: each match is at a valid position of the URL.
        let mut rests = starts.filter_map(|at| url.get(at..));
        rests.any(|rest| self.topic_below(rest).is_some())
    }

    async fn subscribe(&self, attempt: SubscriptionAttempt<'_>) -> Result<(), Fault> {
        let rule = &self.settings.callbacks;
        let permitted = callback::is_permitted(&attempt.asked.callback, &attempt.asker, rule).await;
        permitted.map_err(|why| subscribe::wrong(&why))?;
        for _ in 0..TRIES {
            let known = self.row(attempt.id).await.map_err(|error| store_fault(&error))?;
            let now = self.state.lease_clock.now();
            let (expect, known) = match known {
                None => (Expect::Nothing, None),
                Some((version, known)) => {
                    let known = known.filter(|known| !known.is_over(now));
                    (Expect::Version(version), known)
                }
            };
            let is_new = known.is_none();
            let reservation = if is_new { self.admit(&attempt).await? } else { None };
            let mut subscription = match known {
                Some(known) => known,
                None => self.new_subscription(&attempt).await?,
            };
            if self.settings.verify {
                subscription.intent = Some(Intent::Subscribe(attempt.terms.clone()).into())
            } else {
                confirm(&mut subscription, attempt.terms.clone(), &self.state.lease_clock);
            }
            subscription.plan.clone_from(&attempt.plan);
            let written = self.write(attempt.id, expect, subscription, is_new, reservation).await;
            if is_new && !matches!(written, Ok(true)) {
                self.state.answered(attempt.id);
            }
            if written? {
                return Ok(());
            }
        }
        Err(contended())
    }

    /// Admits a new subscription if there is a place for it. If its callback has to confirm it, the place is reserved only after the
    /// confirmation; until then the subscription counts only for its asker.
    async fn admit(&self, attempt: &SubscriptionAttempt<'_>) -> Result<Option<Reservation>, Fault> {
        let refused = |full| match full {
            Full::Hub => full_fault(format!("{} subscriptions", self.settings.subscriptions_max)),
            Full::Subject => {
                full_fault("the subject has reached the limit of subscriptions of its plan")
            }
            Full::Pending => {
                let cause = "the client has reached its limit of unconfirmed subscriptions";
                let detail = "Too many subscriptions wait for their callbacks to confirm them.";
                let fault = Fault::with_detail(Kind::RateLimited, cause, detail);
                fault.with_header("Retry-After", RETRY_AFTER)
            }
        };
        let admitted = match self.try_admit(attempt).await? {
            Err(_) if self.nodes.has_company() => {
                self.forget_answered(&attempt.asker).await?;
                self.try_admit(attempt).await?
            }
            admitted => admitted,
        };
        admitted.map_err(refused)
    }

    async fn try_admit(
        &self,
        attempt: &SubscriptionAttempt<'_>,
    ) -> Result<Result<Option<Reservation>, Full>, Fault> {
        let max = self.settings.subscriptions_max;
        let pending = self.state.pending_of(&attempt.asker);
        let reserved = self.reserved(&attempt.subject, attempt.plan.as_deref(), pending).await?;
        let reservation = match reserved {
            Ok(reservation) => reservation,
            Err(full) => return Ok(Err(full)),
        };
        if !self.settings.verify {
            return Ok(Ok(Some(reservation)));
        }
        let most = PENDING_MIN.max(max / PENDING_PART);
        let asked = self.state.ask(attempt.id, &attempt.asker, most, max.max(most));
        Ok(asked.map(|()| None))
    }

    /// Stops counting a subscription of an asker as pending if its callback has answered another node.
    async fn forget_answered(&self, asker: &str) -> Result<(), Fault> {
        for id in self.state.pending_ids(asker) {
            let known = self
                .row(id)
                .await
                .map_err(|error| store_fault(&error))?
                .and_then(|(_, known)| known);
            if known.is_none_or(|known| known.until.is_some()) {
                self.state.answered(id);
            }
        }
        Ok(())
    }

    /// Reserves a place for a new subscription within the limits for all nodes. `pending` is the number of the asker's unconfirmed
    /// subscriptions. They have no places, but count towards the limits.
    pub(crate) async fn reserved(
        &self,
        subject: &str,
        plan: Option<&str>,
        pending: usize,
    ) -> Result<Result<Reservation, Full>, Fault> {
        let limits = self.settings.limits.as_ref();
        let of_subject = limits.and_then(|limits| limits.of(plan).subscriptions);
        let of_subject = of_subject.map(|most| most.saturating_sub(pending));
        let max = self.settings.subscriptions_max.saturating_sub(pending);
        if !self.nodes.has_company() {
            return Ok(self.state.reserve(subject, max, of_subject.unwrap_or(usize::MAX)));
        }
        if let Some(most) = of_subject {
            let of_them = self.count_confirmed(most, |known| known.subject == subject).await;
            let count = of_them.map_err(|error| store_fault(&error))?;
            if count + self.state.reserved_of(subject) >= most {
                return Ok(Err(Full::Subject));
            }
        }
        if let Some(reservation) = self.state.reserve_far_below(subject, max) {
            return Ok(Ok(reservation));
        }
        let count = self.count_confirmed(max, |_| true).await;
        let count = count.map_err(|error| store_fault(&error))?;
        Ok(self.state.reserve_beside(subject, count, max).ok_or(Full::Hub))
    }

    async fn new_subscription(
        &self,
        attempt: &SubscriptionAttempt<'_>,
    ) -> Result<Subscription, Fault> {
        let span =
            self.store.span(&attempt.topic.log).await.map_err(|error| store_fault(&error))?;
        Ok(Subscription {
            subject: attempt.subject.clone(),
            plan: attempt.plan.clone(),
            topic: attempt.topic.name.clone().into(),
            callback: attempt.asked.callback.written.clone(),
            until: None,
            terms: Terms::default(),
            from: span.newest,
            intent: None,
        })
    }

    async fn unsubscribe(&self, attempt: SubscriptionAttempt<'_>) -> Result<(), Fault> {
        for _ in 0..TRIES {
            let row = self.row(attempt.id).await.map_err(|error| store_fault(&error))?;
            let Some((version, subscription)) = row else { return Ok(()) };
            let mut subscription = subscription.ok_or_else(unreadable)?;
            let expect = Expect::Version(version);
            let is_done = if self.settings.verify {
                subscription.intent = Some(Intent::Unsubscribe(attempt.terms.asked.clone()).into());
                self.write(attempt.id, expect, subscription, false, None).await?
            } else {
                self.remove(attempt.id, expect).await?
            };
            if is_done {
                return Ok(());
            }
        }
        Err(contended())
    }

    /// The version of a subscription's row, and the subscription, or `None` if it cannot be read.
    pub(crate) async fn row(&self, id: Id) -> Result<Option<(u64, Option<Subscription>)>, Error> {
        let row = self.store.get(&self.tables.subscriptions, &id.key()).await?;
        Ok(row.map(|row| (row.version, read(&row.value))))
    }

    /// Writes a subscription and informs its worker. Returns false if another request changed it meanwhile.
    async fn write(
        &self,
        id: Id,
        expect: Expect,
        subscription: Subscription,
        is_new: bool,
        reservation: Option<Reservation>,
    ) -> Result<bool, Fault> {
        let change = Change {
            table: self.tables.subscriptions.clone(),
            key: id.key(),
            value: stored(&subscription),
            expect,
        };
        let changes = std::iter::once(change).chain(self.news_of(id)).collect();
        let version = match self.store.change(changes, None).await {
            Ok(versions) => versions.first().copied().unwrap_or(0),
            Err(Error::Conflict { .. }) => return Ok(false),
            Err(error) => return Err(store_fault(&error)),
        };
        // If there are other nodes, subscriptions are counted in the store, which has this one now.
        let reservation = reservation.filter(|_| !self.nodes.has_company());
        let subscription = Box::new(subscription);
        let update = SubscriptionUpdate::Written { id, version, subscription, is_new, reservation };
        // If another node owns it, that node reads the change from the store.
        let is_told = self.state.tell(id, update) || self.nodes.has_company();
        is_told.then_some(true).ok_or_else(busy)
    }

    /// Removes a subscription and informs its worker. Returns false if another request changed it meanwhile.
    pub(crate) async fn remove(&self, id: Id, expect: Expect) -> Result<bool, Fault> {
        match self.remove_row(id, expect, None).await {
            Ok(version) => {
                let is_told = self.state.tell(id, SubscriptionUpdate::Removed(id, version));
                (is_told || self.nodes.has_company()).then_some(true).ok_or_else(busy)
            }
            Err(Error::Conflict { .. }) => Ok(false),
            Err(error) => Err(store_fault(&error)),
        }
    }
}

/// Applies the requested terms to a subscription.
pub(crate) fn confirm(subscription: &mut Subscription, terms: Terms, clock: &LeaseClock) {
    subscription.until = Some(clock.until(terms.lease_seconds));
    subscription.terms = terms;
    subscription.intent = None;
}

fn full_fault(cause: impl Into<Box<str>>) -> Fault {
    Fault::new(Kind::RateLimited, cause).with_code(SUBSCRIPTIONS_CODE)
}

/// The asker: the subject, or without one the client's address. For IPv6 it is the client's /64 network, since one client has many
/// addresses (RFC 6177).
fn asker(ex: &Exchange, subject: &str) -> String {
    if !subject.is_empty() {
        return subject.to_owned();
    }
    match ex.client.to_canonical() {
        IpAddr::V4(address) => format!("client {address}"),
        IpAddr::V6(address) => {
            let network = Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64));
            format!("client {network}/64")
        }
    }
}

fn busy() -> Fault {
    Fault::new(Kind::StoreAway, "the queue of the subscription's worker is full")
}

fn contended() -> Fault {
    Fault::new(Kind::StoreAway, "other requests change the subscription at the same time")
}

fn unreadable() -> Fault {
    let cause = "the subscription in the store cannot be read: another version wrote it";
    Fault::new(Kind::StoreAway, cause)
}
