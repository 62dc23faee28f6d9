#!/usr/bin/env bash
# Puts into target/synapse what the import of its artifacts is compared with: Apache Synapse, from Maven Central, by the list of
# bench/synapse/pom.xml. Quick where it is there already. `tests/synapse_peer.rs` starts it.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

folder=$target/synapse
stamp=$(cat scripts/synapse.sh bench/synapse/pom.xml | sha256sum | cut -d' ' -f1)
if [ "$(cat "$folder/stamp" 2>/dev/null)" = "$stamp" ]; then exit 0; fi

if ! command -v java >/dev/null 2>&1 || ! command -v mvn >/dev/null 2>&1; then
  scripts/setup.sh java
fi

say "fetching Apache Synapse"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp bench/synapse/pom.xml "$work/pom.xml"
mvn -q -B -f "$work/pom.xml" dependency:copy-dependencies -DoutputDirectory="$work/jars"
rm -rf "$folder"
mkdir -p "$folder"
mv "$work"/jars/*.jar "$folder/"
printf '%s\n' "$stamp" >"$folder/stamp"
say "$folder: $(du -sh "$folder" | cut -f1)"
