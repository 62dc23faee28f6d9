//! `soap`: validates messages against the SOAP envelope, a WSDL or XML schema, and the actions of the WSDL.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::decode::{Decode, Decoder, keys, words};
use crate::node::Node;
use crate::schema::SchemaBuilder;
use crate::sections::UpstreamTls;
use crate::sources::quote;
use crate::values::{DefinitionAt, FilePath, Map, Size, Spanned, Timeout};

keys! {
    /// Refuses messages that are not a valid SOAP envelope, or whose body a WSDL or schema does not allow, with a SOAP fault of the
    /// client's version.
    pub struct Soap {
        /// The accepted versions of SOAP. If 1.2 is listed, it is validated against a built-in schema. Without this key 1.2 needs a schema
        /// in `envelope`.
        versions: Option<Spanned<Vec<SoapVersion>>>,
        /// Schemas of the envelope by version, in place of those built in, or `off`: files or, with `fetch`, URLs. The one for 1.1 also
        /// applies to XML that is not an envelope.
        envelope: Envelope,
        /// What the body is validated against: a WSDL 1.1 or 2.0, or an XML schema, in a file or, with `fetch`, at a URL. Without it only
        /// the envelope is validated.
        schema: Option<Spanned<DefinitionAt>>,
        /// Files for locations that the schema, the description or an envelope refers to. Other files are searched next to it.
        imports: Map<Spanned<FilePath>> = Map::default(),
        /// Whether an import without a location uses its namespace as the location: looked up in `imports` or, if it is a URL, by `fetch`.
        /// Schemas of one WSDL find one another without this.
        // A namespace need not be the location of a schema.
        imports_by_namespace: bool = false,
        /// Whether documents that a WSDL imports or includes are read, too, directly and indirectly.
        // A description in several files is meant to be read as one.
        wsdl_imports: bool = true,
        /// Fetches documents that are referred to by URL, in the background. If absent, nothing is fetched. Definitions are recompiled
        /// after `ttl`.
        fetch: Option<DefinitionFetch>,
        /// The sides that are validated: `request`, `response`.
        // The service is responsible for its own replies; clients are not trusted.
        validate: Spanned<Vec<MessageSide>> = Spanned::unwritten(vec![MessageSide::Request]),
        /// Whether a request must name the action of its operation: `off`, `optional` (an action must be correct if present), or `required`
        /// (if the WSDL defines one). `{ check: required, empty: allow }` accepts an empty action for operations without an action in the
        /// WSDL.
        action: Spanned<SoapAction> = Spanned::unwritten(SoapAction::OFF),
        /// What happens to replies with a status other than 200: `pass` forwards them, `fault` replaces them by a fault.
        // A service's own faults have status 500, and clients need them.
        upstream_errors: UpstreamErrors = UpstreamErrors::Pass,
        /// What happens with definitions that do not compile: `complain` refuses the configuration, `fault` answers each request with a
        /// fault. The route's `errors: kong` implies `fault`.
        bad_definitions: Option<BadDefinitions>,
        /// Whether errors are reported to the client.
        verbose: bool = false,
        /// The largest message; 413 above for a request, 502 for a reply.
        // Messages with embedded documents are large. Only the text is held in memory, not a tree.
        body_bytes_max: Size = Size(10 * 1024 * 1024),
    }
}

keys! {
    /// Fetches documents that are referred to by URL, and recompiles definitions.
    pub struct DefinitionFetch {
        /// How long fetching one document may take. A message that arrives before the first fetch is complete waits for at most this time
        /// plus one second.
        // The default of Kong.
        timeout: Timeout = Timeout(Duration::from_secs(1)),
        /// The time after which everything is fetched and compiled again. The last good definition remains in use until that has succeeded.
        // Schemas change seldom.
        ttl: Timeout = Timeout(Duration::from_secs(3600)),
        /// Whether documents are fetched at start, and again after `ttl`. Otherwise, they are fetched when a message needs them.
        // The first message should not have to wait.
        background: bool = true,
        /// How to verify `https` URLs, and the certificate to present to them.
        tls: UpstreamTls,
    }
}

words! {
    /// A version of SOAP.
    pub enum SoapVersion {
        /// The W3C note of 2000.
        V11 = "1.1",
        /// The W3C recommendation of 2007.
        V12 = "1.2",
    }
}

words! {
    /// One of the two messages of an exchange.
    pub enum MessageSide {
        /// Requests of clients.
        Request = "request",
        /// Replies of the upstream.
        Response = "response",
    }
}

/// The check of a request's action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoapAction {
    pub check: ActionCheck,
    pub empty: EmptyAction,
}

impl SoapAction {
    /// No check.
    pub const OFF: SoapAction = SoapAction { check: ActionCheck::Off, empty: EmptyAction::Refuse };
}

keys! {
    /// The check of a request's action.
    pub(super) struct SoapActionKeys {
        /// How strictly the action is checked: `off`, `optional` or `required`.
        // A WSDL's actions are meant to be followed.
        check: ActionCheck = ActionCheck::Required,
        /// What happens to an empty action, `SOAPAction: ""`, for an operation without an action in the WSDL: `refuse` or `allow`.
        // Kong refuses every action of such an operation; WS-I's Basic Profile asks for the empty one.
        empty: EmptyAction = EmptyAction::Refuse,
    }
}

impl Decode for SoapAction {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        if node.text().is_some() {
            let check = ActionCheck::decode(node, decoder)?;
            return Some(Self { check, ..Self::OFF });
        }
        let SoapActionKeys { check, empty } = SoapActionKeys::decode(node, decoder)?;
        Some(Self { check, empty })
    }

    fn encode(&self) -> Json {
        let Self { check, empty } = *self;
        match empty {
            EmptyAction::Refuse => check.encode(),
            EmptyAction::Allow => SoapActionKeys { check, empty }.encode(),
        }
    }

    fn schema(builder: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [ActionCheck::schema(builder), SoapActionKeys::schema(builder)] })
    }
}

words! {
    /// The treatment of an empty action if the WSDL defines none.
    pub enum EmptyAction {
        /// The request is refused.
        Refuse = "refuse",
        /// It is accepted.
        Allow = "allow",
    }
}

words! {
    /// The strictness of the check of a request's action.
    pub enum ActionCheck {
        /// Not at all.
        Off = "off",
        /// It may be missing.
        Optional = "optional",
        /// It is required if the WSDL defines one.
        Required = "required",
    }
}

words! {
    /// The treatment of replies with a status other than 200.
    pub enum UpstreamErrors {
        /// They are treated like other replies.
        Pass = "pass",
        /// They are replaced by a fault without details.
        Fault = "fault",
    }
}

words! {
    /// The treatment of definitions that do not compile.
    pub enum BadDefinitions {
        /// The configuration is refused.
        Complain = "complain",
        /// Each message is refused.
        Fault = "fault",
    }
}

/// The check of envelopes.
#[derive(Clone, Debug, PartialEq)]
pub enum Envelope {
    /// Not at all.
    Off,
    /// By these schemas, or by the built-in ones for versions that are not listed.
    Schemas(Map<Spanned<DefinitionAt>>),
}

impl Decode for Envelope {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        if node.text() == Some("off") {
            return Some(Self::Off);
        }
        let help = "write `off`, or `{ \"1.1\": FILE, \"1.2\": FILE }`";
        if node.text().is_some() {
            decoder.expected(node, "`off` or schemas by version", help);
            return None;
        }
        let schemas = Map::<Spanned<DefinitionAt>>::decode(node, decoder)?;
        for (version, _) in schemas.iter() {
            if !matches!(version.value.as_str(), "1.1" | "1.2") {
                let what = format!("{} is not a SOAP version", quote(&version.value));
                decoder.error(version.at, what, help);
            }
        }
        Some(Self::Schemas(schemas))
    }

    fn absent() -> Option<Self> {
        Some(Self::Schemas(Map::default()))
    }

    fn encode(&self) -> Json {
        match self {
            Self::Off => "off".into(),
            Self::Schemas(schemas) => schemas.encode(),
        }
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        let file = json!({ "type": "string" });
        json!({ "anyOf": [
            { "const": "off" },
            { "type": "object", "properties": { "1.1": file, "1.2": file }, "additionalProperties": false },
        ] })
    }
}
