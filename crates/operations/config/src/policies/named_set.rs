//! `use`: inserts the policies of a set at this position of the list.

use serde_json::Value as Json;

use crate::decode::{Decode, Decoder};
use crate::node::Node;
use crate::schema::SchemaBuilder;
use crate::values::Spanned;

/// The name of one of the `policy_sets`.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedSet(pub Spanned<String>);

impl Decode for NamedSet {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        Spanned::decode(node, decoder).map(Self)
    }

    fn encode(&self) -> Json {
        self.0.encode()
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        String::schema(schema)
    }
}
