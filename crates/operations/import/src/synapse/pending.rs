//! Properties for a later call or reply, and their known values at a point.

use super::rewritten::Rewritten;

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
