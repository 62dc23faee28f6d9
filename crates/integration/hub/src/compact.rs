//! The form in which a worker keeps subscriptions in memory. A worker may have hundreds of thousands of them, so values that many of them
//! share are stored once.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use kit::clock::Instant;

use crate::lease_clock::LeaseClock;
use crate::link_header::links;
use crate::subscription::{Intent, Subscription, Terms};
use crate::usage::Usage;

/// A subscription.
pub(crate) struct CompactSubscription {
    pub(crate) common: Rc<Common>,
    /// The callback as the subscriber wrote it.
    pub(crate) callback: Box<str>,
    pub(crate) secret: Option<Box<str>>,
    pub(crate) until: Option<u64>,
    /// When its lease ends, by the monotonic clock of this process.
    pub(crate) ends: Option<Instant>,
    pub(crate) from: u64,
    pub(crate) intent: Option<Box<Intent>>,
}

/// Values shared by the subscriptions of one subject to one topic.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) subject: Box<str>,
    pub(crate) plan: Option<Box<str>>,
    pub(crate) topic: Box<str>,
    /// The topic as the subscriber wrote it.
    pub(crate) asked: Box<str>,
    base: Box<str>,
    lease_seconds: u64,
    /// The `Link` header that is sent with each event.
    pub(crate) links: Box<str>,
    /// Requests in progress to callbacks of the subject.
    pub(crate) usage: Rc<Usage>,
}

/// The shared values of a worker's subscriptions.
#[derive(Default)]
pub(crate) struct CommonParts {
    known: HashSet<Rc<Common>>,
    /// By subject.
    usages: HashMap<Box<str>, Rc<Usage>>,
}

/// Unused shared values are removed when their number reaches this limit, and again each time it has doubled.
const MANY: usize = 1024;

impl CompactSubscription {
    /// The subscription as it is stored.
    pub(crate) fn to_stored(&self) -> Subscription {
        let Common { subject, plan, topic, asked, base, lease_seconds, .. } = &*self.common;
        Subscription {
            subject: subject.to_string(),
            plan: plan.as_deref().map(str::to_owned),
            topic: topic.to_string(),
            callback: self.callback.to_string(),
            until: self.until,
            terms: Terms {
                asked: asked.to_string(),
                secret: self.secret.as_deref().map(str::to_owned),
                lease_seconds: *lease_seconds,
                base: base.to_string(),
            },
            from: self.from,
            intent: self.intent.clone(),
        }
    }

    /// True if its lease has ended.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.ends.is_some_and(|ends| ends <= now)
    }
}

impl Common {
    /// The fields by which two shared values are compared.
    fn parts(&self) -> (&str, Option<&str>, &str, &str, &str, u64) {
        let Common { subject, plan, topic, asked, base, lease_seconds, .. } = self;
        (subject, plan.as_deref(), topic, asked, base, *lease_seconds)
    }
}

impl PartialEq for Common {
    fn eq(&self, other: &Common) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Common {}

impl Hash for Common {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl CommonParts {
    /// Converts a stored subscription to its compact form, which shares the values that are known already.
    pub(crate) fn known(
        &mut self,
        subscription: Subscription,
        clock: &LeaseClock,
    ) -> Rc<CompactSubscription> {
        let Subscription { subject, plan, topic, callback, until, terms, from, intent } =
            subscription;
        let Terms { asked, secret, lease_seconds, base } = terms;
        let common = Common {
            usage: self.usage(&subject),
            links: links(&base, &topic).into(),
            subject: subject.into(),
            plan: plan.map(String::into_boxed_str),
            topic: topic.into(),
            asked: asked.into(),
            base: base.into(),
            lease_seconds,
        };
        let common = self.shared(common);
        let ends = until.and_then(|until| clock.end(until, lease_seconds));
        let (callback, secret) = (callback.into(), secret.map(String::into_boxed_str));
        Rc::new(CompactSubscription { common, callback, secret, until, ends, from, intent })
    }

    fn shared(&mut self, common: Common) -> Rc<Common> {
        if let Some(known) = self.known.get(&common) {
            return known.clone();
        }
        if self.known.len() >= MANY && self.known.len().is_power_of_two() {
            self.known.retain(|common| Rc::strong_count(common) > 1);
        }
        let common = Rc::new(common);
        self.known.insert(common.clone());
        common
    }

    /// The counter of a subject's requests in progress.
    fn usage(&mut self, subject: &str) -> Rc<Usage> {
        if let Some(known) = self.usages.get(subject) {
            return known.clone();
        }
        if self.usages.len() >= MANY && self.usages.len().is_power_of_two() {
            self.usages.retain(|_, usage| Rc::strong_count(usage) > 1);
        }
        let usage = Rc::<Usage>::default();
        self.usages.insert(subject.into(), usage.clone());
        usage
    }

    /// Clears the queues of subscriptions that wait for a permit of their subject.
    pub(crate) fn clear_waiting(&self) {
        self.usages.values().for_each(|usage| usage.clear_waiting());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kit::{clock, fake};

    use super::*;

    fn subscription(subject: &str, number: usize) -> Subscription {
        Subscription {
            subject: subject.to_owned(),
            plan: Some("Gold".to_owned()),
            topic: "sports".to_owned(),
            callback: format!("http://a/{number}"),
            until: Some(10),
            terms: Terms {
                asked: "http://hub/topics/sports".to_owned(),
                secret: Some(format!("secret {number}")),
                lease_seconds: 60,
                base: "http://hub".to_owned(),
            },
            from: 3,
            intent: Some(Intent::Unsubscribe("sports".to_owned()).into()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_compact_subscription_keeps_all_fields_and_shares_the_common_ones() {
        fake::wall(Duration::ZERO);
        let (mut common_parts, lease_clock) = (CommonParts::default(), LeaseClock::new());
        let now = clock::now();
        let kept: Vec<Rc<CompactSubscription>> = (0..10)
            .map(|number| common_parts.known(subscription("ann", number), &lease_clock))
            .collect();
        let other = Subscription { plan: None, ..subscription("ann", 0) };
        let other = common_parts.known(other, &lease_clock);
        assert_eq!(common_parts.known.len(), 2);
        for (number, known) in kept.iter().enumerate() {
            assert_eq!(known.to_stored(), subscription("ann", number));
            assert!(Rc::ptr_eq(&known.common, &kept[0].common));
        }
        assert_eq!(other.to_stored().plan, None);
        assert_eq!(other.ends.map(|ends| ends - now), Some(Duration::from_secs(10)));
        for (seconds, is_over) in [(9, false), (10, true), (11, true)] {
            assert_eq!(other.is_over(now + Duration::from_secs(seconds)), is_over);
        }
    }

    #[test]
    fn unused_common_values_are_removed() {
        let (mut common_parts, lease_clock) = (CommonParts::default(), LeaseClock::new());
        let kept = common_parts.known(subscription("ann", 0), &lease_clock);
        for subject in 0..5 * MANY {
            common_parts.known(subscription(&subject.to_string(), 0), &lease_clock);
        }
        assert!(common_parts.known.len() <= MANY + 1, "{}", common_parts.known.len());
        assert!(Rc::ptr_eq(
            &common_parts.known(subscription("ann", 1), &lease_clock).common,
            &kept.common
        ));
    }
}
