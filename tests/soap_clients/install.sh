#!/usr/bin/env bash
# Installs the SOAP clients that tests/soap_clients.rs calls: zeep, node-soap, CXF, and a program made by gSOAP, all below
# soap-clients in the target folder. Does nothing, quickly, where what is there was made of the same files.
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

here=tests/soap_clients
mkdir -p "$target"
folder=$(realpath "$target")/soap-clients
wsdl=examples/soap/calculator/calculator.wsdl
made_of=$(cat "$here"/*.* "$wsdl" | sha256sum)
[ "$(cat "$folder/made-of" 2>/dev/null)" = "$made_of" ] && exit 0

rm -rf "$folder"
mkdir -p "$folder/gsoap"

python3 -m venv "$folder/zeep"
"$folder/zeep/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"

cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$folder"
(cd "$folder" && npm ci --silent --ignore-scripts --no-audit --no-fund)

mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$folder/cxf"

# A program for each version of SOAP: without a choice gSOAP speaks the later one.
wsdl2h -o "$folder/gsoap/calculator.h" "$wsdl" >/dev/null 2>&1
for version in 1 2; do
  mkdir "$folder/gsoap/soap$version"
  (cd "$folder/gsoap/soap$version" && soapcpp2 "-$version" -j -CL -x ../calculator.h >/dev/null 2>&1)
  c++ -O0 -w -I "$folder/gsoap/soap$version" -o "$folder/gsoap/client$version" "$here/gsoap.cpp" \
    "$folder/gsoap/soap$version/"*.cpp -lgsoap++
done

printf '%s\n' "$made_of" > "$folder/made-of"
