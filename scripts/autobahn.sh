#!/usr/bin/env bash
# WebSocket conformance: Autobahn's fuzzing client against the gateway, and its fuzzing server behind the gateway, in three modes: without
# a policy, with limits, and with a schema. Every case has to be OK, non-strict or informational. `--all` adds compression (bare only).
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

autobahn=$target/tools/autobahn
all=
[ "${1:-}" != --all ] || all=1

# It runs on Python 2.7 alone, for which no later virtualenv makes a folder.
install() {
  local python='' candidate
  # A name on the PATH may be a stand-in of a manager of versions, which does not run.
  for candidate in "${PYTHON27:-python2.7}" "$HOME"/.pyenv/versions/2.7.*/bin/python; do
    if "$candidate" --version >/dev/null 2>&1; then python=$(command -v "$candidate") && break; fi
  done
  [ -n "$python" ] || fail "Python 2.7 is not installed; PYTHON27=FILE says where it is"
  say "installing Autobahn's test suite"
  rm -rf "$autobahn"
  python3 -m venv "$autobahn/maker"
  "$autobahn/maker/bin/pip" install --quiet virtualenv==20.15.1
  "$autobahn/maker/bin/virtualenv" --quiet --python "$python" "$autobahn/python"
  "$autobahn/python/bin/pip" install --quiet autobahntestsuite==25.10.1 2>/dev/null
}
[ -x "$autobahn/python/bin/wstest" ] || install
wstest=$autobahn/python/bin/wstest

folder=$(mktemp -d)
started=()
finish() {
  [ ${#started[@]} -eq 0 ] || kill "${started[@]}" 2>/dev/null || true
  wait
  rm -rf "$folder"
}
trap finish EXIT

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
answers() {
  for _ in $(seq 200); do
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
    sleep 0.05
  done
  fail "nothing listens on port $1"
}

echo true >"$folder/schema.json"
declare -A policies=(
  [bare]='[]'
  [limits]='[{ websocket: { messages: 1000000000, bytes: 100GiB, per: 1h, message_bytes_max: 64MiB, idle: 5m, connections: 100 } }]'
  [schema]='[{ websocket: { schema: schema.json, message_bytes_max: 64MiB } }]'
)
# Compression passes where nobody looks inside, and is declined elsewhere. A megabyte in fragments of 64 bytes takes minutes in Python.
excluded() {
  if [ -n "$all" ] && [ "$1" = bare ]; then echo '"X"'; else echo '"12.*", "13.*"'; fi
}

echo_port=$(free_port)
fuzzing_port=$(free_port)
# A listener for each, since the suite's client knows no paths.
{
  echo "listen:"
  for mode in bare limits schema; do
    for upstream in echo fuzzing; do echo "  $mode-$upstream: { address: \"127.0.0.1:0\" }"; done
  done
  echo "upstreams:"
  echo "  echo: { targets: [\"http://127.0.0.1:$echo_port\"] }"
  echo "  fuzzing: { targets: [\"http://127.0.0.1:$fuzzing_port\"] }"
  echo "routes:"
  for mode in bare limits schema; do
    for upstream in echo fuzzing; do
      echo "  $mode-$upstream:"
      echo "    match: { path: \"/**\", listener: $mode-$upstream }"
      echo "    host: target"
      echo "    policies: ${policies[$mode]}"
      echo "    upstream: $upstream"
    done
  done
} >"$folder/tidegate.yaml"
cargo build --quiet --locked --package tidegate
(cd "$folder" && exec "$target/debug/tidegate" run tidegate.yaml) >"$folder/log" 2>&1 &
started+=($!)
"$wstest" -m testeeserver -w "ws://127.0.0.1:$echo_port" --webport 0 >"$folder/echo" 2>&1 &
started+=($!)
answers "$echo_port"
# The port of a listener.
port() {
  local port
  for _ in $(seq 200); do
    port=$(sed -n "s/.*listening listener=\"$1\" address=127\.0\.0\.1:\([0-9]*\).*/\1/p" "$folder/log")
    [ -z "$port" ] || { printf '%s\n' "$port" && return; }
    sleep 0.05
  done
  cat "$folder/log" >&2 && fail "the gateway did not start"
}

# Reads a report: how many cases there are, and those that are not as they should be. With a schema a message that is not JSON is closed
# with 1007, and a binary one with 1003, which the suite does not know of.
judge() {
  python3 - "$1" "$2" <<'PY'
import collections, json, sys
mode, path = sys.argv[1:]
[cases] = json.load(open(path)).values()
good = {"OK", "NON-STRICT", "INFORMATIONAL", "UNIMPLEMENTED"}
counts, wrong = collections.Counter(), []
for name, case in sorted(cases.items()):
    refused = mode == "schema" and case["remoteCloseCode"] in (1003, 1007)
    fine = case["behavior"] in good and case["behaviorClose"] in good
    counts["refused by the schema" if refused and not fine else case["behavior"]] += 1
    if not (fine or refused):
        wrong.append(f"{name}: {case['behavior']}, close {case['behaviorClose']} {case['remoteCloseCode']}")
print(f"{len(cases)} cases:", ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
if wrong:
    sys.exit("\n".join(wrong[:30] + [f"and {len(wrong) - 30} more"] * (len(wrong) > 30)))
if len(cases) < 200:
    sys.exit("too few cases ran")
PY
}

status=0
for mode in bare limits schema; do
  say "the fuzzing client, $mode"
  cat >"$folder/client.json" <<JSON
{ "outdir": "$folder/client-$mode", "servers": [{ "agent": "gateway", "url": "ws://127.0.0.1:$(port $mode-echo)/" }],
  "cases": ["*"], "exclude-cases": [$(excluded $mode)], "exclude-agent-cases": {} }
JSON
  "$wstest" -m fuzzingclient -s "$folder/client.json" >"$folder/client" 2>&1 || { tail -5 "$folder/client" >&2 && fail "it did not run"; }
  judge "$mode" "$folder/client-$mode/index.json" || status=1
done
for mode in bare limits; do
  say "the fuzzing server, $mode"
  cat >"$folder/server.json" <<JSON
{ "outdir": "$folder/server-$mode", "url": "ws://127.0.0.1:$fuzzing_port",
  "cases": ["*"], "exclude-cases": [$(excluded $mode)], "exclude-agent-cases": {} }
JSON
  "$wstest" -m fuzzingserver -s "$folder/server.json" --webport 0 >"$folder/server" 2>&1 &
  server=$!
  started+=("$server")
  answers "$fuzzing_port"
  "$wstest" -m testeeclient -w "ws://127.0.0.1:$(port $mode-fuzzing)" >"$folder/testee" 2>&1 || { tail -5 "$folder/testee" >&2 && fail "it did not run"; }
  judge "$mode" "$folder/server-$mode/index.json" || status=1
  kill "$server"
  wait "$server" 2>/dev/null || true
done
[ $status -eq 0 ] || fail "cases above failed"
