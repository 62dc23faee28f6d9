//! Makes the labels of steps: the operator's name for the step, or its kind and target with its path in the flow. Inserting a step changes
//! the label of a later step only if both have the same kind and target and stand in the same list.

use std::collections::HashMap;

use config::{NamedStep, Report, Spanned};

/// The labels of one flow that are in use, and the path of the steps that are being compiled.
#[derive(Default)]
pub(super) struct Labels {
    /// For each label, the number of steps so far that would have it. Used to number steps with equal labels.
    taken: HashMap<String, usize>,
    path: String,
}

/// The maximum length, in characters, of the part of a label taken from the step's own text.
const TEXT_CHARS_MAX: usize = 40;

impl Labels {
    /// Starts the labels of a flow with these steps. Complains if two steps have the same name.
    pub(super) fn of(steps: Vec<&Spanned<NamedStep>>, report: &mut Report) -> Labels {
        let mut labels = Labels::default();
        for name in steps.iter().filter_map(|step| step.value.name.as_ref()) {
            if labels.taken.insert(name.value.clone(), 1).is_some() {
                let what = format!("two steps of the flow have the name `{}`", name.value);
                report.error(name.at, what, "give each step another name");
            }
        }
        labels
    }

    /// Returns the label of the next step. `subject` distinguishes it from others of its kind.
    pub(super) fn next(&mut self, step: &NamedStep, subject: &str) -> String {
        if let Some(name) = &step.name {
            return name.value.clone();
        }
        let label =
            format!("{}{}", self.path, format!("{} {subject}", step.step.name()).trim_end());
        let count = self.taken.entry(label.clone()).or_default();
        *count += 1;
        match *count {
            1 => label,
            number => format!("{label} {number}"),
        }
    }

    /// Enters the step with this label. Returns the path to restore afterwards.
    pub(super) fn enter_step(&mut self, label: &str) -> String {
        std::mem::replace(&mut self.path, format!("{label}/"))
    }

    /// Enters a part of the current step, such as `then`. Returns the path to restore afterwards.
    pub(super) fn enter(&mut self, part: &str) -> String {
        let path = format!("{}{part}/", self.path);
        std::mem::replace(&mut self.path, path)
    }

    /// Restores the path that `enter_step` or `enter` returned.
    pub(super) fn leave(&mut self, path: String) {
        self.path = path;
    }
}

pub(super) fn names<'n>(names: impl Iterator<Item = &'n Spanned<String>>) -> String {
    let names: Vec<&str> = names.map(|name| name.value.as_str()).collect();
    text(&names.join(", "))
}

/// Returns the text of an encoded value that is a single word, such as an action.
pub(super) fn word(encoded: &serde_json::Value) -> String {
    encoded.as_str().unwrap_or("").to_owned()
}

/// Returns the beginning of an expression or a URL, up to the first quote, `?` or `@`, because what follows may be a secret.
pub(super) fn condition(whole: &str) -> String {
    let end = whole.find(['\'', '"', '?']).unwrap_or(whole.len());
    let (shown, _) = whole.split_at(end);
    // A user's name and password are left out of a URL.
    let url = shown.split_once("://").and_then(|(scheme, rest)| {
        let (_, host) = rest.rsplit_once('@')?;
        Some(format!("{scheme}://{host}"))
    });
    url.map_or_else(
        || text(shown.split_once('@').map_or(shown, |(before, _)| before)),
        |url| text(&url),
    )
}

/// Returns the name of a file without its folder.
pub(super) fn file(path: &str) -> String {
    text(path.rsplit('/').next().unwrap_or(path))
}

/// Returns the beginning of a text, on one line.
fn text(whole: &str) -> String {
    let line: Vec<&str> = whole.split_whitespace().collect();
    let line = line.join(" ");
    match line.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}...", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::condition;

    #[test]
    fn a_label_ends_before_what_may_be_secret() {
        for (whole, shown) in [
            ("$body/order[@id = 7]", "$body/order["),
            ("$status == 'key'", "$status =="),
            ("https://api.test/orders?key=secret", "https://api.test/orders"),
            ("https://user:secret@api.test/orders", "https://api.test/orders"),
            ("https://user:p@ss@api.test", "https://api.test"),
            ("https://user:secret", "https://user:secret"),
        ] {
            assert_eq!(condition(whole), shown, "{whole}");
        }
    }
}
