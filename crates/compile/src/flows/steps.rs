//! Compiles one step of a flow.

use std::sync::Arc;

use bytes::Bytes;
use config::{
    ConvertTo, EmptyArrays, EnrichSource, EnvelopeUse, ExpressionText, FaultCode, HeaderStep,
    JsonTemplate, LogLevel, NamedStep, PayloadStep, QueryTemplate, RespondStep, SoapHeaderStep,
    Spanned, StatusTemplate, Step, SwitchCase, ValidateStep, ValueType,
};
use expression::Kind;
use flows::{
    Action, Condition, Convert, Enrich, EnrichAction, FaultTemplate, Foreach, Header, Level,
    Payload, PayloadSource, Respond, Scatter, SoapHeader, Source, Split, Status, Store, Test, Type,
    Validate,
};

use queues::Entrance;

use super::{Compiler, Namespaces};
use crate::{files, names};

impl<'a> Compiler<'a, '_> {
    /// Compiles one step. Returns `None` after a complaint.
    pub(super) fn step(
        &mut self,
        step: &'a Spanned<NamedStep>,
        namespaces: &Namespaces,
        depth: usize,
    ) -> Option<flows::Step> {
        let label = self.labels.next(&step.value);
        let flow = self.under_way.last().copied().unwrap_or("");
        let metrics = self.builder.telemetry.flow_step(flow, &label);
        self.builder.flow_steps.push((flow.to_owned(), label.clone()));
        let outer = self.labels.enter_step(&label);
        let action = self.action(step, namespaces, depth);
        self.labels.leave(outer);
        let given = step.value.name.as_ref().map(|name| name.value.as_str());
        let name = given.unwrap_or(step.value.step.name());
        Some(flows::Step::new(action?, (name, &label), self.table, metrics))
    }

    fn action(
        &mut self,
        step: &'a Spanned<NamedStep>,
        namespaces: &Namespaces,
        depth: usize,
    ) -> Option<Action> {
        Some(match &step.value.step {
            Step::Call(call) => Action::Call(Box::new(self.call(&call.0, step, namespaces)?)),
            Step::Respond(keys) => Action::Respond(Box::new(self.respond(keys, step, namespaces)?)),
            Step::Drop(_) => Action::Drop,
            Step::Fault(keys) => Action::Fault(Box::new(self.fault(keys, namespaces)?)),
            Step::Set(values) => {
                let values = values.iter().map(|(name, set)| {
                    let value = self.expression(&set.value, namespaces);
                    Some((self.table.variable(&name.value)?, value?, set.kind.map(type_of)))
                });
                let values: Vec<Option<_>> = values.collect();
                Action::Set(values.into_iter().collect::<Option<_>>()?)
            }
            Step::Header(keys) => Action::Header(self.header(keys, namespaces)?),
            Step::SoapHeader(keys) => Action::SoapHeader(self.soap_header(keys, namespaces)?),
            Step::Payload(keys) => Action::Payload(Box::new(self.payload(keys, step, namespaces)?)),
            Step::Enrich(keys) => Action::Enrich(Box::new(self.enrich(keys, step, namespaces)?)),
            Step::Xslt(keys) => Action::Xslt(Box::new(self.xslt(keys, namespaces)?)),
            Step::Validate(keys) => {
                Action::Validate(Box::new(self.validate(keys, step, namespaces, depth)?))
            }
            Step::Convert(keys) => Action::Convert(match keys.to {
                ConvertTo::Json => Convert::Json {
                    arrays: keys.arrays.iter().map(|path| path.value.as_str().into()).collect(),
                    types: keys.types,
                },
                ConvertTo::Xml => Convert::Xml {
                    root: self.root_name(keys.root.as_ref())?,
                    marks_empty: keys.empty_arrays == EmptyArrays::Mark,
                },
                ConvertTo::Text => Convert::Text,
                ConvertTo::Soap11 => Convert::Soap(flows::SoapVersion::V11),
                ConvertTo::Soap12 => Convert::Soap(flows::SoapVersion::V12),
                ConvertTo::Pox => Convert::Pox,
            }),
            Step::Filter(keys) => self.filter(keys, namespaces, depth)?,
            Step::Switch(keys) => self.switch(keys, step, namespaces, depth)?,
            Step::Foreach(keys) => self.foreach(keys, namespaces, depth)?,
            Step::Split(keys) => self.split(keys, namespaces, depth)?,
            Step::Scatter(keys) => self.scatter(keys, step, namespaces, depth)?,
            Step::Sequence(name) => Action::Sequence(self.sequence(name)?),
            Step::Log(keys) => Action::Log {
                level: match keys.level {
                    LogLevel::Debug => Level::DEBUG,
                    LogLevel::Info => Level::INFO,
                    LogLevel::Warn => Level::WARN,
                    LogLevel::Error => Level::ERROR,
                },
                message: self.template(&keys.message, Kind::Text, namespaces)?,
            },
            Step::Throttle(keys) => Action::Throttle(self.throttle(keys, step)),
            Step::Cache(keys) => Action::Cache(Box::new(self.cache(keys, namespaces, depth)?)),
            Step::Script(keys) => Action::Script(Box::new(self.script(keys, step.at, namespaces)?)),
            Step::Sql(keys) => Action::Sql(Box::new(self.sql(keys, namespaces)?)),
            Step::Store(keys) => Action::Store(self.store(keys)?),
            Step::WireTap(keys) => {
                Action::WireTap(Box::new(self.wire_tap(keys, step, namespaces, depth)?))
            }
        })
    }

    fn store(&mut self, keys: &config::StoreStep) -> Option<Store> {
        if let Some(name) = keys.into.as_ref().filter(|_| keys.end) {
            let what = "this `store` ends the flow, so that no step reads the variable";
            self.report.warn(name.at, what, "add `end: false`, or remove `into`");
        }
        let queue = self.entrance(&keys.queue);
        let into = match &keys.into {
            Some(name) => self.table.variable(&name.value).map(Some),
            None => Some(None),
        };
        Some(Store { queue: queue?, end: keys.end, into: into? })
    }

    /// Returns the entrance of a queue.
    fn entrance(&mut self, name: &Spanned<String>) -> Option<Arc<Entrance>> {
        let entrance = self.queues.get(&name.value).cloned();
        let mut written = self.config.queues.names();
        if entrance.is_none() && name.intact && !written.any(|known| known == name.value) {
            let meant = self.report.suggest(&name.value, self.config.queues.names());
            let what = names::unknown("queue", &name.value, meant);
            self.report.error(name.at, what, "name one of the `queues`");
        }
        entrance
    }

    /// Returns the name of the root element that `convert` produces.
    fn root_name(&mut self, root: Option<&Spanned<String>>) -> Option<Box<str>> {
        let Some(root) = root else { return Some("root".into()) };
        let mut rest = root.value.chars();
        let is_name = rest.next().is_some_and(xml::is_name_start) && rest.all(xml::is_name_char);
        if !is_name {
            let what = format!("`{}` is not the name of an element", root.value.escape_debug());
            self.report.error(root.at, what, "write a name without a prefix, such as `order`");
            return None;
        }
        Some(root.value.as_str().into())
    }

    fn fault(
        &mut self,
        keys: &'a config::FaultStep,
        namespaces: &Namespaces,
    ) -> Option<FaultTemplate> {
        let reason = self.template(&keys.reason, Kind::Text, namespaces);
        let detail = self.optional(&keys.detail, Kind::Text, namespaces);
        Some(FaultTemplate {
            client: keys.code == FaultCode::Client,
            reason: reason?,
            detail: detail?,
            status: keys.status.map(|status| status.get_u16()),
        })
    }

    fn filter(
        &mut self,
        keys: &'a config::FilterStep,
        namespaces: &Namespaces,
        depth: usize,
    ) -> Option<Action> {
        let value = self.finder(&keys.when.value, namespaces);
        let matches = keys.when.matches.as_ref().map(|matches| self.regex(matches));
        let then = self.inner("then", &keys.then, namespaces, depth);
        let otherwise = self.inner("else", &keys.otherwise, namespaces, depth);
        let matches = matches.map_or(Some(None), |regex| regex.map(Some))?;
        let when = Condition { value: value?, matches };
        Some(Action::Filter { when, then: then?, otherwise: otherwise? })
    }

    fn switch(
        &mut self,
        keys: &'a config::SwitchStep,
        step: &Spanned<NamedStep>,
        namespaces: &Namespaces,
        depth: usize,
    ) -> Option<Action> {
        let on = self.finder(&keys.on, namespaces);
        let cases = (1..).zip(&keys.cases);
        let cases: Vec<Option<_>> =
            cases.map(|case| self.case(case, step, namespaces, depth)).collect();
        let default = self.inner("default", &keys.default, namespaces, depth);
        let cases = cases.into_iter().collect::<Option<_>>()?;
        Some(Action::Switch { on: on?, cases, default: default? })
    }

    fn foreach(
        &mut self,
        keys: &'a config::ForeachStep,
        namespaces: &Namespaces,
        depth: usize,
    ) -> Option<Action> {
        let over = self.finder(&keys.over, namespaces);
        let steps = self.inner("steps", &keys.steps, namespaces, depth);
        let (parallel, max) = self.parts(&keys.parallel, keys.max.get());
        Some(Action::Foreach(Box::new(Foreach { over: over?, steps: steps?, parallel, max })))
    }

    fn split(
        &mut self,
        keys: &'a config::SplitStep,
        namespaces: &Namespaces,
        depth: usize,
    ) -> Option<Action> {
        let over = self.finder(&keys.over, namespaces);
        let steps = self.inner("steps", &keys.steps, namespaces, depth);
        let gather = self.gather(&keys.gather, namespaces);
        self.check_complete_of_parts(&keys.gather, keys.max.get());
        let (parallel, max) = self.parts(&keys.parallel, keys.max.get());
        let (over, steps, gather) = (over?, steps?, gather?);
        Some(Action::Split(Box::new(Split { over, steps, parallel, max, gather })))
    }

    fn scatter(
        &mut self,
        keys: &'a config::ScatterStep,
        step: &Spanned<NamedStep>,
        namespaces: &Namespaces,
        depth: usize,
    ) -> Option<Action> {
        if keys.branches.is_empty() {
            let help = "add branches, such as `branches: [{ call: a }, { call: b }]`";
            self.report.error(step.at, "a scatter without branches", help);
        }
        if step.intact {
            self.check_complete(&keys.gather, keys.branches.len());
        }
        let branches = (1_usize..).zip(&keys.branches);
        let branches: Vec<Option<_>> = branches
            .map(|(number, branch)| self.inner(&number.to_string(), branch, namespaces, depth))
            .collect();
        let gather = self.gather(&keys.gather, namespaces);
        let branches = branches.into_iter().collect::<Option<_>>()?;
        Some(Action::Scatter(Box::new(Scatter { branches, gather: gather? })))
    }

    pub(super) fn optional(
        &mut self,
        text: &Option<Spanned<String>>,
        kind: Kind,
        namespaces: &Namespaces,
    ) -> Option<Option<expression::Template>> {
        match text {
            Some(text) => self.template(text, kind, namespaces).map(Some),
            None => Some(None),
        }
    }

    /// Warns of placeholders in a text that is sent as a form: their values are not escaped.
    fn warn_of_unescaped(&mut self, text: &Spanned<String>, content_type: Option<&str>) {
        let media_type = message::media_type(content_type.unwrap_or("").as_bytes());
        if media_type.eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
            && text.value.contains("{{")
        {
            let what = "values in a `text` are not encoded, so that one may add fields to the form";
            self.report.warn(text.at, what, "write `form` in place of `text`");
        }
    }

    /// Compiles the content of a body: at most one of the keys.
    fn made(
        &mut self,
        written: BodyKeys<'_>,
        step: &Spanned<NamedStep>,
        namespaces: &Namespaces,
    ) -> Option<Option<PayloadSource>> {
        let BodyKeys { xml, json, text, form, from } = written;
        let several =
            [xml.is_some(), json.is_some(), text.is_some(), form.is_some(), from.is_some()];
        if several.iter().filter(|there| **there).count() > 1 {
            let what = "a body is made of one thing";
            self.report.error(
                step.at,
                what,
                "keep one of `xml`, `json`, `text`, `form` and `from`",
            );
            return None;
        }
        let made = match written {
            BodyKeys { xml: Some(xml), .. } => {
                PayloadSource::Xml(self.template(xml, Kind::Xml, namespaces)?)
            }
            BodyKeys { json: Some(json), .. } => {
                let json =
                    Spanned { value: json.value.0.clone(), at: json.at, intact: json.intact };
                PayloadSource::Json(self.template(&json, Kind::Json, namespaces)?)
            }
            BodyKeys { text: Some(text), .. } => {
                PayloadSource::Text(self.template(text, Kind::Text, namespaces)?)
            }
            BodyKeys { form: Some(form), .. } => PayloadSource::Form(self.query(form, namespaces)?),
            BodyKeys { from: Some(from), .. } => {
                PayloadSource::From(self.expression(from, namespaces)?)
            }
            BodyKeys { xml: None, json: None, text: None, form: None, from: None } => {
                return Some(None);
            }
        };
        Some(Some(made))
    }

    fn respond(
        &mut self,
        keys: &RespondStep,
        step: &Spanned<NamedStep>,
        namespaces: &Namespaces,
    ) -> Option<Respond> {
        let written = BodyKeys {
            xml: keys.xml.as_ref(),
            json: keys.json.as_ref(),
            text: keys.text.as_ref(),
            form: keys.form.as_ref(),
            from: keys.from.as_ref(),
        };
        if let Some(text) = &keys.text {
            let is_type = |name: &Spanned<String>| name.value.eq_ignore_ascii_case("content-type");
            let mut lines = keys.headers.iter();
            let content_type =
                lines.find_map(|(name, value)| is_type(name).then_some(&value.value));
            self.warn_of_unescaped(text, content_type.map(String::as_str));
        }
        let made = self.made(written, step, namespaces);
        let headers = self.lines(&keys.headers, namespaces);
        let status = match &keys.status {
            None => Some(None),
            Some(StatusTemplate::Status(status)) => Some(Some(Status::Fixed(status.get_u16()))),
            Some(StatusTemplate::Template(text)) => {
                let made = self.template(text, Kind::Text, namespaces);
                made.map(|template| Some(Status::Made(template)))
            }
        };
        Some(Respond { status: status?, headers: headers?, made: made? })
    }

    fn payload(
        &mut self,
        keys: &PayloadStep,
        step: &Spanned<NamedStep>,
        namespaces: &Namespaces,
    ) -> Option<Payload> {
        let written = BodyKeys {
            xml: keys.xml.as_ref(),
            json: keys.json.as_ref(),
            text: keys.text.as_ref(),
            form: keys.form.as_ref(),
            from: keys.from.as_ref(),
        };
        let made = self.made(written, step, namespaces)?;
        let file = match &keys.file {
            Some(file) => {
                // Harmless: a file without an extension has no known type.
                let ending = file.value.as_path().extension().unwrap_or_default();
                let bytes = Bytes::from(files::read_text(file, self.report)?);
                Some(PayloadSource::file(bytes, &ending.to_string_lossy()))
            }
            None => None,
        };
        if let Some(content_type) = &keys.content_type {
            crate::names::media_type(content_type, self.report)?;
            if let Some(text) = &keys.text {
                self.warn_of_unescaped(text, Some(&content_type.value));
            }
        }
        let made = match (made, file) {
            (Some(made), None) => made,
            (None, Some(file)) => file,
            (Some(_), Some(_)) | (None, None) => {
                let help = "write one of `xml`, `json`, `text`, `form`, `from` and `file`";
                self.report.error(step.at, "a payload is made of one thing", help);
                return None;
            }
        };
        Some(Payload {
            made,
            content_type: keys.content_type.as_ref().map(|text| text.value.as_str().into()),
            envelope: keys.envelope == EnvelopeUse::Keep,
        })
    }

    fn header(&mut self, keys: &HeaderStep, namespaces: &Namespaces) -> Option<Header> {
        let remove = self.header_names(&keys.remove);
        let set = self.lines(&keys.set, namespaces);
        let add = self.lines(&keys.add, namespaces);
        Some(Header { remove: remove?, set: set?, add: add? })
    }

    fn soap_header(
        &mut self,
        keys: &SoapHeaderStep,
        namespaces: &Namespaces,
    ) -> Option<SoapHeader> {
        let set: Vec<Option<_>> =
            keys.set.iter().map(|text| self.template(text, Kind::Xml, namespaces)).collect();
        let remove: Vec<Option<_>> =
            keys.remove.iter().map(|name| self.qualified(name, namespaces)).collect();
        Some(SoapHeader {
            remove: remove.into_iter().collect::<Option<_>>()?,
            set: set.into_iter().collect::<Option<_>>()?,
        })
    }

    /// Resolves a prefixed name to namespace and local name.
    fn qualified(
        &mut self,
        name: &Spanned<String>,
        namespaces: &Namespaces,
    ) -> Option<(Box<str>, Box<str>)> {
        let Some((prefix, local)) = name.value.split_once(':') else {
            return Some(("".into(), name.value.as_str().into()));
        };
        let Some((_, uri)) = namespaces.iter().find(|(known, _)| known == prefix) else {
            let what = format!("the prefix `{prefix}` is not declared");
            let help = format!("add `namespaces: {{ {prefix}: \"URI\" }}` to the flow");
            self.report.error(name.at, what, help);
            return None;
        };
        Some((uri.as_str().into(), local.into()))
    }

    fn enrich(
        &mut self,
        keys: &config::EnrichStep,
        step: &Spanned<NamedStep>,
        namespaces: &Namespaces,
    ) -> Option<Enrich> {
        let action = match keys.action {
            config::EnrichAction::Replace => EnrichAction::Replace,
            config::EnrichAction::Child => EnrichAction::Child,
            config::EnrichAction::Before => EnrichAction::Before,
            config::EnrichAction::After => EnrichAction::After,
            config::EnrichAction::Remove => EnrichAction::Remove,
        };
        let source = match &keys.source {
            Some(EnrichSource::Expression(text)) => {
                self.expression(text, namespaces).map(|source| Some(Source::Expression(source)))
            }
            Some(EnrichSource::Xml(text)) => {
                self.template(text, Kind::Xml, namespaces).map(|source| Some(Source::Xml(source)))
            }
            None => Some(None),
        };
        if keys.source.is_none() != (action == EnrichAction::Remove) {
            let (what, help) = match keys.source {
                None => ("an enrich without a source", "add `source`, or write `action: remove`"),
                Some(_) => ("what is removed has no source", "remove `source`"),
            };
            self.report.error(step.at, what, help);
            return None;
        }
        let place = self.place(&keys.target);
        let target = self.finder(&keys.target, namespaces);
        let (variable, is_whole) = place?;
        Some(Enrich { source: source?, target: target?, variable, is_whole, action })
    }

    /// Returns the variable that the target of an `enrich` lies in, or `None` for the message, and whether the target is the whole variable
    /// or message.
    fn place(&mut self, target: &ExpressionText) -> Option<(Option<u32>, bool)> {
        let text = target.text.value.trim();
        let Some(rest) = text.strip_prefix('$') else { return Some((None, false)) };
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let name = rest.split(|c| !is_name(c)).next().unwrap_or_default();
        let is_whole = name.len() == rest.len();
        if name.is_empty()
            || matches!(name, "body" | "envelope" | "header" | "infoset" | "infoset_body")
        {
            return Some((None, is_whole && name != "header"));
        }
        let number = self.table.variable(name);
        let holds_reply = number.and_then(|number| self.variables().holds_reply(number));
        let (what, help) = match holds_reply {
            Some(false) => return Some((number, is_whole)),
            Some(true) => (
                format!("`${name}` holds a reply, which stays as it is"),
                format!("`set` another variable to `${name}.body`, and change that"),
            ),
            None if config::RESERVED_NAMES.contains(&name) => (
                format!("`${name}` is not part of the body"),
                "write a place in `$body`, `$header`, `$envelope` or a variable; the step `header` changes header lines".to_owned(),
            ),
            // The name is unknown; compiling the expression reports it.
            None => return None,
        };
        self.report.error(target.text.at, what, help);
        None
    }

    fn validate(
        &mut self,
        keys: &'a ValidateStep,
        step: &Spanned<NamedStep>,
        namespaces: &Namespaces,
        depth: usize,
    ) -> Option<Validate> {
        let schema = match (&keys.schema, &keys.json_schema) {
            (Some(file), None) => self.xml_schema(file),
            (None, Some(file)) => self.json_schema(file),
            (None, None) | (Some(_), Some(_)) => {
                let what = "a validate needs one schema";
                self.report.error(step.at, what, "write `schema: FILE.xsd` or `json_schema: FILE`");
                None
            }
        };
        let of = match &keys.of {
            Some(of) => self.finder(of, namespaces).map(Some),
            None => Some(None),
        };
        let otherwise = match &keys.otherwise {
            Some(steps) => self.inner("else", steps, namespaces, depth).map(Some),
            None => Some(None),
        };
        Some(Validate { schema: schema?, of: of?, otherwise: otherwise? })
    }

    fn case(
        &mut self,
        (number, case): (usize, &'a SwitchCase),
        step: &Spanned<NamedStep>,
        namespaces: &Namespaces,
        depth: usize,
    ) -> Option<(Test, flows::Steps)> {
        let test = match (&case.equals, &case.matches) {
            (Some(equals), None) => Some(Test::Equals(equals.value.as_str().into())),
            (None, Some(matches)) => self.regex(matches).map(Test::Matches),
            (None, None) | (Some(_), Some(_)) => {
                let what = "a case of a switch has one test";
                self.report.error(step.at, what, "write `equals` or `matches`");
                None
            }
        };
        let steps = self.inner(&number.to_string(), &case.steps, namespaces, depth);
        Some((test?, steps?))
    }
}

/// The keys of which one determines a body.
#[derive(Clone, Copy)]
struct BodyKeys<'a> {
    xml: Option<&'a Spanned<String>>,
    json: Option<&'a Spanned<JsonTemplate>>,
    text: Option<&'a Spanned<String>>,
    form: Option<&'a QueryTemplate>,
    from: Option<&'a ExpressionText>,
}

fn type_of(kind: ValueType) -> Type {
    match kind {
        ValueType::Text => Type::Text,
        ValueType::Number => Type::Number,
        ValueType::Boolean => Type::Boolean,
        ValueType::Xml => Type::Xml,
        ValueType::Json => Type::Json,
    }
}
