#!/usr/bin/env bash
# The endurance run: one gateway with the scenarios 1, 5, 9 and 10, the JWT API, flows, streams and a hub, all at once, and clients
# that make mistakes. k6 sends the load and checks each reply; memory, descriptors, threads and the time of a request are sampled
# every second and judged by their slope an hour; the gateway may not restart, and compiles each definition again at least three times.
#
#   endurance.sh               15 minutes
#   endurance.sh --minutes N
#   endurance.sh --day         24 hours, 100 routes of each scenario, hourly compilation, as document 001
#
# OUT=DIR keeps the samples and logs there; USERS (2) of each kind; TIDEGATE and BENCH name built programs.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# In its first hour a gateway grows by the samples of that hour, and Java by what it compiles. A day shows smaller slopes.
minutes=15 routes=25 ttl=30s strict='' bounds='rss_kib=10% own_kib=20%'
case "${1:-}" in
  --minutes) minutes=${2:?minutes} ;;
  --day) minutes=1440 routes=100 ttl=1h strict=--strict bounds='rss_kib=3% own_kib=3%' ;;
  '') ;;
  *) fail "endurance.sh: no option $1" ;;
esac
# Definitions expire at least three times in a short run too.
[ "$minutes" -gt 2 ] || ttl=10s

if [ -z "${TIDEGATE:-}" ]; then
  cargo build --release --locked --package tidegate --package bench
  TIDEGATE=$target/release/tidegate BENCH=$target/release/tidegate-bench
fi
tidegate=$(realpath "$TIDEGATE") bench=$(realpath "${BENCH:?}")
bench/peers/install.sh > /dev/null
k6=$(realpath "$target/tools/bin/k6")
scripts/saxon.sh
export TIDEGATE_SAXON=${TIDEGATE_SAXON:-$(realpath "$target/saxon")}

out=${OUT:-}
folder=$(mktemp -d)
started=()
finish() {
  for pid in "${started[@]}"; do kill "$pid" 2> /dev/null || true; done
  wait 2> /dev/null || true
  if [ -n "$out" ]; then mkdir -p "$out" && cp "$folder"/*.csv "$folder"/*.log "$out"/ 2> /dev/null || true; fi
  rm -rf "$folder"
}
trap finish EXIT
cp -r examples/soap examples/integration bench/k6 "$folder"
cp bench/endurance/tidegate.sh "$folder"
cd "$folder"

# Waits up to a minute until a log says something, and then prints the address behind it.
address() {
  for _ in $(seq 600); do
    grep -qs "$2" "$1.log" && break
    sleep 0.1
  done
  grep -m1 "$2" "$1.log" | grep -o '127.0.0.1:[0-9]*' | head -1 || { cat "$1.log" >&2; return 1; }
}
backend() {
  X_SOAP_REGION=$1 "$tidegate" backend "$2" --port 0 "${@:3}" > "$1.log" 2>&1 &
  started+=($!)
}
backend soap1 calculator
backend soap2 calculator
backend httpbin httpbin
backend echo echo
backend sse sse
backend reverse reverse
backend webhook webhook --secret subscriber
for name in soap1 soap2 httpbin echo sse reverse webhook; do
  declare "at_$name=$(address $name 127.0.0.1)"
done

"$tidegate" token --key key.pem --issuer https://bench.test --subject k6 --expires $((minutes / 60 + 2))h > token
"$tidegate" token --key key.pem --issuer https://bench.test --subject k6 --expires=-1m > expired
"$tidegate" token --key key.pem --jwks > jwks.json
ROUTES=$routes TTL=$ttl SOAP1=$at_soap1 SOAP2=$at_soap2 HTTPBIN=$at_httpbin ECHO=$at_echo SSE=$at_sse REVERSE=$at_reverse \
  bash tidegate.sh > tidegate.yaml
"$tidegate" run tidegate.yaml > gateway.log 2>&1 &
gateway=$!
started+=("$gateway")
url=http://$(address gateway 'listening listener="public"')
admin=$(address gateway 'admin API address=')

# One subscriber that takes each event, and one that fails the first two tries.
for callback in "http://$at_webhook/" "http://$at_webhook/?fail=2"; do
  curl -sf -o subscribed.log "$url/news" --data-urlencode hub.mode=subscribe --data-urlencode hub.topic=news \
    --data-urlencode hub.secret=subscriber --data-urlencode "hub.callback=$callback" || fail "the hub takes no subscriber"
done

say "$minutes minutes of everything at once"
K6_NO_USAGE_REPORT=true "$k6" run --quiet -e GATEWAY="$url" -e MINUTES="$minutes" -e ROUTES="$routes" -e USERS="${USERS:-2}" \
  -e TOKEN="$(cat token)" -e EXPIRED="$(cat expired)" --summary-export summary.json k6/endurance-all.js > k6.log 2>&1 &
load=$!
started+=("$load")

still_runs() {
  kill -0 "$gateway" 2> /dev/null || { tail -40 gateway.log >&2; fail "the gateway has stopped"; }
}
# One line a second: the memory of the process, in which the JVM's heap is, and of the gateway alone; the time is that of one request
# through the JWT API, in ms.
echo timestamp,rss_kib,own_kib,threads,fds,latency_ms > gateway.csv
bearer="Authorization: Bearer $(cat token)"
while kill -0 "$load" 2> /dev/null; do
  still_runs
  latency=$(curl -s --fail-with-body -o curl.log -w '%{time_total}' -H "$bearer" -d x "$url/api/x") ||
    { still_runs && fail "a request through the JWT API failed: $(head -c 300 curl.log)"; }
  descriptors=("/proc/$gateway/fd"/*)
  own=$(curl -s "http://$admin/metrics" | awk '/^tidegate_memory_used_bytes / { print int($2 / 1024) }') ||
    { still_runs && fail "the admin API does not answer"; }
  awk -v now="$(date +%s)" -v own="$own" -v fds="${#descriptors[@]}" -v latency="$latency" \
    '/^VmRSS/ { rss = $2 } /^Threads/ { threads = $2 } END { printf "%s,%s,%s,%s,%s,%.3f\n", now, rss, own, threads, fds, latency * 1000 }' \
    "/proc/$gateway/status" >> gateway.csv
  sleep 1
done
outcome=0
wait "$load" || outcome=$?
still_runs
curl -s "http://$admin/metrics" > metrics.log
grep -E '✗|checks' k6.log || true
[ "$outcome" = 0 ] || { tail -60 k6.log >&2; fail "a check failed"; }
# Each definition with a TTL was compiled at the start and at least three times again, and never failed.
compiled() {
  awk -F'"' -v name="$1" -v result="$2" \
    '/^tidegate_definition_compilations_total/ && $2 == name && $4 == result { split($5, rest, " "); print rest[2] }' metrics.log
}
mapfile -t definitions < <(grep 'fetch: { ttl' tidegate.yaml | grep -o 'soap/[^ ,}]*' | sort -u)
[ "${#definitions[@]}" -gt 0 ] || fail "no definition has a TTL"
for definition in "${definitions[@]}"; do
  again=$(($(compiled "$definition" success) - 1)) failed=$(compiled "$definition" failure)
  printf '%s: compiled again %s times, failed %s times\n' "$definition" "$again" "$failed"
  [ "$again" -ge 3 ] && [ "$failed" = 0 ] || fail "$definition must be compiled again at least three times, without a failure"
done
if grep -q 'panicked' gateway.log; then fail "a thread of the gateway panicked"; fi
# Each event is delivered once to each subscriber; the last ones have half a minute.
published=$(python3 -c 'import json; print(json.load(open("summary.json"))["root_group"]["checks"]["hub: 200"]["passes"])')
delivered() { python3 -c 'import json, sys; s = json.loads(sys.argv[1]); print(s["events"], s["duplicates"] + s["unsigned"] + s["invalid"])' "$stats"; }
for _ in $(seq 30); do
  stats=$(curl -s "http://$at_webhook/stats")
  [ "$(delivered)" != "$((2 * published)) 0" ] || break
  sleep 1
done
say "$published events published; subscribers: $stats"
[ "$(delivered)" = "$((2 * published)) 0" ] || fail "not each event came to both subscribers, once and signed"
# Words of bounds are arguments.
# shellcheck disable=SC2086
"$bench" slope $strict gateway.csv $bounds threads=0.5 fds=2% latency_ms=20%
