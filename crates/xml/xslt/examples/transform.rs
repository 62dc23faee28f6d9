//! Parses, transforms and serialises one document many times, for `bench/xml/transform.sh` and for counting
//! instructions. Prints microseconds of CPU a round.
//!
//! usage: `transform generate FOLDER` or `transform STYLESHEET SOURCE ROUNDS`

#![allow(clippy::print_stdout, reason = "a program for the command line")]

use std::error::Error;
use std::fs;
use std::path::Path;

#[path = "../benches/sources.rs"]
mod sources;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["generate", folder] => {
            for (name, text) in sources::all() {
                fs::write(Path::new(folder).join(format!("{name}.xml")), text)?;
            }
            Ok(())
        }
        [stylesheet, source, rounds] => measure(stylesheet, source, rounds.parse()?),
        _ => Err("usage: transform generate FOLDER | transform STYLESHEET SOURCE ROUNDS".into()),
    }
}

fn measure(stylesheet: &str, source: &str, rounds: u32) -> Result<(), Box<dyn Error>> {
    let stylesheet = xslt::Stylesheet::compile(&fs::read(stylesheet)?, "", &xslt::NoDocuments)?;
    let source = fs::read(source)?;
    let options = xml::Options::default();
    let before = cpu_ticks()?;
    let mut written = 0;
    for _ in 0..rounds {
        written +=
            stylesheet.transform_bytes(&source, &options, &xslt::Run::default())?.bytes.len();
    }
    let spent = cpu_ticks()? - before;
    if written == 0 {
        return Err("nothing was written".into());
    }
    println!("{:.2}", spent / 1000.0 / f64::from(rounds));
    Ok(())
}

/// Nanoseconds of CPU this thread has used.
fn cpu_ticks() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/schedstat")?;
    Ok(stat.split_whitespace().next().ok_or("an empty schedstat")?.parse()?)
}
