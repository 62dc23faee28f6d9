#!/usr/bin/env bash
# Runs the packs of foreign tests that are on this machine, whole. PACKS=FOLDER says where they are; SUITES="xml xsd" runs
# only those; arguments go to `cargo xtask conformance SUITE PACK`.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The JSON-Schema-Test-Suite comes inside the sources of the Python package `jsonschema`.
json_schema_suite() {
  local folder=$target/packs name=jsonschema-4.26.0.tar.gz
  mkdir -p "$folder"
  [ -f "$folder/$name" ] || python3 -m pip download --quiet --disable-pip-version-check --no-deps \
    --no-binary :all: jsonschema==4.26.0 --dest "$folder" >&2 || return 1
  printf '%s\n' "$folder/$name"
}

archive_of() {
  case $1 in
    jsonschema) json_schema_suite ;;
    *) pack "$1" ;;
  esac
}

failed=()
for suite in ${SUITES:-http1 xml xsd xslt10 wsdl jose jsonschema}; do
  archive=$(archive_of "$suite") ||
    fail "the suite $suite is not on this machine; PACKS=FOLDER make conformance says where packs are"
  # The packs of the XML engine are large: with optimisation they take seconds.
  step "$suite" cargo run --quiet --release --package xtask -- conformance "$suite" "$archive" "$@" || failed+=("$suite")
done
[ "${#failed[@]}" -eq 0 ] || fail "not as expected: ${failed[*]}"
