//! Benchmarks of validation beside parsing. `cargo bench -p xsd`

#![allow(clippy::expect_used, reason = "it is for measurements: what does not work ends it")]

mod calculator;

use std::hint::black_box;

use xsd::{Bounds, Root, Validator};

fn main() {
    divan::main();
}

const SIZES: [usize; 3] = [345, 10_000, 100_000];

/// Parse and validate, straight from the tokenizer.
#[divan::bench(args = SIZES)]
fn validate(bencher: divan::Bencher<'_, '_>, bytes: usize) {
    let document = calculator::document(bytes);
    let options = xml::Options::default();
    let mut validator = Validator::new(calculator::schema(), Root::Declared, Bounds::default());
    bencher.counter(divan::counter::BytesCount::of_str(&document)).bench_local(|| {
        validator.validate(black_box(document.as_bytes()), &options).expect("it is well-formed");
        assert!(validator.is_valid());
    });
}

/// Compiles the schemas themselves.
#[divan::bench]
fn compile() -> std::sync::Arc<xsd::Schema> {
    calculator::schema()
}

/// Validation with the schemas compiled for each message, which document 001 compares with `validate`.
#[divan::bench(args = [SIZES[0]])]
fn compile_for_each_message(bencher: divan::Bencher<'_, '_>, bytes: usize) {
    let document = calculator::document(bytes);
    let options = xml::Options::default();
    bencher.bench_local(|| {
        let mut validator = Validator::new(calculator::schema(), Root::Declared, Bounds::default());
        validator.validate(black_box(document.as_bytes()), &options).expect("it is well-formed");
        assert!(validator.is_valid());
    });
}
