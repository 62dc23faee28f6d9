#!/usr/bin/env bash
# What policies cost: the same bytes through one worker with and without each, in interleaved rounds of one run.
# Prints CPU per request and throughput as ratios to plain proxying. ROUNDS and SECONDS_EACH make it longer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."
command -v wrk > /dev/null || "$here/setup.sh"
if [ -z "${TIDEGATE:-}" ]; then
  cargo build --profile dist -p tidegate -p bench --bins
  TIDEGATE=${CARGO_TARGET_DIR:-target}/dist/tidegate
fi
tidegate=$(realpath "$TIDEGATE")
echo_server=$(realpath "$(dirname "$tidegate")/bench-echo")
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-3} tokens=${TOKENS:-10000}
folder=$(mktemp -d)
started=()
finish() {
  for pid in "${started[@]}"; do kill "$pid" 2> /dev/null || true; done
  rm -rf "$folder"
}
trap finish EXIT
cd "$folder"

# The gateway has a core of its own; load, backend and interceptor share the other.
last=$(($(nproc) - 1))
gateway_core=0
wait_for() { until grep -qs "$2" "$1"; do sleep 0.05; done; }

taskset -c "$last" "$echo_server" --port 19000 --reply 350B > echo.log 2>&1 &
started+=($!)
taskset -c "$last" "$tidegate" backend interceptor --port 19001 > interceptor.log 2>&1 &
started+=($!)
"$tidegate" token --key key.pem --algorithm rs256 --jwks > jwks.json
"$tidegate" token --key key.pem --issuer https://bench.test --subject hot --expires 24h > token
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
cat > tidegate.yaml <<'YAML'
listen: { plain: { address: "127.0.0.1:19080" } }
admin: { address: "127.0.0.1:19901" }
workers: 1
issuers: { main: { issuer: "https://bench.test", keys: [jwks.json] } }
upstreams: { echo: { targets: ["http://127.0.0.1:19000"] }, interceptor: { targets: ["http://127.0.0.1:19001"] } }
routes:
  plain: { match: { path: "/plain/**" }, upstream: echo }
  jwt: { match: { path: "/jwt/**" }, upstream: echo, policies: [{ jwt: { issuers: [main] } }] }
  limit: { match: { path: "/limit/**" }, upstream: echo, policies: [{ rate_limit: { requests: 100000000, per: 1s, by: "header:x-user", keys_max: 200000 } }] }
  intercepted: { match: { path: "/intercepted/**" }, upstream: echo, policies: [{ interceptor: { request: { upstream: interceptor, includes: [request_headers, request_body] } } }] }
  openapi: { match: { path: "/openapi/**" }, upstream: echo, policies: [{ openapi: { document: sums.yaml, request: true, response: true } }] }
YAML
taskset -c "$gateway_core" "$tidegate" run tidegate.yaml > gateway.out 2> gateway.log &
gateway=$!
started+=("$gateway")
wait_for gateway.log "listening listener="

pad() { head -c "$1" /dev/zero | tr '\0' x; }
cat > load.lua <<LUA
-- TIDEGATE_BODY: 1k or 350; TIDEGATE_TOKENS: a file of tokens; TIDEGATE_USERS: how many values x-user has
local body = os.getenv("TIDEGATE_BODY") == "350"
  and '{"intA":1,"intB":2,"names":["a","b"],"note":"$(pad 302)"}' or '$(pad 1024)'
local tokens, users = {}, tonumber(os.getenv("TIDEGATE_USERS") or "0")
local file = os.getenv("TIDEGATE_TOKENS")
if file then for line in io.lines(file) do tokens[#tokens + 1] = "Bearer " .. line end end
local at = 0
local headers = { ["Content-Type"] = "application/json" }
request = function()
  at = at + 1
  if #tokens > 0 then headers["Authorization"] = tokens[at % #tokens + 1] end
  if users > 0 then headers["X-User"] = at % users end
  return wrk.format("POST", nil, headers, body)
end
done = function(summary)
  local bad = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout
  io.write(string.format("RESULT %d %d %d\n", summary.requests, summary.duration, bad))
end
LUA

used() { awk '{ print $1 }' "/proc/$gateway/schedstat"; }
# case, path, environment
run() {
  local before after
  before=$(used)
  local result
  result=$(env $3 taskset -c "$last" wrk -t1 -c50 -d"${seconds}s" -s load.lua "http://127.0.0.1:19080$2" | grep RESULT)
  after=$(used)
  echo "$1 $result $((after - before))" >> results
}
"$tidegate" token --help | grep -q -- --count && "$tidegate" token --key key.pem --issuer https://bench.test --subject user --expires 24h --count "$tokens" > tokens || cp token tokens
for round in $(seq 0 "$rounds"); do
  [ "$round" = 1 ] && rm -f results # the first warms up
  run plain-1k /plain/x "TIDEGATE_BODY=1k"
  run jwt-hot /jwt/x "TIDEGATE_BODY=1k TIDEGATE_TOKENS=token"
  run plain-1k-authorized /plain/x "TIDEGATE_BODY=1k TIDEGATE_TOKENS=token"
  run limit-100k /limit/x "TIDEGATE_BODY=1k TIDEGATE_USERS=100000"
  run intercepted-1k /intercepted/x "TIDEGATE_BODY=1k"
  run plain-350 /plain/x "TIDEGATE_BODY=350"
  run openapi-350 /openapi/anything "TIDEGATE_BODY=350"
  if [ "$(wc -l < tokens)" -gt 1 ]; then run jwt-rotating /jwt/x "TIDEGATE_BODY=1k TIDEGATE_TOKENS=tokens"; fi
done
awk '
{ requests[$1] += $3; time[$1] += $4; bad[$1] += $5; cpu[$1] += $6; rate = $3 / $4 * 1e6; if (rate > best[$1]) best[$1] = rate
  each = $6 / $3 / 1000; if (!($1 in least) || each < least[$1]) least[$1] = each; if (!($1 in seen)) { seen[$1] = 1; order[++n] = $1 } }
END {
  printf "%-22s %10s %10s %9s %9s %7s\n", "case", "requests/s", "CPU us", "rate", "CPU", "errors"
  for (i = 1; i <= n; i++) { c = order[i]; base = (c ~ /350/) ? "plain-350" : (c ~ /^jwt/) ? "plain-1k-authorized" : "plain-1k"
    printf "%-22s %10.0f %10.2f %9.2f %9.2f %7d\n", c, best[c], least[c], best[c] / best[base], least[c] / least[base], bad[c] }
}' results
