#!/bin/sh
# Installs the peers, builds as shipped, compares. Arguments go to bench-peers: --quick, --only CASE, --help.
set -eu
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
here=$(cd "$(dirname "$0")" && pwd)
"$here/setup.sh"
cd "$here/.."
scripts/dist.sh bench
# 5,000 idle connections are 10,000 descriptors in a gateway.
ulimit -n "$(ulimit -H -n)"
exec "${CARGO_TARGET_DIR:-target}/dist/bench-peers" "$@"
