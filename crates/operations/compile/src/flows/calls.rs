//! Compiles the step `call`.

use config::{CallStep, NamedStep, QueryTemplate, Spanned};
use expression::Kind;
use flows::{Action, Call, CallPath, Method, Query};

use super::steps::{StepKind, StepPlace};
use super::{Compiler, Namespaces, labels};
use crate::names;

impl StepKind for config::Call {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(compiler.call(&self.0, place.step, place.namespaces)?))
    }

    fn sets(&self) -> Vec<(&Spanned<String>, bool)> {
        self.0.into.iter().map(|name| (name, true)).collect()
    }

    fn subject(&self) -> String {
        match (&self.0.upstream, &self.0.url) {
            (Some(upstream), _) => upstream.value.clone(),
            (None, Some(url)) => labels::condition(&url.value),
            (None, None) => String::new(),
        }
    }
}

impl Compiler<'_, '_> {
    fn call(
        &mut self,
        keys: &CallStep,
        step: &Spanned<NamedStep>,
        namespaces: &Namespaces,
    ) -> Option<Call> {
        let to = self.call_to(keys, step, namespaces);
        keys.timeout.iter().for_each(|timeout| self.warn_of_late(timeout));
        let method = match &keys.method {
            Some(method) => self.method(method, namespaces).map(Some),
            None => Some(None),
        };
        let path = match &keys.path {
            Some(path) => self.path(path, namespaces).map(Some),
            None => Some(None),
        };
        let query = match &keys.query {
            None => Some(None),
            Some(query) => self.query(query, namespaces).map(Some),
        };
        let set = self.lines(&keys.headers.set, namespaces);
        let remove = self.header_names(&keys.headers.remove);
        let body = match &keys.body {
            Some(body) => self.expression(body, namespaces).map(Some),
            None => Some(None),
        };
        let into = match &keys.into {
            Some(name) => self.table.variable(&name.value).map(Some),
            None => Some(None),
        };
        Some(Call {
            to: to?,
            method: method?,
            path: path?,
            query: query?,
            set: set?,
            remove: remove?,
            body: body?,
            timeout: keys.timeout.map(|timeout| timeout.value.0),
            into: into?,
            fault_on: keys.fault_on.iter().map(|class| (class.first, class.last)).collect(),
        })
    }

    /// Compiles a query or a form.
    pub(super) fn query(
        &mut self,
        written: &QueryTemplate,
        namespaces: &Namespaces,
    ) -> Option<Query> {
        match written {
            QueryTemplate::Whole(text) => {
                self.template(text, Kind::Query, namespaces).map(Query::Whole)
            }
            QueryTemplate::Parameters(parameters) => {
                let parameters: Vec<Option<_>> = parameters
                    .iter()
                    .map(|(name, value)| {
                        let value = self.template(value, Kind::Text, namespaces)?;
                        Some((name.value.as_str().into(), value))
                    })
                    .collect();
                parameters.into_iter().collect::<Option<_>>().map(Query::Parameters)
            }
        }
    }

    fn method(&mut self, text: &Spanned<String>, namespaces: &Namespaces) -> Option<Method> {
        if text.value.contains("{{") {
            self.template(text, Kind::Text, namespaces).map(Method::Made)
        } else {
            names::method(text, self.report).map(|method| Method::Fixed(method.into()))
        }
    }

    /// Compiles a path. If the text is a single placeholder, its value is the whole path.
    fn path(&mut self, text: &Spanned<String>, namespaces: &Namespaces) -> Option<CallPath> {
        let trimmed = text.value.trim();
        let inner = trimmed.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
        if inner.is_some_and(|inner| !inner.contains("{{") && !inner.contains("}}")) {
            let text = Spanned { value: trimmed.to_owned(), at: text.at, intact: text.intact };
            self.template(&text, Kind::Text, namespaces).map(CallPath::Whole)
        } else {
            self.template(text, Kind::Path, namespaces).map(CallPath::Template)
        }
    }
}
