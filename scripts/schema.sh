#!/usr/bin/env bash
# The JSON Schema of the configuration, for editors: `write` makes the file anew, `check` fails where it is stale.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

file=docs/tidegate.schema.json
made=$(cargo run --quiet --package tidegate -- check --schema)
case ${1:-} in
  write) printf '%s\n' "$made" >"$file" ;;
  check) diff -u "$file" - <<<"$made" >&2 || fail "$file is stale: run \`make schema\`" ;;
  *)
    printf 'usage: scripts/schema.sh write|check\n' >&2
    exit 2
    ;;
esac
