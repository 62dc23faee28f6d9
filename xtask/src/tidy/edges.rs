//! The allowed dependencies of crates. The list of members in the root manifest is the map: its comments name the bands, and
//! dependencies point down.
//!
//! Owns the rules about dependencies. Dependencies of tests are not restricted.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Complaint, Text};
use crate::Failure;

/// A group of members, in the order of the listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Band {
    Program,
    Cold,
    Hot,
    Contracts,
    Tools,
    /// Benches, tests and tasks: no crate of the gateway depends on them.
    Beside,
}

/// One member of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) band: Band,
    manifest: String,
    edges: Vec<Edge>,
}

/// One dependency of shipped code.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Edge {
    to: String,
    /// Line in the manifest.
    line: usize,
}

/// Third-party crates that only some of our crates may use. Crates in the band `Beside` may use any.
struct Reserved {
    names: &'static [&'static str],
    users: &'static [&'static str],
    instead: &'static str,
}

const BANDS: &[(&str, Band)] = &[
    ("# the program", Band::Program),
    ("# cold path", Band::Cold),
    ("# hot path", Band::Hot),
    ("# contracts", Band::Contracts),
    ("# tools", Band::Tools),
    ("# beside", Band::Beside),
];

const RESERVED: &[Reserved] = &[
    Reserved {
        names: &["rustls", "tokio-rustls", "rustls-native-certs", "rustls-pki-types"],
        users: &["tls", "listen", "upstream"],
        instead: "use `tls`, which turns PEM into settings",
    },
    Reserved {
        names: &["hyper", "hyper-util", "h2", "http", "http-body", "http-body-util"],
        users: &[],
        instead: "speak `message`: heads and bodies are ours",
    },
    Reserved {
        names: &["axum"],
        users: &["admin", "catalog"],
        instead: "leave serving to `admin`",
    },
    Reserved {
        names: &["anyhow"],
        users: &["tidegate"],
        instead: "give the error a type; only the program may forget what went wrong",
    },
    Reserved {
        names: &["clap", "clap_complete", "clap_mangen"],
        users: &["tidegate"],
        instead: "leave arguments to the program",
    },
    Reserved {
        names: &["cel"],
        users: &["expression"],
        instead: "write rules as an `expression`, which bounds them",
    },
    Reserved { names: &["corosensei"], users: &["kit"], instead: "call `kit::turns`" },
    Reserved {
        names: &["rusqlite"],
        users: &["sql"],
        instead: "ask databases through `sql`, which bounds statements",
    },
    Reserved {
        names: &["kafka-protocol"],
        users: &["kafka"],
        instead: "keep logs in a `store`; `kafka` is one for them",
    },
    Reserved {
        names: &["tokio-postgres"],
        users: &["sql", "store"],
        instead: "ask databases through `sql`, which bounds statements",
    },
    Reserved {
        names: &["mysql_common"],
        users: &["sql"],
        instead: "ask databases through `sql`, which bounds statements",
    },
    Reserved { names: &["domain"], users: &["dns"], instead: "ask name servers through `dns`" },
    Reserved { names: &["saphyr-parser"], users: &["config"], instead: "read text in `config`" },
    Reserved {
        names: &["opentelemetry-proto"],
        users: &["export"],
        instead: "record a `telemetry::span::Span`; `export` writes it as OTLP",
    },
    Reserved {
        names: &["prost"],
        users: &["export", "store"],
        instead: "leave messages of other processes to `export` and `store`",
    },
    Reserved {
        names: &["libmimalloc-sys"],
        users: &["tidegate"],
        instead: "leave it to the program",
    },
];

/// The crates of the hot path on which the cold path may depend.
const SEEN_BY_COLD: &[&str] = &["plan", "policies", "flows", "queues", "hub", "mediation"];

/// The crates on which the engines of policies may depend: header lines and media types, and metrics. They must not depend on exchanges or
/// faults.
const UNDER_MEDIATION: &[&str] = &["message", "telemetry"];

/// The crates that may use the configuration.
const READERS: &[&str] = &["tidegate", "catalog", "control", "compile", "import"];

/// The crates that `admin` may use; it reaches data only through `control`.
const ASKED_BY_ADMIN: &[&str] = &["control", "telemetry", "kit"];

/// The crates that tools may use: memory and clocks, and JSON parsing.
const UNDER_TOOLS: &[&str] = &["kit", "json"];

/// Tools in several crates, each of which may use those after it: the codecs of HTTP; the XML engine; expressions, which use the paths of
/// that engine; databases, whose servers may require TLS; the store, which may be in a database; and Kafka, which implements a part of the
/// store.
const FAMILIES: &[&[&str]] = &[
    &["http2", "http1"],
    &["wsdl", "xsd", "xslt", "xpath", "xml"],
    &["expression", "xpath", "xml"],
    &["store", "sql", "tls"],
    &["kafka", "store"],
    &["kafka", "tls"],
];

/// The crate in the band `Beside` that the program may use: demo backends and test tokens.
const BESIDE_PROGRAM: &str = "backends";

/// The members of a workspace with their dependencies, in the order of its manifest.
pub(crate) fn read(root: &Path, texts: &[Text]) -> Result<Vec<Crate>, Failure> {
    let metadata = metadata(root)?;
    let packages = metadata.get("packages").and_then(Value::as_array);
    let text = |path: &str| texts.iter().find(|t| t.path == path).map_or("", |t| t.text.as_str());
    let members = members(text("Cargo.toml"));
    let read = members.into_iter().map(|(folder, band)| {
        let manifest = format!("{folder}/Cargo.toml");
        let package = packages.into_iter().flatten().find(|package| {
            let path = package.get("manifest_path").and_then(Value::as_str).unwrap_or_default();
            path.strip_suffix(&manifest).is_some_and(|front| front.ends_with('/'))
        });
        let package =
            package.ok_or_else(|| Failure::Broken(format!("cargo knows no {manifest}")))?;
        Ok(read_crate(package, band, &manifest, text(&manifest)))
    });
    read.collect()
}

fn metadata(root: &Path) -> Result<Value, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|error| Failure::Broken(format!("cargo metadata: {error}")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::Broken(format!("cargo metadata: {error}\n{said}")))
}

/// The folders of the members with their bands, as in the root manifest.
fn members(manifest: &str) -> Vec<(String, Band)> {
    let lines = manifest.lines().map(str::trim).skip_while(|line| !line.starts_with("members"));
    let mut band = Band::Program;
    let mut members = Vec::new();
    for line in lines.skip(1).take_while(|line| *line != "]") {
        if let Some((_, named)) = BANDS.iter().find(|(words, _)| line.starts_with(words)) {
            band = *named;
        } else if let Some((folder, _)) = line.strip_prefix('"').and_then(|l| l.split_once('"')) {
            members.push((folder.to_owned(), band));
        }
    }
    members
}

fn read_crate(package: &Value, band: Band, manifest: &str, text: &str) -> Crate {
    let name =
        |value: &Value| value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let dependencies = package.get("dependencies").and_then(Value::as_array);
    // The kind is null for shipped code, otherwise `dev` or `build`.
    let shipped =
        dependencies.into_iter().flatten().filter(|d| d.get("kind").is_none_or(Value::is_null));
    let edges = shipped.map(|dependency| {
        let to = name(dependency);
        let line = text.lines().position(|line| line.split([' ', '=', '.']).next() == Some(&to));
        Edge { line: line.map_or(1, |index| index + 1), to }
    });
    Crate { name: name(package), band, manifest: manifest.to_owned(), edges: edges.collect() }
}

/// Every forbidden dependency.
pub(crate) fn check(crates: &[Crate]) -> Vec<Complaint> {
    let place = |name: &str| crates.iter().position(|c| c.name == name);
    let mut complaints = Vec::new();
    for (at, from) in crates.iter().enumerate() {
        complaints.extend(misplaced(from));
        for edge in &from.edges {
            let wrong = match place(&edge.to).and_then(|to| Some((to, crates.get(to)?))) {
                Some((to_at, to)) => ours(from, to, to_at > at),
                None => others(from, &edge.to),
            };
            complaints.extend(wrong.map(|instead| Complaint {
                file: from.manifest.clone(),
                line: edge.line,
                what: format!("`{}` depends on `{}`", from.name, edge.to),
                instead,
            }));
        }
    }
    complaints
}

/// Returns a violation if the name of a crate differs from that of its folder.
fn misplaced(from: &Crate) -> Option<Complaint> {
    let folder = from.manifest.rsplit('/').nth(1).unwrap_or_default();
    (folder != from.name).then(|| Complaint {
        file: from.manifest.clone(),
        line: 1,
        what: format!("the crate `{}` is in the folder `{folder}`", from.name),
        instead: "give both one name".to_owned(),
    })
}

/// Returns a remedy if a dependency between two of our crates is forbidden. If it breaks several rules, the most informative remedy is
/// returned.
fn ours(from: &Crate, to: &Crate, down: bool) -> Option<String> {
    let name = to.name.as_str();
    let reason = match (from.band, to.band) {
        (Band::Program, Band::Beside) if name == BESIDE_PROGRAM => return None,
        (Band::Beside, _) => return None,
        (_, Band::Beside) => "nothing of the gateway uses what stands beside it".to_owned(),
        _ if name == "config" && !READERS.contains(&from.name.as_str()) => {
            "take what `compile` made of it: only it, `control` and the program see the text"
                .to_owned()
        }
        _ if from.name == "admin" && !ASKED_BY_ADMIN.contains(&name) => {
            "ask `control`, which is all that `admin` sees".to_owned()
        }
        (Band::Cold, Band::Hot) if !SEEN_BY_COLD.contains(&name) => {
            "use what `plan` re-exports: of the hot path the cold one sees `plan`, `policies`, `flows`, `queues`, `hub` and `mediation`"
                .to_owned()
        }
        (_, Band::Hot) if from.name == "policies" && name != "mediation" => {
            "a policy knows the contract in `policy`, no upstream and no pipeline".to_owned()
        }
        (_, Band::Hot | Band::Contracts)
            if from.name == "mediation" && !UNDER_MEDIATION.contains(&name) =>
        {
            "an engine takes parts of messages: leave exchanges and faults to who calls it"
                .to_owned()
        }
        (Band::Tools, _) if down && are_family(&from.name, name) => return None,
        (Band::Tools, _) if from.name == "http1" || !UNDER_TOOLS.contains(&name) => {
            "a tool knows nothing of gateways: `kit` and `json` at most, `http1` nothing, `http2`, XML and `expression` what is below them of their own"
                .to_owned()
        }
        _ if !down => "reverse the dependency: in the root Cargo.toml it points up".to_owned(),
        _ => return None,
    };
    Some(reason)
}

fn are_family(from: &str, to: &str) -> bool {
    FAMILIES.iter().any(|family| family.contains(&from) && family.contains(&to))
}

/// Returns a remedy if a dependency on a third-party crate is forbidden.
fn others(from: &Crate, name: &str) -> Option<String> {
    let reserved = RESERVED.iter().find(|reserved| reserved.names.contains(&name))?;
    let free = from.band == Band::Beside || reserved.users.contains(&from.name.as_str());
    let users = match reserved.users {
        [] => "what stands beside the program".to_owned(),
        users => users.join(", "),
    };
    (!free).then(|| format!("{}; it is for {users}", reserved.instead))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small version of the gateway's own manifest.
    const MANIFEST: &str = r#"
[workspace]
members = [
  # the program
  "crates/operations/tidegate",
  # cold path: how a change becomes a plan
  "crates/operations/admin",
  "crates/operations/control",
  "crates/operations/compile",
  "crates/operations/config",
  # hot path: how a request becomes a reply
  "crates/gateway/listen",
  "crates/gateway/pipeline",
  "crates/gateway/plan",
  "crates/gateway/policies",
  "crates/xml/mediation",
  "crates/gateway/upstream",
  # contracts: the words
  "crates/gateway/policy",
  "crates/operations/telemetry",
  # tools: know nothing
  "crates/net/http2",
  "crates/net/http1",
  "crates/net/tls",
  "crates/net/kit",
  # beside the program
  "crates/operations/backends",
  "bench",
  "xtask",
]
[workspace.dependencies]
"#;

    fn found(from: &str, to: &str) -> Vec<String> {
        let edge = Edge { to: to.to_owned(), line: 7 };
        let crates: Vec<Crate> = members(MANIFEST)
            .into_iter()
            .map(|(folder, band)| {
                let name = folder.rsplit('/').next().unwrap().to_owned();
                let edges = if name == from { vec![edge.clone()] } else { Vec::new() };
                Crate { name, band, manifest: format!("{folder}/Cargo.toml"), edges }
            })
            .collect();
        check(&crates).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_listing_is_read_with_its_bands() {
        let members = members(MANIFEST);
        assert_eq!(members.len(), 20);
        assert_eq!(
            members.first(),
            Some(&("crates/operations/tidegate".to_owned(), Band::Program))
        );
        assert_eq!(members.last(), Some(&("xtask".to_owned(), Band::Beside)));
    }

    #[test]
    fn allowed_dependencies_pass() {
        for (from, to) in [
            ("tidegate", "config"),
            ("tidegate", "listen"),
            ("tidegate", "backends"),
            ("tidegate", "anyhow"),
            ("admin", "control"),
            ("admin", "axum"),
            ("control", "config"),
            ("compile", "policies"),
            ("compile", "http1"),
            ("compile", "tls"),
            ("listen", "http2"),
            ("http2", "http1"),
            ("listen", "rustls"),
            ("plan", "upstream"),
            ("policies", "policy"),
            ("policies", "mediation"),
            ("compile", "mediation"),
            ("mediation", "telemetry"),
            ("mediation", "kit"),
            ("tls", "rustls"),
            ("telemetry", "kit"),
            ("bench", "hyper"),
            ("xtask", "bench"),
            ("kit", "tokio"),
        ] {
            assert_eq!(found(from, to), [""; 0], "{from} -> {to}");
        }
    }

    #[test]
    fn each_rule_can_fail() {
        for (from, to, instead) in [
            ("upstream", "plan", "reverse the dependency"),
            ("config", "compile", "reverse the dependency"),
            ("kit", "kit", "reverse the dependency"),
            ("plan", "config", "take what `compile` made"),
            ("telemetry", "config", "take what `compile` made"),
            ("admin", "config", "take what `compile` made"),
            ("admin", "compile", "ask `control`"),
            ("admin", "plan", "ask `control`"),
            ("control", "listen", "use what `plan` re-exports"),
            ("compile", "upstream", "use what `plan` re-exports"),
            ("policies", "upstream", "a policy knows the contract"),
            ("policies", "plan", "a policy knows the contract"),
            ("mediation", "policy", "an engine takes parts of messages"),
            ("mediation", "upstream", "an engine takes parts of messages"),
            ("mediation", "policies", "an engine takes parts of messages"),
            ("tls", "http1", "a tool knows nothing"),
            ("http1", "kit", "a tool knows nothing"),
            ("http1", "http2", "a tool knows nothing"),
            ("http2", "tls", "a tool knows nothing"),
            ("listen", "backends", "nothing of the gateway"),
            ("tidegate", "bench", "nothing of the gateway"),
            ("tidegate", "xtask", "nothing of the gateway"),
            ("compile", "rustls", "use `tls`"),
            ("pipeline", "tokio-rustls", "use `tls`"),
            ("listen", "hyper", "speak `message`"),
            ("upstream", "hyper", "speak `message`"),
            ("admin", "hyper-util", "speak `message`"),
            ("control", "axum", "leave serving"),
            ("control", "anyhow", "give the error a type"),
            ("compile", "saphyr-parser", "read text in `config`"),
            ("admin", "clap", "leave arguments"),
            ("listen", "libmimalloc-sys", "leave it to the program"),
        ] {
            let found = found(from, to);
            let expected = format!("/{from}/Cargo.toml:7: `{from}` depends on `{to}`; {instead}");
            assert!(matches!(found.as_slice(), [one] if one.contains(&expected)), "{found:?}");
        }
    }

    #[test]
    fn edges_have_their_line_and_dependencies_of_tests_are_ignored() {
        let package = serde_json::json!({ "name": "a", "dependencies": [
            { "name": "kit", "kind": null }, { "name": "tempfile", "kind": "dev" },
        ]});
        let manifest = "[package]\nname = \"a\"\n[dependencies]\nkit.workspace = true\n";
        let read = read_crate(&package, Band::Hot, "crates/xml/b/Cargo.toml", manifest);
        assert_eq!(read.edges, [Edge { to: "kit".to_owned(), line: 4 }]);
        assert_eq!(misplaced(&read).unwrap().what, "the crate `a` is in the folder `b`");
    }
}
