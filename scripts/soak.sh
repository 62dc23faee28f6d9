#!/usr/bin/env bash
# What takes hours: RELOADS (1,000) reloads of ROUTES (2,000) routes with streams opened at each, none of which may be dropped or keep
# what it does not need; then each fuzz target for SECONDS_EACH seconds (600). The names of fuzz targets run those alone, and `reloads`
# only the reloads.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

reloads() {
  # A stream is two connections, and so two descriptors of each process for each connection.
  ulimit -n "$(ulimit -H -n)"
  TIDEGATE_SOAK_RELOADS=${RELOADS:-1000} TIDEGATE_SOAK_ROUTES=${ROUTES:-2000} \
    cargo test --profile "${PROFILE:-release}" --locked --package tidegate --test blackbox reload_soak:: -- --nocapture
}

if [ $# = 0 ] || [ "$*" = reloads ]; then step "reloads under open streams" reloads; fi
[ "$*" != reloads ] || exit 0
SECONDS_EACH=${SECONDS_EACH:-600} scripts/fuzz.sh "$@"
