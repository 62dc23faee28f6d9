#!/usr/bin/env bash
# Instructions a document: to parse it, to parse and validate it, to parse, transform and serialise it. Unlike times they hardly
# move from run to run, so that a change shows which other work on the machine would hide. usage: bench/xml/instructions.sh
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

manifest=$here/../../Cargo.toml
cargo build --quiet --release --manifest-path "$manifest" -p xsd --example validate
cargo build --quiet --release --manifest-path "$manifest" -p xslt --example transform
examples=${CARGO_TARGET_DIR:-$here/../../target}/release/examples
"$examples/validate" generate "$work"

collected() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 > /dev/null | sed -n 's/.*Collected : //p'
}
# What a program runs for one more document: its last argument is how many.
each() {
  local few many
  few=$(collected "$@" 20)
  many=$(collected "$@" 120)
  echo $(((many - few) / 100))
}

printf '%-10s %12s %12s %12s\n' bytes parse validate transform
for size in 345 10000 100000; do
  file=$work/$size.xml
  printf '%-10s %12s %12s %12s\n' "$size" "$(each "$examples/validate" parse "$file")" "$(each "$examples/validate" time "$file")" \
    "$(each "$examples/transform" "$here/transform.xsl" "$file")"
done
