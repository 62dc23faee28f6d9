//! Our side of `bench/xml/validate.sh`: files to measure on, CPU time of parse and validation, and memory of a long stream.
//! usage: validate generate FOLDER | validate time FILE ROUNDS | validate parse FILE ROUNDS | validate stream MEGABYTES
#![allow(clippy::print_stdout, reason = "a command line program talks by printing")]
#![allow(clippy::expect_used, reason = "it is for measurements: what does not work ends it")]

#[path = "../benches/calculator/mod.rs"]
mod calculator;

use std::fs;
use std::hint::black_box;

use xsd::{Bounds, Root, Validator};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["generate", folder] => generate(folder),
        ["time", file, rounds] => time(file, rounds.parse().expect("rounds are a number")),
        ["parse", file, rounds] => parse(file, rounds.parse().expect("rounds are a number")),
        ["stream", megabytes] => stream(megabytes.parse().expect("megabytes are a number")),
        _ => {
            println!("usage: validate generate FOLDER | time|parse FILE ROUNDS | stream MEGABYTES")
        }
    }
}

fn generate(folder: &str) {
    let write = |name: &str, text: &str| {
        fs::write(format!("{folder}/{name}"), text).expect("the folder is there");
    };
    write("envelope.xsd", calculator::ENVELOPE);
    write("calculator.xsd", calculator::CALCULATOR);
    for bytes in [345, 10_000, 100_000] {
        write(&format!("{bytes}.xml"), &calculator::document(bytes));
    }
}

fn validator() -> Validator {
    Validator::new(calculator::schema(), Root::Declared, Bounds::default())
}

/// Prints microseconds of CPU a round.
fn time(file: &str, rounds: u64) {
    let bytes = fs::read(file).expect("the file is there");
    let options = xml::Options::default();
    let mut validator = validator();
    let started = cpu_nanoseconds();
    for _ in 0..rounds {
        validator.validate(&bytes, &options).expect("it is well-formed");
        assert!(validator.is_valid(), "{:?}", validator.invalid());
    }
    let spent = cpu_nanoseconds() - started;
    println!("{:.3}", spent as f64 / rounds as f64 / 1000.0);
}

/// Takes events and does nothing with them: what is left of the time is the parser's.
struct Nobody;

impl xml::Sink for Nobody {
    type Error = xml::Error;

    fn start(&mut self, start: &xml::Start<'_>, _: xml::Here<'_>) -> Result<(), xml::Error> {
        black_box(start.name);
        Ok(())
    }

    fn text(&mut self, text: &str, _: bool, _: xml::Here<'_>) -> Result<(), xml::Error> {
        black_box(text);
        Ok(())
    }

    fn end(&mut self, name: xml::QName<'_>, _: xml::Here<'_>) -> Result<(), xml::Error> {
        black_box(name);
        Ok(())
    }
}

/// Prints microseconds of CPU a round of parsing alone.
fn parse(file: &str, rounds: u64) {
    let bytes = fs::read(file).expect("the file is there");
    let options = xml::Options::default();
    let started = cpu_nanoseconds();
    for _ in 0..rounds {
        xml::parse(&bytes, &options, &mut Nobody).expect("it is well-formed");
    }
    let spent = cpu_nanoseconds() - started;
    println!("{:.3}", spent as f64 / rounds as f64 / 1000.0);
}

/// Prints by how many KiB the resident memory grows while a document of that many megabytes streams by.
fn stream(megabytes: usize) {
    let mut limits = xml::Limits { bytes_max: u64::MAX, ..xml::Limits::default() };
    limits.tokens_max = u64::MAX;
    let options = xml::Options { limits, ..xml::Options::default() };
    let mut validator = validator();
    let mut parser = xml::Parser::new(options);
    let document = calculator::document(100_000);
    let close = document.find("    </AddMany>").expect("it is there");
    let open = document.find("      <item").expect("it is there");
    let (head, tail) = document.split_at(close);
    parser.feed(head.as_bytes(), &mut validator).expect("it is well-formed");
    let before = resident_kib();
    let items = head.get(open..).expect("it is a boundary");
    for _ in 0..megabytes * 1_000_000 / items.len() {
        parser.feed(items.as_bytes(), &mut validator).expect("it is well-formed");
    }
    parser.feed(tail.as_bytes(), &mut validator).expect("it is well-formed");
    parser.finish(&mut validator).expect("it is complete");
    assert!(validator.is_valid(), "{:?}", validator.invalid());
    println!("{}", resident_kib().saturating_sub(before));
}

/// Linux counts what a process has run, in nanoseconds.
fn cpu_nanoseconds() -> u64 {
    let text = fs::read_to_string("/proc/self/schedstat").expect("Linux has it");
    text.split(' ').next().and_then(|word| word.parse().ok()).expect("it is a number")
}

fn resident_kib() -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = text.lines().find(|line| line.starts_with("VmRSS")).expect("it is there");
    line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("it is a number")
}
