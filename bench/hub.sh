#!/bin/sh
# Builds as shipped (PROFILE=none: without a profile; TIDEGATE names another program) and measures what a hub costs: deliveries,
# publishing, replay, a start with many subscriptions. The gateway is on the first core, all else on the last. Arguments go to
# bench-hub: --only CASE, --subscribers N, --folder DISK, --strict, --help.
set -eu
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
if [ -z "${TIDEGATE:-}" ]; then
  scripts/dist.sh bench
  TIDEGATE=$target/dist/tidegate
fi
# A connection for each subscriber under way, in the gateway and here.
ulimit -n "$(ulimit -H -n)"
exec taskset -c "$(($(nproc) - 1))" "$(dirname "$TIDEGATE")/bench-hub" --tidegate "$TIDEGATE" --folder "$target" "$@"
