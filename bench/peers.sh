#!/bin/sh
# Installs the peers, builds as shipped, compares. Arguments go to bench-peers: --quick, --only CASE, --help.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
"$here/setup.sh"
cd "$here/.."
scripts/dist.sh bench
# 5,000 idle connections are 10,000 descriptors in a gateway.
ulimit -n "$(ulimit -H -n)"
exec "${CARGO_TARGET_DIR:-target}/dist/bench-peers" "$@"
