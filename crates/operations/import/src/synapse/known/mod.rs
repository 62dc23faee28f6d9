//! The table of all parts of artifacts: mediators, properties, parameters and attributes. The converter uses it, and the guide is
//! generated from it. A part that is not in the table is refused.

mod artifacts;
mod mediators;
mod properties;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::element::Element;

/// The result for a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConversionResult {
    /// The result is equivalent.
    Same,
    /// It is approximated; the text is the difference.
    Differs(&'static str),
    /// It is approximated in some artifacts; the converter reports that.
    MayDiffer(&'static str),
    /// It has no counterpart; the text is the reason.
    Refused(&'static str),
}

/// Parts of one owner that are converted in the same way.
#[derive(Debug)]
pub(super) struct Part {
    /// The owner: a mediator, an artifact, or a kind of property with its scope, such as `property axis2`.
    of: &'static str,
    /// The parts, separated by spaces. `.`: the owner itself. `@name`: an attribute. `@name=value`: an attribute with that value.
    /// `a/b@c`: the attribute `c` of `b` in `a`. `a/*`: the element `a`, which may contain mediators. `a/**`: the element `a`, with any
    /// content. `*`: any other name.
    names: &'static str,
    conversion: ConversionResult,
}

const fn same(of: &'static str, names: &'static str) -> Part {
    Part { of, names, conversion: ConversionResult::Same }
}

const fn differs(of: &'static str, names: &'static str, how: &'static str) -> Part {
    Part { of, names, conversion: ConversionResult::Differs(how) }
}

const fn may_differ(of: &'static str, names: &'static str, how: &'static str) -> Part {
    Part { of, names, conversion: ConversionResult::MayDiffer(how) }
}

const fn refused(of: &'static str, names: &'static str, why: &'static str) -> Part {
    Part { of, names, conversion: ConversionResult::Refused(why) }
}

/// All parts, with the title that the guide gives them.
const SECTIONS: [(&str, &[Part]); 3] = [
    ("Mediators", mediators::MEDIATORS),
    ("Properties and names", properties::PROPERTIES),
    ("Artifacts", artifacts::ARTIFACTS),
];

type ConversionTable = HashMap<(&'static str, &'static str), ConversionResult>;

/// The result for a part of an owner, or `None` if the part is not in the table.
pub(super) fn conversion(of: &str, name: &str) -> Option<ConversionResult> {
    let conversions: &HashMap<(&str, &str), ConversionResult> = &CONVERSIONS;
    conversions.get(&(of, name)).copied()
}

/// The result for a named part with a value, such as a parameter or a property. Names that are not in the table use
/// the row `*`.
pub(super) fn named(of: &str, name: &str, value: &str) -> ConversionResult {
    let exact = conversion(of, &format!("{name}={value}"));
    let conversion = exact.or_else(|| conversion(of, name)).or_else(|| conversion(of, "*"));
    conversion.unwrap_or(ConversionResult::Refused("the importer does not know it"))
}

/// The results for all parts of an element.
#[derive(Debug, Default)]
pub(super) struct Judgement {
    /// The differences.
    pub(super) notes: Vec<&'static str>,
    /// Why it cannot be converted.
    pub(super) refused: Option<String>,
}

impl Judgement {
    fn add(&mut self, what: &str, conversion: Option<ConversionResult>) {
        let why = match conversion {
            Some(ConversionResult::Same | ConversionResult::MayDiffer(_)) => return,
            Some(ConversionResult::Differs(how)) => {
                if !self.notes.contains(&how) {
                    self.notes.push(how);
                }
                return;
            }
            Some(ConversionResult::Refused(why)) if what.is_empty() => why.to_owned(),
            Some(ConversionResult::Refused(why)) => format!("`{what}`: {why}"),
            None => format!("the importer does not know `{what}`, and its effect would be lost"),
        };
        self.refused.get_or_insert(why);
    }

    /// The notes, or the reason of a refusal.
    pub(super) fn result(self) -> Result<Vec<&'static str>, String> {
        self.refused.map_or(Ok(self.notes), Err)
    }
}

/// Judges an element and the parts in it, but not the mediators in it. An element without a row is refused.
pub(super) fn judge(of: &str, element: &Element<'_>) -> Judgement {
    let mut judgement = Judgement::default();
    match conversion(of, ".") {
        None if of.contains('.') => {
            judgement.refused = Some(
                "this connector operation has no counterpart; the step `call` supports only HTTP"
                    .to_owned(),
            );
        }
        None => judgement.refused = Some(format!("`{of}` has no counterpart")),
        known => {
            judgement.add("", known);
            walk(of, element, "", &mut judgement);
        }
    }
    judgement
}

fn walk(of: &str, element: &Element<'_>, path: &str, judgement: &mut Judgement) {
    let has = |end: &str| conversion(of, &format!("{path}{end}")).is_some();
    let (is_free, has_mediators) = (has("/**"), has("/*"));
    for (name, value) in element.attributes() {
        let named = format!("{path}@{name}");
        let exact = conversion(of, &format!("{named}={}", value.trim()));
        let known = exact
            .or_else(|| conversion(of, &named))
            .or_else(|| conversion("*", &format!("@{name}")));
        if known.is_some() || path.is_empty() || !is_free {
            judgement.add(&named, known);
        }
    }
    for child in element.children().iter().filter(|_| !is_free) {
        let inner = match path {
            "" => child.name().to_owned(),
            path => format!("{path}/{}", child.name()),
        };
        let ends = ["", "/*", "/**"];
        let found = ends.iter().find_map(|end| conversion(of, &format!("{inner}{end}")));
        let is_known = found.is_some() || has_below(of, &inner);
        if is_known {
            judgement.add(&inner, found.or(Some(ConversionResult::Same)));
            walk(of, child, &inner, judgement);
        } else if !has_mediators && child.name() != "description" {
            judgement.add(&inner, None);
        }
    }
}

/// True if a row names something in an element.
fn has_below(of: &str, path: &str) -> bool {
    let outer: &HashSet<(&str, &str)> = &OUTER;
    outer.contains(&(of, path))
}

/// The elements in which a row names something.
static OUTER: LazyLock<HashSet<(&'static str, &'static str)>> = LazyLock::new(|| {
    let ends = |name: &'static str| name.match_indices(['@', '/']);
    // Harmless: each offset was found in this name.
    let outer = |name: &'static str| ends(name).filter_map(|(at, _)| name.get(..at));
    CONVERSIONS.keys().flat_map(|&(of, name)| outer(name).map(move |path| (of, path))).collect()
});

/// Owners that share the rows of another.
const SHARED: [(&str, &[&str]); 1] =
    [("target", &["address", "http", "wsdl", "default", "endpoint"])];

static CONVERSIONS: LazyLock<ConversionTable> = LazyLock::new(|| {
    let mut conversions = ConversionTable::new();
    for part in SECTIONS.iter().flat_map(|(_, parts)| parts.iter()) {
        let shared = SHARED.iter().find(|(of, _)| *of == part.of).map_or(&[][..], |(_, to)| to);
        for name in part.names.split_whitespace() {
            for of in std::iter::once(&part.of).chain(shared) {
                conversions.insert((of, name), part.conversion);
            }
        }
    }
    conversions
});

/// All rows with their counts, as tables for the guide.
pub fn rows() -> String {
    let mut tables = String::new();
    let mut all = [0; 3];
    for (title, parts) in SECTIONS {
        tables.push_str(&format!("### {title}\n\n| of | parts | outcome |\n| --- | --- | --- |\n"));
        for Part { of, names, conversion } in parts {
            let (column, text) = match conversion {
                ConversionResult::Same => (0, "same".to_owned()),
                ConversionResult::Differs(how) => (1, format!("approximated: {how}")),
                ConversionResult::MayDiffer(how) => {
                    (1, format!("approximated in some artifacts, which the import reports: {how}"))
                }
                ConversionResult::Refused(why) => (2, format!("refused: {why}")),
            };
            if let Some(count) = all.get_mut(column) {
                *count += names.split_whitespace().count();
            }
            let of = if *of == "*" { "all" } else { of };
            let names: Vec<String> = names.split_whitespace().map(shown).collect();
            let text = text.replace('|', "\\|");
            tables.push_str(&format!("| `{of}` | {} | {text} |\n", names.join(", ")));
        }
        tables.push('\n');
    }
    let [same, approximated, refused] = all;
    let counts = format!(
        "The tables have {} parts: {same} have an equivalent in Tidegate, {approximated} are approximated and {refused} are refused.",
        same + approximated + refused
    );
    format!("{counts}\n\n{}\n", tables.trim_end())
}

/// A part as the guide names it.
fn shown(name: &str) -> String {
    match name {
        "." => "itself".to_owned(),
        "*" => "any other".to_owned(),
        "/*" => "the mediators in it".to_owned(),
        "/**" => "the markup in it".to_owned(),
        name => {
            let name = name.strip_suffix("/**").or(name.strip_suffix("/*")).unwrap_or(name);
            format!("`{}`", name.trim_start_matches('/'))
        }
    }
}
