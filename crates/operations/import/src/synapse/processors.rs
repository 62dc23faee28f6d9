//! Message processors: each becomes the flow, the retries and the pace of its store's queue.
//!
//! Owns what is known of the two products' processors. Apache Synapse begins all messages of a store at each interval, and repeats failed
//! attempts at the next one. Micro Integrator begins one message at each interval, and has another interval for attempts.

use serde_json::{Map, Value as Json, json};

use super::converter::{Converter, Flow, Side};
use super::element::{Element, label};
use super::endpoints::duration;
use super::known::{self, ConversionResult};
use super::pending::{PendingProperties, Sender};
use crate::table::Outcome;

/// The limits of a queue.
const ATTEMPTS_MAX: u64 = 1000;
const CONCURRENCY_MAX: u64 = 100;

/// The longest pause of a queue if it is not written.
const PAUSE_MS: u64 = 60_000;

/// The default of both intervals.
const INTERVAL_MS: u64 = 1000;

/// The messages that a sampling processor has in progress at once: the threads of Synapse, unless a file of the server says otherwise.
const SAMPLES: u64 = 20;

/// The classes of statuses that are failed attempts of a forwarding processor: all but 200 to 299.
const FAILED: [u16; 3] = [300, 400, 500];

/// A processor's class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// A forwarding processor of Apache Synapse, or of a product before WSO2's ESB 4.8.
    Forwarding,
    /// A forwarding processor of a later product of WSO2.
    PacedForwarding,
    Sampling,
}

impl Class {
    fn of(processor: &Element<'_>) -> Result<Class, String> {
        let class = processor.attribute("class").ok_or("it has no class")?;
        match class.rsplit('.').next() {
            Some("ScheduledMessageForwardingProcessor") if class.contains(".processors.") => {
                Ok(Class::Forwarding)
            }
            Some("ScheduledMessageForwardingProcessor") => Ok(Class::PacedForwarding),
            Some("SamplingProcessor") => Ok(Class::Sampling),
            _ => Err(format!("a processor of the class {class} has no counterpart")),
        }
    }
}

/// A processor that is being converted.
#[derive(Debug)]
struct Processor<'a> {
    class: Class,
    parameters: Vec<Element<'a>>,
}

impl Processor<'_> {
    /// The text of a parameter, if there is one.
    fn text(&self, name: &str) -> Option<String> {
        let mut named = self.parameters.iter().filter(|it| it.attribute("name") == Some(name));
        named.next().map(Element::text).filter(|text| !text.is_empty())
    }

    fn is_inactive(&self) -> bool {
        let is_stopped = self.text("max.deliver.attempts").is_some_and(|most| most == "0");
        let is_active = self.text("is.active");
        is_stopped || is_active.is_some_and(|text| !text.eq_ignore_ascii_case("true"))
    }

    /// True if it drops messages after the last attempt.
    fn drops(&self) -> bool {
        self.text("max.delivery.drop").is_some_and(|text| text == "Enabled")
            || self.text("max.deliver.drop").is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    /// The statuses that are not failures although they are not 200 to 299. As in Synapse, other texts have no effect.
    fn accepted(&self) -> Vec<u16> {
        // Harmless: without the parameter there are none.
        let codes = self.text("non.retry.status.codes").unwrap_or_default();
        // Harmless: a text that is not a status has no effect, as in Synapse.
        codes.split(',').filter_map(|code| code.trim().parse().ok()).collect()
    }
}

impl<'a> Converter<'a> {
    /// Converts a message processor to the flow of its store's queue.
    pub(super) fn processor(&mut self, processor: &Element<'a>) {
        let what = label(processor);
        let row = self.table.begin(what.clone(), processor.place());
        let notes = std::mem::take(&mut self.notes);
        let made = self.processed(processor);
        let notes = std::mem::replace(&mut self.notes, notes).join("; ");
        match made {
            Ok(()) if notes.is_empty() => {}
            Ok(()) => self.table.set(row, Outcome::Approximated, &notes),
            Err(why) => {
                self.table.set(row, Outcome::Refused, &why);
                self.out.remark("queues", &what, &processor.place(), &why);
            }
        }
    }

    fn processed(&mut self, element: &Element<'a>) -> Result<(), String> {
        self.check_artifact("messageProcessor", element)?;
        let store = element.attribute("messageStore").ok_or("it has no store")?;
        let processor =
            Processor { class: Class::of(element)?, parameters: element.all("parameter") };
        self.judge_parameters(&processor.parameters)?;
        check_deactivation(&processor)?;
        let queue = self.queue(store);
        if self.out.queues.get(&queue) != Some(&json!({})) {
            return Err(format!("another processor takes from `{store}` already"));
        }
        let mut keys = Map::new();
        match processor.class {
            Class::Sampling => sampled(self, &processor, &mut keys),
            Class::Forwarding | Class::PacedForwarding => {
                self.retried(&processor, &queue, &mut keys)?;
                self.paced(&processor, &mut keys);
                let reads_reply = processor.text("message.processor.reply.sequence").is_some();
                let is_one_way = self.artifacts.set.contains("OUT_ONLY");
                if processor.class == Class::PacedForwarding && !reads_reply && !is_one_way {
                    self.note("without a reply sequence, Synapse's processor stops at the first reply, unless the message is `OUT_ONLY`; here the queue goes on");
                }
                if reads_reply || processor.accepted().iter().any(|status| *status >= 500) {
                    keys.insert("fault_on".to_owned(), json!([]));
                }
            }
        }
        if processor.is_inactive() {
            keys.insert("paused".to_owned(), json!(true));
        }
        let name = self.out.fresh("flow", element.attribute("name").unwrap_or(store));
        let flow = self.processor_flow(&name, element, &processor)?;
        let flow = [("flow".to_owned(), json!(flow))];
        let keys: Map<String, Json> = flow.into_iter().chain(keys).collect();
        self.out.queues.insert(queue, Json::Object(keys));
        Ok(())
    }

    /// The keys for messages that fail.
    fn retried(
        &mut self,
        processor: &Processor<'a>,
        queue: &str,
        keys: &mut Map<String, Json>,
    ) -> Result<(), String> {
        let mut number = |name: &str| self.number(name, processor.text(name).as_deref());
        let attempts = number("max.delivery.attempts").or_else(|| number("max.deliver.attempts"));
        let own = number("client.retry.interval");
        let interval = match processor.class {
            Class::Forwarding => own.or_else(|| number("interval")),
            Class::PacedForwarding | Class::Sampling => own,
        };
        let pause = interval.unwrap_or(INTERVAL_MS);
        let most = attempts.filter(|most| *most <= ATTEMPTS_MAX);
        if most.is_none() {
            self.note("attempts end after a thousand; then the queue pauses, and the message keeps its place");
        }
        let mut retry = Map::from_iter([
            ("attempts".to_owned(), json!(most.unwrap_or(ATTEMPTS_MAX))),
            ("initial".to_owned(), json!(duration(pause))),
            ("factor".to_owned(), json!(1)),
        ]);
        if pause > PAUSE_MS {
            retry.insert("max".to_owned(), json!(duration(pause)));
        }
        let more = match processor.text("message.processor.failMessagesStore") {
            _ if most.is_none() => None,
            _ if processor.drops() => Some(("dead_letter".to_owned(), json!(false))),
            Some(store) => {
                let to = self.queue(&store);
                if to == queue {
                    return Err("`message.processor.failMessagesStore`: it is the store that the processor takes from".to_owned());
                }
                Some(("dead".to_owned(), json!({ "queue": to })))
            }
            None => None,
        };
        if more.is_none() {
            retry.insert("then".to_owned(), json!("pause"));
        }
        keys.insert("retry".to_owned(), Json::Object(retry));
        keys.extend(more);
        Ok(())
    }

    /// The keys for how many messages are begun, and when.
    fn paced(&mut self, processor: &Processor<'a>, keys: &mut Map<String, Json>) {
        let members = self.number("member.count", processor.text("member.count").as_deref());
        let count = members.unwrap_or(1);
        if count > 1 {
            self.note("a message that waits for another attempt does not hold back others");
            if count > CONCURRENCY_MAX {
                self.note("at most a hundred messages are in progress at once");
            }
            keys.insert("concurrency".to_owned(), json!(count.min(CONCURRENCY_MAX)));
            keys.insert("order".to_owned(), json!("free"));
        }
        let interval = processor.text("interval");
        match (processor.class, interval.as_deref()) {
            (Class::Forwarding, Some(_)) => {
                self.note("messages are taken as they come, not at an interval");
            }
            (Class::PacedForwarding, text) if text != Some("0") => {
                let interval = self.number("interval", text).unwrap_or(INTERVAL_MS);
                // Each of the tasks begins one message in an interval.
                let interval = (interval / count).max(1);
                keys.insert("interval".to_owned(), json!(duration(interval)));
            }
            (Class::PacedForwarding | Class::Forwarding | Class::Sampling, _) => {}
        }
    }

    /// The endpoint that a processor sends to: its own, or the only one that messages name.
    fn processor_endpoint(
        &mut self,
        processor: &Element<'a>,
        parameter: Option<String>,
    ) -> Option<String> {
        let own = processor.attribute("targetEndpoint").map(str::to_owned).or(parameter);
        own.or_else(|| {
            let named = self.message_endpoint()?;
            self.note(&format!(
                "messages that name no `target.endpoint` go to `{named}` too, as the others do"
            ));
            Some(named)
        })
    }

    /// The endpoint that messages themselves name in `target.endpoint`, if all name the same one.
    fn message_endpoint(&self) -> Option<String> {
        let mut named = self.artifacts.message_endpoints.iter();
        named.next().filter(|_| named.next().is_none()).map(|name| (*name).to_owned())
    }

    /// Looks up the parameters of a processor in the table of known parts, and notes the differences.
    fn judge_parameters(&mut self, parameters: &[Element<'a>]) -> Result<(), String> {
        for parameter in parameters {
            let (name, text) = (parameter.attribute("name").unwrap_or(""), parameter.text());
            if text.is_empty() {
                continue;
            }
            match known::named("processor parameter", name, &text) {
                ConversionResult::Refused(why) => return Err(format!("`{name}`: {why}")),
                ConversionResult::Differs(how) => self.note(how),
                ConversionResult::Same | ConversionResult::MayDiffer(_) => {}
            }
        }
        Ok(())
    }

    /// The flow for one message of a store. If it cannot be made, nothing of it stays.
    fn processor_flow(
        &mut self,
        name: &str,
        element: &Element<'a>,
        processor: &Processor<'a>,
    ) -> Result<String, String> {
        let endpoint = match processor.class {
            Class::Sampling => None,
            Class::Forwarding | Class::PacedForwarding => {
                self.processor_endpoint(element, processor.text("target.endpoint"))
            }
        };
        let catch = match processor.text("message.processor.fault.sequence") {
            Some(key) if processor.class != Class::Sampling => Some(self.attempt_sequence(&key)?),
            _ => None,
        };
        let flow = Flow { name: name.to_owned(), is_attempt: true, ..Flow::default() };
        let mut failed = None;
        let make = |this: &mut Self| match this.processor_steps(processor, endpoint) {
            Ok(steps) => steps,
            Err(why) => {
                failed = Some(why);
                Vec::new()
            }
        };
        let flow = self.flow_of(flow, make, catch);
        if let Some(why) = failed {
            self.out.flows.shift_remove(&flow);
            return Err(why);
        }
        Ok(flow)
    }

    /// The mediators of a sequence that runs after each failed attempt. Sequences in it are flows of their own, which must not end it.
    fn attempt_sequence(&mut self, key: &str) -> Result<Vec<Element<'a>>, String> {
        let (key, sequence) = self.sequence_by_key(key)?;
        self.used.push(key.to_owned());
        let (mut open, mut seen) = (vec![sequence], vec![key]);
        while let Some(sequence) = open.pop() {
            let items = sequence.descendants();
            let named = items.iter().filter(|item| item.name() == "sequence");
            // Harmless: a sequence without a key has its mediators in it.
            let keys = named.filter_map(|item| item.attribute("key"));
            // Harmless: a sequence that is not there is refused where it is converted.
            for (key, inner) in keys.filter_map(|key| self.artifacts.sequences.get_key_value(key)) {
                let ends = |item: &Element<'_>| matches!(item.name(), "drop" | "respond" | "store");
                if inner.descendants().iter().any(ends) {
                    return Err(format!(
                        "`message.processor.fault.sequence`: the sequence `{key}` in it ends the flow"
                    ));
                }
                if !seen.contains(key) {
                    seen.push(key);
                    open.push(*inner);
                }
            }
        }
        Ok(sequence.children())
    }

    /// The steps for one message of a store.
    fn processor_steps(
        &mut self,
        processor: &Processor<'a>,
        endpoint: Option<String>,
    ) -> Result<Vec<Json>, String> {
        let mut steps: Vec<Json> = self.begin_kept().into_iter().collect();
        if processor.class == Class::Sampling {
            let key = processor.text("sequence").ok_or("it names no sequence")?;
            self.named_sequence(&key, &mut steps)?;
            return Ok(steps);
        }
        let key = endpoint.ok_or("it names no endpoint")?;
        let targets = self.endpoint_by_key(&key)?;
        let [target] = targets.as_slice() else {
            return Err("a recipient list has no counterpart here".to_owned());
        };
        let fails = failed_statuses(&processor.accepted());
        self.call(target, Map::from_iter([("fault_on".to_owned(), json!(fails))]), &mut steps)?;
        if let Some(key) = processor.text("message.processor.reply.sequence") {
            self.reply_steps(&key, processor.class, &mut steps)?;
        }
        Ok(steps)
    }

    /// The steps for the reply to a message. In the products of WSO2 a fault in them does not fail the attempt, since the message was sent.
    fn reply_steps(
        &mut self,
        key: &str,
        class: Class,
        steps: &mut Vec<Json>,
    ) -> Result<(), String> {
        if class == Class::Forwarding {
            self.flow.side = Side::Reply;
            return self.named_sequence(key, steps).map(drop);
        }
        let name = self.out.fresh("flow", &format!("{}-reply", self.flow.name));
        let pending = PendingProperties { sender: Sender::Service, ..Default::default() };
        let flow = Flow { name, side: Side::Reply, pending, is_attempt: true, ..Flow::default() };
        let mut failed = None;
        let make = |this: &mut Self| {
            let mut steps = Vec::new();
            failed = this.named_sequence(key, &mut steps).err();
            steps
        };
        let name = self.inner_flow(flow, make, None);
        if let Some(why) = failed {
            self.out.flows.shift_remove(&name);
            return Err(why);
        }
        if let Some(flow) = self.out.flows.get_mut(&name) {
            let text = "the reply to a message was not processed: {{ $error.message }}";
            let catch = json!([{ "log": { "level": "error", "message": text } }, { "drop": {} }]);
            if let Json::Object(keys) = flow {
                keys.insert("catch".to_owned(), catch);
            } else {
                *flow = json!({ "steps": flow.take(), "catch": catch });
            }
        }
        steps.push(json!({ "sequence": name }));
        Ok(())
    }
}

/// A sequence at a deactivation runs nowhere, so a processor that may stop must not have one.
fn check_deactivation(processor: &Processor<'_>) -> Result<(), String> {
    let is_kept = processor.text("message.processor.failMessagesStore").is_some();
    let never_stops = processor.drops() || is_kept;
    let has_reply = processor.text("message.processor.reply.sequence").is_some();
    if processor.text("message.processor.deactivate.sequence").is_some()
        && !(never_stops && has_reply)
    {
        return Err("`message.processor.deactivate.sequence`: a queue that pauses runs nothing; it writes a warning to the log".to_owned());
    }
    Ok(())
}

/// The keys for messages that a sequence gets, once each and without waiting for the one before.
fn sampled(c: &mut Converter<'_>, processor: &Processor<'_>, keys: &mut Map<String, Json>) {
    let count = c.number("concurrency", processor.text("concurrency").as_deref()).unwrap_or(1);
    let interval = c.number("interval", processor.text("interval").as_deref());
    let interval = (interval.unwrap_or(INTERVAL_MS) / count).max(1);
    let more = [
        ("fault_on", json!([])),
        ("retry", json!({ "attempts": 1 })),
        ("dead_letter", json!(false)),
        ("concurrency", json!(SAMPLES)),
        ("order", json!("free")),
        ("interval", json!(duration(interval))),
    ];
    keys.extend(more.map(|(key, value)| (key.to_owned(), value)));
}

/// The statuses that are failed attempts, except for those that are accepted.
fn failed_statuses(accepted: &[u16]) -> Vec<Json> {
    let mut statuses = Vec::new();
    for class in FAILED {
        let (mut first, last) = (class, class + 99);
        let mut within: Vec<u16> =
            accepted.iter().copied().filter(|status| (first..=last).contains(status)).collect();
        if within.is_empty() {
            statuses.push(json!(format!("{}xx", class / 100)));
            continue;
        }
        within.sort_unstable();
        within.dedup();
        for end in within.into_iter().chain([last + 1]) {
            match end - first {
                0 => {}
                1 => statuses.push(json!(first)),
                _ => statuses.push(json!(format!("{first}-{}", end - 1))),
            }
            first = end + 1;
        }
    }
    statuses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_statuses_leave_out_the_accepted_ones() {
        for (accepted, expected) in [
            (&[][..], json!(["3xx", "4xx", "5xx"])),
            (&[200, 201, 7, 600], json!(["3xx", "4xx", "5xx"])),
            (&[404], json!(["3xx", "400-403", "405-499", "5xx"])),
            (&[503, 400, 499, 401, 403, 503], json!(["3xx", 402, "404-498", "500-502", "504-599"])),
            (&[599, 300], json!(["301-399", "4xx", "500-598"])),
        ] {
            assert_eq!(json!(failed_statuses(accepted)), expected, "{accepted:?}");
        }
    }
}
