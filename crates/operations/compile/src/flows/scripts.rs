//! Compiles the step `script`: its program, and the values it gets in addition to the message.

use ::flows::{Action, Script};
use config::{At, ScriptStep, Spanned};
use script::{Language, Program};

use super::steps::{StepKind, StepPlace};
use super::{Compiler, Namespaces};

impl StepKind for ScriptStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(compiler.script(self, place.step.at, place.namespaces)?))
    }

    fn sets(&self) -> Vec<(&Spanned<String>, bool)> {
        self.into.iter().map(|name| (name, false)).collect()
    }
}

impl<'a> Compiler<'a, '_> {
    fn script(&mut self, keys: &'a ScriptStep, at: At, namespaces: &Namespaces) -> Option<Script> {
        let program = match (&keys.jq, &keys.js) {
            (Some(text), None) => {
                if let Some((name, _)) = keys.values.iter().next() {
                    let what = "a jq program gets only the message";
                    self.report.error(
                        name.at,
                        what,
                        "remove `values`, or write the program as `js`",
                    );
                }
                let help = "write a filter of jq, such as `{ id: .order.id }`";
                self.program(Language::Jq, text, "jq", help)
            }
            (None, Some(text)) => {
                let help =
                    "write the body of a function, such as `return { id: message.order.id };`";
                self.program(Language::JavaScript, text, "JavaScript", help)
            }
            (Some(_), Some(other)) => {
                let what = "`jq` and `js` cannot be combined";
                self.report.error(other.at, what, "keep one of the two");
                None
            }
            (None, None) => {
                let help = "add `jq: FILTER`, or `js: \"return message;\"`";
                self.report.error(at, "`script` needs `jq` or `js`", help);
                None
            }
        };
        let values = keys.values.iter().map(|(name, value)| {
            Some((name.value.as_str().into(), self.expression(value, namespaces)?))
        });
        let values: Vec<Option<_>> = values.collect();
        let into = match &keys.into {
            Some(name) => Some(self.table.variable(&name.value)?),
            None => None,
        };
        Some(Script { program: program?, values: values.into_iter().collect::<Option<_>>()?, into })
    }

    fn program(
        &mut self,
        language: Language,
        text: &Spanned<String>,
        name: &str,
        help: &str,
    ) -> Option<Program> {
        match Program::new(language, &text.value) {
            Ok(program) => Some(program),
            Err(malformed) => {
                let what = format!("the program in {name} is malformed, at {malformed}");
                self.report.error(text.at, what, help);
                None
            }
        }
    }
}
