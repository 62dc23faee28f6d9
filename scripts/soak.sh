#!/usr/bin/env bash
# What takes hours: RELOADS (1,000) reloads of ROUTES (2,000) routes with streams opened at each, none of which may be dropped or keep
# what it does not need; as many under load; UPGRADES (50) of the program under load; CONNECTS (100,000) streams of each kind that come and go, of which
# nothing may stay, and STREAM_RELOADS (1,000) reloads under STREAMS (1,000) of each kind; FAULTS (10,000) of each kind of fault of flows, of which nothing may stay, and CLIENTS
# (50) that get ANSWERS (10,000) each from several branches, none of them another's; SEEDS (10,000) of crashes of the store on a bad
# disk, and KILLS (100) of a process that writes to real files; LEASES (1,000,000) of a second at a hub; as many kills (50) of one of
# two gateways over a database, and as many while objects of a catalog are created; GUESSES (1,000,000) wrong secrets at a catalog, and
# SUBSCRIPTIONS (1,000,000) in one; SOAP_ROUTES (500) of Kong's SOAP/XML plugins that download schemas; ENDURANCE_MINUTES (15) of everything at once, judged by slopes; the load generator beside k6 and
# JMeter; then each fuzz target for SECONDS_EACH seconds (600). The names of fuzz targets run those alone,
# `reloads` only the first, `upgrades` only the upgrades, `streams` only the streams, `faults` only what concerns flows, `store` only the
# crashes, `leases` only the leases, `nodes` only the two gateways, `catalog` only wrong secrets and subscriptions, `soap` only the routes of the SOAP/XML plugins, `endurance` only
# everything at once, and `agree` only the load tools.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# One test of the suite, as long as the variables say.
suite() {
  cargo test --profile "${PROFILE:-release}" --locked --package tidegate --test blackbox "$1" -- --nocapture "${@:2}"
}

reloads() {
  # A stream is two connections, and so two descriptors of each process for each connection.
  ulimit -n "$(ulimit -H -n)"
  TIDEGATE_SOAK_RELOADS=${RELOADS:-1000} TIDEGATE_SOAK_ROUTES=${ROUTES:-2000} \
    TIDEGATE_SOAK_LOADED_RELOADS=${RELOADS:-1000} suite reload_soak:: --test-threads=1
}

upgrades() {
  TIDEGATE_SOAK_UPGRADES=${UPGRADES:-50} suite upgrade_soak::
}

streams() {
  ulimit -n "$(ulimit -H -n)"
  TIDEGATE_SOAK_CONNECTS=${CONNECTS:-100000} TIDEGATE_SOAK_STREAMS=${STREAMS:-1000} \
    TIDEGATE_SOAK_STREAM_RELOADS=${STREAM_RELOADS:-1000} suite stream_soak:: --test-threads=1
}

faults() {
  TIDEGATE_SOAK_FAULTS=${FAULTS:-10000} suite flow_soak::
  TIDEGATE_SOAK_CLIENTS=${CLIENTS:-50} TIDEGATE_SOAK_ANSWERS=${ANSWERS:-10000} suite flow_runs::
}

crashes() {
  TIDEGATE_STORE_SEEDS=0..${SEEDS:-10000} TIDEGATE_STORE_KILLS=${KILLS:-100} \
    cargo test --profile "${PROFILE:-release}" --locked --package store
}

leases() {
  TIDEGATE_SOAK_LEASES=${LEASES:-1000000} suite websub::leases_of_a_second_leave_nothing_behind
}

soap() {
  TIDEGATE_SOAK_SOAP_ROUTES=${SOAP_ROUTES:-500} suite kong_scale::
}

endurance() {
  scripts/endurance.sh --minutes "${ENDURANCE_MINUTES:-15}"
}

nodes() {
  TIDEGATE_SOAK_KILLS=${KILLS:-50} suite node_soak::
  TIDEGATE_SOAK_KILLS=${KILLS:-50} suite catalog_kills::
}

catalog() {
  TIDEGATE_SOAK_GUESSES=${GUESSES:-1000000} suite catalog_hostile::wrong_secrets
  TIDEGATE_SOAK_SUBSCRIPTIONS=${SUBSCRIPTIONS:-1000000} suite catalog_scale::
}

if [ $# = 0 ] || [ "$*" = reloads ]; then step "reloads under open streams" reloads; fi
if [ $# = 0 ] || [ "$*" = upgrades ]; then step "upgrades under load" upgrades; fi
if [ $# = 0 ] || [ "$*" = streams ]; then step "streams of every kind" streams; fi
if [ $# = 0 ] || [ "$*" = faults ]; then step "faults of flows" faults; fi
if [ $# = 0 ] || [ "$*" = store ]; then step "crashes of the store" crashes; fi
if [ $# = 0 ] || [ "$*" = leases ]; then step "leases of a second" leases; fi
if [ $# = 0 ] || [ "$*" = nodes ]; then step "kills of two gateways over a database" nodes; fi
if [ $# = 0 ] || [ "$*" = catalog ]; then step "a catalog with strangers and many subscriptions" catalog; fi
if [ $# = 0 ] || [ "$*" = soap ]; then step "many routes of Kong's SOAP/XML plugins" soap; fi
if [ $# = 0 ] || [ "$*" = endurance ]; then step "everything at once, with mistakes" endurance; fi
if [ $# = 0 ] || [ "$*" = agree ]; then step "the load generator beside k6 and JMeter" scripts/agree.sh; fi
case "$*" in agree | catalog | soap | endurance | reloads | upgrades | streams | faults | store | leases | nodes) exit 0 ;; esac
SECONDS_EACH=${SECONDS_EACH:-600} scripts/fuzz.sh "$@"
