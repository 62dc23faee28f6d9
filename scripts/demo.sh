#!/usr/bin/env bash
# Builds the program and runs its demo. Arguments go to `tidegate demo`.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

say "building tidegate (some minutes the first time)"
cargo build --release --package tidegate
exec "$target/release/tidegate" demo "$@"
