//! Type names that a reader from another gateway would not understand, with better ones, and bare participles.

use super::Complaint;
use super::source::{Source, is_name, whole};

/// A name that was used in this project, and the usual terms.
const WORDS: &[(&str, &str)] = &[
    ("Asks", "`HubOperation`"),
    ("Begun", "`PrefaceState`"),
    ("Book", "`Recorder`"),
    ("Books", "`Recorders`"),
    ("Came", "`ReceivedFrame`"),
    ("Commons", "a noun with `Shared`"),
    ("Desk", "a noun with `Memory`"),
    ("Fate", "a `Result`, an `Outcome`"),
    ("Fed", "a noun with `Feed`"),
    ("Gives", "`XPathType`"),
    ("Gone", "`StreamFailure`"),
    ("Half", "`Subpattern`"),
    ("Heard", "an `Answer`, a `ReadOutcome`"),
    ("Hears", "`Responder`"),
    ("Hold", "`Lease`"),
    ("Laid", "a `Match`"),
    ("Lane", "`TargetConnections`"),
    ("Lasting", "`CarriedState`"),
    ("Lent", "a `Loan`"),
    ("Look", "a `Sample`"),
    ("Looked", "`LookupResult`"),
    ("Making", "a `Builder`"),
    ("Meant", "a `Resolver`"),
    ("Met", "a `MetricRow`"),
    ("Misfit", "`Mismatch`"),
    ("Note", "`ImportNote`"),
    ("Noted", "a recorded `Event`"),
    ("Notice", "an `Event`"),
    ("Outlet", "`UpstreamHandle`, `WriteTarget`"),
    ("Question", "a `Test`"),
    ("Ran", "a `RunResult`"),
    ("Recipe", "a `Compiler`"),
    ("Residence", "`ResidentWorker`"),
    ("Saying", "`StreamString`"),
    ("Says", "`TextTemplate`"),
    ("Seat", "`EngineThread`, `StreamPermit`"),
    ("Sought", "a `Condition`"),
    ("Spare", "a noun with `Spare`"),
    ("Speech", "`MessageFormat`"),
    ("Supply", "`RemoteDefinition`"),
    ("Sure", "a noun with `Actions`"),
    ("Surroundings", "`FunctionInputs`"),
    ("Taking", "`WriteProgress`"),
    ("Tenure", "`PartitionGuard`"),
    ("Ticket", "a `Permit`"),
    ("Unfit", "a `Failure`"),
    ("Untried", "a noun with `Remaining`"),
    ("Ways", "a `Set`"),
    ("Wish", "a `Request`"),
    ("World", "`DocumentSet`"),
];

/// Participles that describe what was done to a thing instead of what it is. Each was the name of several types.
const PARTICIPLES: &[&str] = &[
    "Boarded",
    "Counted",
    "Failed",
    "Filled",
    "Found",
    "Given",
    "Kept",
    "Made",
    "Malformed",
    "Named",
    "Opened",
    "Refused",
    "Running",
    "Standing",
    "Told",
    "Wanted",
];

/// Every definition of a type by such a name.
pub(crate) fn check(source: &Source) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for keyword in ["struct ", "enum ", "trait ", "type "] {
        for at in whole(&source.code, keyword) {
            let rest = source.code.get(at + keyword.len()..).unwrap_or_default();
            let name =
                rest.split(|c: char| !c.is_ascii() || !is_name(c as u8)).next().unwrap_or(rest);
            let better = match WORDS.iter().find(|(word, _)| *word == name) {
                Some((_, better)) => better,
                None if PARTICIPLES.contains(&name) => "by a noun, such as `RouteMatch`",
                None => continue,
            };
            let what = format!("`{name}` is not a name for a type that a new reader would guess");
            complaints.push(source.complain(at, what, format!("call it {better}")));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Text;

    fn found(text: &str) -> Vec<String> {
        let text = Text { path: "crates/xml/a/src/lib.rs".to_owned(), text: text.to_owned() };
        check(&Source::read(&text)).into_iter().map(|complaint| complaint.what).collect()
    }

    #[test]
    fn types_have_names_of_the_field() {
        let one = "`Ticket` is not a name for a type that a new reader would guess".to_owned();
        assert_eq!(found("pub(crate) struct Ticket {\n"), [one]);
        assert_eq!(found("enum Saying<'a> {}\ntype Speech = u8;\n").len(), 2);
        assert_eq!(found("pub enum Found<'t> {\nstruct FoundRoute;\n").len(), 1);
        assert_eq!(found("struct Ticketed;\n// struct Ticket\nlet x = Ticket;\n"), [""; 0]);
    }
}
