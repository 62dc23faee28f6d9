#!/usr/bin/env bash
# What policies cost: the same bytes through one worker with and without each, in interleaved rounds of one run, and
# Envoy's jwt_authn beside it. Prints CPU per request and throughput, each against its base, and says which target was reached.
# ROUNDS and SECONDS_EACH make it longer; ONLY="jwt-hot plain-token" runs those; TIDEGATE and ENVOY name programs. BEFORE names another
# build of Tidegate, such as that of the commit before, which runs each case in turn with it: none may be 3 % dearer.
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."
target=${CARGO_TARGET_DIR:-target}
"$here/setup.sh"
if [ -z "${TIDEGATE:-}" ]; then
  scripts/dist.sh bench
  TIDEGATE=$target/dist/tidegate
fi
tidegate=$(realpath "$TIDEGATE")
build_before=${BEFORE:+$(realpath "$BEFORE")}
echo_server=$(realpath "$(dirname "$tidegate")/bench-echo")
envoy=${ENVOY:-$target/tools/bin/envoy}
[ -x "$envoy" ] && envoy=$(realpath "$envoy") || envoy=
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-3}
folder=$(mktemp -d)
started=()
finish() {
  for pid in "${started[@]}"; do kill "$pid" 2> /dev/null || true; done
  rm -rf "$folder"
}
trap finish EXIT
cd "$folder"

# The gateway has a core of its own; load, backend and interceptor share another.
gateway_core=0 load_core=$(($(nproc) - 1))
wait_for() {
  for _ in $(seq 200); do
    grep -qs "$2" "$1" && return
    sleep 0.05
  done
  cat "$1" >&2
  exit 1
}

taskset -c "$load_core" "$echo_server" --port 19000 --reply 350B > echo.log 2>&1 &
started+=($!)
taskset -c "$load_core" "$tidegate" backend interceptor --port 19001 > interceptor.log 2>&1 &
started+=($!)

# A worker remembers 32,768 tokens: of 40,000 in rotation it never meets one that it knows.
echo "making tokens and keys"
signed=(--key key.pem --issuer https://bench.test --expires 24h)
"$tidegate" token --key key.pem --algorithm rs256 --jwks > jwks.json
"$tidegate" token "${signed[@]}" --subject hot > hot
"$tidegate" token "${signed[@]}" --subject user --count 40000 > unseen
"$tidegate" token "${signed[@]}" --subject again --count 10000 > rotating
seq 100000 | sed 's/.*/user-&: key-of-user-&/' > keys.yaml
seq 100000 | sed 's/^/key-of-user-/' > keys

pad() { head -c "$1" /dev/zero | tr '\0' x; }
pad 1024 > body-1k
echo -n '{"intA":1,"intB":2,"names":["a","b"],"note":"'"$(pad 302)"'"}' > body-350
cat > sums.yaml <<'YAML'
openapi: 3.0.3
info: { title: sums, version: "1" }
paths:
  /openapi/anything:
    post:
      requestBody: { required: true, content: { application/json: { schema: { $ref: "#/components/schemas/Sum" } } } }
      responses: { "200": { description: ok, content: { application/json: { schema: { $ref: "#/components/schemas/Sum" } } } } }
components:
  schemas:
    Sum:
      type: object
      required: [intA, intB]
      properties:
        intA: { type: integer }
        intB: { type: integer }
        names: { type: array, items: { type: string } }
        note: { type: string, maxLength: 1000 }
YAML
# The limit is never reached: what is measured is counting.
cat > tidegate.yaml <<'YAML'
listen: { plain: { address: "127.0.0.1:19080" } }
admin: { address: "127.0.0.1:19901" }
workers: 1
issuers: { main: { issuer: "https://bench.test", keys: [jwks.json] } }
upstreams: { echo: { targets: ["http://127.0.0.1:19000"] }, interceptor: { targets: ["http://127.0.0.1:19001"] } }
routes:
  plain: { match: { path: "/plain/**" }, upstream: echo }
  jwt: { match: { path: "/jwt/**" }, upstream: echo, policies: [{ jwt: { issuers: [main] } }] }
  key: { match: { path: "/key/**" }, upstream: echo, policies: [{ api_key: { header: x-api-key, keys: { file: keys.yaml } } }] }
  limit:
    match: { path: "/limit/**" }
    upstream: echo
    policies:
      - api_key: { header: x-api-key, keys: { file: keys.yaml } }
      - rate_limit: { requests: 1000000, per: 1s, by: subject, keys_max: 200000 }
  intercepted: { match: { path: "/intercepted/**" }, upstream: echo, policies: [{ interceptor: { request: { upstream: interceptor, includes: [request_headers, request_body] } } }] }
  openapi: { match: { path: "/openapi/**" }, upstream: echo, policies: [{ openapi: { document: sums.yaml, request: true, response: true } }] }
YAML
taskset -c "$gateway_core" "$tidegate" run tidegate.yaml > gateway.out 2> gateway.log &
gateway=$!
started+=("$gateway")
wait_for gateway.log "listening listener="
if [ -n "$build_before" ]; then
  sed -e 's/:19080/:19082/' -e 's/:19901/:19902/' tidegate.yaml > before.yaml
  taskset -c "$gateway_core" "$build_before" run before.yaml > before.out 2> before.log &
  gateway_before=$!
  started+=("$gateway_before")
  wait_for before.log "listening listener="
fi

if [ -n "$envoy" ]; then
  cat > envoy.yaml <<YAML
node: { id: bench, cluster: bench }
static_resources:
  listeners:
  - name: plain
    address: { socket_address: { address: 127.0.0.1, port_value: 19081 } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: plain
          http_filters:
          - name: envoy.filters.http.jwt_authn
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
              providers:
                main: { issuer: "https://bench.test", local_jwks: { filename: $folder/jwks.json } }
                cached: { issuer: "https://bench.test", local_jwks: { filename: $folder/jwks.json }, jwt_cache_config: { jwt_cache_size: 50000 } }
              rules:
              - { match: { prefix: "/jwt/" }, requires: { provider_name: main } }
              - { match: { prefix: "/cached/" }, requires: { provider_name: cached } }
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
          route_config:
            virtual_hosts: [{ name: all, domains: ["*"], routes: [{ match: { prefix: "/" }, route: { cluster: echo } }] }]
  clusters:
  - name: echo
    type: STATIC
    connect_timeout: 5s
    circuit_breakers: { thresholds: [{ max_connections: 100000, max_pending_requests: 100000, max_requests: 100000 }] }
    load_assignment:
      cluster_name: echo
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 19000 } } } }] }]
YAML
  taskset -c "$gateway_core" "$envoy" --concurrency 1 --use-dynamic-base-id --log-level warning -c envoy.yaml > envoy.log 2>&1 &
  envoy_pid=$!
  started+=("$envoy_pid")
  for _ in $(seq 200); do (: < /dev/tcp/127.0.0.1/19081) 2> /dev/null && break || sleep 0.05; done
fi

cat > load.lua <<'LUA'
-- BODY: the file of the body; EACH: a file of values, one for each request in turn, from START on; AS: the header line with
-- %s for it.
-- Requests are made before the load begins, so that making them takes no part in it.
local function read(name) local file = assert(io.open(name)) local text = file:read("*a") file:close() return text end
local requests, at = {}, tonumber(os.getenv("START") or "0")
init = function()
  local body, line = read(os.getenv("BODY")), os.getenv("AS") or "X-Same: %s"
  local name, value = line:match("^(.-): (.*)$")
  for each in io.lines(os.getenv("EACH") or "none") do
    requests[#requests + 1] = wrk.format("POST", nil, { ["Content-Type"] = "application/json", [name] = value:format(each) }, body)
  end
end
request = function()
  at = at % #requests + 1
  return requests[at]
end
done = function(summary)
  local errors = summary.errors
  local bad = errors.status + errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format("RESULT %d %d %d\n", summary.requests, summary.duration, bad))
end
LUA
echo same > none

# CPU time of all threads of a process, in nanoseconds.
used() { cat /proc/"$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f\n", sum }'; }
# process, case, URL, environment
run() {
  if [ -n "${ONLY:-}" ] && ! [[ " $ONLY " == *" ${2%@before} "* ]]; then return; fi
  local before after result start
  # Where its last run ended: what comes in rotation comes again only after all others.
  start=$(cat "start-$2" 2> /dev/null || echo 0)
  before=$(used "$1")
  result=$(env START="$start" "${@:4}" taskset -c "$load_core" wrk -t1 -c50 -d"${seconds}s" -s load.lua "$3" | grep RESULT)
  after=$(used "$1")
  echo "$2 $result $((after - before))" >> results
  awk -v start="$start" '{ print start + $2 }' <<< "$result" > "start-$2"
}
ours() {
  run "$gateway" "$1" "http://127.0.0.1:19080$2" "${@:3}"
  [ -z "$build_before" ] || run "$gateway_before" "$1@before" "http://127.0.0.1:19082$2" "${@:3}"
}
theirs() { [ -z "$envoy" ] || run "$envoy_pid" "$1" "http://127.0.0.1:19081$2" "${@:3}"; }
# Until the worker knows all tokens again: those never seen before pushed them out.
warm() {
  if [ -n "${ONLY:-}" ] && ! [[ " $ONLY " == *" jwt-rotating "* ]]; then return; fi
  local port
  for port in 19080 ${build_before:+19082}; do
    env "${@:2}" taskset -c "$load_core" wrk -t1 -c50 -d2s -s load.lua "http://127.0.0.1:$port$1" > warm
  done
}
bearer="AS=Authorization: Bearer %s" key="AS=X-Api-Key: %s"
for round in $(seq 0 "$rounds"); do
  [ "$round" = 1 ] && rm -f results # the first warms up
  echo "round $round of $rounds"
  ours plain-token /plain/x BODY=body-1k EACH=hot "$bearer"
  ours jwt-hot /jwt/x BODY=body-1k EACH=hot "$bearer"
  theirs envoy-token /plain/x BODY=body-1k EACH=hot "$bearer"
  theirs envoy-jwt-hot /jwt/x BODY=body-1k EACH=hot "$bearer"
  theirs envoy-cached /cached/x BODY=body-1k EACH=hot "$bearer"
  ours plain-tokens /plain/x BODY=body-1k EACH=rotating "$bearer"
  warm /jwt/x BODY=body-1k EACH=rotating "$bearer"
  ours jwt-rotating /jwt/x BODY=body-1k EACH=rotating "$bearer"
  ours jwt-unseen /jwt/x BODY=body-1k EACH=unseen "$bearer"
  ours plain-keys /plain/x BODY=body-1k EACH=keys "$key"
  ours key /key/x BODY=body-1k EACH=keys "$key"
  ours limit-100k /limit/x BODY=body-1k EACH=keys "$key"
  ours plain /plain/x BODY=body-1k
  ours intercepted /intercepted/x BODY=body-1k
  ours plain-350 /plain/x BODY=body-350
  ours openapi-350 /openapi/anything BODY=body-350
done
# Two kinds of users of one gateway at once. By Little's law the requests under way, throughput times latency, are the users.
mixed() {
  [ -z "${ONLY:-}" ] || return 0
  local row time=$((seconds * 3)) pids=()
  for row in plain intercepted; do
    taskset -c "$load_core" h2load --h1 -t1 -c50 -D "$time" -d body-1k -H 'content-type: text/plain' "http://127.0.0.1:19080/$row/x" > "mixed-$row" &
    pids+=($!)
  done
  wait "${pids[@]}"
  echo "50 users of each at once:"
  for row in plain intercepted; do
    # `time for request` has the least, the most and the mean, each with its unit.
    awk -v row="$row" -v time="$time" '
    function ms(text) { return text ~ /us$/ ? text / 1000 : text ~ /ms$/ ? text + 0 : text * 1000 }
    /^requests:/ { done = $8; bad = $10 + $12 + $14 } /^time for request:/ { mean = ms($6) }
    END { rate = done / time; little = rate * mean / 1000; good = bad == 0 && little > 47.5 && little < 52.5
      printf "%-14s %9.0f/s, %8.2f ms on average, %d errors; Little: %.1f of 50 users  %s\n", row, rate, mean, bad, little, good ? "holds" : "MISSED"
      exit !good }' "mixed-$row" || missed=1
  done
}
missed=0
mixed
# A ratio is the median of those within each round, whose two sides ran within seconds of each other: the machine may change its speed from
# one to the next. Behind it, in brackets, that of the best of all rounds.
awk "$(cat "$here/median.awk")"'
{ bad[$1] += $5; rate = $3 / $4 * 1e6; if (rate > best[$1]) best[$1] = rate
  each = $6 / $3 / 1000; if (!($1 in least) || each < least[$1]) least[$1] = each; if (!($1 in seen)) { seen[$1] = 1; order[++n] = $1 }
  times[$1]++; rates[$1, times[$1]] = rate; costs[$1, times[$1]] = each }
function both(a, b) { return (a in seen) && (b in seen) }
function in_turn(what, a, b,   i, v) {
  for (i = 1; i <= times[a]; i++) {
    if (what == "cost") v[i] = costs[a, i] / costs[b, i]
    else if (what == "above") v[i] = costs[a, i] - costs[b, i]
    else if (what == "rate") v[i] = rates[a, i] / rates[b, i]
    else v[i] = 1 + (costs[a, i] - costs[b, i]) / costs["plain-keys", i]
  }
  return median(times[a], v)
}
function told(what, value, of_best, target, good) { printf "%-66s %6.2f (%.2f)  %s  %s\n", what, value, of_best, target, good ? "reached" : "MISSED"; if (!good) missed = 1 }
END {
  printf "%-20s %11s %8s %7s\n", "case", "requests/s", "CPU us", "errors"
  for (i = 1; i <= n; i++) { c = order[i]; printf "%-20s %11.0f %8.2f %7d\n", c, best[c], least[c], bad[c]; if (bad[c]) missed = 1 }
  print ""
  if (both("jwt-hot", "plain-token")) { r = in_turn("cost", "jwt-hot", "plain-token"); told("JWT RS256, one hot token: CPU to plain", r, least["jwt-hot"] / least["plain-token"], "<= 1.06", r <= 1.06) }
  if (both("jwt-hot", "envoy-jwt-hot")) { r = in_turn("cost", "jwt-hot", "envoy-jwt-hot"); told("JWT RS256, one hot token: CPU to Envoy jwt_authn", r, least["jwt-hot"] / least["envoy-jwt-hot"], "<= 0.35", r <= 0.35) }
  if (both("jwt-hot", "envoy-cached")) printf "%-66s %6.2f (%.2f)\n", "  the same where Envoy is given a cache of tokens", in_turn("cost", "jwt-hot", "envoy-cached"), least["jwt-hot"] / least["envoy-cached"]
  if (both("jwt-rotating", "plain-tokens")) { r = in_turn("cost", "jwt-rotating", "plain-tokens"); told("JWT, 10,000 in rotation: CPU to plain", r, least["jwt-rotating"] / least["plain-tokens"], "<= 1.15", r <= 1.15) }
  if (both("jwt-unseen", "plain-tokens")) { r = in_turn("above", "jwt-unseen", "plain-tokens"); told("JWT never seen before: CPU above plain, us", r, least["jwt-unseen"] - least["plain-tokens"], "<= 20  ", r <= 20) }
  if (both("limit-100k", "key")) {
    r = in_turn("share", "limit-100k", "key"); told("rate_limit by 100,000 subjects: (plain + its CPU) to plain", r, 1 + (least["limit-100k"] - least["key"]) / least["plain-keys"], "<= 1.04", r <= 1.04)
    printf "%-66s %6.2f (%.2f)\n", "  the same as CPU with the limit to CPU without", in_turn("cost", "limit-100k", "key"), least["limit-100k"] / least["key"] }
  if (both("intercepted", "plain")) { r = in_turn("rate", "intercepted", "plain"); told("request interceptor: throughput to plain", r, best["intercepted"] / best["plain"], ">= 0.60", r >= 0.60)
    printf "%-66s %6.2f (%.2f)\n", "  the same as CPU of plain to CPU intercepted", 1 / in_turn("cost", "intercepted", "plain"), least["plain"] / least["intercepted"] }
  if (both("openapi-350", "plain-350")) { r = in_turn("rate", "openapi-350", "plain-350"); told("OpenAPI, both sides of 350 B: throughput to plain", r, best["openapi-350"] / best["plain-350"], ">= 0.85", r >= 0.85)
    printf "%-66s %6.2f (%.2f)\n", "  the same as CPU of plain to CPU validated", 1 / in_turn("cost", "openapi-350", "plain-350"), least["plain-350"] / least["openapi-350"] }
  for (i = 1; i <= n; i++) { c = order[i]; b = c "@before"
    if (both(c, b)) { r = in_turn("cost", c, b); told(c ": CPU to that of the build before", r, least[c] / least[b], "<= 1.03", r <= 1.03) } }
  exit missed
}' results || missed=1
exit "$missed"
