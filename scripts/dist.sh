#!/usr/bin/env bash
# Builds Tidegate as it is shipped and measured, by a profile of what it does under load: a program that counts is put
# through the benches for a second each, then the program is built again with what runs often in one place and the rest out of
# its way. The profile is made once and kept in target/training; `dist.sh --train` makes it anew, as after large changes. Arguments
# name packages to build beside it; with PROFILE=none it is built without.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

train=''
[ "${1:-}" != --train ] || { train=yes && shift; }
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

# The benches themselves: what is measured is what is learned. A program that counts misses their targets, which says nothing.
load() {
  local counting=$training/dist
  cp "$target/release/bench-echo" "$counting/"
  rm -rf "$training/counts"
  "$target/release/bench-peers" --peers tidegate --rounds 1 --seconds 1 --only h1-1k,h1-100k,tls,h2 --tidegate "$counting/tidegate"
  TIDEGATE=$counting/tidegate ENVOY=none ROUNDS=1 SECONDS_EACH=1 bench/policies.sh || true
  TIDEGATE=$counting/tidegate ROUNDS=1 SECONDS_EACH=1 bench/soap.sh --only rates || true
  TIDEGATE=$counting/tidegate ROUNDS=1 SECONDS_EACH=1 bench/soap.sh --only varied || true
  TIDEGATE=$counting/tidegate PEER=none ROUNDS=1 SECONDS_EACH=1 bench/flows.sh || true
  ulimit -n "$(ulimit -H -n)"
  "$target/release/bench-streams" --peers tidegate --rounds 1 --seconds 1 --only sse,websocket,grpc,http2,shared --tidegate "$counting/tidegate" || true
  "$target/release/bench-hub" --only deliver,publish,replay --events 3 --seconds 2 --tidegate "$counting/tidegate" --folder "$training" || true
}

make_profile() {
  local merge row
  scripts/setup.sh dist
  step "installing what the benches use" bench/setup.sh
  merge=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
  [ -x "$merge" ] || merge=llvm-profdata-19
  step "building a program that counts" count
  step "building the benches" cargo build --release --locked -p bench --bins
  say "putting it through the benches, which takes five minutes"
  load > "$training/load.log" 2>&1 || fail "the benches did not run: $training/load.log"
  for row in h2-10 openapi-350 typed; do
    grep -q "^\(## \)\?$row\b" "$training/load.log" || fail "$row was not run: $training/load.log"
  done
  "$merge" merge --output "$profile" "$training/counts"
  echo "$compiler" > "$training/compiler"
}

if [ "${PROFILE:-}" = none ]; then
  step "building without a profile" build "$@"
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
