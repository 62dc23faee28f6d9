#!/bin/sh
# Installs the peers, builds as shipped (PROFILE=none: without a profile) and measures live streams. Arguments go to bench-streams:
# --only sse --peers tidegate,nginx --rounds N, --help.
set -eu
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
here=$(cd "$(dirname "$0")" && pwd)
"$here/setup.sh"
cd "$here/.."
scripts/dist.sh bench
# 5,000 streams are 10,000 descriptors in each gateway, and as many for each here.
ulimit -n "$(ulimit -H -n)"
exec "${CARGO_TARGET_DIR:-target}/dist/bench-streams" "$@"
