//! Queues and schedules: message stores with their processors, and tasks.

use serde_json::{Map, Value as Json, json};

use super::converter::{Converter, Flow};
use super::element::{Element, label};
use super::endpoints::duration;
use super::known::{self, ConversionResult};
use crate::table::Outcome;

/// The limit of attempts in a queue.
const ATTEMPTS_MAX: u64 = 1000;

/// The default number of attempts of a processor.
const ATTEMPTS: u64 = 4;
/// The default time between attempts.
const INTERVAL_MS: u64 = 1000;

/// The note for a store without a processor.
const UNPROCESSED: &str = "; no processor takes its messages: they are kept as dead ones, which an operator retries once the queue has a flow";

impl<'a> Converter<'a> {
    /// The queue for a message store; it is made when something first needs it.
    pub(super) fn queue(&mut self, store: &str) -> String {
        if let Some((_, name)) = self.queue_names.iter().find(|(known, _)| known == store) {
            return name.clone();
        }
        let name = self.out.fresh("queue", store);
        self.queue_names.push((store.to_owned(), name.clone()));
        self.out.queues.insert(name.clone(), json!({}));
        name
    }

    /// The database with this URL.
    pub(super) fn database(&mut self, wanted: &str, url: &str) -> String {
        let known =
            self.out.databases.iter().find(|(_, keys)| keys.get("url") == Some(&json!(url)));
        if let Some((name, _)) = known {
            return name.clone();
        }
        let name = self.out.fresh("database", wanted);
        self.out.databases.insert(name.clone(), json!({ "url": url }));
        name
    }

    /// Converts a message store to a queue.
    pub(super) fn store(&mut self, store: &Element<'a>) {
        let name = store.attribute("name").unwrap_or("");
        if let Err(why) = known::judge("messageStore", store).result() {
            self.refuse("queues", &label(store), store.place(), &why);
            return;
        }
        self.queue(name);
        let class = store.attribute("class").unwrap_or("the default");
        let class = class.rsplit('.').next().unwrap_or(class).to_owned();
        let kept = if self.is_processed(name) { "" } else { UNPROCESSED };
        let note = format!("the queue is the gateway's own and durable, not that of {class}{kept}");
        self.artifact(store, Outcome::Approximated, &note);
    }

    /// Gives each queue that no processor takes from a flow that fails. Its messages stay there as in a store, among the dead ones.
    pub(super) fn keep_unprocessed(&mut self) {
        let unprocessed = self.out.queues.iter().filter(|(_, keys)| **keys == json!({}));
        for queue in unprocessed.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            let flow = self.out.fresh("flow", &queue);
            let fault = json!({ "code": "server", "reason": "nothing processes these messages" });
            self.out.flows.insert(flow.clone(), json!([{ "fault": fault }]));
            let keys = json!({ "flow": flow, "retry": { "attempts": 1 }, "dead_letter": true });
            self.out.queues.insert(queue, keys);
        }
    }

    /// True if a processor takes the messages of a store.
    pub(super) fn is_processed(&self, store: &str) -> bool {
        self.artifacts.processors.iter().any(|taken| taken.attribute("messageStore") == Some(store))
    }

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

    fn processed(&mut self, processor: &Element<'a>) -> Result<(), String> {
        self.check_artifact("messageProcessor", processor)?;
        let class = processor.attribute("class").unwrap_or("");
        let store = processor.attribute("messageStore").ok_or("it has no store")?;
        let parameters = processor.all("parameter");
        let parameter = |name: &str| text_of(&parameters, name);
        self.judge_parameters(&parameters)?;
        self.check_failures(&parameters)?;
        let queue = self.queue(store);
        let name = self.out.fresh("flow", processor.attribute("name").unwrap_or(store));
        let flow = Flow { name, ..Flow::default() };
        let is_sampling = class.ends_with("SamplingProcessor");
        let endpoint = self.processor_endpoint(processor, parameter("target.endpoint"));
        let sequence = parameter("sequence");
        let reply = parameter("message.processor.reply.sequence");
        let mut failed = None;
        let flow = self.flow_of(
            flow,
            |this| match this.processor_steps(is_sampling, endpoint, sequence, reply) {
                Ok(steps) => steps,
                Err(why) => {
                    failed = Some(why);
                    Vec::new()
                }
            },
            None,
        );
        if let Some(why) = failed {
            self.out.flows.shift_remove(&flow);
            return Err(why);
        }
        let mut keys = Map::from_iter([("flow".to_owned(), json!(flow))]);
        if !is_sampling {
            self.retried(&parameters, &mut keys);
        }
        let mut number = |name: &str| self.number(name, parameter(name).as_deref());
        let concurrency = number("concurrency").or(number("member.count"));
        if let Some(count) = concurrency.filter(|n| *n > 1) {
            keys.insert("concurrency".to_owned(), json!(count));
            keys.insert("order".to_owned(), json!("free"));
        }
        self.out.queues.insert(queue, Json::Object(keys));
        Ok(())
    }

    /// Refuses parameters for failures that have a counterpart only together with others.
    fn check_failures(&mut self, parameters: &[Element<'a>]) -> Result<(), String> {
        // Harmless: without the parameter, no code is listed.
        let codes = text_of(parameters, "non.retry.status.codes").unwrap_or_default();
        for code in codes.split(',').map(str::trim).filter(|code| !code.is_empty()) {
            // The call fails only from 500 on.
            if !code.parse::<u16>().is_ok_and(|code| (100..500).contains(&code)) {
                return Err(format!(
                    "`non.retry.status.codes`: a reply of `{code}` is tried again; only those below 500 are not"
                ));
            }
        }
        // Only a processor that drops messages never stops; one without a sequence for replies stops at a reply.
        let never_stops =
            drops(parameters) && text_of(parameters, "message.processor.reply.sequence").is_some();
        if text_of(parameters, "message.processor.deactivate.sequence").is_some() && !never_stops {
            return Err("`message.processor.deactivate.sequence`: a queue does not stop by itself"
                .to_owned());
        }
        let Some(store) = text_of(parameters, "message.processor.failMessagesStore") else {
            return Ok(());
        };
        if self.is_processed(&store) {
            return Err(format!(
                "`message.processor.failMessagesStore`: a processor takes from `{store}`, and what fails for good is in the dead letters of this queue"
            ));
        }
        self.note(&format!(
            "what fails for good is in the dead letters of this queue, not in `{store}`"
        ));
        Ok(())
    }

    /// The keys for messages that fail.
    fn retried(&mut self, parameters: &[Element<'a>], keys: &mut Map<String, Json>) {
        let mut number = |name: &str| self.number(name, text_of(parameters, name).as_deref());
        let attempts = number("max.delivery.attempts");
        let interval = number("client.retry.interval").or(number("interval"));
        let is_unlimited =
            attempts.is_none() && text_of(parameters, "max.delivery.attempts").is_some();
        if is_unlimited {
            self.note("attempts end after a thousand; then the message is put aside");
        }
        let most = if is_unlimited { ATTEMPTS_MAX } else { attempts.unwrap_or(ATTEMPTS) };
        let retry = json!({
            "attempts": most,
            "initial": duration(interval.unwrap_or(INTERVAL_MS)),
            "factor": 1,
        });
        keys.insert("retry".to_owned(), retry);
        let has_store = text_of(parameters, "message.processor.failMessagesStore").is_some();
        let drops = drops(parameters);
        keys.insert("dead_letter".to_owned(), json!(has_store || !drops));
        if !drops && !is_unlimited {
            self.note("after the last attempt the message is put aside and the next is taken; the processor does not stop");
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

    /// The steps for one message of a store.
    fn processor_steps(
        &mut self,
        is_sampling: bool,
        endpoint: Option<String>,
        sequence: Option<String>,
        reply: Option<String>,
    ) -> Result<Vec<Json>, String> {
        let mut steps: Vec<Json> = self.begin_kept().into_iter().collect();
        match (is_sampling, endpoint, sequence) {
            (true, _, Some(key)) => {
                self.named_sequence(&key, &mut steps)?;
            }
            (_, Some(key), _) => {
                let targets = self.endpoint_by_key(&key)?;
                let [target] = targets.as_slice() else {
                    return Err("a recipient list has no counterpart here".to_owned());
                };
                let fails = Map::from_iter([("fault_on".to_owned(), json!(["5xx"]))]);
                self.call(target, fails, &mut steps)?;
                if let Some(key) = reply {
                    self.flow.side = super::converter::Side::Reply;
                    self.named_sequence(&key, &mut steps)?;
                }
            }
            (_, None, _) => return Err("it names no endpoint".to_owned()),
        }
        Ok(steps)
    }

    /// Converts a task to a schedule that runs a sequence or a proxy's flow.
    pub(super) fn task(&mut self, task: &Element<'a>) {
        let name = task.attribute("name").unwrap_or("task");
        match self.scheduled(task, name) {
            Ok((keys, note)) => {
                let name = self.out.fresh("schedule", name);
                self.out.schedules.insert(name, Json::Object(keys));
                let outcome =
                    if note.is_empty() { Outcome::Converted } else { Outcome::Approximated };
                self.artifact(task, outcome, &note);
            }
            Err(why) => {
                self.refuse("schedules", &format!("task {name}"), task.place(), &why);
            }
        }
    }

    fn scheduled(
        &mut self,
        task: &Element<'a>,
        name: &str,
    ) -> Result<(Map<String, Json>, String), String> {
        self.check_artifact("task", task)?;
        let class =
            task.attribute("class").unwrap_or("org.apache.synapse.startup.tasks.MessageInjector");
        if !class.ends_with(".MessageInjector") {
            return Err(format!("code in Java ({class}) is not run"));
        }
        let trigger = task.child("trigger").ok_or("it has no trigger")?;
        let mut note = String::new();
        let (key, value) = match (trigger.attribute("cron"), trigger.attribute("interval")) {
            (Some(cron), _) => ("cron", quartz(cron)?),
            (None, Some(seconds)) => {
                let seconds: u64 = seconds.parse().map_err(|_| "its interval is not a number")?;
                note.push_str("it runs first after one interval");
                ("every", format!("{}s", seconds.max(1)))
            }
            (None, None) => {
                return Err("it runs once, at the start, which has no counterpart".to_owned());
            }
        };
        if trigger.attribute("count").is_some_and(|count| count != "-1") {
            return Err("a number of runs has no counterpart".to_owned());
        }
        let properties = task.all("property");
        for property in &properties {
            let name = property.attribute("name").unwrap_or("");
            match known::named("task property", name, property.attribute("value").unwrap_or("")) {
                ConversionResult::Refused(why) => return Err(format!("`{name}`: {why}")),
                ConversionResult::Differs(how) => note.push_str(how),
                ConversionResult::Same | ConversionResult::MayDiffer(_) => {}
            }
        }
        let property =
            |name: &str| properties.iter().find(|p| p.attribute("name") == Some(name)).copied();
        let value_of = |name: &str| property(name).and_then(|p| p.attribute("value"));
        let message = property("message").map(|message| written(&message));
        let form = match (&message, value_of("format")) {
            (None | Some(("json", _)), _) | (_, Some("pox")) => None,
            (Some(_), Some("soap11")) => Some("soap11"),
            (Some(_), _) => Some("soap12"),
        };
        let flow = match (value_of("injectTo"), value_of("sequenceName"), value_of("proxyName")) {
            (_, Some(key), _) => self.task_flow(name, key, form)?,
            (_, None, Some(proxy)) => {
                let found = self.proxy_flows.iter().find(|(known, _)| known == proxy);
                let flow = found.map(|(_, flow)| flow.clone());
                self.enveloped(name, flow.ok_or("its proxy is not among the artifacts")?, form)
            }
            _ => self.task_flow(name, "main", form)?,
        };
        let mut keys =
            Map::from_iter([(key.to_owned(), json!(value)), ("flow".to_owned(), json!(flow))]);
        keys.extend(message.map(|(kind, text)| ("message".to_owned(), json!({ kind: text }))));
        Ok((keys, note))
    }

    /// The flow of a task: the flow of its sequence. If the effect of the sequence depends on its place, the task gets a separate flow.
    fn task_flow(&mut self, task: &str, key: &str, form: Option<&str>) -> Result<String, String> {
        let (key, sequence) = self.sequence_by_key(key)?;
        self.used.push(key.to_owned());
        if !self.has_side(&sequence, &mut Vec::new()) {
            let flow = self.sequence_flow(key, sequence);
            return Ok(self.enveloped(task, flow, form));
        }
        let name = self.out.fresh("flow", task);
        let flow = Flow { name, expanding: vec![key], ..Flow::default() };
        let catch =
            sequence.attribute("onError").and_then(|key| self.fault_sequence(Some(key), None));
        let make = |this: &mut Self| {
            let mut steps: Vec<Json> = form.map(in_envelope).into_iter().collect();
            steps.extend(this.begin_kept());
            steps.extend(this.steps(&sequence.children()).0);
            steps
        };
        Ok(self.flow_of(flow, make, catch))
    }

    /// The flow of a task whose message another flow gets, in an envelope if it has a form of SOAP.
    fn enveloped(&mut self, task: &str, flow: String, form: Option<&str>) -> String {
        let Some(form) = form else { return flow };
        let name = self.out.fresh("flow", &format!("{task}-message"));
        let steps = json!([in_envelope(form), { "sequence": flow }]);
        self.out.flows.insert(name.clone(), steps);
        name
    }
}

/// The text of a processor's parameter.
fn text_of(parameters: &[Element<'_>], name: &str) -> Option<String> {
    let found = parameters.iter().find(|parameter| parameter.attribute("name") == Some(name));
    found.map(Element::text).filter(|text| !text.is_empty())
}

/// True if a processor drops messages after the last attempt.
fn drops(parameters: &[Element<'_>]) -> bool {
    text_of(parameters, "max.delivery.drop")
        .is_some_and(|text| text.eq_ignore_ascii_case("enabled"))
}

/// The step that puts a task's message into an envelope of this form, in which the sequence gets it.
fn in_envelope(form: &str) -> Json {
    json!({ "convert": { "to": form } })
}

/// The message of a task: its kind, and its text.
fn written(message: &Element<'_>) -> (&'static str, String) {
    match (message.children().is_empty(), message.attribute("value")) {
        (false, _) => ("xml", message.content()),
        (true, Some(text)) if text.starts_with('<') => ("xml", text.to_owned()),
        (true, Some(text)) if text.starts_with(['{', '[']) => ("json", text.to_owned()),
        (true, text) => ("text", text.map_or_else(|| message.text(), str::to_owned)),
    }
}

/// Converts a cron expression of Quartz to one with six fields.
fn quartz(text: &str) -> Result<String, String> {
    let refused = || format!("the cron expression `{text}` has no counterpart");
    let fields: Vec<&str> = text.split_whitespace().collect();
    let fields = match fields.as_slice() {
        [fields @ .., "*"] if fields.len() == 6 => fields,
        fields if fields.len() == 6 => fields,
        _ => return Err(refused()),
    };
    let mut out = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        if field.contains(['L', 'W', '#']) && !field.contains("JUL") && !field.contains("WED") {
            return Err(refused());
        }
        // Quartz counts days of the week from Sunday as 1.
        let is_weekday = at == 5 && field.chars().any(|c| c.is_ascii_digit());
        if is_weekday {
            return Err(format!("{}: write days of the week by name", refused()));
        }
        out.push(match *field {
            "?" => "*".to_owned(),
            field => match field.strip_prefix("0/") {
                Some(step) => format!("*/{step}"),
                None => field.to_owned(),
            },
        });
    }
    Ok(out.join(" "))
}
