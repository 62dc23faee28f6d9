//! The list of all steps, and the keys of steps that have only a few.

use serde_json::{Value as Json, json};

use super::named_step::NAME;
use super::{
    Call, EnrichStep, ExpressionText, FilterStep, ForeachStep, NamedStep, PayloadStep, RespondStep,
    ScatterStep, SetValue, SplitStep, SwitchStep,
};
use crate::decode::{Decode, Decoder, keys, list, words};
use crate::node::{MapEntry, Node};
use crate::policies::{CacheCookies, RateLimit, XsltEngine};
use crate::report::did_you_mean;
use crate::schema::SchemaBuilder;
use crate::sources::quote;
use crate::values::{Between, DefinitionAt, FilePath, Map, OneOrMore, Size, Spanned, Timeout};

/// A list of steps, or a single one.
pub type Steps = OneOrMore<Spanned<NamedStep>>;

/// Ends the flow with 202 and no body. It has no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropStep;

const NAME_DOC: &str = "The name of the step in metrics, traces, the log and `explain`.";

/// Evaluates the `with` expression of a line in `steps!`, which gives the lists of steps inside a step. Without an expression, there are
/// none.
macro_rules! inner {
    ($keys:ident) => {{
        let _: &_ = $keys;
        Vec::new()
    }};
    ($keys:ident, $of:ident, $inner:expr) => {{
        let $of = $keys;
        $inner
    }};
}

/// Generates the enum of all steps, with parsing, writing and schema by name. `with` gives the lists of steps inside a step.
macro_rules! steps {
    ($( $(#[doc = $doc:literal])* $kind:ident($keys:ty) = $name:literal $(with |$of:ident| $inner:expr)?, )*) => {
        /// One step. The configuration writes it as a map whose key is the kind of step, such as `call`. The operator's own `name` for the
        /// step is in [`NamedStep`].
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "a configuration has few steps, and keeps them in separate lists")]
        pub enum Step {
            $( $(#[doc = $doc])* $kind($keys), )*
        }

        impl Step {
            /// The names of all kinds of steps, as written in the configuration, such as `call`.
            pub const NAMES: &[&str] = &[$($name),*];

            /// Returns the name of the kind of step, as written in the configuration, such as `call`.
            pub fn name(&self) -> &'static str {
                match self {
                    $( Self::$kind(_) => $name, )*
                }
            }

            /// The lists of steps inside it, in the order written.
            pub fn inner(&self) -> Vec<&Steps> {
                match self {
                    $( Self::$kind(keys) => inner!(keys $(, $of, $inner)?), )*
                }
            }

            pub(super) fn decode_named(entry: &MapEntry, decoder: &mut Decoder<'_>) -> Option<Self> {
                match entry.key.as_str() {
                    $( $name => <$keys>::decode(&entry.node, decoder).map(Self::$kind), )*
                    _ => unknown(entry, decoder),
                }
            }

            pub(super) fn encode_keys(&self) -> Json {
                match self {
                    $( Self::$kind(keys) => keys.encode(), )*
                }
            }

            pub(super) fn schemas(schema: &mut SchemaBuilder) -> Json {
                let doc = "One step of a flow: exactly one of these keys, and perhaps `name`.";
                schema.section("Step", doc, |section| {
                    section.key::<Option<String>>(NAME, NAME_DOC, Some(None));
                    $( section.key::<Option<$keys>>($name, concat!($($doc),*), Some(None)); )*
                })
            }
        }
    };
}

steps! {
    /// Sends the message to an upstream.
    Call(Call) = "call",
    /// Ends the flow with a reply.
    Respond(RespondStep) = "respond",
    /// Ends the flow with 202 and no body.
    Drop(DropStep) = "drop",
    /// Ends the flow with a fault.
    Fault(FaultStep) = "fault",
    /// Sets variables, in the order written.
    Set(Map<SetValue>) = "set",
    /// Changes headers of the message.
    Header(HeaderStep) = "header",
    /// Changes the header of a SOAP message.
    SoapHeader(SoapHeaderStep) = "soap_header",
    /// Builds a new body for the message.
    Payload(PayloadStep) = "payload",
    /// Changes parts of the message.
    Enrich(EnrichStep) = "enrich",
    /// Transforms the message with a stylesheet.
    Xslt(XsltStep) = "xslt",
    /// Validates the message against a schema.
    Validate(ValidateStep) = "validate" with |keys| keys.otherwise.iter().collect(),
    /// Converts the message to another format.
    Convert(ConvertStep) = "convert",
    /// Runs a program over the message.
    Script(ScriptStep) = "script",
    /// Runs one of two lists of steps, by a condition.
    Filter(FilterStep) = "filter" with |keys| vec![&keys.then, &keys.otherwise],
    /// Runs the steps of the first matching case.
    Switch(SwitchStep) = "switch" with |keys| keys.lists(),
    /// Runs steps for each part of the message, and replaces the part by the result.
    Foreach(ForeachStep) = "foreach" with |keys| vec![&keys.steps],
    /// Runs steps for each part of the message, and gathers the results.
    Split(SplitStep) = "split" with |keys| vec![&keys.steps],
    /// Runs branches concurrently, and gathers the results.
    Scatter(ScatterStep) = "scatter" with |keys| keys.branches.iter().collect(),
    /// Runs the steps of another flow.
    Sequence(Spanned<String>) = "sequence",
    /// Writes a line to the log.
    Log(LogStep) = "log",
    /// Caches the result of steps.
    Cache(CacheStep) = "cache" with |keys| vec![&keys.steps],
    /// Limits the rate of messages, like the policy `rate_limit`. A message beyond the limit gets 429. Without `by`, all messages share one
    /// count; with `plans`, each subject has its own.
    Throttle(RateLimit) = "throttle",
    /// Puts the message into a queue. Ends the flow with 202 once it is durable, unless `end: false`.
    Store(StoreStep) = "store",
    /// Runs steps in parallel to the flow, with a copy of the message. Their reply is discarded.
    WireTap(WireTapStep) = "wire_tap" with |keys| vec![&keys.steps],
    /// Runs a statement in a database.
    Sql(SqlStep) = "sql",
    /// Runs steps whose statements in one database take effect together, or not at all.
    Transaction(TransactionStep) = "transaction" with |keys| vec![&keys.steps],
}

fn unknown(entry: &MapEntry, decoder: &mut Decoder<'_>) -> Option<Step> {
    let meant = decoder.suggest(&entry.key, Step::NAMES.iter().copied());
    decoder.error(
        entry.key_at,
        format!("unknown step {}{}", quote(&entry.key), did_you_mean(meant)),
        format!("the steps are {}", list(Step::NAMES, "and")),
    );
    None
}

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
        /// The status. If absent, it is 400 if `code` is `client` and the message is not SOAP, and 500 otherwise.
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
        /// A SOAP 1.1 envelope. A message that is not SOAP is put into its Body, JSON as `<jsonObject>` or `<jsonArray>`.
        Soap11 = "soap11",
        /// A SOAP 1.2 envelope, made in the same way.
        Soap12 = "soap12",
        /// Plain XML: the first element in the Body of a SOAP message. Other messages are not changed.
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
        /// The methods that are cached. If absent, `GET` and `HEAD`, or all methods if `key` contains the body or the method.
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
        /// A variable that stores the rows, as an array of objects, or `{ "affected": NUMBER }` for a statement without rows. If a
        /// statement in MySQL generated numbers for rows, the object also has the first of them as `key`. If absent, rows become the
        /// message.
        into: Option<Spanned<String>>,
        /// The timeout of the statement; the database's own `timeout` if absent.
        timeout: Option<Timeout>,
        /// The maximum number of rows; the database's own `rows_max` if absent.
        rows_max: Option<Between<1, 1_000_000>>,
    }
}

keys! {
    /// Runs steps whose statements in one database take effect together, or not at all. They are rolled back if a step fails, the flow's
    /// `timeout` passes or the client disconnects. The first statement takes one of the database's connections, which the transaction
    /// keeps.
    pub struct TransactionStep {
        /// One of the `databases`. Statements in others are not a part of the transaction.
        database: Spanned<String>,
        /// The steps.
        steps: Steps,
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
