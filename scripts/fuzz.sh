#!/usr/bin/env bash
# Runs each fuzz target, or those that are named, for SECONDS_EACH seconds (30), beginning with the committed seeds. What it finds is
# kept in fuzz/corpus, and what it breaks in fuzz/artifacts; both stay out of the repository.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

for name in "$@"; do [ -e "fuzz/fuzz_targets/$name.rs" ] || fail "fuzz.sh: there is no fuzz target $name"; done
cargo fuzz --version >/dev/null 2>&1 || step "installing cargo-fuzz" cargo install --locked cargo-fuzz
# Coverage is a flag of nightly compilers. A stable one takes it too when it is told to, but has no AddressSanitizer with it.
sanitizer=address
if cargo +nightly --version >/dev/null 2>&1; then
  export RUSTUP_TOOLCHAIN=nightly
else
  say "there is no nightly compiler: without AddressSanitizer"
  export RUSTC_BOOTSTRAP=1 sanitizer=none
fi
names=("$@")
[ $# -gt 0 ] || for name in fuzz/fuzz_targets/*.rs; do names+=("$(basename "$name" .rs)"); done
broken=()
for at in "${!names[@]}"; do
  name=${names[$at]}
  mkdir -p "fuzz/corpus/$name"
  say "$name, $((at + 1)) of ${#names[@]}, ${SECONDS_EACH:-30} s"
  cargo fuzz run --sanitizer "$sanitizer" "$name" "fuzz/corpus/$name" "fuzz/seeds/$name" -- \
    -max_total_time="${SECONDS_EACH:-30}" -print_final_stats=1 || broken+=("$name")
done
[ "${#broken[@]}" = 0 ] || fail "broken: ${broken[*]}; what breaks them is in fuzz/artifacts"
