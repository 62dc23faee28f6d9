//! Error messages about values that do not match.

use crate::typed::mismatch::Mismatch;
use crate::typed::model::{Children, Content, Slot, Type};

#[cold]
pub(super) fn missing(key: &str) -> Box<Mismatch> {
    Mismatch::new(format!("expected the member `{key}`, which is missing"))
}

#[cold]
pub(super) fn unknown(of: &Type) -> Box<Mismatch> {
    let mut known: Vec<&str> = match &of.content {
        Content::Children(children) => children.members.iter().map(|one| &*one.key).collect(),
        Content::Value(_) | Content::Text(_) => vec!["value"],
        Content::Empty => Vec::new(),
    };
    known.extend(of.attributes.iter().map(|attribute| &*attribute.key));
    Mismatch::new(if known.is_empty() {
        "expected no members".to_owned()
    } else {
        format!("expected one of {}", listed(&known))
    })
}

#[cold]
pub(super) fn choice(children: &Children, slot: &Slot, too_many: bool) -> Box<Mismatch> {
    let mut keys = Vec::new();
    slot.keys(&children.members, &mut keys);
    let keys = listed(&keys);
    Mismatch::new(if too_many {
        format!("expected only one choice of {keys}")
    } else {
        format!("expected one of {keys}, which are missing")
    })
}

pub(super) fn labels(of: &Type) -> String {
    let mut labels: Vec<&str> = of.replacements.iter().map(|one| &*one.label).collect();
    if labels.is_empty() {
        labels.extend(of.name.as_ref().map(|(_, local)| &**local));
    }
    listed(&labels)
}

/// Lists names for a message, but only the first few.
pub(super) fn listed(names: &[&str]) -> String {
    const SHOWN_MAX: usize = 12;
    // Harmless: the message says how many names are left out.
    let shown: Vec<String> = names.iter().take(SHOWN_MAX).map(|name| format!("`{name}`")).collect();
    if names.len() > SHOWN_MAX {
        format!("{} and {} more", shown.join(", "), names.len() - SHOWN_MAX)
    } else {
        shown.join(", ")
    }
}
