#!/usr/bin/env bash
# schemathesis against the admin API of a gateway with one of everything: no server error, no answer that the OpenAPI document does not
# describe, no refusal of what it allows, no acceptance of what it forbids. ARGS go to schemathesis.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages="schemathesis==4.32.5"
if [ "$(cat "$target/api/installed" 2>/dev/null)" != "$packages" ]; then
  say "installing schemathesis"
  python3 -m venv --clear "$target/api"
  "$target/api/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "$packages"
  printf '%s\n' "$packages" >"$target/api/installed"
fi
program=${TIDEGATE_PROGRAM:-$target/debug/tidegate}
[ -x "$program" ] || cargo build --package tidegate --bin tidegate

folder=$(mktemp -d)
cleanup() {
  [ -z "${gateway:-}" ] || { kill "$gateway" 2>/dev/null && wait "$gateway" 2>/dev/null; } || true
  rm -rf "$folder"
}
trap cleanup EXIT
cp scripts/api/tidegate.yaml "$folder/"
TIDEGATE_LOG=info "$program" run "$folder/tidegate.yaml" 2>"$folder/log" &
gateway=$!
admin=
for _ in $(seq 100); do
  admin=$(sed -n 's/.*admin API address=\([0-9.:]*\).*/\1/p' "$folder/log" | head -1)
  [ -z "$admin" ] || break
  sleep 0.1
done
[ -n "$admin" ] || { cat "$folder/log" >&2; fail "the gateway did not start"; }
root=$PWD
schemathesis=$(cd "$target/api/bin" && pwd)/schemathesis
# It leaves what it found where it runs.
cd "$folder"
SCHEMATHESIS_HOOKS=$root/scripts/api/hooks.py "$schemathesis" --config-file "$root/scripts/api/schemathesis.toml" run \
  "http://$admin/openapi.json" --url "http://$admin" --header "Authorization: Bearer writer-token" \
  --phases examples,coverage,fuzzing --max-examples "${EXAMPLES:-40}" "$@"
