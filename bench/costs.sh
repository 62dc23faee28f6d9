#!/usr/bin/env bash
# What a request costs: the rows of a file of scenarios by the program as it is shipped, beside other gateways and another build in the
# same rounds, with CPU time for each request, ratios and targets.
#
#   costs.sh policies           a file of bench/scenarios: proxy, policies, flows, soap, streams, hub or operations; further arguments go to
#                               `tidegate-bench run`: -i REGEX, --rounds N (5), -d SECONDS, --peers nginx,envoy, --before PROGRAM, --strict
#
# PEERS=none measures no other gateway; by default those that can do the work and are installed, see `make peers`. PROFILE=none builds
# without a profile; TIDEGATE and BENCH name built programs. OUT=DIR keeps the results there instead of target/bench.
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"
file=${1:?proxy, policies, flows, soap, streams, hub or operations}
shift
[ -e "bench/scenarios/costs-$file.yaml" ] || fail "costs.sh: bench/scenarios/costs-$file.yaml does not exist"
if [ -z "${TIDEGATE:-}" ]; then
  scripts/dist.sh bench
  TIDEGATE=$target/dist/tidegate BENCH=$target/dist/tidegate-bench
fi
arguments=()
case $file in
  proxy) peers='nginx haproxy envoy' ;;
  policies) peers='envoy' ;;
  flows) peers='nginx synapse' ;;
  streams) peers='nginx haproxy envoy' ;;
  *) peers='' ;;
esac
installed() {
  [ -x "$target/tools/bin/$1" ] || [ -d "$target/tools/peers/$1" ] || command -v "$1" > /dev/null || [ -x "/usr/sbin/$1" ]
}
if [ "${PEERS:-}" != none ] && [[ " $* " != *' --peers '* ]]; then
  names=()
  for peer in $peers; do ! installed "$peer" || names+=("$peer"); done
  IFS=,
  [ "${#names[@]}" = 0 ] || arguments+=(--peers "${names[*]}")
  unset IFS
fi
[[ " $* " == *' --rounds '* ]] || arguments+=(--rounds 5)
# The stylesheets of XSLT 3.0.
if [ "$file" = soap ] && scripts/saxon.sh > /dev/null; then
  export TIDEGATE_SAXON=${TIDEGATE_SAXON:-$(realpath "$target/saxon")}
fi
# 10,000 subscribers and 5,000 streams have two descriptors each.
ulimit -n "$(ulimit -H -n)"
out=${OUT:-$target/bench/costs-$file-$(date -u +%Y%m%dT%H%M%SZ)}
mkdir -p "$(dirname "$out")"
say "results: $out"
exec "${BENCH:?}" run "costs-$file" --tidegate "$TIDEGATE" --out "$out" "${arguments[@]}" "$@"
