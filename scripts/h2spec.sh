#!/usr/bin/env bash
# HTTP/2 conformance: h2spec, strict, on the program as it was built last for tests. Everything has to pass.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

h2spec=$target/tools/bin/h2spec
[ -x "$h2spec" ] || fail "h2spec is not installed; scripts/setup.sh tests installs it"
folder=$(mktemp -d)
gateway=
finish() {
  [ -z "$gateway" ] || kill "$gateway" 2>/dev/null || true
  wait
  rm -rf "$folder"
}
trap finish EXIT

# The reply needs the whole request: an earlier one, which RFC 9113, 8.1 allows, would hide errors in the request's end.
cat >"$folder/tidegate.yaml" <<'YAML'
listen: { http2: { address: "127.0.0.1:0" } }
routes:
  all: { match: { path: "/**" }, flow: hello }
flows:
  hello: [{ respond: { text: "hello {{ $body }}" } }]
YAML
cargo build --quiet --locked --package tidegate
"$target/debug/tidegate" run "$folder/tidegate.yaml" >"$folder/log" 2>&1 &
gateway=$!
for _ in $(seq 200); do
  port=$(sed -n 's/.*listening listener="http2" address=127\.0\.0\.1:\([0-9]*\).*/\1/p' "$folder/log")
  [ -n "$port" ] && break
  sleep 0.05
done
[ -n "$port" ] || { cat "$folder/log" >&2 && fail "the gateway did not start"; }

if "$h2spec" --strict --host 127.0.0.1 --port "$port" --timeout 2 >"$folder/report" 2>&1; then
  tail -1 "$folder/report"
else
  sed -n '/^Failures/,$p' "$folder/report" >&2
  fail "h2spec: something above failed, or it did not run"
fi
