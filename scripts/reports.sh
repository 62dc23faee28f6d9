#!/usr/bin/env bash
# The load tests of the five reference documents, with their tables and graphs.
#
#   reports.sh           rows as long as in the documents (17 hours; those of 24 hours are `endurance.sh --day`)
#   reports.sh --quick   seconds for each row: every table and graph in half an hour
#
# OUT=DIR (target/reports) has a folder for each document: results, report.html, summary.csv and graphs; an interrupted run goes on
# where it was. DOCUMENTS="000 002" runs those alone. PEERS=nginx,envoy names the gateways beside ours (by default those that are
# installed, see `make peers`; `none` for none). PAGES=DIR writes the pages of docs/results there. TIDEGATE and BENCH name built programs.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
quick=''
case "${1:-}" in
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;;
  --quick) quick=1 ;;
  '') ;;
  *) fail "reports.sh: no option $1" ;;
esac
if [ -z "${TIDEGATE:-}" ]; then
  cargo build --release --locked --package tidegate --package bench --bins
  TIDEGATE=$target/release/tidegate BENCH=$target/release/tidegate-bench
fi
tidegate=$(realpath "$TIDEGATE") bench=$(realpath "${BENCH:?}")
scripts/saxon.sh > /dev/null
export TIDEGATE_SAXON=${TIDEGATE_SAXON:-$(realpath "$target/saxon")}
out=${OUT:-$target/reports}
documents=${DOCUMENTS:-000 001 002 003 004}
# 5,000 event streams and 10,000 subscribers need two descriptors each.
ulimit -n "$(ulimit -H -n)"
began=$SECONDS
outcome=0

installed() {
  [ -x "$target/tools/bin/$1" ] || [ -d "$target/tools/peers/$1" ] || command -v "$1" > /dev/null || [ -x "/usr/sbin/$1" ]
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
  shift
  [ ! -e "$folder/test-metadata.json" ] || resume=--resume
  # Words of --peers are arguments.
  # shellcheck disable=SC2068
  "$bench" run $@ $resume --tidegate "$tidegate" --out "$folder" || outcome=1
}

# Writes tables, graphs and the page of a document, from its folder and further ones.
report() {
  local number=$1 arguments=()
  shift
  local with
  for with in "$@"; do arguments+=(--with "$out/$with"); done
  [ -z "${PAGES:-}" ] || arguments+=(--pages "$PAGES")
  "$bench" report "$out/$number/results" "${arguments[@]}" --html "$out/$number/report.html" --markdown "$out/$number/report.md" \
    --csv "$out/$number/summary.csv" --png "$out/$number/graphs" > /dev/null || outcome=1
  say "$out/$number/report.html"
}

seven='CloneAndAggregateWithFourBackendProxy CloneAndAggregateWithTwoBackendProxy DirectAPI DirectProxy EnrichBackAndForthProxy
  MessageBuildingProxy XSLTProxy'
others='-e ^Direct(API|Proxy)$ -e ^CloneAndAggregateWith(Two|Four) -e ^EnrichBack -e ^MessageBuildingProxy$ -e ^XSLTProxy$'
short=()
[ -z "$quick" ] || short=(--quick -d 4)
for document in $documents; do
  say "document $document"
  case $document in
    000) run 000/results 000 ${short[@]+"${short[@]}"} $(peers nginx haproxy envoy) ;;
    001) run 001/results 001 -e endurance ${short[@]+"${short[@]}"} $(peers nginx) ;;
    002)
      if [ -z "$quick" ]; then
        run 002/results 002 $(peers envoy)
      else
        run 002/results 002 "${short[@]}" -u 10 -u 50 -u 200 -u 500 -u 1000
        run 002/beside 002 "${short[@]}" -u 100 $(peers envoy)
      fi
      ;;
    003)
      run 003/results 003 -e '^sse$' ${short[@]+"${short[@]}"}
      # 5,000 connections take their time to open, before anything is measured.
      if [ -n "$quick" ]; then run 003/sse sse --quick -d 20 -w 15; else run 003/sse sse; fi
      ;;
    004)
      if [ -z "$quick" ]; then
        run 004/results 004 $(peers synapse)
      else
        # The engine of Micro Integrator takes ten seconds to start, so it runs only some rows. The other flows have one row each.
        run 004/results $seven "${short[@]}" -u 100 -b 1000 $(peers synapse)
        run 004/sizes $seven "${short[@]}" -u 100 -b 500 -b 10000 -b 100000
        run 004/users $seven "${short[@]}" -u 200
        run 004/others 004 $others "${short[@]}" -u 100 -b 1000
      fi
      ;;
    *) fail "there is no document $document" ;;
  esac
  case $document$quick in
    0021) report 002 002/beside ;;
    003*) report 003 003/sse ;;
    0041) report 004 004/sizes 004/users 004/others ;;
    *) report "$document" ;;
  esac
done
say "$(((SECONDS - began) / 60)) minutes"
exit $outcome
