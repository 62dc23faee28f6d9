//! Details about an invalid text, for messages worded like those of another validator.
//!
//! They are computed after a text was found to be invalid, in the order of that validator: first the lexical space of the built-in type,
//! then lengths, digits, bounds and enumeration, then patterns. For a list, the first invalid item is reported.

use super::fail::Fail;
use super::kind::FacetKind;
use super::names::NameScope;
use super::simple::{SimpleType, Variety};
use super::white::words;
use super::{WhiteSpace, atom};

/// The rule that a text violates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Breach {
    /// The text is not a value of the type.
    Value,
    /// The prefix of the text is not declared.
    Prefix,
    /// A facet: its name, the value or length found, and the facet's value; for an enumeration, its first values.
    Facet { name: &'static str, found: String, allowed: Vec<String> },
}

/// A text, the type it does not match, and the reason.
pub(crate) struct Diagnosis<'a> {
    pub(crate) of: &'a SimpleType,
    pub(crate) text: &'a str,
    pub(crate) breach: Breach,
}

impl SimpleType {
    /// Returns what is wrong with a text known to be invalid, before white space is normalised.
    #[cold]
    pub(crate) fn diagnose<'a>(&'a self, lexical: &'a str, names: &dyn NameScope) -> Diagnosis<'a> {
        let wrong = |item: &SimpleType, word: &str| item.examine(word, names, None).is_err();
        if let Variety::List(item) = self.variety()
            && let Some(word) = words(lexical).find(|word| wrong(item, word))
        {
            return item.diagnose(word, names);
        }
        let breach = match self.variety() {
            Variety::Ur | Variety::Atomic(_) => self.atom_breach(lexical, names),
            Variety::List(_) => self.list_breach(lexical, names),
            Variety::Union(members) if members.iter().all(|member| wrong(member, lexical)) => None,
            Variety::Union(_) => self.last_breach(lexical, names),
        };
        Diagnosis { of: self, text: lexical, breach: breach.unwrap_or(Breach::Value) }
    }

    fn atom_breach(&self, lexical: &str, names: &dyn NameScope) -> Option<Breach> {
        let text = self.white().normalize(lexical);
        let atom = match atom::read(self.builtin(), &text, names) {
            Ok(atom) => atom,
            Err(Fail::Prefix) => return Some(Breach::Prefix),
            Err(_) => return None,
        };
        if self.builtin().simple().examine(lexical, names, None).is_err() {
            return None;
        }
        match self.facets().check_value(&atom) {
            Err(Fail::Facet(kind)) if kind.counts_length() => {
                Some(self.facet_breach(kind, &atom.len().unwrap_or(0).to_string()))
            }
            Err(Fail::Facet(FacetKind::Enumeration)) => self.enumeration_breach(&text),
            // The message quotes the text with its white space.
            Err(Fail::Facet(kind)) => Some(self.facet_breach(kind, lexical)),
            Ok(()) => self.pattern_breach(&text, names),
            Err(_) => None,
        }
    }

    fn list_breach(&self, lexical: &str, names: &dyn NameScope) -> Option<Breach> {
        let len = words(lexical).count();
        match self.facets().check_length(len as u64) {
            Err(Fail::Facet(kind)) => Some(self.facet_breach(kind, &len.to_string())),
            Ok(()) | Err(_) => self.last_breach(&WhiteSpace::Collapse.normalize(lexical), names),
        }
    }

    /// Checks the remaining facets of a list or union: patterns, then the enumeration.
    fn last_breach(&self, text: &str, names: &dyn NameScope) -> Option<Breach> {
        self.pattern_breach(text, names).or_else(|| self.enumeration_breach(text))
    }

    /// Returns the pattern that fails: that of the last derivation step first, and within a step the last pattern written.
    fn pattern_breach(&self, text: &str, names: &dyn NameScope) -> Option<Breach> {
        let mut patterns = self.facets().patterns.iter().rev();
        let refused = patterns.find(|pattern| !pattern.matches(text, names).unwrap_or(false))?;
        let allowed = refused.sources.last().map(|source| source.to_string());
        Some(breach(FacetKind::Pattern, text, allowed.into_iter().collect()))
    }

    fn enumeration_breach(&self, found: &str) -> Option<Breach> {
        let listed = &self.facets().enumeration.as_ref()?.listed;
        let allowed = listed.iter().map(|value| value.to_string()).collect();
        Some(breach(FacetKind::Enumeration, found, allowed))
    }

    fn facet_breach(&self, kind: FacetKind, found: &str) -> Breach {
        breach(kind, found, self.facets().literal(kind).into_iter().collect())
    }
}

fn breach(kind: FacetKind, found: &str, allowed: Vec<String>) -> Breach {
    Breach::Facet { name: kind.name(), found: found.to_owned(), allowed }
}
