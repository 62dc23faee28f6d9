//! Third-party test suites, packed as plain data and run against the gateway.
//!
//! Owns the command line, the writing of results and the last lines of the output. Each suite's module decides the meaning of
//! its cases.

mod echo;
mod gateway;
mod http1;
mod jose;
mod jsonschema;
mod known;
mod pack;
mod wsdl;
mod xml;
mod xsd;
mod xslt10;

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;

const HELP: &str = "\
Runs a pack of third-party tests and prints how many pass.

usage: cargo xtask conformance SUITE PACK.tar.gz [OPTIONS]

suites:
  http1    malformed, smuggled and plain HTTP/1.1 requests, sent byte for byte
  jose     signed tokens and the keys that verify them, in process
  jsonschema
           schemas of draft 2020-12 with valid and invalid values, in process; the pack is the source
           archive of PyPI's jsonschema
  wsdl     service descriptions, read and compared with their known content, in process
  xml      documents that are well-formed or not, in process
  xsd      schemas and documents that are valid or not, in process
  xslt10   stylesheets with a source and assertions about the result, in process

options:
  --gateway PATH        this binary, instead of building the gateway
  --target HOST:PORT    the server at this address, instead of starting a gateway
  --echo HOST:PORT      where the echo upstream listens (default: a free port); point the
                        server given as --target here
  --connections N       cases at the same time (default 16)
  --only TEXT           only cases whose id contains this

The cases that do not pass are written to target/conformance/SUITE.txt.
Exit code 0: no scored case fails, 1: some do, 2: usage. For suites in process the cases listed in
xtask/known/SUITE.txt have to fail, and no others: the list may only shrink.

examples:
  cargo xtask conformance http1 http1.tar.gz
  cargo xtask conformance xml xml.tar.gz
  cargo xtask conformance http1 http1.tar.gz --target 127.0.0.1:8080 --echo 127.0.0.1:9000
";

/// The options of the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) pack: PathBuf,
    pub(crate) gateway: Option<PathBuf>,
    pub(crate) target: Option<String>,
    pub(crate) echo: String,
    pub(crate) connections: usize,
    pub(crate) only: String,
}

/// The result of a suite.
pub(crate) struct Outcome {
    /// Lines to print before the last one.
    pub(crate) summary: String,
    /// The failed cases, for the file of failures.
    pub(crate) complaints: String,
    /// The number of scored cases that passed.
    pub(crate) passed: usize,
    /// With a list of known failures: the number of cases that differ from the list.
    pub(crate) failed: usize,
    pub(crate) scored: usize,
}

/// Runs a suite. Returns true if nothing failed.
pub(crate) fn run(words: &[&str]) -> Result<bool, Failure> {
    let (suite, rest) = match words {
        ["--help" | "-h", ..] | [_, "--help" | "-h", ..] => {
            print!("{HELP}");
            return Ok(true);
        }
        [suite, rest @ ..] => (*suite, rest),
        [] => return Err(Failure::Usage(HELP.to_owned())),
    };
    let outcome = match suite {
        "http1" => http1::run(&options(rest)?)?,
        "jose" => jose::run(&options(rest)?)?,
        "jsonschema" => jsonschema::run(&options(rest)?)?,
        "wsdl" => wsdl::run(&options(rest)?)?,
        "xml" => xml::run(&options(rest)?)?,
        "xsd" => xsd::run(&options(rest)?)?,
        "xslt10" => xslt10::run(&options(rest)?)?,
        other => return Err(Failure::Usage(format!("no suite `{other}`\n\n{HELP}"))),
    };
    let path = write_complaints(suite, &outcome.complaints)?;
    println!("{}", outcome.summary);
    println!("failed cases: {}", path.display());
    println!("{suite}: passed {} of {}", outcome.passed, outcome.scored);
    Ok(outcome.failed == 0)
}

fn options(words: &[&str]) -> Result<Options, Failure> {
    let mut options = Options {
        pack: PathBuf::new(),
        gateway: None,
        target: None,
        echo: "127.0.0.1:0".to_owned(),
        connections: 16,
        only: String::new(),
    };
    let mut rest = words;
    while let [word, after @ ..] = rest {
        let value = after.first().copied();
        let option = word.starts_with("--");
        rest = if option { after.get(1..).unwrap_or_default() } else { after };
        match (*word, value) {
            ("--gateway", Some(path)) => options.gateway = Some(PathBuf::from(path)),
            ("--target", Some(address)) => options.target = Some(address.to_owned()),
            ("--echo", Some(address)) => address.clone_into(&mut options.echo),
            ("--only", Some(text)) => text.clone_into(&mut options.only),
            ("--connections", Some(number)) => {
                options.connections = number.parse().ok().filter(|&n| n > 0).ok_or_else(|| {
                    Failure::Usage(format!("--connections takes a number above 0, not `{number}`"))
                })?;
            }
            (word, _) if option => {
                return Err(Failure::Usage(format!("unknown argument `{word}`\n\n{HELP}")));
            }
            (path, _) if options.pack.as_os_str().is_empty() => options.pack = PathBuf::from(path),
            (word, _) => {
                return Err(Failure::Usage(format!(
                    "only one pack is allowed, so `{word}` is too much"
                )));
            }
        }
    }
    if options.pack.as_os_str().is_empty() {
        return Err(Failure::Usage(format!("a pack is missing\n\n{HELP}")));
    }
    Ok(options)
}

fn write_complaints(suite: &str, text: &str) -> Result<PathBuf, Failure> {
    let folder = target_folder().join("conformance");
    let path = folder.join(format!("{suite}.txt"));
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&path, text))
        .map_err(|error| Failure::Broken(format!("{}: {error}", path.display())))?;
    Ok(path)
}

/// The folder of build output.
pub(crate) fn target_folder() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => workspace().join("target"),
    }
}

/// The root of the workspace.
pub(crate) fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        let found = options(&["a.tar.gz", "--target", "x:1", "--connections", "4"]).unwrap();
        assert_eq!(found.pack, Path::new("a.tar.gz"));
        assert_eq!((found.target.as_deref(), found.connections), (Some("x:1"), 4));
        for bad in [
            &[][..],
            &["a", "b"],
            &["a", "--connections", "0"],
            &["a", "--what", "b"],
            &["a", "--target"],
            &["--target", "a"],
        ] {
            assert!(matches!(options(bad), Err(Failure::Usage(_))), "{bad:?}");
        }
    }

    #[test]
    fn unknown_suites_are_usage_errors() {
        assert!(matches!(run(&["nothing", "a"]), Err(Failure::Usage(_))));
        assert!(matches!(run(&[]), Err(Failure::Usage(_))));
    }
}
