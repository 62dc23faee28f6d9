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

/// A list of steps, or one alone.
pub type Steps = OneOrMore<Spanned<NamedStep>>;

keys! {
    /// Sends the message to an upstream. The reply becomes the message, whatever its status, unless `into` keeps it aside.
    pub struct CallStep {
        /// One of the `upstreams`.
        upstream: Option<Spanned<String>>,
        /// The URL, a template, in place of `upstream`: an address that is known only when the call is made. `endpoints` says which
        /// addresses may be called.
        url: Option<Spanned<String>>,
        /// The method, perhaps a template; the request's if absent or empty.
        method: Option<Spanned<String>>,
        /// The path, a template; as the route forwards it if absent. Of one placeholder alone the value is the whole path with its
        /// query.
        path: Option<Spanned<String>>,
        /// The query: a template, or templates by the names of parameters; the request's if absent.
        query: Option<QueryTemplate>,
        /// Changes to the headers for this call alone.
        headers: CallHeaders,
        /// The body that is sent; the message's own if absent.
        body: Option<ExpressionText>,
        /// The longest that the whole call may take; the upstream's own timeouts hold too.
        timeout: Option<Spanned<Timeout>>,
        /// A variable that takes the reply, as `$NAME.status`, `$NAME.headers.X` and `$NAME.body`. The message stays.
        into: Option<Spanned<String>>,
        /// Statuses that are faults, such as `[5xx, 404]`.
        // What a status means is the flow's business, so none is by itself.
        fault_on: Vec<StatusClass> = Vec::new(),
    }
}

keys! {
    /// Changes to the headers of one call.
    pub struct CallHeaders {
        /// Headers to replace, or add where missing; the values are templates.
        set: Map<Spanned<String>> = Map::default(),
        /// Headers to leave out.
        remove: Vec<Spanned<String>> = Vec::new(),
    }
}

/// The `call` step: the name of an upstream, or its keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Call(pub CallStep);

keys! {
    /// Ends the flow with a reply: the message, or what is made here.
    pub struct RespondStep {
        /// The status, perhaps a template; the message's own if absent or empty, and 200 where that is a request.
        status: Option<StatusTemplate>,
        /// Headers to replace, or add where missing; the values are templates.
        headers: Map<Spanned<String>> = Map::default(),
        /// The body as a template of XML.
        xml: Option<Spanned<String>>,
        /// The body as a template of JSON.
        json: Option<Spanned<JsonTemplate>>,
        /// The body as a template of text.
        text: Option<Spanned<String>>,
        /// The body as a form: a template such as `a={{ $body.a }}&b=1`, or templates by the names of fields. Values are
        /// percent-encoded, so that none can add a field.
        form: Option<QueryTemplate>,
        /// The body as what an expression finds.
        from: Option<ExpressionText>,
    }
}

/// Ends the flow with 202 and no body. It has no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropStep;

keys! {
    /// Puts the message into a queue, with its method, path and headers. The step waits until it is durable.
    pub struct StoreStep {
        /// The name of one of the `queues`.
        queue: Spanned<String>,
        /// Whether the step ends the flow with 202. With `false` the flow continues with the message as it is.
        // Who puts a message into a queue has mostly nothing to add.
        end: bool = true,
        /// With `end: false`, a variable for the message's number in the queue, as `$NAME.id`.
        into: Option<Spanned<String>>,
    }
}

keys! {
    /// Runs steps beside the flow, with a copy of the message. The flow does not wait for them, and gets neither their reply nor their
    /// fault. They have as long as the flow's `timeout`, and continue when the client has gone.
    pub struct WireTapStep {
        /// The steps.
        steps: Steps,
        /// How many copies are under way at once, in the whole gateway. A message above that is not copied; it is counted and logged.
        // Copies are held in memory: 64 of the usual size are a few MiB.
        max: Between<1, 10_000> = const { Between::new(64) },
    }
}

keys! {
    /// Ends the flow with a fault, or goes to the nearest `catch`.
    pub struct FaultStep {
        /// Whose fault it is.
        code: FaultCode = FaultCode::Server,
        /// The text that clients read, a template.
        reason: Spanned<String> = Spanned::unwritten("The message could not be processed.".to_owned()),
        /// More for them, a template.
        detail: Option<Spanned<String>>,
        /// The status; 500 if absent, or 400 for a client's fault where the message is not SOAP.
        status: Option<Between<400, 599>>,
    }
}

words! {
    /// Whose fault a fault is.
    pub enum FaultCode {
        /// The sender's.
        Client = "client",
        /// The receiver's.
        Server = "server",
    }
}

keys! {
    /// Changes headers of the message, `remove` first, then `set` and `add`; the values are templates.
    pub struct HeaderStep {
        /// Headers to replace, or add where missing.
        set: Map<Spanned<String>> = Map::default(),
        /// Headers to add beside those of the same name.
        add: Map<Spanned<String>> = Map::default(),
        /// Headers to remove.
        remove: Vec<Spanned<String>> = Vec::new(),
    }
}

keys! {
    /// Changes the header of a SOAP message, `remove` first.
    pub struct SoapHeaderStep {
        /// Elements to put in, templates of XML. One of the same name is replaced.
        set: Vec<Spanned<String>> = Vec::new(),
        /// Names of elements to remove, such as `m:routing`.
        remove: Vec<Spanned<String>> = Vec::new(),
    }
}

keys! {
    /// Makes the message's body anew. In a SOAP message `xml` and `from` replace what is in the Body.
    pub struct PayloadStep {
        /// A template of XML.
        xml: Option<Spanned<String>>,
        /// A template of JSON.
        json: Option<Spanned<JsonTemplate>>,
        /// A template of text.
        text: Option<Spanned<String>>,
        /// A form (`application/x-www-form-urlencoded`): a template such as `a={{ $body.a }}&b=1`, or templates by the names of
        /// fields. Values are percent-encoded, so that none can add a field.
        form: Option<QueryTemplate>,
        /// The result of an expression: a node set as its markup.
        from: Option<ExpressionText>,
        /// The bytes of a file.
        file: Option<Spanned<FilePath>>,
        /// The content type; by what was made if absent.
        content_type: Option<Spanned<String>>,
        /// The fate of the envelope of a SOAP message.
        envelope: EnvelopeUse = EnvelopeUse::Keep,
    }
}

words! {
    /// The fate of the envelope of a SOAP message.
    pub enum EnvelopeUse {
        /// It stays around what is made.
        Keep = "keep",
        /// The new body is the whole message.
        Drop = "drop",
    }
}

keys! {
    /// Puts something into the message at each place that `target` finds.
    pub struct EnrichStep {
        /// The text that is put there: an expression, or `{ xml: TEMPLATE }`. `remove` needs none.
        source: Option<EnrichSource>,
        /// The place.
        target: ExpressionText,
        /// The action at the place.
        action: EnrichAction = EnrichAction::Replace,
    }
}

/// The text that is put into a message.
#[derive(Clone, Debug, PartialEq)]
pub enum EnrichSource {
    /// The result of an expression.
    Expression(ExpressionText),
    /// A template of XML.
    Xml(Spanned<String>),
}

words! {
    /// The way in which a source is put at a target.
    pub enum EnrichAction {
        /// In its place.
        Replace = "replace",
        /// As its last child.
        Child = "child",
        /// Before it.
        Before = "before",
        /// Behind it.
        After = "after",
        /// The target goes.
        Remove = "remove",
    }
}

keys! {
    /// Transforms the message with a stylesheet: of a SOAP message the whole envelope, unless `of` says what.
    pub struct XsltStep {
        /// The stylesheet's file.
        stylesheet: Spanned<DefinitionAt>,
        /// The engine that runs it.
        engine: XsltEngine = XsltEngine::Auto,
        /// The element that is transformed, as a document of its own. The result takes its place.
        of: Option<ExpressionText>,
        /// Parameters, by their names.
        parameters: Map<ExpressionText> = Map::default(),
    }
}

keys! {
    /// Checks the message, or a part of it, against a schema.
    pub struct ValidateStep {
        /// A schema of XML, a file.
        schema: Option<Spanned<FilePath>>,
        /// A JSON Schema, a file.
        json_schema: Option<Spanned<FilePath>>,
        /// The value that is checked. If absent, the body; in a SOAP message the content of the Body.
        of: Option<ExpressionText>,
        /// Steps for a message that is not valid, instead of a client's fault.
        otherwise as "else": Option<Steps>,
    }
}

keys! {
    /// Makes the message another format.
    pub struct ConvertStep {
        /// The format.
        to: ConvertTo,
        /// The root element of XML that is made of JSON.
        root: Option<Spanned<String>>,
        /// Paths such as `orders/order`, with the outermost element or without it, of elements that are arrays of JSON, even if there is one.
        arrays: Vec<Spanned<String>> = Vec::new(),
        /// True: texts that are numbers and truths become such.
        // The digits of an order's number are not a number.
        types: bool = false,
        /// What an array of JSON without items is in XML.
        // Without a mark it would be gone on the way back.
        empty_arrays: EmptyArrays = EmptyArrays::Mark,
    }
}

words! {
    /// What an empty array is in XML, where lists are elements in a row.
    pub enum EmptyArrays {
        /// The instruction `<?xml-multiple NAME?>`, of which `to: json` makes the array again.
        Mark = "mark",
        /// Nothing, for services that refuse instructions, as many of SOAP do.
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
        /// A SOAP 1.1 envelope: other messages stand in its Body, JSON as `<jsonObject>`.
        Soap11 = "soap11",
        /// A SOAP 1.2 envelope.
        Soap12 = "soap12",
        /// Plain XML: of a SOAP message the element in its Body.
        Pox = "pox",
    }
}

keys! {
    /// Runs a program over the message.
    pub struct ScriptStep {
        /// The program, as a filter of jq.
        jq: Option<Spanned<String>>,
        /// The program, as the body of a function in JavaScript.
        js: Option<Spanned<String>>,
        /// What a program in JavaScript knows as `values.NAME`.
        values: Map<ExpressionText> = Map::default(),
        /// The variable that takes the result; the message stays. Without it the result is the new message.
        into: Option<Spanned<String>>,
    }
}

keys! {
    /// Does one or the other.
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
    /// Does what the first fitting case says.
    pub struct SwitchStep {
        /// The value that is compared, as text.
        on: ExpressionText,
        /// The cases.
        cases: Vec<SwitchCase>,
        /// Steps if no case fits.
        default: Steps = OneOrMore(Vec::new()),
    }
}

keys! {
    /// A case of a `switch`.
    pub struct SwitchCase {
        /// The text it has to be.
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
        /// For those who look for something.
        Debug = "debug",
        /// Events.
        Info = "info",
        /// Events that should not go on.
        Warn = "warn",
        /// Failures.
        Error = "error",
    }
}

keys! {
    /// Gives a message again that steps made before, by the rules of the policy `cache` (RFC 9111, a shared cache).
    pub struct CacheStep {
        /// The key of a message, a template. Messages of one key, method and `Host` share an entry.
        key: Spanned<String>,
        /// The longest time for which an entry is served; a reply that says it is fresh for less is served for less.
        ttl: Timeout,
        /// The methods that are cached, with their bodies; `GET` and `HEAD` if absent, and others where `key` has the body or the method.
        methods: Option<Vec<Spanned<String>>>,
        /// How to treat requests with a `Cookie`: with `bypass` they are not answered from the cache and their results are not cached,
        /// unless `key` has the cookie; `ignore` treats them like all others.
        // A reply to a cookie is somebody's own unless the operator knows better.
        cookies: CacheCookies = CacheCookies::Bypass,
        /// How to treat results for clients with credentials: with `bypass` they are cached only if every reply that they were made of
        /// says that it may be shared (`public`, `s-maxage`, `must-revalidate`), or `key` has `$headers.authorization`; `ignore`
        /// treats them like all others.
        credentials: CacheCookies = CacheCookies::Bypass,
        /// The size of all cached messages together; above it the least recently used are dropped.
        // As in the policy.
        bytes_max: Size = Size(64 << 20),
        /// The largest message that is cached.
        entry_bytes_max: Size = Size(1 << 20),
        /// How many messages are cached.
        // As many as clients of one gateway are likely to ask for within a time to live.
        entries_max: Between<1, 10_000_000> = const { Between::new(10_000) },
        /// The steps that make it.
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
        /// The arguments. What is not found is null.
        arguments: Vec<ExpressionText> = Vec::new(),
        /// A variable that takes the rows, an array of objects; of a statement without rows `{ "affected": NUMBER }`. Without it
        /// rows become the message.
        into: Option<Spanned<String>>,
        /// The longest that it may take; the database's own `timeout` if absent.
        timeout: Option<Timeout>,
        /// The most rows; the database's own `rows_max` if absent.
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
