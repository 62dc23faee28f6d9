#!/usr/bin/env bash
# HTTP/2 conformance: h2spec, strict, on the program as it was built last for tests, without TLS and with it. Everything has to pass.
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

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
  -keyout "$folder/key.pem" -out "$folder/certificate.pem" 2>/dev/null
# The reply needs the whole request: an earlier one, which RFC 9113, 8.1 allows, would hide errors in the request's end.
cat >"$folder/tidegate.yaml" <<'YAML'
listen:
  http2: { address: "127.0.0.1:0" }
  secure: { address: "127.0.0.1:0", tls: { certificate: certificate.pem, key: key.pem } }
routes:
  all: { match: { path: "/**" }, flow: hello }
flows:
  hello: [{ respond: { text: "hello {{ $body }}" } }]
YAML
cargo build --quiet --locked --package tidegate
"$target/debug/tidegate" run "$folder/tidegate.yaml" >"$folder/log" 2>&1 &
gateway=$!
# The port of a listener; empty until it listens.
port() { sed -n "s/.*listening listener=\"$1\" address=127\.0\.0\.1:\([0-9]*\).*/\1/p" "$folder/log"; }
for _ in $(seq 200); do
  [ -n "$(port http2)" ] && [ -n "$(port secure)" ] && break
  sleep 0.05
done
[ -n "$(port secure)" ] || { cat "$folder/log" >&2 && fail "the gateway did not start"; }

examine() {
  if "$h2spec" --strict --host 127.0.0.1 --timeout 2 "$@" >"$folder/report" 2>&1; then
    tail -1 "$folder/report"
  else
    sed -n '/^Failures/,$p' "$folder/report" >&2
    fail "h2spec: something above failed, or it did not run"
  fi
}
examine --port "$(port http2)"
examine --port "$(port secure)" --tls --insecure
