//! docs/coverage.md has each row of the load-test documents once, and everything it names exists. The tests named in
//! SECURITY.md and on the guide's page of failures exist.

use std::fs;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// The documents' rows: `S0-1` to `S0-22`, and so on.
const ROWS: [(&str, u32); 5] = [("S0", 22), ("S1", 36), ("S2", 18), ("S3", 32), ("S4", 23)];

/// The rows that are not shown yet.
const OPEN: &[&str] = &[];

fn read(file: &str) -> String {
    fs::read_to_string(format!("{ROOT}/{file}")).unwrap_or_default()
}

/// True if the suite has a test `module::name`, or any test in `module::`.
fn is_there(test: &str) -> bool {
    let Some((module, name)) = test.rsplit_once("::") else { return false };
    let text = read(&format!("tests/{}.rs", module.replace("::", "/")));
    text.contains(&format!("#[test]\nfn {name}"))
        && (name.is_empty() || text.contains(&format!("#[test]\nfn {name}()")))
}

/// True if a file below the folder has a unit test of that name.
fn has_unit_test(folder: &Path, name: &str) -> bool {
    let test = format!("fn {name}()");
    fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return has_unit_test(&path, name);
        }
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        is_rust && fs::read_to_string(&path).is_ok_and(|text| is_a_test(&text, &test))
    })
}

/// True if a test attribute precedes the function.
fn is_a_test(text: &str, function: &str) -> bool {
    let Some((before, _)) = text.split_once(function) else { return false };
    let before = before.trim_end().trim_end_matches("async").trim_end();
    let mut above =
        before.lines().rev().map(str::trim_start).take_while(|line| line.starts_with("#["));
    above.any(|line| line.contains("test"))
}

fn unit_test_is_there(krate: &str, name: &str) -> bool {
    let groups = fs::read_dir(format!("{ROOT}/crates")).into_iter().flatten().flatten();
    let mut folders = groups.map(|group| group.path()).chain([ROOT.into()]);
    folders.any(|folder| has_unit_test(&folder.join(krate), name))
}

/// The names after `bench run`: scenarios, each a key of a file of scenarios.
fn scenarios_are_there(names: &str) -> bool {
    let folder = format!("{ROOT}/bench/scenarios");
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let texts: Vec<String> =
        files.filter_map(|entry| fs::read_to_string(entry.path()).ok()).collect();
    let known = |name: &str| {
        let named = format!("  {name}:");
        texts.iter().flat_map(|text| text.lines()).any(|line| line == named)
    };
    let mut names = names.split(' ').filter(|name| !name.starts_with("--")).peekable();
    names.peek().is_some() && names.all(known)
}

/// The complaint about a name in backquotes, if it does not exist.
fn missing(named: &str) -> Option<String> {
    let is_here = if let Some(names) = named.strip_prefix("bench run ") {
        scenarios_are_there(names)
    } else if let Some(recipe) = named.strip_prefix("make ") {
        let name = recipe.split(' ').next().unwrap_or_default();
        read("Makefile").contains(&format!("\n{name}:"))
    } else if let Some(test) = named.strip_prefix("-p ") {
        test.split_once(' ').is_some_and(|(krate, name)| unit_test_is_there(krate, name))
    } else if named.contains("::") {
        is_there(named)
    } else {
        // A mediator, a header, a variable: no proof, but a word of the row.
        true
    };
    (!is_here).then(|| format!("`{named}` does not exist"))
}

/// The complaints about a row's last column.
fn complaints(shown: &str) -> Vec<String> {
    let mut complaints: Vec<String> =
        shown.split('`').skip(1).step_by(2).filter_map(missing).collect();
    let links = shown.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let folder = Path::new(ROOT).join("docs");
    let dead = links.filter(|link| !folder.join(link.split('#').next().unwrap_or(link)).exists());
    complaints.extend(dead.map(|link| format!("{link} does not exist")));
    let proofs = ["::", "`-p ", "`bench run ", "`make ", "]("];
    if !shown.contains("open: ") && !proofs.iter().any(|proof| shown.contains(proof)) {
        complaints.push("names no proof".to_owned());
    }
    complaints
}

/// The complaints about the whole document, and the rows that it calls open.
fn judge(text: &str) -> (Vec<String>, Vec<String>) {
    let wanted =
        ROWS.iter().flat_map(|(part, rows)| (1..=*rows).map(move |n| format!("{part}-{n}")));
    let mut wanted = wanted.peekable();
    let (mut bad, mut open) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| line.starts_with("| S")) {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [row, _, shown] = cells.as_slice() else {
            bad.push(format!("not three columns: {line}"));
            continue;
        };
        let row = row.trim_start_matches("| ");
        match wanted.next() {
            Some(next) if next == row => {}
            next => bad.push(format!("{row} stands where {next:?} belongs")),
        }
        bad.extend(complaints(shown).iter().map(|complaint| format!("{row}: {complaint}")));
        if shown.contains("open: ") {
            open.push(row.to_owned());
        }
    }
    bad.extend(wanted.map(|row| format!("{row} is missing")));
    (bad, open)
}

#[test]
fn each_row_of_the_documents_is_covered_once() {
    let (bad, open) = judge(&read("docs/coverage.md"));
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert_eq!(open, OPEN, "rows that are open");
}

#[test]
fn what_is_wrong_with_a_row_is_told() {
    let good = "`jwt::a_token_is_forwarded_only_where_that_is_asked_for`, `make test`, [a file](../deploy/README.md)";
    assert_eq!(complaints(good), Vec::<String>::new());
    for bad in [
        "`jwt::no_such_test`",
        "`-p policies no_such_test`",
        "`bench run no-such-scenario`",
        "`make no-such-recipe`",
        "[a file](../no-such-file)",
        "by hand",
    ] {
        assert_eq!(complaints(bad).len(), 1, "{bad}");
    }
    let text = "| S0-1 | a | open: b |\n| S0-1 | a | open: b |\n";
    assert!(judge(text).0.iter().any(|complaint| complaint.starts_with("S0-1 stands where")));
}

#[test]
fn every_test_that_is_named_is_there() {
    for file in ["SECURITY.md", "docs/guide/failures.md"] {
        let text = read(file);
        let (_, table) = text.split_once("| --- |").unwrap();
        let named: Vec<&str> = table.split('`').filter(|word| word.contains("::")).collect();
        assert!(named.len() > 30, "{file}: {named:?}");
        let missing: Vec<&&str> = named.iter().filter(|test| !is_there(test)).collect();
        assert!(missing.is_empty(), "{file}: {missing:?}");
    }
}
