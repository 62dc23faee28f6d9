//! Dispatch tables: template rules by the nodes that they can match, best first, so that each node is tested against few rules.

use std::collections::BTreeSet;

use xpath::{NameTest, Shape};

use super::Compiler;
use crate::program::{ByName, Mode, NamedRules, Rule};

impl Compiler<'_> {
    /// Adds a rule to modes, or to all modes if none are given. The tables are built after all rules have been added.
    pub(super) fn add_rule(&mut self, modes: &[u32], rule: Rule) {
        let number = u32::try_from(self.program.rules.len()).unwrap_or(u32::MAX);
        self.program.rules.push(rule);
        if modes.is_empty() {
            self.everywhere.push(number);
        }
        self.in_modes.extend(modes.iter().map(|mode| (*mode, number)));
    }

    /// Builds the tables of each mode, and sorts the rules for white space.
    pub(super) fn sort_rules(&mut self) {
        let len = self.modes_len();
        self.program.modes.resize_with(len, Mode::default);
        for (at, mode) in (0..).zip(&mut self.program.modes) {
            let own = self.in_modes.iter().filter(|(mode, _)| *mode == at).map(|(_, rule)| *rule);
            let mut all: Vec<u32> = own.chain(self.everywhere.iter().copied()).collect();
            let rules = &self.program.rules;
            // Of rules with equal precedence and priority, the last in the stylesheet wins (XSLT 1.0, 5.5).
            all.sort_by(|a, b| {
                let key = |n: &u32| rules.get(*n as usize).map(|r| (r.precedence, r.priority));
                let (a_key, b_key) = (key(a), key(b));
                b_key.partial_cmp(&a_key).unwrap_or(std::cmp::Ordering::Equal).then(b.cmp(a))
            });
            *mode = lists(&all, rules);
        }
        // Of rules with equal precedence and priority, the last in the stylesheet wins (XSLT 1.0, 3.4).
        self.program.spaces.reverse();
        self.program.spaces.sort_by(|a, b| {
            let order = b.precedence.cmp(&a.precedence);
            order.then(b.priority.total_cmp(&a.priority))
        });
    }
}

fn lists(all: &[u32], rules: &[Rule]) -> Mode {
    let chosen = |fits: &dyn Fn(&Shape) -> bool| -> Box<[u32]> {
        let shape = |n: &u32| rules.get(*n as usize).map(|rule| &rule.alternative.shape);
        all.iter().copied().filter(|n| shape(n).is_some_and(fits)).collect()
    };
    let names = |of: &dyn Fn(&Shape) -> Option<&NameTest>| {
        let shapes =
            // Harmless: each number belongs to a rule.
            all.iter().filter_map(|n| rules.get(*n as usize)).map(|r| &r.alternative.shape);
        let named: BTreeSet<(&str, &str)> = shapes
            // Harmless: other shapes have no name.
            .filter_map(|shape| match of(shape) {
                Some(NameTest::Name(name)) => Some((&*name.local, &*name.uri)),
                Some(NameTest::Any | NameTest::Namespace(_)) | None => None,
            })
            .collect();
        let named = named.into_iter().map(|(local, uri)| {
            let rules = chosen(&|shape| match (of(shape), shape) {
                (Some(test), _) => accepts(test, local, uri),
                (None, Shape::Any) => true,
                (None, _) => false,
            });
            NamedRules { local: local.into(), uri: uri.into(), rules }
        });
        let named: Vec<NamedRules> = named.collect();
        let others = chosen(&|shape| match of(shape) {
            Some(NameTest::Name(_)) => false,
            Some(NameTest::Any | NameTest::Namespace(_)) => true,
            None => *shape == Shape::Any,
        });
        ByName::new(named, others)
    };
    Mode {
        elements: names(&element_test),
        attributes: names(&attribute_test),
        text: chosen(&|shape| matches!(shape, Shape::Text | Shape::Child | Shape::Any)),
        comment: chosen(&|shape| matches!(shape, Shape::Comment | Shape::Child | Shape::Any)),
        instruction: chosen(&|shape| {
            matches!(shape, Shape::Instruction(_) | Shape::Child | Shape::Any)
        }),
        root: chosen(&|shape| matches!(shape, Shape::Root | Shape::Any)),
        namespace: chosen(&|shape| matches!(shape, Shape::Any)),
    }
}

fn accepts(test: &NameTest, local: &str, uri: &str) -> bool {
    match test {
        NameTest::Any => true,
        NameTest::Namespace(wanted) => **wanted == *uri,
        NameTest::Name(name) => *name.local == *local && *name.uri == *uri,
    }
}

fn element_test(shape: &Shape) -> Option<&NameTest> {
    match shape {
        Shape::Element(test) => Some(test),
        Shape::Child => Some(&NameTest::Any),
        Shape::Root
        | Shape::Attribute(_)
        | Shape::Text
        | Shape::Comment
        | Shape::Instruction(_)
        | Shape::Any => None,
    }
}

fn attribute_test(shape: &Shape) -> Option<&NameTest> {
    match shape {
        Shape::Attribute(test) => Some(test),
        Shape::Root
        | Shape::Element(_)
        | Shape::Text
        | Shape::Comment
        | Shape::Instruction(_)
        | Shape::Child
        | Shape::Any => None,
    }
}
