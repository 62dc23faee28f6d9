#!/usr/bin/env bash
# The CPU time that a plain HTTP/1 request costs our load generator, beside wrk's. Both post 1 KiB over CONNECTIONS (50) connections to
# one echo server, ROUNDS (5) times in turn, SECONDS_EACH (5) at a time. Our generator varies its messages and checks each reply; wrk
# repeats one message and reads the status alone. TIDEGATE names a built program, with bench-load-file beside it.
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"
case "${1:-}" in
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;;
  '') ;;
  *) fail "generator.sh: no option $1" ;;
esac
if [ -z "${TIDEGATE:-}" ]; then
  cargo build --release --locked --package tidegate --package bench --bins
  TIDEGATE=$target/release/tidegate
fi
tidegate=$(realpath "$TIDEGATE")
load_file=$(dirname "$tidegate")/bench-load-file
command -v wrk > /dev/null || bench/setup.sh
connections=${CONNECTIONS:-50} seconds=${SECONDS_EACH:-5}
folder=$(mktemp -d)
"$tidegate" backend echo --port 0 > "$folder/echo.log" 2>&1 &
echo=$!
trap 'kill "$echo" 2> /dev/null; wait; rm -rf "$folder"' EXIT
for _ in $(seq 100); do
  grep -qs 127.0.0.1: "$folder/echo.log" && break
  sleep 0.1
done
address=$(grep -o '127.0.0.1:[0-9]*' "$folder/echo.log" | head -1) || fail "no echo server: $(cat "$folder/echo.log")"
"$load_file" write plain --address "$address" --users "$connections" --think 0 --duration "$seconds" --warm-up 0 > "$folder/load.json"
cat > "$folder/wrk.lua" << 'LUA'
wrk.method = "POST"
wrk.path = "/plain/echo"
wrk.headers["content-type"] = "application/json"
wrk.body = string.rep("x", 1024)
LUA

# Prints the CPU time of a command in microseconds for each of the requests that the second command reads from its output.
cost() {
  local count=$1
  shift
  TIMEFORMAT='%U %S'
  { time "$@" > "$folder/output" 2> /dev/null; } 2> "$folder/time"
  awk -v requests="$($count < "$folder/output")" '{ printf "%.2f\n", ($1 + $2) * 1e6 / requests }' "$folder/time"
}
samples() { grep -o '"samples":[0-9]*' | cut -d: -f2; }
requests() { awk '/requests in/ { print $1 }'; }
for _ in $(seq "${ROUNDS:-5}"); do
  cost samples taskset -c 1 "$load_file" run "$folder/load.json" >> "$folder/ours"
  cost requests taskset -c 1 wrk -t1 -c"$connections" -d"${seconds}s" -s "$folder/wrk.lua" "http://$address" >> "$folder/wrk"
done
middle() { sort -n "$1" | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
awk -v ours="$(middle "$folder/ours")" -v wrk="$(middle "$folder/wrk")" \
  'BEGIN { printf "tidegate-bench %.2f us, wrk %.2f us of CPU per request: %.2f times\n", ours, wrk, ours / wrk; exit ours > 1.2 * wrk }'
