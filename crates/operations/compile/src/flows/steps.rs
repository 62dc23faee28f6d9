//! Compiles steps: lists the kinds of step, and compiles those kinds that have few keys.

use std::sync::Arc;

use ::flows::{
    Action, Convert, DropMessage, FaultTemplate, Header, Level, Log, Sequence, Set, SoapHeader,
    SoapVersion, Store, Type,
};
use config::{
    ConvertStep, ConvertTo, Decode as _, DropStep, EmptyArrays, FaultCode, FaultStep, HeaderStep,
    LogLevel, LogStep, Map, NamedStep, SetValue, SoapHeaderStep, Spanned, Step, StoreStep,
    ValueType,
};
use expression::Kind;
use queues::Entrance;

use super::{Compiler, Namespaces, labels};
use crate::names;

/// A kind of step, implemented for its keys.
pub(super) trait StepKind {
    /// Compiles the step to the action that it runs. Returns `None` after a complaint.
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>>;

    /// Returns the variables that the step sets, each with true if the variable holds a reply.
    fn sets(&self) -> Vec<(&Spanned<String>, bool)> {
        Vec::new()
    }

    /// Returns true if no step runs after this one.
    fn ends_flow(&self) -> bool {
        false
    }

    /// Returns the part of the step's label that distinguishes it from others of its kind: a name, a file or the beginning of a text.
    fn subject(&self) -> String {
        String::new()
    }
}

/// The place of a step in its flow.
#[derive(Clone, Copy)]
pub(super) struct StepPlace<'a, 'n> {
    pub(super) step: &'a Spanned<NamedStep>,
    pub(super) namespaces: &'n Namespaces,
    /// The number of steps that enclose this step.
    pub(super) depth: usize,
}

/// Generates the function that returns the keys of a step as a `StepKind`. This is the only list of kinds.
macro_rules! kinds {
    ($($kind:ident,)*) => {
        pub(super) fn kind(step: &Step) -> &dyn StepKind {
            match step {
                $( Step::$kind(keys) => keys, )*
            }
        }
    };
}

kinds! {
    Call,
    Respond,
    Drop,
    Fault,
    Set,
    Header,
    SoapHeader,
    Payload,
    Enrich,
    Xslt,
    Validate,
    Convert,
    Script,
    Filter,
    Switch,
    Foreach,
    Split,
    Scatter,
    Sequence,
    Log,
    Cache,
    Throttle,
    Store,
    WireTap,
    Sql,
    Transaction,
}

impl<'a> Compiler<'a, '_> {
    /// Compiles one step. Returns `None` after a complaint.
    pub(super) fn step(
        &mut self,
        step: &'a Spanned<NamedStep>,
        namespaces: &Namespaces,
        depth: usize,
    ) -> Option<::flows::Step> {
        let label = self.labels.next(&step.value, &kind(&step.value.step).subject());
        let flow = self.under_way.last().copied().unwrap_or("");
        let metrics = self.builder.telemetry.flow_step(flow, &label);
        self.builder.flow_steps.push((flow.to_owned(), label.clone()));
        let outer = self.labels.enter_step(&label);
        let place = StepPlace { step, namespaces, depth };
        let action = kind(&step.value.step).action(&place, self);
        self.labels.leave(outer);
        let given = step.value.name.as_ref().map(|name| name.value.as_str());
        let name = given.unwrap_or(step.value.step.name());
        Some(::flows::Step::new(action?, name, &label, self.table, metrics))
    }

    /// Compiles a template, if there is one. The outer `None` means that it has a fault.
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

    /// Returns the entrance of a queue.
    fn entrance(&mut self, name: &Spanned<String>) -> Option<Arc<Entrance>> {
        let entrance = self.queues.get(&name.value).cloned();
        if entrance.is_none() && name.intact {
            names::known("queue", name, &self.config.queues, self.report);
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

    /// Resolves the prefix of a name. Returns the namespace and the local name, or `None` after a complaint.
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
}

impl StepKind for DropStep {
    fn action<'a>(
        &'a self,
        _place: &StepPlace<'a, '_>,
        _compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(DropMessage))
    }

    fn ends_flow(&self) -> bool {
        true
    }
}

impl StepKind for Map<SetValue> {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        let values = self.iter().map(|(name, set)| {
            let value = compiler.expression(&set.value, place.namespaces);
            Some((compiler.table.variable(&name.value)?, value?, set.kind.map(type_of)))
        });
        let values: Vec<Option<_>> = values.collect();
        Some(Box::new(Set(values.into_iter().collect::<Option<_>>()?)))
    }

    fn sets(&self) -> Vec<(&Spanned<String>, bool)> {
        self.iter().map(|(name, _)| (name, false)).collect()
    }

    fn subject(&self) -> String {
        labels::names(self.iter().map(|(name, _)| name))
    }
}

impl StepKind for FaultStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        let reason = compiler.template(&self.reason, Kind::Text, place.namespaces);
        let detail = compiler.optional(&self.detail, Kind::Text, place.namespaces);
        Some(Box::new(FaultTemplate {
            client: self.code == FaultCode::Client,
            reason: reason?,
            detail: detail?,
            status: self.status.map(|status| status.get_u16()),
        }))
    }

    fn ends_flow(&self) -> bool {
        true
    }
}

impl StepKind for HeaderStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        let remove = compiler.header_names(&self.remove);
        let set = compiler.lines(&self.set, place.namespaces);
        let add = compiler.lines(&self.add, place.namespaces);
        Some(Box::new(Header { remove: remove?, set: set?, add: add? }))
    }

    fn subject(&self) -> String {
        let changed = self.set.iter().chain(self.add.iter()).map(|(name, _)| name);
        labels::names(changed.chain(&self.remove))
    }
}

impl StepKind for SoapHeaderStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        let set = self.set.iter();
        let set: Vec<Option<_>> =
            set.map(|text| compiler.template(text, Kind::Xml, place.namespaces)).collect();
        let remove = self.remove.iter();
        let remove: Vec<Option<_>> =
            remove.map(|name| compiler.qualified(name, place.namespaces)).collect();
        Some(Box::new(SoapHeader {
            remove: remove.into_iter().collect::<Option<_>>()?,
            set: set.into_iter().collect::<Option<_>>()?,
        }))
    }

    fn subject(&self) -> String {
        labels::names(self.remove.iter())
    }
}

impl StepKind for ConvertStep {
    fn action<'a>(
        &'a self,
        _place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(match self.to {
            ConvertTo::Json => Convert::Json {
                arrays: self.arrays.iter().map(|path| path.value.as_str().into()).collect(),
                types: self.types,
            },
            ConvertTo::Xml => Convert::Xml {
                root: compiler.root_name(self.root.as_ref())?,
                marks_empty: self.empty_arrays == EmptyArrays::Mark,
            },
            ConvertTo::Text => Convert::Text,
            ConvertTo::Soap11 => Convert::Soap(SoapVersion::V11),
            ConvertTo::Soap12 => Convert::Soap(SoapVersion::V12),
            ConvertTo::Pox => Convert::Pox,
        }))
    }

    fn subject(&self) -> String {
        labels::word(&self.to.encode())
    }
}

impl StepKind for Spanned<String> {
    fn action<'a>(
        &'a self,
        _place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(Sequence(compiler.sequence(self)?)))
    }

    fn subject(&self) -> String {
        self.value.clone()
    }
}

impl StepKind for LogStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        let level = match self.level {
            LogLevel::Debug => Level::DEBUG,
            LogLevel::Info => Level::INFO,
            LogLevel::Warn => Level::WARN,
            LogLevel::Error => Level::ERROR,
        };
        let message = compiler.template(&self.message, Kind::Text, place.namespaces)?;
        Some(Box::new(Log { level, message }))
    }
}

impl StepKind for StoreStep {
    fn action<'a>(
        &'a self,
        _place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        if let Some(name) = self.into.as_ref().filter(|_| self.end) {
            let what = "this `store` ends the flow, so no step can read the variable";
            compiler.report.warn(name.at, what, "add `end: false`, or remove `into`");
        }
        let queue = compiler.entrance(&self.queue);
        let into = match &self.into {
            Some(name) => compiler.table.variable(&name.value).map(Some),
            None => Some(None),
        };
        Some(Box::new(Store { queue: queue?, end: self.end, into: into? }))
    }

    fn sets(&self) -> Vec<(&Spanned<String>, bool)> {
        self.into.iter().map(|name| (name, false)).collect()
    }

    fn ends_flow(&self) -> bool {
        self.end
    }

    fn subject(&self) -> String {
        self.queue.value.clone()
    }
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
