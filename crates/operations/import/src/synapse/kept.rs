//! The variables that keep properties for a later call or reply, where their values are not known.

use serde_json::{Map, Value as Json, json};

use super::converter::{Converter, Side};
use super::pending::{KeptProperty, PendingProperties, Sender};

impl Converter<'_> {
    /// Ends a branch. Its settings for later calls are kept in variables.
    pub(super) fn leave(&mut self, before: PendingProperties, side: Side, ended: bool) {
        self.flow.side = side;
        let left = std::mem::replace(&mut self.flow.pending, before);
        if ended {
            return;
        }
        if left.sender != self.flow.pending.sender {
            self.flow.pending.sender = Sender::Either;
        }
        self.flow.pending.has_action |= left.has_action;
        let pending = self.flow.pending.clone();
        let differs = [
            (KeptProperty::Status, left.status != pending.status),
            (KeptProperty::Method, left.method != pending.method),
            (KeptProperty::Postfix, left.postfix != pending.postfix),
            (KeptProperty::Response, left.is_reply != pending.is_reply),
            (KeptProperty::MessageType, left.message_type != pending.message_type),
            (
                KeptProperty::To,
                left.to != pending.to || left.has_computed_to != pending.has_computed_to,
            ),
        ];
        for (kept, _) in differs.into_iter().filter(|(_, differs)| *differs) {
            self.wanted.insert((self.owner.clone(), kept));
        }
        self.losses |= left.one_way != pending.one_way
            || left.fault_on_fault != pending.fault_on_fault
            || left.content_type != pending.content_type
            || left.rewritten != pending.rewritten;
    }

    /// True if a variable keeps a property.
    pub(super) fn keeps(&self, kept: KeptProperty) -> bool {
        self.kept.contains(&(self.owner.clone(), kept))
    }

    /// The variable of a property.
    pub(super) fn kept_variable(&mut self, kept: KeptProperty) -> String {
        self.out.variable(kept.name())
    }

    /// The step that initialises the variables of properties. After a call there is another message, without these properties.
    pub(super) fn begin_kept(&mut self) -> Option<Json> {
        let mut values = Map::new();
        for kept in
            KeptProperty::ALL.into_iter().filter(|kept| self.keeps(*kept)).collect::<Vec<_>>()
        {
            let rest = self.rest_of_path().filter(|_| kept == KeptProperty::Postfix);
            let first = rest.map_or_else(|| json!(""), |rest| json!(rest));
            values.insert(self.out.variable(kept.name()), first);
        }
        (!values.is_empty()).then(|| json!({ "set": values }))
    }
}
