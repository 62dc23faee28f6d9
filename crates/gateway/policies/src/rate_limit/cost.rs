//! A limit on costs that replies state. Owns how costs are read and charged. They are counted in the same kind of table as requests.

use std::sync::Arc;

use fault::{Fault, Kind};
use message::{Headers, ReplyHead, RequestHead};
use policy::{Decision, Exchange, Flow, OnCall, OnHead, Onward, Policy, Slot, Slots, Step};

use super::counts::CountVerdict;
use super::kong::NamedLines;
use super::shared::SharedCounts;
use super::{CountedKey, Limit, LimitHeaders};

/// How a limit learns the cost of a request.
#[derive(Debug)]
pub struct CostSettings {
    /// The header of the reply with the cost.
    pub header: String,
    /// The name of the limit in that header. Without one, the header is a number.
    pub name: Option<Box<str>>,
    /// Whether a request is refused if nothing of the limit is left.
    pub refuses_requests: bool,
    /// Whether a reply is refused, without a charge, if nothing of the limit is left. Otherwise, its cost is charged beyond the limit.
    pub refuses_replies: bool,
    /// Whether the header is removed from the reply.
    pub removes: bool,
    /// The request header that tells the upstream how much of the limit is left.
    pub upstream_header: Option<String>,
}

struct CostLimit {
    limit: Limit,
    shared: Option<Arc<SharedCounts>>,
    cost: CostSettings,
    /// The key of a request that passed.
    counted: Slot<PendingCharge>,
}

/// The key of a request whose cost is not known yet.
struct PendingCharge {
    /// The index of the tier in the policy.
    number: u32,
    key: u64,
}

/// The request step, which charges nothing.
struct Admit(Arc<CostLimit>);

/// The response step, which charges the cost.
struct Charge(Arc<CostLimit>);

/// Returns the policy for a limit with costs.
pub(super) fn policy(
    mut limit: Limit,
    shared: Option<Arc<SharedCounts>>,
    cost: CostSettings,
    slots: &mut Slots,
) -> Policy {
    limit.named = cost.name.as_deref().map(NamedLines::new);
    let is_shared = shared.is_some();
    let all = Arc::new(CostLimit { limit, shared, cost, counted: slots.assign() });
    let admit = Admit(all.clone());
    Policy {
        name: "rate_limit",
        request: Some(if is_shared {
            Step::Call(Box::new(admit))
        } else {
            Step::Head(Box::new(admit))
        }),
        response: Some(Step::Head(Box::new(Charge(all)))),
    }
}

impl CostLimit {
    fn look(&self, key: &CountedKey<'_>) -> CountVerdict {
        self.limit.counts.look(key.key, key.number, &key.tier.windows)
    }

    /// Refuses a request, or lets it pass and keeps its key for the reply.
    fn admitted(
        &self,
        ex: &mut Exchange,
        head: &mut RequestHead,
        key: &CountedKey<'_>,
        looked: &CountVerdict,
    ) -> Flow {
        if let Some(wait) = looked.wait.filter(|_| self.cost.refuses_requests) {
            return Err(self.limit.refusal(key.tier, looked, wait));
        }
        if let Some(name) = &self.cost.upstream_header {
            // Harmless: a limit has at least one window.
            let left = key.tier.windows.iter().zip(&looked.standings);
            let left = left.map(|(_, standing)| standing.remaining).min().unwrap_or(0);
            head.headers.remove(name);
            head.headers.add(name, itoa::Buffer::new().format(left).as_bytes()).map_err(|_| {
                Fault::new(
                    Kind::ProcessingFailed,
                    "rate_limit: the request has too many header lines",
                )
            })?;
        }
        self.counted.put(ex, PendingCharge { number: key.number, key: key.key });
        Ok(Onward::Next)
    }

    /// Returns the cost that a reply states. If it states several, the last one counts. Texts that are not whole numbers are ignored.
    fn cost(&self, headers: &Headers) -> u32 {
        // Harmless: a value that is not UTF-8 contains no number.
        let texts = headers.get_all(&self.cost.header).filter_map(|v| std::str::from_utf8(v).ok());
        let items = texts.flat_map(|text| text.split(','));
        // Harmless: an item with another name is the cost of another limit.
        let costs = items.filter_map(|item| {
            let number = match &self.cost.name {
                None => item,
                Some(wanted) => {
                    let (name, number) = item.split_once('=')?;
                    (name.trim() == &**wanted).then_some(number)?
                }
            };
            // Harmless: a text that is not a whole number costs nothing.
            kit::digits::whole(number.trim())
        });
        // Harmless: a reply without a cost costs nothing.
        costs.last().unwrap_or(0)
    }
}

impl OnHead<RequestHead> for Admit {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let Some(key) = self.0.limit.counted(ex, head, "") else { return Ok(Onward::Next) };
        let looked = self.0.look(&key);
        self.0.admitted(ex, head, &key, &looked)
    }
}

impl OnCall<RequestHead> for Admit {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        let Some(key) = self.0.limit.counted(ex, head, "") else {
            return Decision::Ready(Ok(Onward::Next));
        };
        let looked = self.0.look(&key);
        let shared = self.0.shared.as_deref().filter(|shared| !shared.is_away());
        // The local counts contain only what was charged, so a limit that is used up here is used up at all gateways.
        let Some(shared) = shared.filter(|_| looked.wait.is_none()) else {
            return Decision::Ready(self.0.admitted(ex, head, &key, &looked));
        };
        Decision::Waits(Box::pin(async move {
            let looked = match shared.ask(key.key, key.number, false).await {
                Some(answer) => CountVerdict::from_store(
                    &key.tier.windows,
                    answer.passes,
                    &answer.numbers,
                    answer.now,
                ),
                // The store is unavailable, so the local counts decide.
                None => looked,
            };
            self.0.admitted(ex, head, &key, &looked)
        }))
    }
}

impl OnHead<ReplyHead> for Charge {
    fn on_head(&self, ex: &mut Exchange, head: &mut ReplyHead) -> Flow {
        let CostLimit { limit, cost, counted, .. } = &*self.0;
        let Some(PendingCharge { number, key }) = counted.remove(ex) else {
            return Ok(Onward::Next);
        };
        let Some(tier) = limit.tiers.get(number as usize) else { return Ok(Onward::Next) };
        let key = CountedKey { tier, number, key };
        // A cached reply states the cost of the request that fetched it, which was charged then.
        let spent = if head.headers.contains("age") { 0 } else { self.0.cost(&head.headers) };
        if cost.removes {
            head.headers.remove(&cost.header);
        }
        let taken = match spent {
            0 => CountVerdict { wait: None, ..self.0.look(&key) },
            _ => {
                let owed = !cost.refuses_replies;
                limit.counts.spend(key.key, number, &tier.windows, spent, owed)
            }
        };
        if let Some(wait) = taken.wait {
            return Err(limit.refusal(tier, &taken, wait));
        }
        if limit.headers != LimitHeaders::None {
            let mut reply_lines = None;
            limit.add_lines(tier, &taken, &mut reply_lines);
            // Harmless: without a window, there are no lines to add.
            reply_lines.iter().for_each(|lines| head.headers.add_all(lines));
        }
        Ok(Onward::Next)
    }
}
