#!/usr/bin/env bash
# Puts into target/kafka what tests speak to: Apache Kafka with its tools, from Maven Central. Quick where it is there already.
# `tests/harness/kafka.rs` starts it.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# One version, which the tests have run with.
version=4.3.1
folder=$target/kafka

stamp=$(sha256sum scripts/kafka.sh | cut -d' ' -f1)
if [ "$(cat "$folder/stamp" 2>/dev/null)" = "$stamp" ]; then exit 0; fi

if ! command -v java >/dev/null 2>&1 || ! command -v mvn >/dev/null 2>&1; then
  scripts/setup.sh java
fi

say "fetching Kafka $version"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Kafka Connect and its web server come with the tools, and nobody asks them for anything.
cat >"$work/pom.xml" <<EOF
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tidegate</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$version</version></dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$version</version>
      <exclusions>
        <exclusion><groupId>org.apache.kafka</groupId><artifactId>connect-runtime</artifactId></exclusion>
        <exclusion><groupId>org.apache.kafka</groupId><artifactId>connect-api</artifactId></exclusion>
        <exclusion><groupId>org.apache.kafka</groupId><artifactId>connect-json</artifactId></exclusion>
      </exclusions>
    </dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
EOF
mvn -q -f "$work/pom.xml" dependency:copy-dependencies -DoutputDirectory="$work/jars" -DincludeScope=runtime
rm -rf "$folder"
mkdir -p "$folder"
mv "$work"/jars/*.jar "$folder/"
printf '%s\n' "$stamp" >"$folder/stamp"
say "$folder: $(du -sh "$folder" | cut -f1)"
