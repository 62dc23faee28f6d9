#!/usr/bin/env bash
# What a commit must pass: format, rules, lints, unit tests, the contract suite of policies, and the golden files of complaints, keys and
# plans. It needs Rust and the linker that Rust needs, and no other program. `make test` has the rest, and runs before a merge.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

began=$SECONDS
step "format" cargo fmt --all --check
step "tidy" cargo xtask tidy
step "lints" cargo clippy --workspace --all-targets --locked -- --deny warnings
# The tests that are left out start a server of PostgreSQL.
step "unit tests" cargo test --quiet --workspace --locked --lib --bins -- --skip postgres::schema::tests
# The contract suites of the stores start servers of PostgreSQL and Kafka.
step "contract suite" cargo test --quiet --workspace --exclude kafka --exclude store --locked --test contract
step "complaints, keys and plans" cargo test --quiet --workspace --locked --test complaints --test keys --test plans
say "passed in $((SECONDS - began)) s"
