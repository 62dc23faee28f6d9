#!/bin/sh
# HTTP/2 conformance: h2spec on Tidegate and on nginx, and what only Tidegate fails (exit code 1 then).
set -eu
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
here=$(cd "$(dirname "$0")" && pwd)
"$here/setup.sh" --h2spec
cd "$here/.."
# Nothing is timed: what is built for measuring stays as it is.
cargo build --release -p tidegate -p bench --bins
exec "${CARGO_TARGET_DIR:-target}/release/bench-peers" --h2spec --peers tidegate,nginx "$@"
