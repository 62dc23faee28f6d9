//! The keys of each step.

use serde_json::{Value as Json, json};

use super::{
    Condition, ExpressionText, JsonTemplate, NamedStep, QueryTemplate, StatusClass, StatusTemplate,
};
use crate::decode::{Decode, Decoder, keys, words};
use crate::node::{Node, Value};
use crate::policies::{CacheCookies, XsltEngine};
use crate::schema::SchemaBuilder;
use crate::values::{Between, DefinitionAt, FilePath, Map, OneOrMore, Size, Spanned, Timeout};

/// A list of steps, or a single one.
pub type Steps = OneOrMore<Spanned<NamedStep>>;

keys! {
    /// Sends the message to an upstream. The reply becomes the message, whatever its status, unless `into` stores it in a variable.
    pub struct CallStep {
        /// One of the `upstreams`.
        upstream: Option<Spanned<String>>,
        /// A template of the URL, in place of `upstream`, for an address that is known only at run time. `endpoints` lists the addresses
        /// that may be called.
        url: Option<Spanned<String>>,
        /// The method, which may be a template; the request's if absent or empty.
        method: Option<Spanned<String>>,
        /// A template of the path; as the route forwards it if absent. If it is a single placeholder, its value is the whole path including
        /// the query.
        path: Option<Spanned<String>>,
        /// The query: a template, or templates by the names of parameters; the request's if absent.
        query: Option<QueryTemplate>,
        /// Changes to the headers of this call only.
        headers: CallHeaders,
        /// The body to send; that of the message if absent.
        body: Option<ExpressionText>,
        /// The timeout of the whole call. The timeouts of the upstream also apply.
        timeout: Option<Spanned<Timeout>>,
        /// A variable that stores the reply, as `$NAME.status`, `$NAME.headers.X` and `$NAME.body`. The message is not changed.
        into: Option<Spanned<String>>,
        /// Statuses that are faults, such as `[5xx, 404]`.
        // The meaning of a status depends on the flow, so none is a fault by default.
        fault_on: Vec<StatusClass> = Vec::new(),
    }
}

keys! {
    /// Changes to the headers of one call.
    pub struct CallHeaders {
        /// Headers to replace, or to add if they are missing. The values are templates.
        set: Map<Spanned<String>> = Map::default(),
        /// Headers to omit.
        remove: Vec<Spanned<String>> = Vec::new(),
    }
}

/// The `call` step: the name of an upstream, or its keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Call(pub CallStep);

keys! {
    /// Ends the flow with a reply: the message, or the content given here.
    pub struct RespondStep {
        /// The status, which may be a template. If absent or empty, that of the message, or 200 if the message is a request.
        status: Option<StatusTemplate>,
        /// Headers to replace, or to add if they are missing. The values are templates.
        headers: Map<Spanned<String>> = Map::default(),
        /// The body as an XML template.
        xml: Option<Spanned<String>>,
        /// The body as a JSON template.
        json: Option<Spanned<JsonTemplate>>,
        /// The body as a text template.
        text: Option<Spanned<String>>,
        /// The body as a form: a template such as `a={{ $body.a }}&b=1`, or templates by the names of fields. Values are
        /// percent-encoded, so that none can add a field.
        form: Option<QueryTemplate>,
        /// The body as the result of an expression.
        from: Option<ExpressionText>,
    }
}

/// Ends the flow with 202 and no body. It has no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropStep;

keys! {
    /// Puts the message into a queue, with its method, path and headers. The step waits until the message is durable.
    pub struct StoreStep {
        /// The name of one of the `queues`.
        queue: Spanned<String>,
        /// Whether the step ends the flow with 202. With `false`, the flow continues with the unchanged message.
        // A flow usually has nothing left to do once its message is in a queue.
        end: bool = true,
        /// With `end: false`, a variable for the message's number in the queue, as `$NAME.id`.
        into: Option<Spanned<String>>,
    }
}

keys! {
    /// Runs steps in parallel to the flow, with a copy of the message. The flow does not wait for them, and gets neither their reply nor
    /// their fault. They have the flow's `timeout`, and continue if the client disconnects.
    pub struct WireTapStep {
        /// The steps.
        steps: Steps,
        /// How many copies may be processed at once, in the whole gateway. A message beyond that is not copied, but counted and logged.
        // Copies are held in memory: 64 of the usual size take a few MiB.
        max: Between<1, 10_000> = const { Between::new(64) },
    }
}

keys! {
    /// Raises a fault, which ends the flow or is handled by the nearest `catch`.
    pub struct FaultStep {
        /// The side at fault.
        code: FaultCode = FaultCode::Server,
        /// A template of the text for clients.
        reason: Spanned<String> = Spanned::unwritten("The message could not be processed.".to_owned()),
        /// A template of further details for clients.
        detail: Option<Spanned<String>>,
        /// The status. If absent, 500, or 400 for a client's fault if the message is not SOAP.
        status: Option<Between<400, 599>>,
    }
}

words! {
    /// The side at fault.
    pub enum FaultCode {
        /// The sender.
        Client = "client",
        /// The receiver.
        Server = "server",
    }
}

keys! {
    /// Changes headers of the message: `remove` first, then `set` and `add`. The values are templates.
    pub struct HeaderStep {
        /// Headers to replace, or to add if they are missing.
        set: Map<Spanned<String>> = Map::default(),
        /// Headers to add to those of the same name.
        add: Map<Spanned<String>> = Map::default(),
        /// Headers to remove.
        remove: Vec<Spanned<String>> = Vec::new(),
    }
}

keys! {
    /// Changes the header of a SOAP message, `remove` first.
    pub struct SoapHeaderStep {
        /// Elements to add, as XML templates. An element of the same name is replaced.
        set: Vec<Spanned<String>> = Vec::new(),
        /// Names of elements to remove, such as `m:routing`.
        remove: Vec<Spanned<String>> = Vec::new(),
    }
}

keys! {
    /// Builds a new body for the message. In a SOAP message, `xml` and `from` replace the content of the Body.
    pub struct PayloadStep {
        /// An XML template.
        xml: Option<Spanned<String>>,
        /// A JSON template.
        json: Option<Spanned<JsonTemplate>>,
        /// A text template.
        text: Option<Spanned<String>>,
        /// A form (`application/x-www-form-urlencoded`): a template such as `a={{ $body.a }}&b=1`, or templates by the names of
        /// fields. Values are percent-encoded, so that none can add a field.
        form: Option<QueryTemplate>,
        /// The result of an expression. A node set becomes its markup.
        from: Option<ExpressionText>,
        /// The bytes of a file.
        file: Option<Spanned<FilePath>>,
        /// The content type; derived from the kind of the body if absent.
        content_type: Option<Spanned<String>>,
        /// What happens to the envelope of a SOAP message.
        envelope: EnvelopeUse = EnvelopeUse::Keep,
    }
}

words! {
    /// What happens to the envelope of a SOAP message.
    pub enum EnvelopeUse {
        /// It is kept around the new content.
        Keep = "keep",
        /// The new body is the whole message.
        Drop = "drop",
    }
}

keys! {
    /// Changes the message at each place that `target` selects.
    pub struct EnrichStep {
        /// The content to insert: an expression, or `{ xml: TEMPLATE }`. `remove` needs none.
        source: Option<EnrichSource>,
        /// The place.
        target: ExpressionText,
        /// The action at the place.
        action: EnrichAction = EnrichAction::Replace,
    }
}

/// The content to insert into a message.
#[derive(Clone, Debug, PartialEq)]
pub enum EnrichSource {
    /// The result of an expression.
    Expression(ExpressionText),
    /// An XML template.
    Xml(Spanned<String>),
}

words! {
    /// How the source is inserted at a target.
    pub enum EnrichAction {
        /// Replaces the target.
        Replace = "replace",
        /// As the target's last child.
        Child = "child",
        /// Before the target.
        Before = "before",
        /// After the target.
        After = "after",
        /// Removes the target.
        Remove = "remove",
    }
}

keys! {
    /// Transforms the message with a stylesheet. For a SOAP message, this is the whole envelope, unless `of` selects a part.
    pub struct XsltStep {
        /// The stylesheet's file.
        stylesheet: Spanned<DefinitionAt>,
        /// The engine that runs it.
        engine: XsltEngine = XsltEngine::Auto,
        /// The element that is transformed as a separate document. It is replaced by the result.
        of: Option<ExpressionText>,
        /// Parameters, by their names.
        parameters: Map<ExpressionText> = Map::default(),
    }
}

keys! {
    /// Validates the message, or a part of it, against a schema.
    pub struct ValidateStep {
        /// A file with an XML schema.
        schema: Option<Spanned<FilePath>>,
        /// A file with a JSON Schema.
        json_schema: Option<Spanned<FilePath>>,
        /// The value that is validated. If absent, the body, or for a SOAP message the content of the Body.
        of: Option<ExpressionText>,
        /// Steps for a message that is not valid, instead of a client's fault.
        otherwise as "else": Option<Steps>,
    }
}

keys! {
    /// Converts the message to another format.
    pub struct ConvertStep {
        /// The format.
        to: ConvertTo,
        /// The root element for XML produced from JSON.
        root: Option<Spanned<String>>,
        /// Paths such as `orders/order`, with or without the outermost element, of elements that become JSON arrays even if there is only
        /// one.
        arrays: Vec<Spanned<String>> = Vec::new(),
        /// Whether texts that look like numbers or booleans are converted to these types.
        // The digits of an order number, for example, are not a number.
        types: bool = false,
        /// How an empty JSON array is represented in XML.
        // Without a mark, it would be lost when converted back.
        empty_arrays: EmptyArrays = EmptyArrays::Mark,
    }
}

words! {
    /// How an empty array is represented in XML, where lists are repeated elements.
    pub enum EmptyArrays {
        /// The processing instruction `<?xml-multiple NAME?>`, which `to: json` converts back to the array.
        Mark = "mark",
        /// Nothing, for services that refuse processing instructions, as many SOAP services do.
        Omit = "omit",
    }
}

words! {
    /// A format of messages.
    pub enum ConvertTo {
        /// JSON.
        Json = "json",
        /// XML.
        Xml = "xml",
        /// Plain text.
        Text = "text",
        /// A SOAP 1.1 envelope, with other messages in its Body, JSON as `<jsonObject>`.
        Soap11 = "soap11",
        /// A SOAP 1.2 envelope.
        Soap12 = "soap12",
        /// Plain XML; for a SOAP message, the element in its Body.
        Pox = "pox",
    }
}

keys! {
    /// Runs a program over the message.
    pub struct ScriptStep {
        /// The program, as a jq filter.
        jq: Option<Spanned<String>>,
        /// The program, as the body of a JavaScript function.
        js: Option<Spanned<String>>,
        /// Values for a JavaScript program, which it reads as `values.NAME`.
        values: Map<ExpressionText> = Map::default(),
        /// A variable that stores the result, so that the message is not changed. If absent, the result is the new message.
        into: Option<Spanned<String>>,
    }
}

keys! {
    /// Runs one of two lists of steps, by a condition.
    pub struct FilterStep {
        /// The condition.
        when: Condition,
        /// Steps if it holds.
        then: Steps = OneOrMore(Vec::new()),
        /// Steps if it does not.
        otherwise as "else": Steps = OneOrMore(Vec::new()),
    }
}

keys! {
    /// Runs the steps of the first matching case.
    pub struct SwitchStep {
        /// The value that is compared, as text.
        on: ExpressionText,
        /// The cases.
        cases: Vec<SwitchCase>,
        /// Steps if no case matches.
        default: Steps = OneOrMore(Vec::new()),
    }
}

keys! {
    /// A case of a `switch`.
    pub struct SwitchCase {
        /// The text that the value must equal.
        equals: Option<Spanned<String>>,
        /// A regular expression to search in it.
        matches: Option<Spanned<String>>,
        /// The steps.
        steps: Steps,
    }
}

keys! {
    /// Writes a line to the log.
    pub struct LogStep {
        /// Its level.
        level: LogLevel = LogLevel::Info,
        /// The text of the line, a template.
        message: Spanned<String>,
    }
}

words! {
    /// The level of a line.
    pub enum LogLevel {
        /// Details for debugging.
        Debug = "debug",
        /// Events.
        Info = "info",
        /// Events that need attention.
        Warn = "warn",
        /// Failures.
        Error = "error",
    }
}

keys! {
    /// Caches the result of steps, by the rules of the policy `cache` (RFC 9111, a shared cache).
    pub struct CacheStep {
        /// A template of the key. Messages with the same key, method and `Host` share an entry.
        key: Spanned<String>,
        /// The longest time for which an entry is served. A reply with a shorter freshness lifetime is served for a shorter time.
        ttl: Timeout,
        /// The methods that are cached; `GET` and `HEAD` if absent, and others if `key` contains the body or the method.
        methods: Option<Vec<Spanned<String>>>,
        /// How requests with a `Cookie` are treated: with `bypass`, they are not answered from the cache and their results are not cached,
        /// unless `key` contains the cookie. `ignore` treats them like all others.
        // A reply to a request with a cookie may be personal, unless the operator knows better.
        cookies: CacheCookies = CacheCookies::Bypass,
        /// How results for clients with credentials are treated: with `bypass`, they are cached only if every reply they are made from is
        /// explicitly shareable (`public`, `s-maxage`, `must-revalidate`), or if `key` contains `$headers.authorization`. `ignore` treats
        /// them like all others.
        credentials: CacheCookies = CacheCookies::Bypass,
        /// The maximum size of all cached messages together. Beyond it, the least recently used are dropped.
        // As in the policy.
        bytes_max: Size = Size(64 << 20),
        /// The largest message that is cached.
        entry_bytes_max: Size = Size(1 << 20),
        /// How many messages are cached.
        // As many as the clients of one gateway are likely to request within a `ttl`.
        entries_max: Between<1, 10_000_000> = const { Between::new(10_000) },
        /// The steps that produce the message.
        steps: Steps,
    }
}

keys! {
    /// Runs a statement in a database.
    pub struct SqlStep {
        /// One of the `databases`.
        database: Spanned<String>,
        /// One statement, with `$1`, `$2` for arguments.
        query: Spanned<String>,
        /// The arguments. An expression that finds nothing becomes null.
        arguments: Vec<ExpressionText> = Vec::new(),
        /// A variable that stores the rows, as an array of objects, or `{ "affected": NUMBER }` for a statement without rows. If absent,
        /// rows become the message.
        into: Option<Spanned<String>>,
        /// The timeout of the statement; the database's own `timeout` if absent.
        timeout: Option<Timeout>,
        /// The maximum number of rows; the database's own `rows_max` if absent.
        rows_max: Option<Between<1, 1_000_000>>,
    }
}

impl Decode for DropStep {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        decoder.section(node, &[], &[]).map(|_| Self)
    }

    fn encode(&self) -> Json {
        json!({})
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        json!({ "type": "object", "additionalProperties": false })
    }
}

impl Decode for Call {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(_) => {
                let upstream = Spanned::decode(node, decoder)?;
                Some(Self(CallStep {
                    upstream: Some(upstream),
                    url: None,
                    method: None,
                    path: None,
                    query: None,
                    headers: CallHeaders { set: Map::default(), remove: Vec::new() },
                    body: None,
                    timeout: None,
                    into: None,
                    fault_on: Vec::new(),
                }))
            }
            Value::Null | Value::Unreadable | Value::List(_) | Value::Map(_) => {
                CallStep::decode(node, decoder).map(Self)
            }
        }
    }

    fn encode(&self) -> Json {
        self.0.encode()
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [String::schema(schema), CallStep::schema(schema)] })
    }
}

impl Decode for EnrichSource {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let Some(xml) = node.get("xml") else {
            return ExpressionText::decode(node, decoder).map(Self::Expression);
        };
        decoder.section(node, &["xml"], &[])?;
        Spanned::decode(xml, decoder).map(Self::Xml)
    }

    fn encode(&self) -> Json {
        match self {
            Self::Expression(expression) => expression.encode(),
            Self::Xml(template) => json!({ "xml": template.encode() }),
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        let xml = json!({
            "type": "object",
            "properties": { "xml": String::schema(schema) },
            "required": ["xml"],
            "additionalProperties": false,
        });
        json!({ "anyOf": [ExpressionText::schema(schema), xml] })
    }
}
