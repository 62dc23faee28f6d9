#!/bin/sh
# HTTP/2 conformance: h2spec on Tidegate and on nginx, and what only Tidegate fails (exit code 1 then).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
"$here/setup.sh" --h2spec
cd "$here/.."
cargo build --profile "${PROFILE:-dist}" -p tidegate -p bench --bins
exec "${CARGO_TARGET_DIR:-target}/${PROFILE:-dist}/bench-peers" --h2spec --peers tidegate,nginx "$@"
