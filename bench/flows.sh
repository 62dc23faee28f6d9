#!/usr/bin/env bash
# What flows cost beside Apache Synapse 3.0.1: the scenarios of examples/integration with messages of four sizes, one worker and one
# JVM on the same core, one after the other in each round; the load and the echo backend are on the other core. Every other message
# differs in markup from the one before: prefixes, white space, and where the orders end. Prints CPU per request of both, their ratio,
# the target, and for `direct` the ratio to a plain route, and nginx's CPU for the same requests: what passing a message on costs by
# itself, below which no gateway comes.
#
#   flows.sh                  all of that
#   FLOWS="build enrich"      only those of direct build enrich xslt clone2 clone4
#   SIZES="500 10240"         only those of 500 1024 10240 102400
#   ROUNDS, SECONDS_EACH      make it longer; USERS is 50
#   PEER=none                 without Synapse
#   TIDEGATE                  another program
#   BEFORE                    a build to compare with, such as that of the commit before, which gets each load in turn: no row may cost
#                             over 3 % more
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
cd "$root"
rounds=${ROUNDS:-2} seconds=${SECONDS_EACH:-3} users=${USERS:-50}
flows=${FLOWS:-direct build enrich xslt clone2 clone4} sizes=${SIZES:-500 1024 10240 102400}

command -v wrk > /dev/null || "$here/setup.sh"
if [ -z "${TIDEGATE:-}" ]; then
  scripts/dist.sh bench
  TIDEGATE=${CARGO_TARGET_DIR:-target}/dist/tidegate
fi
tidegate=$(realpath "$TIDEGATE")
build_before=${BEFORE:+$(realpath "$BEFORE")}
tools=$(mkdir -p "${CARGO_TARGET_DIR:-target}/tools" && cd "${CARGO_TARGET_DIR:-target}/tools" && pwd)
last=$(($(nproc) - 1))
folder=$(mktemp -d)
started=()
finish() {
  for pid in "${started[@]}"; do kill "$pid" 2> /dev/null || true; done
  wait 2> /dev/null || true
  rm -rf "$folder"
}
trap finish EXIT
wait_for() {
  for _ in $(seq 1200); do
    grep -qs "$2" "$1" && return
    sleep 0.05
  done
  echo "flows.sh: no \`$2\` in $1:" >&2
  tail -40 "$1" >&2
  exit 1
}

# It reads a request whole before it answers: Synapse closes connections on which a reply begins before the request ends.
taskset -c "$last" "$(dirname "$tidegate")/bench-echo" > "$folder/echo.log" 2>&1 &
started+=($!)
wait_for "$folder/echo.log" 127.0.0.1:
echo_port=$(grep -o '127.0.0.1:[0-9]*' "$folder/echo.log" | head -1 | sed 's/.*://')

cp -r examples/integration "$folder/flows"
sed -i -e 's/127.0.0.1:8080" }$/127.0.0.1:0" }\nworkers: 1\nadmin: { address: "127.0.0.1:0" }/' -e "s/127.0.0.1:9000/127.0.0.1:$echo_port/" \
  -e 's#^routes:#routes:\n  plain: { match: { path: "/plain/**" }, upstream: echo }#' "$folder/flows/tidegate.yaml"
# Program, log: sets `gateway` and `ours`.
serve() {
  taskset -c 0 "$1" run "$folder/flows/tidegate.yaml" > "$2" 2>&1 &
  gateway=$!
  started+=("$gateway")
  wait_for "$2" 'listening listener="public"'
  ours=http://$(grep -o 'listening listener="public" address=[0-9.:]*' "$2" | sed 's/.*=//')
}
if [ -n "$build_before" ]; then
  serve "$build_before" "$folder/before.log"
  gateway_before=$gateway ours_before=$ours
fi
serve "$tidegate" "$folder/gateway.log"

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
relay=''
case " $flows " in *' direct '*)
  PATH=$PATH:/usr/sbin
  port=$(free_port)
  cat > "$folder/nginx.conf" <<NGINX
user $(id -un);
worker_processes 1;
daemon off;
pid $folder/nginx.pid;
error_log $folder/nginx.error.log error;
events { worker_connections 4096; use epoll; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path $folder/nginx-body;
  proxy_temp_path $folder/nginx-proxy;
  fastcgi_temp_path $folder/nginx-fastcgi;
  uwsgi_temp_path $folder/nginx-uwsgi;
  scgi_temp_path $folder/nginx-scgi;
  client_body_buffer_size 128k;
  proxy_buffers 8 32k;
  upstream ends { server 127.0.0.1:$echo_port; keepalive 1024; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:$port;
    location / { proxy_pass http://ends; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}
NGINX
  taskset -c 0 nginx -c "$folder/nginx.conf" -p "$folder" > "$folder/nginx.log" 2>&1 &
  started+=($!)
  for _ in $(seq 100); do relay=$(pgrep -P $! || true); [ -z "$relay" ] || break; sleep 0.1; done
  [ -n "$relay" ] || { cat "$folder/nginx.log" "$folder/nginx.error.log" >&2; exit 1; }
  relayed=http://127.0.0.1:$port ;;
esac

peer=${PEER:-synapse}
if [ "$peer" = synapse ]; then
  if [ ! -d "$tools/synapse" ]; then
    echo "fetching Apache Synapse 3.0.1" >&2
    mvn -q -B -f bench/synapse/pom.xml org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies -DoutputDirectory="$tools/synapse.part"
    mv "$tools/synapse.part" "$tools/synapse"
  fi
  cp -r bench/synapse "$folder/synapse"
  mkdir -p "$folder/synapse/repository"
  port=$(free_port)
  sed -i "s/8280/$port/" "$folder/synapse/conf/axis2.xml"
  sed -i "s/@BE@/$echo_port/" "$folder/synapse/conf/synapse.xml"
  (cd "$folder/synapse" && exec taskset -c 0 java -Xms256m -Xmx1024m -cp "conf:$tools/synapse/*" \
    org.apache.synapse.SynapseServer repository conf/axis2.xml . conf/synapse.xml > "$folder/synapse.log" 2>&1) &
  synapse=$!
  started+=("$synapse")
  theirs=http://127.0.0.1:$port
  for _ in $(seq 600); do curl -s -o "$folder/answer" "$theirs/services/DirectProxy" && break; sleep 0.1; done
fi

cat > "$folder/load.lua" <<'LUA'
-- TIDEGATE_SIZE: bytes of a message; TIDEGATE_PATH: where it goes. 64 messages, no two with the same markup.
local size, path = tonumber(os.getenv("TIDEGATE_SIZE")), os.getenv("TIDEGATE_PATH")
local headers = { ["Content-Type"] = "text/xml; charset=UTF-8", SOAPAction = "urn:buyStocks", Host = "localhost" }
local symbols = { "IBM", "MSFT", "SUN", "ORCL", "GOOG" }
math.randomseed(os.time())
local function space() return string.rep(" ", math.random(0, 3)) end
local function message(n)
  local s, m = string.format("s%x", n), string.format("m%x", n)
  local head = '<' .. s .. ':Envelope xmlns:' .. s .. '="http://schemas.xmlsoap.org/soap/envelope/"><' .. s .. ':Body><' .. m
    .. ':buyStocks xmlns:' .. m .. '="http://services.samples/xsd">'
  local tail = '</' .. m .. ':buyStocks></' .. s .. ':Body></' .. s .. ':Envelope>'
  local parts, length = { head }, #head + #tail
  repeat
    local order = '<order>' .. space() .. '<symbol>' .. symbols[math.random(5)] .. '</symbol>' .. space() .. '<buyerID>b'
      .. math.random(10, 99999) .. '</buyerID><price>' .. math.random(1, 999) .. '.' .. math.random(10, 99) .. '</price>'
      .. space() .. '<volume>' .. math.random(1, 99999) .. '</volume></order>'
    parts[#parts + 1] = order
    length = length + #order
  until length >= size
  parts[#parts + 1] = tail
  return table.concat(parts)
end
local requests = {}
for n = 1, 64 do requests[n] = wrk.format("POST", path, headers, message(n)) end
local at = 0
request = function()
  at = at % 64 + 1
  return requests[at]
end
done = function(summary)
  local bad = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout
  io.write(string.format("RESULT %d %d %d\n", summary.requests, summary.duration, bad))
end
LUA

used() { awk '{ sum += $1 } END { printf "%.0f\n", sum }' /proc/"$1"/task/*/schedstat; }
path_of() {
  case $1 in
    direct) echo /services/DirectProxy ;;
    plain) echo /plain/services/DirectProxy ;;
    build) echo /services/MessageBuildingProxy ;;
    enrich) echo /services/EnrichBackAndForthProxy ;;
    xslt) echo /services/XSLTProxy ;;
    clone2) echo /services/CloneAndAggregateWithTwoBackendProxy ;;
    clone4) echo /services/CloneAndAggregateWithFourBackendProxy ;;
  esac
}
# Waits until a process has no more work: requests whose client has gone are still worked on, which would count as the next load's.
settle() {
  local was
  for _ in $(seq 600); do
    was=$(used "$1")
    sleep 0.1
    [ $(($(used "$1") - was)) -gt 5000000 ] || return 0
  done
  echo "flows.sh: a process is still at work a minute after its load" >&2
}
# Who, process, base URL, flow, size: appends requests, microseconds, errors and CPU in ns.
load() {
  local before result
  before=$(used "$2")
  result=$(TIDEGATE_SIZE=$5 TIDEGATE_PATH=$(path_of "$4") taskset -c "$last" wrk -t1 -c"$users" -d"$seconds"s --timeout 30s -s "$folder/load.lua" "$3" | grep RESULT)
  echo "$1 $4 $5 ${result#RESULT } $(($(used "$2") - before))" >> "$folder/results"
  settle "$2"
}

[ "$peer" = synapse ] && echo "warming Synapse up" >&2
for round in $(seq 0 "$rounds"); do
  [ "$round" = 1 ] && rm -f "$folder/results" # the first warms up
  for flow in $flows; do
    for size in $sizes; do
      echo "round $round: $flow, $size bytes" >&2
      if [ "$flow" = direct ]; then
        load tidegate "$gateway" "$ours" plain "$size"
        load nginx "$relay" "$relayed" direct "$size"
      fi
      load tidegate "$gateway" "$ours" "$flow" "$size"
      [ -z "$build_before" ] || load before "$gateway_before" "$ours_before" "$flow" "$size"
      [ "$peer" = synapse ] && load synapse "$synapse" "$theirs" "$flow" "$size"
    done
  done
done
awk '
BEGIN {
  split("direct 8 8 6 6 build 12 12 20 100 enrich 12 12 20 100 xslt 20 20 20 40 clone2 15 15 25 0 clone4 15 15 25 0", t, " ")
  split("500 1024 10240 102400", s, " ")
  for (i = 1; i in t; i += 5) for (j = 1; j <= 4; j++) target[t[i], s[j]] = t[i + j]
}
{
  each = $7 / $4 / 1000; key = $2 SUBSEP $3
  if (!(($1, $2, $3) in least) || each < least[$1, $2, $3]) least[$1, $2, $3] = each
  bad[$1, $2, $3] += $6
  if (!(key in seen)) { seen[key] = 1; order[++n] = key }
}
END {
  printf "%-8s %7s %12s %12s %8s %8s %10s %10s %10s %7s\n", "flow", "bytes", "Tidegate us", "Synapse us", "ratio", "target", "of before", "of plain", "nginx us", "errors"
  for (i = 1; i <= n; i++) {
    split(order[i], k, SUBSEP); f = k[1]; z = k[2]; a = least["tidegate", f, z]; b = least["synapse", f, z]
    if (f == "plain") continue
    ratio = b ? sprintf("1/%.1f", b / a) : "-"; want = target[f, z] ? "1/" target[f, z] : "-"
    plain = f == "direct" ? sprintf("%.2f", a / least["tidegate", "plain", z]) : "-"
    relay = f == "direct" ? sprintf("%.1f", least["nginx", f, z]) : "-"
    was = ("before", f, z) in least ? sprintf("%.3f", a / least["before", f, z]) : "-"
    printf "%-8s %7d %12.1f %12.1f %8s %8s %10s %10s %10s %7d\n", f, z, a, b, ratio, want, was, plain, relay, bad["tidegate", f, z]
  }
}' "$folder/results"

peak() { awk '/^VmHWM/ { printf "%.0f", $2 / 1024 }' "/proc/$gateway/status"; }
echo "peak memory of Tidegate: $(peak) MiB"
case "$flows/$sizes" in
  *clone4*/*102400*)
    # All users have a message under way, four branches each; the peak is counted anew.
    echo 5 > "/proc/$gateway/clear_refs"
    users=200
    load tidegate "$gateway" "$ours" clone4 102400
    tail -1 "$folder/results" | awk -v peak="$(peak)" '{ printf "clone4, 200 users, 102400 bytes: %d answered, %d errors, peak memory %d MiB: target 300 and no error, %s\n",
      $4, $6, peak, ($6 == 0 && $4 > 0 && peak <= 300) ? "met" : "missed" }' ;;
esac
