#!/usr/bin/env bash
# The load tests of the five reference documents, with their tables and graphs.
#
#   reports.sh           rows as long as in the documents (50 hours, 20 with PEERS=none; those of 24 hours are
#                        `endurance.sh --day`)
#   reports.sh --quick   seconds for each row: every table and graph in less than half an hour
#   reports.sh ... -t    prints how long each part takes, and runs nothing
#
# OUT=DIR (target/reports) has a folder for each document: results, report.html, summary.csv and graphs; an interrupted run goes on
# where it was. DOCUMENTS="000 002" runs those alone. PEERS=nginx,envoy names the gateways beside ours (by default those that are
# installed, see `make peers`; `none` for none). PAGES=DIR writes the pages of docs/results there. TIDEGATE and BENCH name built programs;
# TIDEGATE_BUILD then says on the pages what they were built from.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
quick='' estimate=''
for argument in "$@"; do
  case $argument in
    --quick) quick=1 ;;
    -t) estimate=1 ;;
    *) fail "reports.sh: no option $argument" ;;
  esac
done
if [ -z "${TIDEGATE:-}" ]; then
  cargo build --release --locked --package tidegate --package bench --bins
  TIDEGATE=$target/release/tidegate BENCH=$target/release/tidegate-bench
  TIDEGATE_BUILD="commit $(git describe --always --dirty --abbrev=10 2> /dev/null || echo unknown), cargo build --release"
  export TIDEGATE_BUILD
fi
tidegate=$(realpath "$TIDEGATE") bench=$(realpath "${BENCH:?}")
if [ -z "$estimate" ]; then
  scripts/saxon.sh > /dev/null
  export TIDEGATE_SAXON=${TIDEGATE_SAXON:-$(realpath "$target/saxon")}
fi
out=${OUT:-$target/reports}
documents=${DOCUMENTS:-000 001 002 003 004}
# 5,000 event streams and 10,000 subscribers need two descriptors each.
ulimit -n "$(ulimit -H -n)"
began=$SECONDS
outcome=0

installed() {
  # `envoy-authz` and `envoy-proc` are Envoy.
  local name=${1%%-*}
  [ -x "$target/tools/bin/$name" ] || [ -d "$target/tools/peers/$name" ] || command -v "$name" > /dev/null || [ -x "/usr/sbin/$name" ]
}
# The option for those of the named gateways that are to be measured.
peers() {
  local names=() name
  for name in "$@"; do
    case "${PEERS:-installed}" in
      none) ;;
      installed) ! installed "$name" || names+=("$name") ;;
      *) [[ ",$PEERS," != *",$name,"* ]] || names+=("$name") ;;
    esac
  done
  local IFS=,
  [ "${#names[@]}" = 0 ] || echo "--peers ${names[*]}"
}

# Runs rows into a folder of results: its name, and the arguments of the run.
run() {
  local folder=$out/$1 resume=''
  # Words of --peers are arguments.
  # shellcheck disable=SC2068
  if [ -n "$estimate" ]; then
    say "$1"
    shift
    "$bench" run $@ -t
    return
  fi
  shift
  [ ! -e "$folder/test-metadata.json" ] || resume=--resume
  # shellcheck disable=SC2068
  "$bench" run $@ $resume --tidegate "$tidegate" --out "$folder" || outcome=1
}

# Writes tables, graphs and the page of a document, from its folder and further ones.
report() {
  local number=$1 arguments=()
  [ -z "$estimate" ] || return 0
  shift
  local with
  for with in "$@"; do arguments+=(--with "$out/$with"); done
  [ -z "${PAGES:-}" ] || arguments+=(--pages "$PAGES")
  "$bench" report "$out/$number/results" "${arguments[@]}" --html "$out/$number/report.html" --markdown "$out/$number/report.md" \
    --csv "$out/$number/summary.csv" --png "$out/$number/graphs" > /dev/null || outcome=1
  say "$out/$number/report.html"
}

# Each row as in its document.
whole() {
  case $1 in
    000) run 000/results 000 $(peers nginx haproxy envoy envoy-authz envoy-proc spring) ;;
    001)
      run 001/results 001 -e endurance -e '^scen1$' $(peers nginx)
      run 001/compiled scen1 $(peers nginx nginx-compiles)
      ;;
    002) run 002/results 002 $(peers haproxy envoy) ;;
    003) run 003/results 003 $(peers haproxy envoy) ;;
    004) run 004/results 004 $(peers synapse) ;;
    *) fail "there is no document $1" ;;
  esac
  case $1 in
    001) report 001 001/compiled ;;
    *) report "$1" ;;
  esac
}

# Seconds for each row, and other gateways in those that tell most. Rows beside a JVM are longer, which a few seconds do not warm up.
# Each row is in one folder only, so no table has it twice.
quickly() {
  local row='--quick -d 4' shorter='--quick -d 3' beside_java='--quick -d 8 -w 5' sockets='websocket-1 websocket-5'
  local seven='CloneAndAggregateWithFourBackendProxy CloneAndAggregateWithTwoBackendProxy DirectAPI DirectProxy
    EnrichBackAndForthProxy MessageBuildingProxy XSLTProxy'
  local further='CBRProxy IterateAndAggregateProxy PayloadFactoryWith50ElementsProxy' name but=''
  for name in $seven $further; do but+=" -e ^$name\$"; done
  case $1 in
    000) run 000/results 000 $beside_java $(peers nginx haproxy envoy envoy-authz envoy-proc spring) ;;
    001)
      run 001/results 001 -e endurance -e '^scen1$' $row $(peers nginx)
      # What compiling a definition once saves is shown by nginx, which can do both.
      run 001/compiled scen1 $row $(peers nginx nginx-compiles)
      # 2,000 users on 100 routes, whose definitions are compiled again every 5 s.
      run 001/endurance 001 -i endurance --quick -d 24 -w 4
      ;;
    002)
      run 002/results 002 $row -u 10 -u 50 -u 200 -u 500 -u 1000 -b 50 -b 10240 -b 102400
      run 002/users 002 $row -u 10 -u 50 -u 200 -u 500 -u 1000 -b 1024 $(peers haproxy envoy)
      run 002/beside 002 $beside_java -u 100 $(peers haproxy envoy spring)
      ;;
    003)
      run 003/results websub websocket-10 $row
      run 003/users $sockets $row -u 100 -u 200 -u 300 -u 400 -u 600 -u 800
      run 003/beside $sockets $beside_java -u 1000 $(peers haproxy envoy spring)
      # Connections are opened in 0 to 4 s, of the document's 0 to 20.
      run 003/ramps websocket-ramp --quick -d 9 -w 6
      # 5,000 connections take their time to open, before anything is measured.
      run 003/sse sse --quick -d 20 -w 15 $(peers haproxy envoy)
      ;;
    004)
      run 004/results $seven --quick -d 12 -w 9 -u 100 -b 1000 $(peers synapse)
      run 004/further $further --quick -d 12 -w 9 -u 100 -b 1000 $(peers synapse)
      run 004/sizes $seven $shorter -u 100 -b 500 -b 10000
      run 004/users $seven $shorter -u 200 -b 500 -b 1000 -b 10000
      # These have a hundred replies a second and not ten thousand.
      run 004/large $seven --quick -d 5 -u 100 -u 200 -b 100000
      run 004/others 004 $but $row -u 100 -b 1000
      ;;
    *) fail "there is no document $1" ;;
  esac
  case $1 in
    001) report 001 001/compiled 001/endurance ;;
    002) report 002 002/users 002/beside ;;
    003) report 003 003/users 003/beside 003/ramps 003/sse ;;
    004) report 004 004/further 004/sizes 004/users 004/large 004/others ;;
    *) report "$1" ;;
  esac
}

for document in $documents; do
  say "document $document"
  if [ -n "$quick" ]; then quickly "$document"; else whole "$document"; fi
done
[ -n "$estimate" ] || say "$(((SECONDS - began) / 60)) minutes"
exit $outcome
