//! Compiles the step `enrich`.

use config::{Decode as _, EnrichSource, EnrichStep, ExpressionText, NamedStep, Spanned};
use expression::Kind;
use flows::{Action, Enrich, EnrichAction, Source};

use super::steps::{StepKind, StepPlace};
use super::{Compiler, Namespaces, labels};

impl StepKind for EnrichStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(compiler.enrich(self, place.step, place.namespaces)?))
    }

    fn subject(&self) -> String {
        labels::word(&self.action.encode())
    }
}

impl Compiler<'_, '_> {
    fn enrich(
        &mut self,
        keys: &EnrichStep,
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
                None => ("`enrich` needs `source`", "add `source`, or write `action: remove`"),
                Some(_) => ("`action: remove` cannot have `source`", "remove `source`"),
            };
            self.report.error(step.at, what, help);
            return None;
        }
        let place = self.place(&keys.target);
        let target = self.finder(&keys.target, namespaces);
        let (variable, is_whole) = place?;
        Some(Enrich { source: source?, target: target?, variable, is_whole, action })
    }

    /// Returns the number of the variable that contains the target (`None`: the message), and whether the target is all of the body,
    /// envelope or variable. Returns `None` if the target is invalid.
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
                format!("`${name}` holds a reply, which cannot be changed"),
                format!("`set` another variable to `${name}.body`, and change that"),
            ),
            None if config::RESERVED_NAMES.contains(&name) => (
                format!("`enrich` cannot change `${name}`"),
                "select a part of `$body`, `$header`, `$envelope` or a variable; the step `header` changes header lines".to_owned(),
            ),
            // The name is unknown; compiling the target as an expression reports it.
            None => return None,
        };
        self.report.error(target.text.at, what, help);
        None
    }
}
