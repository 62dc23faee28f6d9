//! Checks the commands in the README and the guide: those of this program with its own parser, those of make against the Makefile,
//! and scripts for existence. Other commands are only counted.

use std::fs;

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::arguments::Arguments;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// The number of commands of other programs (curl, cargo, systemctl, docker), which are not checked. It may only
/// shrink.
const OTHERS_MAX: usize = 17;

/// A simple shell command with its place.
struct Simple {
    place: String,
    words: Vec<String>,
}

fn read(path: &str) -> String {
    fs::read_to_string(format!("{ROOT}/{path}")).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The commands in the shell blocks of a document.
fn commands(file: &str) -> Vec<Simple> {
    let (mut found, mut shell, mut fenced, mut line) = (Vec::new(), false, false, String::new());
    for (number, text) in (1..).zip(read(file).lines()) {
        if let Some(language) = text.trim_start().strip_prefix("```") {
            fenced = !fenced;
            shell = fenced && language == "sh";
        } else if shell {
            line.push_str(text.strip_suffix('\\').unwrap_or(text));
            if !text.ends_with('\\') {
                let simple = split(&std::mem::take(&mut line));
                let place = format!("{file}:{number}");
                let placed = |words| Simple { place: place.clone(), words };
                found.extend(simple.into_iter().map(placed));
            }
        }
    }
    found
}

/// Splits a line as a shell does, for the subset that the guide uses: quotes, comments, leading variables, redirections,
/// and several commands in one line.
fn split(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words) = (Vec::new(), Vec::new());
    let (mut word, mut quote, mut begun) = (String::new(), None, false);
    for letter in line.chars().chain([' ']) {
        match (quote, letter) {
            (None, '#') if !begun => break,
            (None, '\'' | '"') => (quote, begun) = (Some(letter), true),
            (Some(open), _) if open == letter => quote = None,
            (None, ' ') => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            _ => {
                word.push(letter);
                begun = true;
            }
        }
    }
    assert!(quote.is_none(), "a quote that does not end: {line}");
    for end in words.split(|word| matches!(word.as_str(), "|" | "&&" | ";" | "&")) {
        let is_variable = |word: &&String| {
            let name = word.split_once('=').map_or("", |(name, _)| name);
            !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        };
        let kept: Vec<String> = end
            .iter()
            .skip_while(is_variable)
            .take_while(|word| !word.starts_with(['>', '<']))
            .filter(|word| word.as_str() != "sudo")
            .cloned()
            .collect();
        if !kept.is_empty() {
            commands.push(kept);
        }
    }
    commands
}

fn documents() -> Vec<String> {
    let guide = fs::read_dir(format!("{ROOT}/docs/guide")).unwrap();
    let names = guide.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<String> = names.map(|name| format!("docs/guide/{name}")).collect();
    files.push("README.md".to_owned());
    files.sort();
    files
}

/// The reason why the program would refuse a command.
fn refused(words: &[String]) -> Option<String> {
    match Arguments::try_parse_from(words) {
        Ok(_) => None,
        Err(e) if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => None,
        Err(e) => Some(e.to_string()),
    }
}

#[test]
fn the_program_accepts_the_commands_of_the_guide() {
    let makefile = read("Makefile");
    let (mut ours, mut others) = (0, 0);
    for Simple { place, words } in documents().iter().flat_map(|file| commands(file)) {
        let (first, rest) = words.split_first().unwrap();
        match first.as_str() {
            "tidegate" => {
                ours += 1;
                assert_eq!(refused(&words), None, "{place}");
            }
            "make" => {
                let targets = rest.iter().filter(|word| !word.contains('='));
                for target in targets {
                    let rule = format!("\n{target}:");
                    assert!(makefile.contains(&rule), "{place}: there is no `make {target}`");
                }
            }
            path if path.contains('/')
                && !path.starts_with('/')
                && !path.starts_with("target/") =>
            {
                assert!(fs::exists(format!("{ROOT}/{path}")).unwrap(), "{place}: no {path}");
            }
            // A black-box test runs all commands of this page.
            _ if place.starts_with("docs/guide/operating.md") => {}
            _ => others += 1,
        }
    }
    assert!(ours > 15, "{ours}");
    assert!(
        others <= OTHERS_MAX,
        "{others} commands of other programs, but only {OTHERS_MAX} are allowed: use commands that this test can check"
    );
}

#[test]
fn commands_are_split_as_a_shell_does() {
    let line = "A_B=c tidegate token --scope 'a b' > x && make run   # not this";
    let split = split(line);
    assert_eq!(split, [vec!["tidegate", "token", "--scope", "a b"], vec!["make", "run"]]);
    assert!(refused(&["tidegate", "chekc"].map(str::to_owned)).is_some());
    assert!(refused(&["tidegate", "run", "--help"].map(str::to_owned)).is_none());
}
