//! Links in documents: every relative link has to lead to a file, and every fragment to a heading.

use std::collections::HashSet;

use super::{Complaint, Text};

/// The broken links. `exists` returns whether a path from the root is a file or folder.
pub(crate) fn check(texts: &[Text], exists: &dyn Fn(&str) -> bool) -> Vec<Complaint> {
    let documents = texts.iter().filter(|text| text.path.ends_with(".md"));
    documents
        .flat_map(|document| {
            links(&document.text).into_iter().filter_map(|(line, target)| {
                let what = lost(document, target, texts, exists)?;
                let (file, instead) = (document.path.clone(), "fix the link".to_owned());
                Some(Complaint { file, line, what, instead })
            })
        })
        .collect()
}

/// The reason why a link is broken, if it is.
fn lost(
    document: &Text,
    target: &str,
    texts: &[Text],
    exists: &dyn Fn(&str) -> bool,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { document.path.clone() } else { joined(&document.path, file) };
    if !exists(&path) {
        return Some(format!("`{target}` leads to no file"));
    }
    let pointed = texts.iter().find(|text| text.path == path && path.ends_with(".md"))?;
    let known = fragment.is_empty() || headings(&pointed.text).contains(fragment);
    (!known).then(|| format!("`{target}` leads to no heading"))
}

/// A relative path, resolved from the folder of a file.
fn joined(from: &str, file: &str) -> String {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Targets of inline links with their lines, outside code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    for (line, words) in prose(text) {
        // Text between two backticks is code.
        let outside = words.split('`').step_by(2);
        links.extend(outside.flat_map(inline).map(|target| (line, target)));
    }
    links
}

/// Lines outside fenced code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Returns the targets in the parentheses of `[...](...)`.
fn inline(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split_whitespace().next().unwrap_or_default())
}

/// Headings as fragments: lower case, spaces as dashes, without punctuation.
fn headings(text: &str) -> HashSet<String> {
    let titles = prose(text).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then(|| title.trim())
    });
    titles.map(fragment).collect()
}

fn fragment(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let texts = [("docs/a.md", text), ("README.md", "# Two Words: `x`\n")]
            .map(|(path, text)| Text { path: path.to_owned(), text: text.to_owned() });
        let complaints = check(&texts, &|path| ["docs/a.md", "README.md", "docs"].contains(&path));
        complaints.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        assert_eq!(found("\n[x](b.md)\n"), ["docs/a.md:2: `b.md` leads to no file; fix the link"]);
        assert_eq!(
            found("[x](README.md)"),
            ["docs/a.md:1: `README.md` leads to no file; fix the link"]
        );
        assert_eq!(
            found("[x](../README.md#one)"),
            ["docs/a.md:1: `../README.md#one` leads to no heading; fix the link"]
        );
        assert_eq!(found("[x](#gone) [y](z)").len(), 2);
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        for text in [
            "[x](../README.md) and [y](./a.md \"title\") and [z](../docs)",
            "[x](../README.md#two-words-x)",
            "# Here\n[x](#here)",
            "[x](https://example.com/a) [y](mailto:a@b.example)",
            "```\n[x](gone.md)\n```\n",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}
