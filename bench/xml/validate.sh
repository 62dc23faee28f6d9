#!/usr/bin/env bash
# Parse and validate: libxml2's streaming reader and our engine in turn, CPU microseconds a document, the least of ROUNDS rounds
# each, since machines are shared; then how much the resident memory grows while 100 MB stream through our validator.
# Needs a C compiler and libxml2's headers. usage: [ROUNDS=8] bench/xml/validate.sh
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2046
cc -O2 -o "$work/libxml2" "$here/validate.c" $(xml2-config --cflags --libs)
cargo build --quiet --release --manifest-path "$here/../../Cargo.toml" -p xsd --example validate
ours=${CARGO_TARGET_DIR:-$here/../../target}/release/examples/validate

# The lesser of two numbers, where there are two.
least() { printf '%s\n' "$@" | grep . | sort -g | head -1; }

"$ours" generate "$work"
printf '%-10s %12s %12s %8s\n' bytes 'libxml2 µs' 'ours µs' ratio
for size in 345 10000 100000; do
  documents=$((80000000 / (size + 2000)))
  theirs='' mine=''
  for _ in $(seq "${ROUNDS:-8}"); do
    theirs=$(least "$theirs" "$("$work/libxml2" "$work/envelope.xsd" "$work/$size.xml" "$documents")")
    mine=$(least "$mine" "$("$ours" time "$work/$size.xml" "$documents")")
  done
  printf '%-10s %12s %12s %8s\n' "$size" "$theirs" "$mine" "$(awk "BEGIN { printf \"%.1f\", $theirs / $mine }")"
done
printf '100 MB streamed: resident memory grows by %s KiB\n' "$("$ours" stream 100)"
