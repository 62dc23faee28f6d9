//! The code map of ARCHITECTURE.md lists the members of the workspace, in their order, and all policies.

use super::named_code::quoted;
use super::{Complaint, Text};

const DOCUMENT: &str = "ARCHITECTURE.md";
const MANIFEST: &str = "Cargo.toml";
const HEADING: &str = "## Code map";

/// Folders in the map that are not members.
const OTHERS: &[&str] = &["deploy", "tests", "fuzz"];

/// The file with the list of policies, which begins with this line.
const POLICIES: (&str, &str) = ("crates/operations/config/src/policies/mod.rs", "\npolicies! {\n");

/// The item of the map that names all policies.
const ITEM: &str = "- `policies`:";

/// Policies that the map does not name, and names in its item that are not policies. A tree without the list of policies has none.
pub(crate) fn check_policies(texts: &[Text]) -> Vec<Complaint> {
    let text = |path: &str| texts.iter().find(|text| text.path == path);
    let (Some(document), Some(list)) = (text(DOCUMENT), text(POLICIES.0)) else {
        return Vec::new();
    };
    let policies = policies(&list.text);
    let lines = document.text.lines().zip(1..).skip_while(|(line, _)| !line.starts_with(ITEM));
    let item = lines.take_while(|(line, _)| line.starts_with(ITEM) || !line.starts_with('-'));
    let item: Vec<(&str, usize)> =
        item.map(|(line, at)| (line.strip_prefix(ITEM).unwrap_or(line), at)).collect();
    let named = || item.iter().flat_map(|(line, at)| quoted(line).map(|name| (name, *at)));
    let mut complaints = Vec::new();
    for policy in &policies {
        if !named().any(|(name, _)| name == *policy) {
            let line = item.first().map_or(1, |(_, at)| *at);
            let what = format!("the code map does not name the policy `{policy}`");
            let instead = format!("add it to the item that begins with {ITEM}");
            complaints.push(Complaint { file: DOCUMENT.to_owned(), line, what, instead });
        }
    }
    for (name, line) in named().filter(|(name, _)| !policies.contains(name) && *name != "compile") {
        let what = format!("`{name}` is not a policy");
        let instead = "name policies only".to_owned();
        complaints.push(Complaint { file: DOCUMENT.to_owned(), line, what, instead });
    }
    complaints
}

/// The names of all policies, as the configuration writes them.
fn policies(list: &str) -> Vec<&str> {
    let rows = list.split_once(POLICIES.1).map_or("", |(_, rows)| rows);
    let rows = rows.lines().take_while(|line| *line != "}");
    rows.filter_map(|row| row.split_once(" = \"")?.1.strip_suffix("\",")).collect()
}

/// The first difference between the two lists. A tree without a code map has none.
pub(crate) fn check(texts: &[Text]) -> Option<Complaint> {
    let text = |path: &str| texts.iter().find(|text| text.path == path);
    let (document, manifest) = (text(DOCUMENT)?, text(MANIFEST)?);
    let map = mapped(&document.text);
    let members = members(&manifest.text);
    let mut members = members.iter();
    for (line, name) in &map {
        match members.next() {
            Some(member) if member == name => {}
            Some(member) => {
                let what = format!("the code map has `{name}` where the manifest has `{member}`");
                return Some(complain(*line, what));
            }
            None => return Some(complain(*line, format!("`{name}` is not a member"))),
        }
    }
    let missing = members.next()?;
    Some(complain(1, format!("the code map does not have the member `{missing}`")))
}

fn complain(line: usize, what: String) -> Complaint {
    let instead = format!("list the members of {MANIFEST} in their order");
    Complaint { file: DOCUMENT.to_owned(), line, what, instead }
}

/// The names that begin items of the map, with their lines.
fn mapped(document: &str) -> Vec<(usize, &str)> {
    let lines = document.lines().enumerate().skip_while(|(_, line)| *line != HEADING).skip(1);
    let of_map = lines.take_while(|(_, line)| !line.starts_with("## "));
    let named = of_map.filter_map(|(index, line)| {
        let (name, _) = line.strip_prefix("- `")?.split_once("`:")?;
        (!OTHERS.contains(&name)).then_some((index + 1, name))
    });
    named.collect()
}

/// The last part of each member's path.
fn members(manifest: &str) -> Vec<&str> {
    let list = manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once("\n]"));
    let lines = list.map_or("", |(list, _)| list).lines();
    let quoted = lines.filter_map(|line| line.trim().strip_prefix('"')?.split_once('"'));
    quoted.map(|(path, _)| path.rsplit('/').next().unwrap_or(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(document: &str) -> Option<String> {
        let text = |path: &str, text: &str| Text { path: path.to_owned(), text: text.to_owned() };
        let manifest = "[workspace]\nmembers = [\n  # tools\n  \"crates/a\",\n  \"bench\",\n]\n";
        let complaint = check(&[text(MANIFEST, manifest), text(DOCUMENT, document)]);
        complaint.map(|complaint| format!("{}: {}", complaint.line, complaint.what))
    }

    #[test]
    fn the_map_names_all_policies() {
        let text = |path: &str, text: &str| Text { path: path.to_owned(), text: text.to_owned() };
        let list =
            "mod a;\n\npolicies! {\n    /// One.\n    One = \"one\",\n    Two = \"two\",\n}\n";
        let found = |item: &str| {
            let document =
                format!("# A\n\n- `plan`: `x`.\n- `policies`: {item}\n- `flows`: `y`.\n");
            let found = check_policies(&[text(POLICIES.0, list), text(DOCUMENT, &document)]);
            found.iter().map(|c| format!("{}: {}", c.line, c.what)).collect::<Vec<String>>()
        };
        assert_eq!(found("`one`, made by `compile`.\n  - `two`"), [""; 0]);
        assert_eq!(
            found("`one`\n  - `three`"),
            ["4: the code map does not name the policy `two`", "5: `three` is not a policy"]
        );
    }

    #[test]
    fn the_map_lists_the_members_in_their_order() {
        let map = |items: &str| format!("# A\n\n## Code map\n\n{items}\n## Rules\n\n- `x`: y\n");
        assert_eq!(found(&map("- `a`: A.\n- `tests`: T.\n- `bench`: B.\n")), None);
        let cases = [
            (
                "- `bench`: B.\n- `a`: A.\n",
                "5: the code map has `bench` where the manifest has `a`",
            ),
            ("- `a`: A.\n", "1: the code map does not have the member `bench`"),
            ("- `a`: A.\n- `bench`: B.\n- `c`: C.\n", "7: `c` is not a member"),
        ];
        for (items, expected) in cases {
            assert_eq!(found(&map(items)).as_deref(), Some(expected));
        }
    }
}
