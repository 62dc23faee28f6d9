#!/usr/bin/env bash
# Checks that other load tools measure what our generator measures. Our generator, k6 and JMeter send the loads of SCENARIOS ("plain
# XSLTProxy") to one gateway in turn, ROUNDS (3) times; users pause between requests, so that none of the tools is the limit. The medians
# of throughput must agree within 5 %, and those of the mean time within 5 % or a millisecond, which is JMeter's unit.
#
#   agree.sh           that
#   agree.sh --cost    instead, the CPU time that a plain HTTP/1 request costs our generator, beside wrk's: both post 1 KiB over
#                      CONNECTIONS (50) to one echo server, ROUNDS (5) times in turn, SECONDS_EACH (5) at a time. Ours varies its messages
#                      and checks each reply; wrk repeats one message and reads the status alone. At most 1.2 times is good.
#
# TIDEGATE names a built program, with tidegate-bench beside it.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cost=''
case "${1:-}" in
  --cost) cost=1 ;;
  '') ;;
  *) fail "agree.sh: no option $1" ;;
esac
if [ -z "${TIDEGATE:-}" ]; then
  cargo build --release --locked --package tidegate --package bench --bins
  TIDEGATE=$target/release/tidegate
fi
tidegate=$(realpath "$TIDEGATE")
bench=$(dirname "$tidegate")/tidegate-bench
[ "${INSTALL:-yes}" = no ] || bench/peers/install.sh > /dev/null
tools=$(realpath "$target/tools")
folder=$(mktemp -d)
started=()
finish() {
  for pid in "${started[@]}"; do kill "$pid" 2> /dev/null || true; done
  wait 2> /dev/null || true
  rm -rf "$folder"
}
trap finish EXIT

# Waits up to a minute until a log has a line with this text, and prints the address in that line.
address() {
  for _ in $(seq 600); do
    grep -qs "$2" "$folder/$1.log" && break
    sleep 0.1
  done
  grep -m1 "$2" "$folder/$1.log" | grep -o '127.0.0.1:[0-9]*' | head -1 || { cat "$folder/$1.log" >&2; return 1; }
}
"$tidegate" backend echo --port 0 > "$folder/echo.log" 2>&1 &
started+=($!)
ECHO=$(address echo 127.0.0.1)

# The CPU time of a command in microseconds, for each of the requests that the first word reads from its output.
cost_of() {
  local count=$1
  shift
  TIMEFORMAT='%U %S'
  { time "$@" > "$folder/output" 2> /dev/null; } 2> "$folder/time"
  awk -v requests="$($count < "$folder/output")" '{ printf "%.2f\n", ($1 + $2) * 1e6 / requests }' "$folder/time"
}
samples() { grep -o '"samples":[0-9]*' | cut -d: -f2; }
requests() { awk '/requests in/ { print $1 }'; }
middle() { sort -n "$1" | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
if [ -n "$cost" ]; then
  connections=${CONNECTIONS:-50} seconds=${SECONDS_EACH:-5} last=$(($(nproc) - 1))
  "$bench" load write plain --address "$ECHO" --users "$connections" --think 0 --duration "$seconds" --warm-up 0 > "$folder/load.json"
  cat > "$folder/wrk.lua" << 'LUA'
wrk.method = "POST"
wrk.path = "/plain/echo"
wrk.headers["content-type"] = "application/json"
wrk.body = string.rep("x", 1024)
LUA
  for _ in $(seq "${ROUNDS:-5}"); do
    cost_of samples taskset -c "$last" "$bench" load run "$folder/load.json" >> "$folder/ours"
    cost_of requests taskset -c "$last" wrk -t1 -c"$connections" -d"${seconds}s" -s "$folder/wrk.lua" "http://$ECHO" >> "$folder/wrk"
  done
  awk -v ours="$(middle "$folder/ours")" -v wrk="$(middle "$folder/wrk")" \
    'BEGIN { printf "tidegate-bench %.2f us, wrk %.2f us of CPU per request: %.2f times\n", ours, wrk, ours / wrk; exit ours > 1.2 * wrk }'
  exit
fi

"$tidegate" backend interceptor --port 0 > "$folder/interceptor.log" 2>&1 &
started+=($!)
INTERCEPTOR=$(address interceptor 127.0.0.1)
"$tidegate" token --key "$folder/key.pem" --issuer https://bench.test --subject bench --expires 12h > "$folder/token"
"$tidegate" token --key "$folder/key.pem" --jwks > "$folder/jwks.json"

# Starts a gateway with one of the scenarios' configurations, and sets `at` to its address. A subshell would lose its process.
gateway() {
  LISTEN=127.0.0.1:0 ADMIN=127.0.0.1:0 WORKERS=1 ECHO=$ECHO INTERCEPTOR=$INTERCEPTOR JWKS=$folder/jwks.json \
    "$tidegate" run "bench/scenarios/gateways/$1.yaml" > "$folder/$1.log" 2>&1 &
  started+=($!)
  at=$(address "$1" 'listening listener="public"')
}

ours() { "$bench" load run "$1"; }
k6() {
  "$tools/bin/k6" run --quiet -e LOAD="$1" -e OUT="$folder/k6.json" bench/k6/load-file.js > "$folder/k6.log" 2>&1 || cat "$folder/k6.log" >&2
  cat "$folder/k6.json"
}
jmeter() {
  java -cp "$tools/peers/jmeter/classes:$tools/peers/jmeter/lib/*" bench.Plan "$1" 2> "$folder/jmeter.log" | tail -1
}

outcome=0
for scenario in ${SCENARIOS:-plain XSLTProxy}; do
  case $scenario in
    plain | intercepted | mixed) configuration=interceptors ;;
    *) configuration=flows ;;
  esac
  gateway "$configuration"
  "$bench" load write "$scenario" --address "$at" --token "$(cat "$folder/token")" --users "${USERS:-20}" --think "${THINK:-100}" \
    --duration "${SECONDS_EACH:-20}" --warm-up 5 > "$folder/load.json"
  : > "$folder/figures"
  for _ in $(seq "${ROUNDS:-3}"); do
    for tool in ours k6 jmeter; do printf '%s %s\n' "$tool" "$("$tool" "$folder/load.json")" >> "$folder/figures"; done
  done
  say "$scenario"
  python3 - "$folder/figures" << 'PYTHON' || outcome=1
import json, statistics, sys
figures = {}
for line in open(sys.argv[1]):
    tool, text = line.split(' ', 1)
    figures.setdefault(tool, []).append(json.loads(text))
middle = {tool: {key: statistics.median(one[key] for one in all) for key in ('throughput', 'mean_ms')} for tool, all in figures.items()}
good = True
for tool, of in middle.items():
    errors = sum(one['errors'] for one in figures[tool])
    rate = of['throughput'] / middle['ours']['throughput'] - 1
    time = of['mean_ms'] - middle['ours']['mean_ms']
    agrees = errors == 0 and abs(rate) <= 0.05 and (abs(time) <= 1 or abs(time) <= 0.05 * middle['ours']['mean_ms'])
    good &= agrees
    print(f"{tool:7} {of['throughput']:9.1f} requests/s ({rate:+.1%})  mean {of['mean_ms']:7.3f} ms ({time:+.3f} ms)  {errors} errors  {'agrees' if agrees else 'DOES NOT AGREE'}")
sys.exit(not good)
PYTHON
done
exit $outcome
