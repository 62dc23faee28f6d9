#!/usr/bin/env bash
# Parse, transform (rename an element) and serialise: libxslt and our engine in turn, CPU microseconds a document, the least of
# ROUNDS rounds each, since machines are shared. Needs a C compiler and libxslt's headers. usage: [ROUNDS=8] bench/xml/transform.sh
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2046
cc -O2 -o "$work/libxslt" "$here/transform.c" $(xslt-config --cflags --libs) $(xml2-config --cflags --libs)
cargo build --quiet --release --manifest-path "$here/../../Cargo.toml" -p xslt --example transform
ours=${CARGO_TARGET_DIR:-$here/../../target}/release/examples/transform

# The lesser of two numbers, where there are two.
least() { printf '%s\n' "$@" | grep . | sort -g | head -1; }

"$ours" generate "$work"
printf '%-10s %12s %12s %8s\n' bytes 'libxslt µs' 'ours µs' ratio
for size in 345 10000 100000; do
  documents=$((6000000 / (size + 2000)))
  theirs='' mine=''
  for _ in $(seq "${ROUNDS:-8}"); do
    theirs=$(least "$theirs" "$("$work/libxslt" "$here/transform.xsl" "$work/$size.xml" "$documents" | cut -d' ' -f1)")
    mine=$(least "$mine" "$("$ours" "$here/transform.xsl" "$work/$size.xml" "$documents")")
  done
  printf '%-10s %12s %12s %8s\n' "$size" "$theirs" "$mine" "$(awk "BEGIN { printf \"%.1f\", $theirs / $mine }")"
done
