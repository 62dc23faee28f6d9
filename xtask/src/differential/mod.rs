//! Compares the XML engine with others, on random and mutated documents.
//!
//! Owns the rounds and the verdict: if the others agree with each other and not with us, we are probably wrong. The verdicts of
//! the others come from `oracles`, the documents to judge from `documents`, `schemas` and `stylesheets`.

mod documents;
mod oracles;
mod ours;
mod schemas;
mod stylesheets;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::conformance::target_folder;
use oracles::{Java, Verdict};

const HELP: &str = "\
Compares the XML engine with libxml2, libxslt, Xerces-J and Saxon 6.5.

usage: cargo xtask differential --java CLASSPATH [--rounds N] [--seed N]

`make differential` installs the other engines and calls this. Files of a disagreement are kept in target/differential.
An engine that does not answer within 20 s is stopped and counts as having no answer.
Exit code 0: no disagreement, 1: the other engines agree against ours, 2: usage.
";

/// The options of the command line.
struct Options {
    java: String,
    rounds: usize,
    seed: u64,
}

/// The comparison of one round: the files, and the verdict of each engine.
struct Compared {
    what: &'static str,
    files: Vec<PathBuf>,
    ours: Verdict,
    others: [Verdict; 2],
}

const NO_ANSWER: &str = "one of the others has no answer";

/// Documents of a round, by kind of comparison.
const DOCUMENTS: usize = 200;
const INSTANCES: usize = 20;
const TRANSFORMED: usize = 10;

/// Runs the comparison. Returns true if no difference was found.
pub(crate) fn run(words: &[&str]) -> Result<bool, Failure> {
    let options = options(words)?;
    let folder = target_folder().join("differential");
    let mut java = Java::start(&options.java)?;
    let mut found = 0;
    let mut compared: BTreeMap<&str, usize> = BTreeMap::new();
    for round in 0..options.rounds {
        let mut random = fastrand::Rng::with_seed(options.seed.wrapping_add(round as u64));
        let place = folder.join(round.to_string());
        fs::create_dir_all(&place).map_err(|error| broken(&place, &error))?;
        let mut all = well_formed(&place, &mut random, &mut java)?;
        all.extend(valid(&place, &mut random, &mut java)?);
        all.extend(transformed(&place, &mut random, &mut java)?);
        for one in &all {
            *compared.entry(one.outcome()).or_default() += 1;
        }
        let wrong: Vec<&Compared> = all.iter().filter(|compared| compared.is_wrong()).collect();
        found += wrong.len();
        wrong.iter().for_each(|compared| println!("{}", compared.told()));
        if wrong.is_empty() {
            fs::remove_dir_all(&place).map_err(|error| broken(&place, &error))?;
        }
    }
    for (outcome, times) in &compared {
        println!("{outcome}: {times}");
    }
    let all: usize = compared.values().sum();
    println!("differential: {all} comparisons, {found} in which the others agree against us");
    Ok(found == 0)
}

fn options(words: &[&str]) -> Result<Options, Failure> {
    let mut options = Options { java: String::new(), rounds: 10, seed: 1 };
    let number = |text: &str| {
        text.parse::<u64>().map_err(|_| Failure::Usage(format!("not a number: `{text}`\n\n{HELP}")))
    };
    let mut rest = words;
    loop {
        rest = match rest {
            [] => break,
            ["--java", path, rest @ ..] => {
                (*path).clone_into(&mut options.java);
                rest
            }
            ["--rounds", text, rest @ ..] => {
                options.rounds = usize::try_from(number(text)?).unwrap_or(usize::MAX);
                rest
            }
            ["--seed", text, rest @ ..] => {
                options.seed = number(text)?;
                rest
            }
            [word, ..] => {
                return Err(Failure::Usage(format!("unknown argument `{word}`\n\n{HELP}")));
            }
        };
    }
    if options.java.is_empty() { Err(Failure::Usage(HELP.to_owned())) } else { Ok(options) }
}

/// Compares well-formedness, on generated documents and mutations of them.
fn well_formed(
    place: &Path,
    random: &mut fastrand::Rng,
    java: &mut Java,
) -> Result<Vec<Compared>, Failure> {
    let mut files = Vec::new();
    for number in 0..DOCUMENTS {
        let mut document = documents::document(random);
        for _ in 0..random.usize(0..4) {
            documents::mutate(&mut document, random);
        }
        files.push(written(place, &format!("d{number}.xml"), &document)?);
    }
    let libxml = oracles::xmllint(&files, None)?;
    let mut all = Vec::new();
    for (file, libxml) in files.into_iter().zip(libxml) {
        let xerces = java.well_formed(&file)?;
        let bytes = read(&file)?;
        let ours = ours::both_ways(|| ours::well_formed(&bytes));
        all.push(Compared {
            what: "well-formed",
            files: vec![file],
            ours,
            others: [libxml, xerces],
        });
    }
    Ok(all)
}

/// Compares validity by a random schema, which may itself be refused.
fn valid(
    place: &Path,
    random: &mut fastrand::Rng,
    java: &mut Java,
) -> Result<Vec<Compared>, Failure> {
    let schema = schemas::schema(random);
    let schema_file = written(place, "s.xsd", schema.text().as_bytes())?;
    let mut files = Vec::new();
    for number in 0..INSTANCES {
        let instance = schema.instance(random);
        files.push(written(place, &format!("i{number}.xml"), instance.as_bytes())?);
    }
    let libxml = oracles::xmllint(&files, Some(&schema_file))?;
    let ours = ours::Validation::compile(&read(&schema_file)?);
    let mut all = Vec::new();
    for (file, libxml) in files.into_iter().zip(libxml) {
        let xerces = java.valid(&schema_file, &file)?;
        let bytes = read(&file)?;
        let ours = ours::both_ways(|| ours.judge(&bytes));
        let files = vec![schema_file.clone(), file];
        all.push(Compared { what: "valid", files, ours, others: [libxml, xerces] });
    }
    Ok(all)
}

/// Compares the results of a stylesheet.
fn transformed(
    place: &Path,
    random: &mut fastrand::Rng,
    java: &mut Java,
) -> Result<Vec<Compared>, Failure> {
    let mut all = Vec::new();
    for number in 0..TRANSFORMED {
        let (name, stylesheet) = stylesheets::any(random);
        let stylesheet_file = written(place, &format!("{name}.xsl"), stylesheet.as_bytes())?;
        let document = documents::plain(random);
        let file = written(place, &format!("t{number}.xml"), &document)?;
        let libxslt = oracles::xsltproc(&stylesheet_file, &file)?;
        let saxon =
            java.transformed(&stylesheet_file, &file, &place.join(format!("t{number}.out")))?;
        let ours = ours::both_ways(|| ours::transformed(stylesheet.as_bytes(), &document));
        let files = vec![stylesheet_file, file];
        all.push(Compared { what: "transformed", files, ours, others: [libxslt, saxon] });
    }
    Ok(all)
}

impl Compared {
    fn is_wrong(&self) -> bool {
        let [first, second] = &self.others;
        let differs = first.agrees(second) && !first.agrees(&self.ours);
        differs || matches!(self.ours, Verdict::Split(_))
    }

    /// Returns the outcome for the summary, which shows whether there was a verdict to compare with.
    fn outcome(&self) -> &'static str {
        let [first, second] = &self.others;
        match first {
            Verdict::Silent | Verdict::Split(_) => NO_ANSWER,
            _ if *second == Verdict::Silent => NO_ANSWER,
            _ if !first.agrees(second) => "the others differ from each other",
            Verdict::Yes(_) => "accepted by all others",
            Verdict::No(_) => "refused by all others",
            Verdict::Bad(_) => "schema or stylesheet refused by all others",
        }
    }

    fn told(&self) -> String {
        let files: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        let [first, second] = &self.others;
        format!(
            "{} {}\n  ours   {:?}\n  others {first:?}\n         {second:?}",
            self.what,
            files.join(" "),
            self.ours
        )
    }
}

fn written(place: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, Failure> {
    let path = place.join(name);
    fs::write(&path, bytes).map_err(|error| broken(&path, &error))?;
    Ok(path)
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| broken(path, &error))
}

fn broken(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Broken(format!("{}: {error}", path.display()))
}
