//! Locks in the crates of the hot path: a list of files that have one, each with the reason why no request waits long for it.

use std::collections::BTreeMap;

use super::Complaint;
use super::source::{Source, shipped, whole};

/// The list, with one `FILE: REASON` per line.
pub(crate) const LIST: &str = "xtask/tidy-locks.txt";

/// The crates that requests and messages pass through.
const CRATES: &[&str] = &[
    "cron",
    "delivery",
    "dns",
    "export",
    "expression",
    "fault",
    "flows",
    "grpc",
    "http1",
    "http2",
    "hub",
    "jose",
    "json",
    "kafka",
    "kit",
    "listen",
    "mediation",
    "message",
    "pipeline",
    "plan",
    "policies",
    "policy",
    "protobuf",
    "queues",
    "saxon",
    "script",
    "sql",
    "store",
    "telemetry",
    "tls",
    "upstream",
    "websocket",
    "wsdl",
    "xml",
    "xpath",
    "xsd",
    "xslt",
];

const LOCKS: &[&str] = &["Mutex", "RwLock"];

/// Files with a lock that the list does not name, and lines of the list that are wrong.
pub(crate) fn check(sources: &[Source], list: &str) -> Vec<Complaint> {
    let complain = |line: usize, what: String, instead: &str| Complaint {
        file: LIST.to_owned(),
        line,
        what,
        instead: instead.to_owned(),
    };
    let mut listed = BTreeMap::new();
    let mut complaints = Vec::new();
    for (index, line) in list.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once(": ").filter(|(_, reason)| !reason.trim().is_empty()) {
            Some((file, _)) => drop(listed.insert(file, index + 1)),
            None => complaints.push(complain(
                index + 1,
                format!("`{line}` is not an entry"),
                "write `FILE: REASON`",
            )),
        }
    }
    for (_, source) in shipped(sources) {
        let is_hot = source.crate_name().is_some_and(|name| CRATES.contains(&name));
        let Some(at) = first_lock(source).filter(|_| is_hot) else { continue };
        if listed.remove(&*source.path).is_none() {
            let instead = format!("do without it, or give the reason in {LIST}");
            complaints.push(source.complain(at, "a lock in the hot path".to_owned(), instead));
        }
    }
    complaints.extend(
        listed
            .into_iter()
            .map(|(file, line)| complain(line, format!("`{file}` has no lock"), "remove the line")),
    );
    complaints
}

/// The first place in shipped code that names a type of lock.
fn first_lock(source: &Source) -> Option<usize> {
    LOCKS.iter().flat_map(|word| whole(&source.shipped, word)).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Text;

    fn found(list: &str) -> Vec<String> {
        let source = |path: &str, text: &str| {
            Source::read(&Text { path: path.to_owned(), text: text.to_owned() })
        };
        let sources = [
            source("crates/integration/hub/src/a.rs", "// Mutex\nuse std::sync::Mutex;\n"),
            source(
                "crates/integration/hub/src/b.rs",
                "struct MutexFree;\n#[cfg(test)]\nmod tests { use std::sync::Mutex; }\n",
            ),
            source("crates/operations/admin/src/c.rs", "use std::sync::Mutex;\n"),
        ];
        check(&sources, list).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_lock_in_the_hot_path_needs_a_reason() {
        assert_eq!(
            found(""),
            [
                "crates/integration/hub/src/a.rs:2: a lock in the hot path; do without it, or give the reason in xtask/tidy-locks.txt"
            ]
        );
        assert_eq!(
            found("# why\n\ncrates/integration/hub/src/a.rs: it is held for a push\n"),
            [""; 0]
        );
        assert_eq!(
            found(
                "crates/integration/hub/src/a.rs: why\ncrates/integration/hub/src/b.rs: why\ncrates/xml/x.rs:\n"
            ),
            [
                "xtask/tidy-locks.txt:3: `crates/xml/x.rs:` is not an entry; write `FILE: REASON`",
                "xtask/tidy-locks.txt:2: `crates/integration/hub/src/b.rs` has no lock; remove the line",
            ]
        );
    }
}
