//! Compiles `queues`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ::flows::FlowEnd;
use ::queues::{DeadBounds, Entrance, Exhausted, Order, Queue, QueueSettings, Retries};
use config::{Config, QueueExhausted, QueueOrder, Report, Spanned};

use crate::flows::{self, Entrances, Flows};
use crate::listeners::count;
use crate::policy_builder::PolicyBuilder;
use crate::{hubs, names};

/// Makes the entrances, which steps of flows use to store messages.
pub(crate) fn entrances(config: &Config, builder: &mut PolicyBuilder<'_>) -> Entrances {
    let mut entrances = Entrances::new();
    for (name, _) in config.queues.iter() {
        let (store, metrics) = (hubs::store(builder), builder.telemetry.queue(&name.value));
        let entrance = Arc::new(Entrance::new(&name.value, store, metrics));
        entrances.insert(name.value.clone(), entrance);
    }
    entrances
}

/// Compiles all queues and complains about their faults.
pub(crate) fn compile(
    config: &Config,
    entrances: &Entrances,
    flows: &Flows,
    builder: &mut PolicyBuilder<'_>,
    report: &mut Report,
) -> Vec<Arc<Queue>> {
    let mut queues = Vec::new();
    for (name, queue) in config.queues.iter() {
        let keys = &queue.value;
        let settings = settings(queue, report);
        if keys.flow.intact {
            names::known("flow", &keys.flow, &config.flows, report);
        }
        if check_dead_queue(config, name, keys, report) {
            warn_of_cycle(config, name, queue, report);
        }
        let flow = flows.get(&keys.flow.value);
        let (Some(flow), Some(entrance)) = (flow, entrances.get(&name.value)) else { continue };
        let end = FlowEnd {
            flow: flow.clone(),
            route: name.value.as_str().into(),
            slots: flows.slots.clone(),
            parameters: Arc::default(),
        };
        let taken = format!("who processes the queue {}", name.value);
        let is_taken = builder.reuse_or_build(&taken, || Arc::new(AtomicBool::new(false)));
        let nodes = builder.store.get_or_default().nodes().clone();
        // Harmless: a name that is not known was complained of above.
        let dead_entrance = keys.dead.queue.as_ref().and_then(|to| entrances.get(&to.value));
        let queue = Queue::new(settings, entrance.clone(), end, is_taken, nodes);
        queues.push(Arc::new(queue.with_dead_entrance(dead_entrance.cloned())));
    }
    queues
}

/// Checks the queue for dead messages, and that there may be any. Returns false if it is this queue itself.
fn check_dead_queue(
    config: &Config,
    name: &Spanned<String>,
    keys: &config::Queue,
    report: &mut Report,
) -> bool {
    let Some(to) = &keys.dead.queue else { return true };
    if to.value == name.value {
        let help = "write another queue, or leave the key out to keep dead messages here";
        report.error(to.at, "dead messages would be put back into this queue", help);
        return false;
    }
    names::known("queue", to, &config.queues, report);
    if keys.retry.then == QueueExhausted::Pause {
        let what = "no message is dead with `retry: { then: pause }`";
        report.warn(to.at, what, "leave out one of the two");
    } else if !keys.dead_letter {
        let what = "dead messages are put into this queue in spite of `dead_letter: false`";
        report.warn(to.at, what, "leave out one of the two");
    }
    true
}

/// Warns of a queue whose messages may be stored in the same queue again. Whether that happens depends on the messages.
fn warn_of_cycle(
    config: &Config,
    name: &Spanned<String>,
    queue: &Spanned<config::Queue>,
    report: &mut Report,
) {
    let (mut reached, mut open) = (BTreeSet::new(), vec![&queue.value]);
    while let Some(queue) = open.pop() {
        let dead = queue.dead.queue.as_ref().map(|to| to.value.as_str());
        for next in flows::queues_of(config, &queue.flow.value).into_iter().chain(dead) {
            if reached.insert(next) {
                open.extend(config.queues.get(next).map(|queue| &queue.value));
            }
        }
    }
    if reached.contains(name.value.as_str()) {
        let what = format!("messages of the queue `{}` may be put back into it", name.value);
        let fix = "make sure that a step ends this, or messages circulate forever";
        report.warn(queue.value.flow.at, what, fix);
    }
}

fn settings(queue: &Spanned<config::Queue>, report: &mut Report) -> QueueSettings {
    let config::Queue { retry, dead_letter, dead, concurrency, order, .. } = &queue.value;
    let fault_on = queue.value.fault_on.as_ref();
    let is_strict = *order == QueueOrder::Strict;
    if concurrency.value.get() > 1 && is_strict {
        let what = "messages in strict order are processed one at a time";
        report.warn(concurrency.at, what, "write `order: free` too, or `concurrency: 1`");
    }
    if retry.initial.0 > retry.max.0 {
        let what = "`initial` is longer than `max`, so `max` is used";
        report.warn(queue.at, what, "in `retry`, write an `initial` of at most `max`");
    }
    QueueSettings {
        retries: Retries {
            attempts: retry.attempts.get(),
            initial: retry.initial.0,
            factor_permille: retry.factor.permille(),
            max: retry.max.0,
        },
        exhausted: match retry.then {
            QueueExhausted::Dead => Exhausted::Dead,
            QueueExhausted::Pause => Exhausted::Pause,
        },
        fault_on: fault_on
            .map(|classes| classes.iter().map(|class| (class.first, class.last)).collect()),
        dead_letter: *dead_letter,
        dead: DeadBounds {
            messages_max: dead.messages_max.get().into(),
            bytes_max: dead.bytes_max.0,
            age_max: dead.age_max.0,
        },
        concurrency: if is_strict { 1 } else { count(concurrency.value.get()) },
        order: match order {
            QueueOrder::Strict => Order::Strict,
            QueueOrder::Free => Order::Free,
        },
        interval: queue.value.interval.map_or(Duration::ZERO, |interval| interval.0),
        is_paused: queue.value.paused,
    }
}
