#!/bin/sh
# Builds as shipped (PROFILE=none: without a profile) and measures the memory of silent connections. Arguments go to bench-memory:
# --connections N, --only CASE, --strict, --tidegate FILE, --help.
set -eu
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.."
scripts/dist.sh bench
# 5,000 streams are 10,000 descriptors in the gateway and as many here.
ulimit -n "$(ulimit -H -n)"
exec "${CARGO_TARGET_DIR:-target}/dist/bench-memory" "$@"
