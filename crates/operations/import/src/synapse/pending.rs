//! Properties for a later call or reply: their known values at each point, and variables for the others.

use serde_json::{Map, Value as Json, json};

use super::converter::{Converter, Side};
use super::mediators::rewrite::Rewritten;

/// A property for a later call or reply. If it is set in a branch and takes effect after it, a variable keeps its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum KeptProperty {
    Status,
    Method,
    Postfix,
    Response,
    MessageType,
    To,
}

impl KeptProperty {
    pub(super) const ALL: [KeptProperty; 6] = [
        KeptProperty::Status,
        KeptProperty::Method,
        KeptProperty::Postfix,
        KeptProperty::Response,
        KeptProperty::MessageType,
        KeptProperty::To,
    ];

    /// The name of the variable.
    pub(super) fn name(self) -> &'static str {
        match self {
            KeptProperty::Status => "axis2.HTTP_SC",
            KeptProperty::Method => "axis2.HTTP_METHOD",
            KeptProperty::Postfix => "axis2.REST_URL_POSTFIX",
            KeptProperty::Response => "synapse.RESPONSE",
            KeptProperty::MessageType => "axis2.messageType",
            KeptProperty::To => "synapse.To",
        }
    }
}

/// The sender of the current message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Sender {
    #[default]
    Client,
    /// It is the reply to a call.
    Service,
    /// Some of the earlier branches have a call, and others have none.
    Either,
}

/// Settings of properties for the next call or reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PendingProperties {
    pub(super) sender: Sender,
    /// A number, or a template.
    pub(super) status: Option<String>,
    /// A method, or a template.
    pub(super) method: Option<String>,
    /// The path that is appended to an address, or `None` for the path that the route forwards.
    pub(super) postfix: Option<Postfix>,
    /// The form in which the message is sent.
    pub(super) message_type: Option<String>,
    /// The content type of the message in that form.
    pub(super) content_type: Option<String>,
    /// The next `send` answers the client.
    pub(super) is_reply: bool,
    /// The next `send` expects no reply.
    pub(super) one_way: bool,
    /// A SOAP fault of the service is a fault.
    pub(super) fault_on_fault: bool,
    /// The action was, or may have been, set since the last reply.
    pub(super) has_action: bool,
    /// The URL for a `send` without an endpoint.
    pub(super) to: Option<String>,
    /// That URL was computed.
    pub(super) has_computed_to: bool,
    /// The address after the rules were applied.
    pub(super) rewritten: Option<Rewritten>,
}

/// The path after an address.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Postfix {
    Text(String),
    /// An expression of XPath.
    Computed(String),
}

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
