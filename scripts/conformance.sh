#!/usr/bin/env bash
# Runs the packs of foreign tests that are on this machine, whole. PACKS=FOLDER says where they are; SUITES="xml xsd" runs
# only those; arguments go to `cargo xtask conformance SUITE PACK`.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

failed=()
for suite in ${SUITES:-http1 xml xsd xslt10 wsdl jose}; do
  archive=$(pack "$suite") ||
    fail "$suite.tar.gz is not on this machine; PACKS=FOLDER make conformance says where packs are"
  # The packs of the XML engine are large: with optimisation they take seconds.
  step "$suite" cargo run --quiet --release --package xtask -- conformance "$suite" "$archive" "$@" || failed+=("$suite")
done
[ "${#failed[@]}" -eq 0 ] || fail "not as expected: ${failed[*]}"
