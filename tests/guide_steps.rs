//! The guide's page for new operators is correct step by step: each command is run in order, and prints what the page shows.
//!
//! A block of YAML is the configuration, or lines that replace those with the same keys. A block of text is the output of the commands
//! before it, where `...` matches anything. A command that only reads is repeated until its output matches, as a reader would do.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::harness::{ClosedPort, PATIENCE, Wire, program, until};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/guide/operating.md");

/// The ports of the page.
const PORTS: [u16; 3] = [8080, 9001, 9901];

/// Words of commands that do something, which are run once.
const ACTS: [&str; 5] = ["--data", "rollback", "retry", "sed", ">"];

/// A reader of the page, at the terminal.
struct Reader {
    folder: tempfile::TempDir,
    ports: HashMap<u16, ClosedPort>,
    /// Shell variables that apply to all later commands.
    exports: String,
    /// Programs that run until Ctrl-C.
    running: Vec<Child>,
}

impl Reader {
    fn start() -> Reader {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(program(), folder.path().join("tidegate")).unwrap();
        let ports = PORTS.map(|port| (port, ClosedPort::any()));
        Reader { folder, ports: ports.into(), exports: String::new(), running: Vec::new() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A text of the page with the ports of this test.
    fn with_ports(&self, text: &str) -> String {
        let port = |port: u16| self.ports[&port].address.port();
        let replaced = PORTS.iter().fold(text.to_owned(), |text, of_page| {
            let ours = port(*of_page);
            text.replace(&format!(":{of_page}"), &format!(":{ours}"))
                .replace(&format!("--port {of_page}"), &format!("--port {ours}"))
        });
        let admin = format!("tidegate ctl --admin http://127.0.0.1:{} ", port(9901));
        replaced.replace("tidegate ctl ", &admin)
    }

    /// Writes the configuration, or those of its lines that a block has.
    fn write(&self, block: &str) {
        let file = self.path().join("tidegate.yaml");
        let block = self.with_ports(block);
        let text = if block.contains("\nroutes:") {
            block
        } else {
            let key = |line: &str| line.split_once(": ").map(|(key, _)| key.to_owned());
            let keys: Vec<_> = block.lines().map(key).collect();
            let old = std::fs::read_to_string(&file).unwrap();
            let kept = old.lines().filter(|line| !keys.contains(&key(line)));
            kept.map(|line| format!("{line}\n")).collect::<String>() + &block
        };
        std::fs::write(&file, text).unwrap();
    }

    /// Starts a command that keeps running, and waits until its port is open.
    fn begin(&mut self, command: &str) {
        let port = if command.contains("backend") { 9001 } else { 8080 };
        let address = self.ports[&port].address;
        let mut shell = self.shell(&format!("exec {}", self.with_ports(command)));
        self.running.push(shell.stderr(Stdio::null()).spawn().unwrap());
        until(command, || std::net::TcpStream::connect(address).is_ok());
    }

    fn shell(&self, commands: &str) -> Command {
        let path = format!("{}:{}", self.path().display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("{}{commands}", self.exports)]);
        shell.current_dir(self.path()).env("PATH", path).stdin(Stdio::null());
        shell.stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    }

    /// Runs commands and compares their output. Those that only read are repeated until it matches.
    fn run(&mut self, commands: &str, expected: Option<&str>) {
        let (exports, rest): (Vec<&str>, Vec<&str>) =
            commands.lines().partition(|line| line.starts_with("export "));
        exports.iter().for_each(|line| writeln!(self.exports, "{line}").unwrap());
        let (once, again): (Vec<&str>, Vec<&str>) =
            rest.iter().partition(|line| ACTS.iter().any(|act| line.contains(act)));
        let mut said = self.said(&once.join("\n"));
        let Some(expected) = expected else { return };
        let expected = self.with_ports(expected);
        let begun = Instant::now();
        while !is_like(&said, &expected) {
            let is_over = again.is_empty() || begun.elapsed() > PATIENCE;
            assert!(!is_over, "{commands}\n--- printed\n{said}\n--- and not\n{expected}");
            std::thread::yield_now();
            said = self.said(&again.join("\n"));
        }
    }

    fn said(&self, commands: &str) -> String {
        let output = self.shell(&self.with_ports(commands)).output().unwrap();
        assert!(output.status.success(), "{commands}: {output:?}");
        String::from_utf8(output.stdout).unwrap().replace('\r', "")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        for running in &mut self.running {
            // It may have ended, which the test has told by then.
            let _ = running.kill();
            let _ = running.wait();
        }
    }
}

/// True if a text matches another in which `...` means anything, and a line `...` any lines.
fn is_like(text: &str, expected: &str) -> bool {
    let mut parts = expected.trim_end().split("...").map(str::trim_end);
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    expected.trim_end().ends_with("...") || rest.trim().is_empty()
}

/// The blocks of the page, with their languages.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let fenced = page.split("\n```").skip(1).step_by(2);
    fenced.map(|block| block.split_once('\n').expect("a block has lines")).collect()
}

#[test]
fn a_new_operator_gets_through_the_page() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let blocks = blocks(&page);
    assert!(blocks.len() > 25, "{}", blocks.len());
    let mut reader = Reader::start();
    let begun = Instant::now();
    for (at, (language, text)) in blocks.iter().enumerate() {
        let next = blocks.get(at + 1).filter(|(language, _)| *language == "text");
        match *language {
            "yaml" => reader.write(text),
            "sh" if text.starts_with("tidegate run") || text.starts_with("tidegate backend") => {
                reader.begin(text);
            }
            "sh" => reader.run(text, next.map(|(_, text)| *text)),
            _ => assert!(at > 0 && blocks[at - 1].0 == "sh", "{text} is the output of nothing"),
        }
    }
    assert!(begun.elapsed() < PATIENCE * 4);
    let admin = reader.ports[&9901].address;
    let refused = Wire::connect(admin).ask(format!("GET /plan HTTP/1.1\r\nHost: {admin}\r\n\r\n"));
    assert_eq!(refused.status(), 401);
}

#[test]
fn dots_stand_for_anything_and_nothing_else_does() {
    for (text, expected, is) in [
        ("a\nb\n", "a\nb\n", true),
        ("a\nb\n", "a\n", false),
        ("a\nb\n", "a\n...\n", true),
        ("x 1 y\nz\n", "x ... y\n...\n", true),
        ("x 1 y\nz\n", "x ... w\n...\n", false),
        ("x\n", "...\ny\n", false),
        ("x\ny\n", "...\ny\n", true),
    ] {
        assert_eq!(is_like(text, expected), is, "{text:?} {expected:?}");
    }
}
