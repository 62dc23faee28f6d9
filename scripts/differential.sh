#!/usr/bin/env bash
# Compares the XML engine with libxml2, libxslt, Xerces-J and Saxon 6.5 on documents made and mutated at random: where the
# others agree and ours says something else, it is printed and the exit code is 1. Arguments go to
# `cargo xtask differential`: --rounds N, --seed N. Then the tests of messages run once more without the shortcuts of
# docs/adr/0025.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if ! command -v javac >/dev/null 2>&1 || ! command -v mvn >/dev/null 2>&1; then
  say "installing a Java compiler and Maven"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends default-jdk-headless maven
fi

jars=$target/oracle
mkdir -p "$jars"
for artifact in xerces:xercesImpl:2.12.2 xml-apis:xml-apis:1.4.01 saxon:saxon:6.5.3; do
  name=$(cut -d: -f2,3 --output-delimiter=- <<<"$artifact").jar
  [ -f "$jars/$name" ] || mvn -q dependency:copy -Dartifact="$artifact" -DoutputDirectory="$jars"
done
class_path="$jars/xercesImpl-2.12.2.jar:$jars/xml-apis-1.4.01.jar:$jars/saxon-6.5.3.jar"
javac -nowarn -Xlint:none -cp "$class_path" -d "$jars" xtask/oracle/Oracle.java
cargo run --quiet --release --package xtask -- differential --java "$class_path:$jars" "$@"
TIDEGATE_XML_SHORTCUTS=off step "tests without shortcuts" cargo test --locked --package xml --package xslt --package expression --package flows --package mediation --package wsdl
TIDEGATE_XML_SHORTCUTS=off step "black-box tests without shortcuts" cargo test --locked --package tidegate --test blackbox -- soap:: soap_ flow stylesheet_rules:: message_rules:: messages:: ws_security:: interceptor::
