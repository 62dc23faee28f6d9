//! The keys of steps that make a body or change it: `respond`, `payload` and `enrich`.

use serde_json::{Value as Json, json};

use super::{ExpressionText, JsonTemplate, QueryTemplate, StatusTemplate};
use crate::decode::{Decode, Decoder, keys, words};
use crate::node::Node;
use crate::schema::SchemaBuilder;
use crate::values::{FilePath, Map, Spanned};

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
