//! `soap`: holds messages to SOAP's envelope, to a WSDL or XML schema, and to the actions of the WSDL.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::decode::{Decode, Decoder, keys, words};
use crate::node::Node;
use crate::report::quote;
use crate::schema::SchemaBuilder;
use crate::sections::UpstreamTls;
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
        /// Files for locations that the schema, the description or an envelope names; others are looked for beside it.
        imports: Map<Spanned<FilePath>> = Map::default(),
        /// Whether an import without a location uses its namespace as the location: looked up in `imports` or, if it is a URL, by `fetch`.
        /// Schemas of one WSDL find one another without this.
        // What a namespace names is nobody's promise that there is a schema.
        imports_by_namespace: bool = false,
        /// Whether what a WSDL imports or includes is read too, and what that imports.
        // A description is written in pieces to be read as one.
        wsdl_imports: bool = true,
        /// Fetches what is named by a URL, in the background; without this nothing is fetched. Definitions are compiled anew after `ttl`.
        fetch: Option<DefinitionFetch>,
        /// Which side is validated: `request`, `response`.
        // The service checks its own replies; clients are not trusted to.
        validate: Spanned<Vec<MessageSide>> = Spanned::unwritten(vec![MessageSide::Request]),
        /// Whether a request has to name its operation's action: `off`, `optional` (if it names one, it has to be right), or `required` (if
        /// the WSDL says so). `{ check: required, empty: allow }` accepts an empty one for operations without an action in the WSDL.
        action: Spanned<SoapAction> = Spanned::unwritten(SoapAction::OFF),
        /// What to do with replies other than 200: `pass` them, or replace them by a `fault`.
        // A service's own faults come with 500, and clients want to read them.
        upstream_errors: UpstreamErrors = UpstreamErrors::Pass,
        /// What to do with definitions that do not compile: `complain` refuses the configuration, `fault` answers each request with a
        /// fault. The route's `errors: kong` implies `fault`.
        bad_definitions: Option<BadDefinitions>,
        /// Whether the client is told what is wrong.
        verbose: bool = false,
        /// The largest message; 413 above for a request, 502 for a reply.
        // Documents within messages make them large; what is held is the text, not a tree.
        body_bytes_max: Size = Size(10 * 1024 * 1024),
    }
}

keys! {
    /// Fetches what is named by URL, and compiles definitions anew.
    pub struct DefinitionFetch {
        /// How long fetching one document may take. A message that arrives before the first fetch is complete waits at most this long and a
        /// second.
        // What Kong allows.
        timeout: Timeout = Timeout(Duration::from_secs(1)),
        /// After this time everything is fetched and compiled again. The last good definition stays in use until that has succeeded.
        // Schemas change seldom.
        ttl: Timeout = Timeout(Duration::from_secs(3600)),
        /// Whether to fetch at once, and again after `ttl`; otherwise when a message needs it.
        // The first message should not be the one that waits.
        background: bool = true,
        /// How to verify `https` URLs, and the certificate to show to them.
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
    /// It is not.
    pub const OFF: SoapAction = SoapAction { check: ActionCheck::Off, empty: EmptyAction::Refuse };
}

keys! {
    /// The check of a request's action.
    pub(super) struct SoapActionKeys {
        /// How strictly: `off`, `optional` or `required`.
        // What a WSDL says of its actions is there to be kept.
        check: ActionCheck = ActionCheck::Required,
        /// What to do with an empty action, `SOAPAction: ""`, for an operation without an action in the WSDL: `refuse` or `allow`.
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
    /// The treatment of an empty action where the description has none.
    pub enum EmptyAction {
        /// The request is refused.
        Refuse = "refuse",
        /// It is the operation's.
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
        /// It has to be there where the WSDL says so.
        Required = "required",
    }
}

words! {
    /// The treatment of replies that are not success.
    pub enum UpstreamErrors {
        /// They are treated as others.
        Pass = "pass",
        /// They become a fault that says no more.
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
    /// By these schemas, and by those built in where there is none.
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
