//! Replaces `${NAME}` and `${file:PATH}` in values.
//!
//! Owns the replacement of references by variables of the environment and by the text of files. Keys are never substituted, and a
//! replacement is not substituted again. `$${` is an escaped `${`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::node::{Node, Scalar, Value};
use crate::report::{Report, did_you_mean};
use crate::sources::{At, quote};
use crate::yaml::TEXT_BYTES_MAX;

/// The largest file that a reference may include: a secret or a short text. Larger content has keys that name files.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The variables. Tests pass their own.
pub(crate) type Variables<'v> = &'v HashMap<String, String>;

/// Replaces all references in a tree.
pub(crate) struct Substitution<'a> {
    /// The variables of the environment.
    pub(crate) variables: Variables<'a>,
    /// The folder that relative paths are based on.
    pub(crate) folder: &'a Path,
    /// All files that references name, to watch for changes.
    pub(crate) files: &'a mut Vec<PathBuf>,
    /// The complaints so far.
    pub(crate) report: &'a mut Report,
    /// The number of bytes substituted so far.
    pub(crate) bytes: usize,
}

impl Substitution<'_> {
    /// Replaces all references in this value and those below it.
    pub(crate) fn apply(&mut self, node: &mut Node) {
        let at = node.at;
        match &mut node.value {
            Value::Null | Value::Unreadable => {}
            Value::List(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::Map(entries) => entries.iter_mut().for_each(|entry| self.apply(&mut entry.node)),
            Value::Scalar(scalar) if scalar.text.contains("${") => {
                let mut values = Vec::new();
                node.value = match self.replace(&scalar.text, at, &mut values) {
                    Some(text) => {
                        self.report.hide(at, &scalar.text, &text, &values);
                        Value::Scalar(Scalar { text, quoted: false })
                    }
                    None => Value::Unreadable,
                };
            }
            Value::Scalar(_) => {}
        }
    }

    /// Returns the text with references replaced, or `None` if a reference cannot be replaced, which is reported.
    fn replace(&mut self, text: &str, at: At, values: &mut Vec<String>) -> Option<String> {
        let mut done = String::with_capacity(text.len());
        let mut whole = true;
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            if let Some(before) = before.strip_suffix('$') {
                done.push_str(before);
                done.push_str("${");
                rest = after;
                continue;
            }
            done.push_str(before);
            let Some((reference, after)) = after.split_once('}') else {
                let help = "close it with `}`, or write `$${` for a literal `${`";
                self.report.error(at, "a `${` without its `}`", help);
                return None;
            };
            match self.look_up(reference, at) {
                Some(value) => {
                    done.push_str(&value);
                    values.push(value);
                }
                None => whole = false,
            }
            rest = after;
        }
        done.push_str(rest);
        whole.then_some(done)
    }

    fn look_up(&mut self, reference: &str, at: At) -> Option<String> {
        let value = match reference.strip_prefix("file:") {
            Some(path) => self.file(path, at)?,
            None => self.variable(reference, at)?,
        };
        self.bytes += value.len();
        if self.bytes > TEXT_BYTES_MAX {
            let what =
                format!("more than {TEXT_BYTES_MAX} bytes have been substituted at this point");
            self.report.error(at, what, "refer to smaller files, or use fewer references");
            return None;
        }
        Some(value)
    }

    fn variable(&mut self, name: &str, at: At) -> Option<String> {
        if let Some(value) = self.variables.get(name) {
            return Some(value.clone());
        }
        let meant = self.report.suggest(name, self.variables.keys().map(String::as_str));
        self.report.error(
            at,
            format!("the environment has no variable {}{}", quote(name), did_you_mean(meant)),
            format!(
                "set it before the start, use `${{file:PATH}}` for a file, or write `$${{{name}}}` for that literal text"
            ),
        );
        None
    }

    fn file(&mut self, path: &str, at: At) -> Option<String> {
        let path = self.folder.join(path);
        if !self.files.contains(&path) {
            self.files.push(path.clone());
        }
        let complaint = match read_text(&path, FILE_BYTES_MAX) {
            Ok(mut text) => {
                // Editors and `echo` add a final line end that is not part of the secret.
                if text.ends_with('\n') {
                    text.pop();
                }
                if text.ends_with('\r') {
                    text.pop();
                }
                return Some(text);
            }
            Err(complaint) => complaint,
        };
        self.report.error(
            at,
            format!("cannot read `{}`: {complaint}", path.display()),
            "name a text file that the gateway may read; a relative path starts at this file's folder",
        );
        None
    }
}

/// Opens a file for reading. Named pipes are refused: opening one without a writer would block forever, and with it all later reloads.
/// Pipes that a shell passes have a writer and are read.
pub fn open(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::FileTypeExt as _;
    let is_passed = path.starts_with("/dev") || path.starts_with("/proc");
    let kind = std::fs::metadata(path)?.file_type();
    if (kind.is_fifo() || kind.is_socket()) && !is_passed {
        return Err(std::io::Error::other("it is a pipe or a socket and not a file"));
    }
    std::fs::File::open(path)
}

/// Reads a text file of limited size. The error is a description.
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String, String> {
    use std::io::Read as _;
    let file = open(path).map_err(|error| reason(&error))?;
    let mut bytes = Vec::new();
    let read = file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|error| reason(&error))?;
    if u64::try_from(read).is_ok_and(|read| read > bytes_max) {
        return Err(format!("it is larger than {bytes_max} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("it is not UTF-8 text on line {line}")
    })
}

/// Describes an I/O error, without its error number.
pub fn reason(error: &std::io::Error) -> String {
    #[allow(clippy::wildcard_enum_match_arm, reason = "only these kinds have a better description")]
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
        _ => {
            let mut words = error.to_string();
            // Harmless: the number adds nothing to the description.
            words.truncate(words.find(" (os error ").unwrap_or(words.len()));
            words
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::load::parse_with;
    use std::collections::HashMap;
    use std::path::Path;

    use expect_test::{Expect, expect};

    fn check(body: &str, expected: Expect) {
        let variables = [("HOST", "h.example"), ("EMPTY", ""), ("SIGNS", "${HOST} {**}: #")];
        let variables: HashMap<String, String> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let text = format!("routes: {{ r: {{ match: {{}}, respond: {{ body: {body} }} }} }}\n");
        let loaded = parse_with(&text, Path::new("gate.yaml"), &variables);
        let route = loaded.config.as_ref().and_then(|config| config.routes.get("r"));
        let body = route.and_then(|route| Some(&route.value.respond.as_ref()?.value.body));
        if loaded.report.is_empty() {
            expected.assert_eq(&body.unwrap().value)
        } else {
            expected.assert_eq(&loaded.report.to_string())
        }
    }

    #[test]
    fn references_are_replaced_once() {
        check(r#""${HOST}""#, expect!["h.example"]);
        check(r#"'<${HOST}|${EMPTY}|${HOST}>'"#, expect!["<h.example||h.example>"]);
        check(r#""${SIGNS}""#, expect!["${HOST} {**}: #"]);
        check(r#""$HOST $ {HOST} $""#, expect!["$HOST $ {HOST} $"]);
        check(r#""$${HOST} $$${HOST} $$""#, expect!["${HOST} $${HOST} $$"]);
    }

    #[test]
    fn references_that_cannot_be_replaced_are_reported() {
        check(
            r#""${HOTS}""#,
            expect![[r#"
            gate.yaml:1:44: the environment has no variable `HOTS`; did you mean `HOST`?
              help: set it before the start, use `${file:PATH}` for a file, or write `$${HOTS}` for that literal text
        "#]],
        );
        check(
            r#""${} ${HOST""#,
            expect![[r#"
                gate.yaml:1:44: the environment has no variable ``
                  help: set it before the start, use `${file:PATH}` for a file, or write `$${}` for that literal text
                gate.yaml:1:44: a `${` without its `}`
                  help: close it with `}`, or write `$${` for a literal `${`
            "#]],
        );
        check(
            r#""${HOST:-none}""#,
            expect![[r#"
            gate.yaml:1:44: the environment has no variable `HOST:-none`
              help: set it before the start, use `${file:PATH}` for a file, or write `$${HOST:-none}` for that literal text
        "#]],
        );
    }

    #[test]
    fn a_number_may_come_from_a_variable() {
        let variables = HashMap::from([("N".to_owned(), "3".to_owned())]);
        let loaded = parse_with("workers: \"${N}\"\n", Path::new("gate.yaml"), &variables);
        assert_eq!(loaded.config.unwrap().workers.unwrap().value.get(), 3);
        let loaded = parse_with("workers: \"3\"\n", Path::new("gate.yaml"), &variables);
        assert!(loaded.report.has_errors());
    }
}
