#!/usr/bin/env bash
# Parse, transform (rename an element) and serialise: libxslt and our engine in one run, CPU microseconds a document.
# Needs a C compiler and libxslt's headers. usage: bench/xml/transform.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2046
cc -O2 -o "$work/libxslt" "$here/transform.c" $(xslt-config --cflags --libs) $(xml2-config --cflags --libs)
cargo build --quiet --release --manifest-path "$here/../../Cargo.toml" -p xslt --example transform
ours=${CARGO_TARGET_DIR:-$here/../../target}/release/examples/transform

"$ours" generate "$work"
printf '%-10s %12s %12s %8s\n' bytes 'libxslt µs' 'ours µs' ratio
for size in 345 10000 100000; do
  rounds=$((20000000 / (size + 2000)))
  theirs=$("$work/libxslt" "$here/transform.xsl" "$work/$size.xml" "$rounds" | cut -d' ' -f1)
  mine=$("$ours" "$here/transform.xsl" "$work/$size.xml" "$rounds")
  printf '%-10s %12s %12s %8s\n' "$size" "$theirs" "$mine" "$(awk "BEGIN { printf \"%.1f\", $theirs / $mine }")"
done
