//! Compiles the steps that choose other steps: `filter` and `switch`.

use config::{FilterStep, NamedStep, Spanned, SwitchCase, SwitchStep};
use flows::{Action, Alternatives, Condition, Switch, Test};

use super::steps::{StepKind, StepPlace};
use super::{Compiler, Namespaces, labels};

impl StepKind for FilterStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(compiler.filter(self, place.namespaces, place.depth)?))
    }

    fn subject(&self) -> String {
        labels::condition(&self.when.value.text.value)
    }
}

impl StepKind for SwitchStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(compiler.switch(self, place)?))
    }

    fn subject(&self) -> String {
        labels::condition(&self.on.text.value)
    }
}

impl<'a> Compiler<'a, '_> {
    fn filter(
        &mut self,
        keys: &'a FilterStep,
        namespaces: &Namespaces,
        depth: usize,
    ) -> Option<Alternatives> {
        let value = self.finder(&keys.when.value, namespaces);
        let matches = keys.when.matches.as_ref().map(|matches| {
            self.regex(matches, "correct it; write `\\` before a character that stands for itself")
        });
        let then = self.inner("then", &keys.then, namespaces, depth);
        let otherwise = self.inner("else", &keys.otherwise, namespaces, depth);
        let matches = matches.map_or(Some(None), |regex| regex.map(Some))?;
        let when = Condition { value: value?, matches };
        Some(Alternatives { when, then: then?, otherwise: otherwise? })
    }

    fn switch(&mut self, keys: &'a SwitchStep, place: &StepPlace<'a, '_>) -> Option<Switch> {
        let StepPlace { step, namespaces, depth } = *place;
        let on = self.finder(&keys.on, namespaces);
        let cases = (1..).zip(&keys.cases);
        let cases: Vec<Option<_>> =
            cases.map(|(number, case)| self.case(number, case, step, namespaces, depth)).collect();
        let default = self.inner("default", &keys.default, namespaces, depth);
        let cases = cases.into_iter().collect::<Option<_>>()?;
        Some(Switch { on: on?, cases, default: default? })
    }

    fn case(
        &mut self,
        number: usize,
        case: &'a SwitchCase,
        step: &Spanned<NamedStep>,
        namespaces: &Namespaces,
        depth: usize,
    ) -> Option<(Test, flows::Steps)> {
        let test = match (&case.equals, &case.matches) {
            (Some(equals), None) => Some(Test::Equals(equals.value.as_str().into())),
            (None, Some(matches)) => {
                let help = "correct it, or write `equals` for plain text";
                self.regex(matches, help).map(Test::Matches)
            }
            (None, None) | (Some(_), Some(_)) => {
                let what = "a case of a switch needs exactly one test";
                self.report.error(step.at, what, "write `equals` or `matches`");
                None
            }
        };
        let steps = self.inner(&number.to_string(), &case.steps, namespaces, depth);
        Some((test?, steps?))
    }
}
