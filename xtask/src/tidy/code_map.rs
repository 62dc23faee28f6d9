//! The code map of ARCHITECTURE.md lists the members of the workspace, in their order.

use super::{Complaint, Text};

const DOCUMENT: &str = "ARCHITECTURE.md";
const MANIFEST: &str = "Cargo.toml";
const HEADING: &str = "## Code map";

/// Folders in the map that are not members.
const OTHERS: &[&str] = &["deploy", "tests", "fuzz"];

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
