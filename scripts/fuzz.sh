#!/usr/bin/env bash
# Runs each fuzz target for SECONDS_EACH seconds (30), beginning with the committed seeds. What it finds is kept in
# fuzz/corpus, and what it breaks in fuzz/artifacts; both stay out of the repository.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cargo +nightly --version >/dev/null 2>&1 || fail "fuzzing needs a nightly compiler: rustup toolchain install nightly"
cargo fuzz --version >/dev/null 2>&1 || step "installing cargo-fuzz" cargo install --locked cargo-fuzz
for name in fuzz/fuzz_targets/*.rs; do
  name=$(basename "$name" .rs)
  mkdir -p "fuzz/corpus/$name"
  say "$name"
  cargo +nightly fuzz run "$name" "fuzz/corpus/$name" "fuzz/seeds/$name" -- \
    -max_total_time="${SECONDS_EACH:-30}" -print_final_stats=1
done
