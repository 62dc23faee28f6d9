#!/usr/bin/env bash
# What the program says of itself, as files: the JSON Schema of the configuration for editors, the guide's page of every key and its
# tables of faults, metrics and parts of artifacts. `write` makes them anew, `check` fails where one is stale.
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

tidegate check --schema >"$made/tidegate.schema.json"
tidegate manual keys >"$made/reference.md"

# Puts the table of faults or metrics into its page, where it stands between two comments.
table() {
  tidegate manual "$1" >"$made/$1"
  awk -v table="$made/$1" -v name="$1" '
    $0 == "<!-- end of " name " -->" { inside = 0 }
    !inside { print }
    index($0, "<!-- " name ": ") == 1 { inside = 1; while ((getline line < table) > 0) print line }
  ' "$2" >"$made/${2##*/}"
}
errors=docs/guide/errors.md observe=docs/guide/observe.md synapse=docs/guide/synapse.md
table faults "$errors"
table metrics "$observe"
table synapse "$synapse"

for file in docs/tidegate.schema.json docs/guide/reference.md "$errors" "$observe" "$synapse"; do
  new=$made/${file##*/}
  case $1 in
    write) cp "$new" "$file" ;;
    check) diff -u "$file" "$new" >&2 || fail "$file is stale: run \`make schema\`" ;;
  esac
done
