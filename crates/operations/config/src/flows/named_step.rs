//! A step with an optional name.

use serde_json::{Value as Json, json};

use super::Step;
use crate::decode::{Decode, Decoder};
use crate::node::{MapEntry, Node, Value};
use crate::schema::SchemaBuilder;
use crate::sources::quote;
use crate::values::Spanned;

/// One step: a map with the step's key, and optionally `name`.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedStep {
    /// The name of the step in metrics, traces, the log and `explain`.
    pub name: Option<Spanned<String>>,
    /// The step.
    pub step: Step,
}

/// The key for the name that the operator gives a step. It stands next to the step's own key, such as `call`, or among the keys of the
/// step.
pub(super) const NAME: &str = "name";

/// The maximum length of a step's name, which is a label of metrics.
const NAME_CHARS_MAX: usize = 64;

impl Decode for NamedStep {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write `- NAME: { ... }`, one item for each step, keys indented below its name";
        let Value::Map(entries) = &node.value else {
            decoder.expected(node, "a step", help);
            return None;
        };
        let (names, steps): (Vec<&MapEntry>, Vec<&MapEntry>) =
            entries.iter().partition(|entry| entry.key == NAME);
        let name = names.first().and_then(|entry| read_name(&entry.node, decoder));
        match steps.as_slice() {
            [entry] => {
                let (inside, entry) = name_inside(entry);
                let inside =
                    inside.and_then(|node| read_name(node, decoder).map(|name| (name, node)));
                if let (Some(_), Some((_, second))) = (&name, &inside) {
                    decoder.error(second.owner, "a step can have only one name", "keep one `name`");
                }
                let step = Step::decode_named(&entry, decoder)?;
                Some(Self { name: name.or(inside.map(|(name, _)| name)), step })
            }
            [] => {
                decoder.error(node.at, "an item of the list needs a step", help);
                None
            }
            [first, second, ..] => {
                let what = format!(
                    "one item of the list has two steps, {} and {}",
                    quote(&first.key),
                    quote(&second.key)
                );
                decoder.error(second.key_at, what, help);
                None
            }
        }
    }

    fn encode(&self) -> Json {
        let mut step = json!({ self.step.name(): self.step.encode_keys() });
        if let (Some(keys), Some(name)) = (step.as_object_mut(), &self.name) {
            keys.insert(NAME.to_owned(), name.encode());
        }
        step
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        Step::schemas(schema)
    }
}

/// Returns the name written among the keys of a step, and the step without it. This does not apply to `set`, whose keys are variables.
fn name_inside(entry: &MapEntry) -> (Option<&Node>, MapEntry) {
    let mut step = entry.clone();
    let (Value::Map(_), true) = (&entry.node.value, entry.key != "set") else {
        return (None, step);
    };
    if let Value::Map(keys) = &mut step.node.value {
        keys.retain(|key| key.key != NAME);
    }
    (entry.node.get(NAME), step)
}

fn read_name(node: &Node, decoder: &mut Decoder<'_>) -> Option<Spanned<String>> {
    let name = Spanned::<String>::decode(node, decoder)?;
    let is_good = !name.value.trim().is_empty()
        && name.value.chars().count() <= NAME_CHARS_MAX
        && !name.value.contains(char::is_control);
    if !is_good {
        let what = format!("{} cannot be the name of a step", quote(&name.value));
        decoder.error(
            node.at,
            what,
            format!("write one line of at most {NAME_CHARS_MAX} characters"),
        );
        return None;
    }
    Some(name)
}
