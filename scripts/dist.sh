#!/usr/bin/env bash
# Builds Tidegate as it is shipped and measured, by a profile of what it does under load: a program that counts is put
# through the load tests for seconds each, then the program is built again with what runs often in one place and the rest out of
# its way. The profile is made once and kept in target/training; `dist.sh --train` makes it anew, as after large changes. Arguments
# name packages to build beside it; with PROFILE=none it is built without.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# What is measured keeps its symbols; what is shipped goes to target/dist/shipped without them, and they stand beside it.
ship() { scripts/symbols.sh "$target/dist/tidegate" "$target/dist/shipped"; }

train=''
[ "${1:-}" != --train ] || { train=yes && shift; }
for package in "$@"; do [[ $package != -* ]] || fail "dist.sh: no option $package"; done
mkdir -p "$target/training"
training=$(cd "$target/training" && pwd)
profile=$training/tidegate.profdata
# A compiler reads the profiles of its own version.
compiler=$(rustc --version --verbose)
host=$(sed -n 's/^host: //p' <<< "$compiler")

# Each package by itself: features that another one asks for would give the program's functions other names than in the profile.
build() {
  local package
  for package in tidegate "$@"; do cargo build --profile dist --locked -p "$package" --bins; done
}

# Built as the program that is shipped, for the profile names functions as the compiler does: with --target it would give them others.
count() {
  RUSTFLAGS="-Cprofile-generate=$training/counts" cargo build --profile dist --locked -p tidegate --target-dir "$training"
}

# The load tests themselves: what is measured is what is learned. A program that counts misses their targets, which says nothing; a row
# that did not run to its end is a failure. A program that counts is slow, so with more users a busy machine may answer none of them in
# the seconds of a row.
run_rows() {
  local name=$1
  shift
  "$target/release/tidegate-bench" run "$@" -p 0 --tidegate "$training/dist/tidegate" --out "$training/rows/$name"
}
load() {
  rm -rf "$training/counts" "$training/rows"
  ulimit -n "$(ulimit -H -n)"
  TIDEGATE_SAXON=${TIDEGATE_SAXON:-$(realpath "$target/saxon")}
  export TIDEGATE_SAXON
  run_rows costs costs-proxy costs-policies costs-flows costs-soap costs-operations -e '^(idle|routes-5000|scraped-5000)' -d 3 -w 1 &&
    run_rows streams costs-streams -e '^idle' -u 500 -d 4 -w 2 &&
    run_rows hub costs-hub -u 1000 -d 8 -w 2 &&
    run_rows documents 000 001 -e endurance -u 20 -d 3 -w 1 &&
    run_rows matrix 002 -u 20 -d 3 -w 1 &&
    run_rows live 003 -e ramp -u 500 -b 500 -d 5 -w 2 &&
    run_rows flows 004 -u 20 -b 1000 -d 3 -w 1
}

# Each row sent requests, and the program wrote what it counted.
look_at_rows() {
  local row idle
  for row in costs/h2-10 costs/openapi-350 costs/traced-1 costs/soap-typed costs/soap-8 costs/flow-xslt streams/calls-grpc hub/hub-deliver flows/XSLTProxy; do
    [ -n "$(find "$training/rows/$row" -name row.json)" ] || fail "$row was not run: $training/load.log"
  done
  idle=$(find "$training/rows" -name row.json -exec grep -L '"requests": [1-9]' {} +)
  [ -z "$idle" ] || fail "without a request: $idle"
  [ -n "$(find "$training/counts" -name '*.profraw')" ] || fail "the program that counts has written nothing"
}

make_profile() {
  local merge
  scripts/setup.sh dist
  step "preparing Saxon" scripts/saxon.sh
  merge=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
  [ -x "$merge" ] || merge=llvm-profdata-19
  step "building a program that counts" count
  step "building the load tests" cargo build --release --locked -p bench --bins
  say "putting it through the load tests, which takes twelve minutes"
  load > "$training/load.log" 2>&1 || fail "the load tests did not run: $training/load.log"
  look_at_rows
  "$merge" merge --output "$profile" "$training/counts"
  echo "$compiler" > "$training/compiler"
}

if [ "${PROFILE:-}" = none ]; then
  step "building without a profile" build "$@"
  ship
  exit
fi
if [ -n "$train" ] || [ ! -e "$profile" ] || [ "$(cat "$training/compiler")" != "$compiler" ]; then
  make_profile
fi
# What makes up 99.9 % of all counts is built to be fast. The compiler's own 99 % are those of loops over the bytes of large XML
# messages, which leave out most of what runs once a request. What changed since the profile was made is built as without one; that
# needs no warning.
flags="-Cprofile-use=$profile -Cllvm-args=-no-pgo-warn-mismatch -Cllvm-args=-profile-summary-cutoff-hot=999000"
RUSTFLAGS=$flags step "building by the profile" build "$@"
# Functions that go by other names than in the profile are built as without one too, and nothing would say so.
main=$(grep -aom1 '_ZN8tidegate4main17h[0-9a-f]*E' "$training/dist/tidegate" | head -1)
grep -aq "${main:?the program that counts has no main}" "$target/dist/tidegate" \
  || fail "the profile is of functions by other names: scripts/dist.sh --train"
ship
