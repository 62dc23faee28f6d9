//! Queues and schedules: message stores, and tasks. `processors` converts what takes messages from stores.

use serde_json::{Map, Value as Json, json};

use super::converter::{Converter, Flow};
use super::element::{Element, label};
use super::known::{self, ConversionResult};
use crate::table::Outcome;

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
