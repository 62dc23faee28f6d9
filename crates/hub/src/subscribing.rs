//! What a hub does with the requests of subscribers.

use std::time::Duration;

use bytes::Bytes;
use fault::{Fault, Kind};
use message::{Body, Reply, Request};
use policy::Exchange;
use store::{Change, Error, Expect, Row};

use crate::callback;
use crate::hub::{Hub, Topic};
use crate::hub_state::{Full, Note};
use crate::lease_clock::LeaseClock;
use crate::reader::store_fault;
use crate::subscribe::{self, Mode, SubscriptionRequest};
use crate::subscription::{Id, Intent, Subscription, Terms, read, stored};

/// How often a request is tried again after somebody else changed the same subscription.
const TRIES: usize = 4;

/// The reference system's code for too many subscriptions.
const SUBSCRIPTIONS_CODE: u32 = 900_808;

/// The longest time that the name of a callback is looked up for.
const LOOK_UP: Duration = Duration::from_secs(5);

/// A subscriber's request with what was found about it.
struct Wish<'a> {
    asked: SubscriptionRequest,
    topic: &'a Topic,
    subject: String,
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
        let form = match subscribe::is_form(&request.head.headers) {
            true => {
                let body = std::mem::take(&mut request.body);
                body.gather(subscribe::FORM_BYTES_MAX, Kind::BodyTooLarge).await?
            }
            false => Bytes::new(),
        };
        let topic_of = |text: &str| self.topic_of(text);
        let (asked, topic) = subscribe::read(&request.head, Some(&form), topic_of)?;
        let subject = ex.identity.as_ref().map_or("", |identity| &*identity.subject).to_owned();
        let plan = ex.identity.as_ref().and_then(|identity| identity.tier.as_deref());
        let plan = plan.map(str::to_owned);
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
        let wish = Wish { asked, topic, subject, plan, id, terms };
        match wish.asked.mode {
            Mode::Subscribe => self.subscribe(wish).await?,
            Mode::Unsubscribe => self.unsubscribe(wish).await?,
        }
        Ok(Reply::new(status, Body::Empty))
    }

    /// The topic that a text means: by its name, or by its URL, which ends with the name.
    fn topic_of(&self, text: &str) -> Option<&Topic> {
        self.topic(text.as_bytes()).or_else(|| {
            let path = text.strip_prefix("http").filter(|rest| rest.contains("://"))?;
            let (_, name) = path.rsplit_once("/topics/")?;
            self.topic(name.as_bytes())
        })
    }

    async fn subscribe(&self, wish: Wish<'_>) -> Result<(), Fault> {
        let permitted = callback::is_permitted(&wish.asked.callback, &self.settings.callbacks);
        let permitted = tokio::time::timeout(LOOK_UP, permitted).await;
        permitted
            .unwrap_or(Err("The host of `hub.callback` is unknown."))
            .map_err(subscribe::wrong)?;
        for _ in 0..TRIES {
            let known = self.row(wish.id).await?;
            let now = self.lasting.lease_clock.now();
            let (expect, known) = match known {
                None => (Expect::Nothing, None),
                Some((row, known)) => {
                    let known = known.filter(|known| !known.is_over(now));
                    (Expect::Version(row.version), known)
                }
            };
            let is_new = known.is_none();
            let mut subscription = match known {
                Some(known) => known,
                None => self.new_subscription(&wish).await?,
            };
            match self.settings.verify {
                true => subscription.intent = Some(Intent::Subscribe(wish.terms.clone()).into()),
                false => {
                    confirm(&mut subscription, wish.terms.clone(), &self.lasting.lease_clock);
                }
            }
            subscription.plan.clone_from(&wish.plan);
            if is_new {
                self.reserve(&wish).await?;
            }
            match self.write(wish.id, expect, subscription, is_new).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(fault) => return Err(fault),
            }
        }
        Err(busy())
    }

    /// Takes a place for a new subscription, if there are fewer than may be, on all nodes.
    async fn reserve(&self, wish: &Wish<'_>) -> Result<(), Fault> {
        let limits = self.settings.limits.as_ref();
        let of_subject = limits.and_then(|limits| limits.of(wish.plan.as_deref()).subscriptions);
        let (subject, max) = (&*wish.subject, self.settings.subscriptions_max);
        let reserved = match self.nodes.is_alone() {
            true => self.lasting.reserve(subject, max, of_subject.unwrap_or(usize::MAX)),
            false => self.reserve_beside_others(subject, max, of_subject).await?,
        };
        reserved.map_err(|full| {
            let cause = match full {
                Full::Hub => format!("{max} subscriptions"),
                Full::Subject => "as many subscriptions of one subject as its plan has".to_owned(),
            };
            Fault::new(Kind::RateLimited, cause).with_code(SUBSCRIPTIONS_CODE)
        })
    }

    /// The same where other nodes have subscriptions too.
    async fn reserve_beside_others(
        &self,
        subject: &str,
        max: usize,
        of_subject: Option<usize>,
    ) -> Result<Result<(), Full>, Fault> {
        if let Some(most) = of_subject {
            let count = self.count_of(subject).await.map_err(|error| store_fault(&error))?;
            if count + self.lasting.reserved_of(subject) >= most {
                return Ok(Err(Full::Subject));
            }
        }
        if self.lasting.reserve_far_below(subject, max) {
            return Ok(Ok(()));
        }
        let count = self.count(max).await.map_err(|error| store_fault(&error))?;
        let fits = self.lasting.reserve_beside(subject, count, max);
        Ok(if fits { Ok(()) } else { Err(Full::Hub) })
    }

    async fn new_subscription(&self, wish: &Wish<'_>) -> Result<Subscription, Fault> {
        let span = self.store.span(&wish.topic.log).await.map_err(|error| store_fault(&error))?;
        Ok(Subscription {
            subject: wish.subject.clone(),
            plan: wish.plan.clone(),
            topic: wish.topic.name.clone().into(),
            callback: wish.asked.callback.written.clone(),
            until: None,
            terms: Terms::default(),
            from: span.newest,
            intent: None,
        })
    }

    async fn unsubscribe(&self, wish: Wish<'_>) -> Result<(), Fault> {
        for _ in 0..TRIES {
            let Some((row, Some(mut subscription))) = self.row(wish.id).await? else {
                return Ok(());
            };
            let expect = Expect::Version(row.version);
            let is_done = match self.settings.verify {
                true => {
                    subscription.intent =
                        Some(Intent::Unsubscribe(wish.terms.asked.clone()).into());
                    self.write(wish.id, expect, subscription, false).await?
                }
                false => self.remove(wish.id, expect).await?,
            };
            if is_done {
                return Ok(());
            }
        }
        Err(busy())
    }

    /// The row of a subscription, with what it says.
    pub(crate) async fn row(&self, id: Id) -> Result<Option<(Row, Option<Subscription>)>, Fault> {
        let row = self.store.get(&self.tables.subscriptions, &id.key()).await;
        let row = row.map_err(|error| store_fault(&error))?;
        Ok(row.map(|row| {
            let subscription = read(&row.value);
            (row, subscription)
        }))
    }

    /// Writes a subscription and tells its worker. False if somebody else changed it meanwhile.
    async fn write(
        &self,
        id: Id,
        expect: Expect,
        subscription: Subscription,
        is_new: bool,
    ) -> Result<bool, Fault> {
        let change = Change {
            table: self.tables.subscriptions.clone(),
            key: id.key(),
            value: stored(&subscription),
            expect,
        };
        let subject = subscription.subject.clone();
        let changes = std::iter::once(change).chain(self.news_of(id)).collect();
        let written = self.store.change(changes, None).await;
        let version = match written {
            Ok(versions) => versions.first().copied().unwrap_or_default(),
            Err(error) => {
                if is_new {
                    self.lasting.release(&subject);
                }
                return match matches!(error, Error::Conflict { .. }) {
                    true => Ok(false),
                    false => Err(store_fault(&error)),
                };
            }
        };
        if is_new && !self.nodes.is_alone() {
            // It is counted in the store from now on.
            self.lasting.release(&subject);
        }
        let subscription = Box::new(subscription);
        if self.lasting.tell(id, Note::Written { id, version, subscription, is_new }) {
            return Ok(true);
        }
        if !self.nodes.is_alone() {
            // Its node reads of it in the store.
            return Ok(true);
        }
        if is_new {
            self.lasting.release(&subject);
        }
        Err(busy())
    }

    /// Removes a subscription and tells its worker. False if somebody else changed it meanwhile.
    pub(crate) async fn remove(&self, id: Id, expect: Expect) -> Result<bool, Fault> {
        match self.remove_row(id, expect, None).await {
            Ok(version) => {
                let is_told = self.lasting.tell(id, Note::Removed(id, version));
                (is_told || !self.nodes.is_alone()).then_some(true).ok_or_else(busy)
            }
            Err(Error::Conflict { .. }) => Ok(false),
            Err(error) => Err(store_fault(&error)),
        }
    }
}

/// Makes what was asked for the terms of a subscription.
pub(crate) fn confirm(subscription: &mut Subscription, terms: Terms, clock: &LeaseClock) {
    subscription.until = Some(clock.until(terms.lease_seconds));
    subscription.terms = terms;
    subscription.intent = None;
}

fn busy() -> Fault {
    Fault::new(Kind::StoreAway, "the worker of the subscription has too much to do")
}
