#!/usr/bin/env bash
# What the program says of itself, as files: the JSON Schema of the configuration for editors, the guide's page of every key and its
# table of faults. `write` makes them anew, `check` fails where one is stale.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in
  write | check) ;;
  *)
    printf 'usage: scripts/schema.sh write|check\n' >&2
    exit 2
    ;;
esac
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

# With the features that the tests use, so that nothing is compiled for this alone.
cargo build --quiet --workspace --bin tidegate
tidegate() { "$target/debug/tidegate" "$@"; }

errors=docs/guide/errors.md
tidegate check --schema >"$made/tidegate.schema.json"
tidegate manual keys >"$made/reference.md"
tidegate manual faults >"$made/faults"
# The table stands between two comments.
awk -v table="$made/faults" '
  /^<!-- end of faults -->$/ { inside = 0 }
  !inside { print }
  /^<!-- faults: / { inside = 1; while ((getline line < table) > 0) print line }
' "$errors" >"$made/errors.md"

for file in docs/tidegate.schema.json docs/guide/reference.md "$errors"; do
  new=$made/${file##*/}
  case $1 in
    write) cp "$new" "$file" ;;
    check) diff -u "$file" "$new" >&2 || fail "$file is stale: run \`make schema\`" ;;
  esac
done
