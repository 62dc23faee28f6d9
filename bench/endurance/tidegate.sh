#!/usr/bin/env bash
# Prints the configuration of the endurance run: ROUTES routes of each of the scenarios 1, 5, 9 and 10, whose definitions are made
# anew every TTL, the JWT API, flows, streams and a hub. Called by scripts/endurance.sh, which sets the addresses of the backends.
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
: "${ROUTES:?}" "${TTL:?}" "${SOAP1:?}" "${SOAP2:?}" "${HTTPBIN:?}" "${ECHO:?}" "${SSE:?}" "${REVERSE:?}"
cat << YAML
listen: { public: { address: "127.0.0.1:0" } }
admin: { address: "127.0.0.1:0" }
shutdown: { delay: 0s }
issuers: { main: { issuer: "https://bench.test", keys: [jwks.json] } }
store: { path: var }
# Java touches all of its heap before it collects much. With the default of 256 MiB, that alone would take longer than the run.
saxon: { heap_bytes_max: 64MiB }
upstreams:
  calculator: { targets: ["http://$SOAP1"] }
  calculator2: { targets: ["http://$SOAP2"] }
  httpbin: { targets: ["http://$HTTPBIN"] }
  echo: { targets: ["http://$ECHO"] }
  sse: { targets: ["http://$SSE"] }
  reverse: { targets: ["http://$REVERSE"] }
  nobody: { targets: ["http://127.0.0.1:1"] }
hubs:
  news:
    topics: [news]
    secret: endurance
    retention: { age: 1m, bytes: 2MiB }
    callbacks: { allow: ["127.0.0.0/8"] }
    # One subscriber fails twice for each event, in order: with pauses of a second it would fall behind.
    delivery: { initial: 20ms }
YAML
sed -n '/^flows:/,/^cases:/p' integration/tidegate.yaml | sed -e '/^cases:/d' -e '/^# Test cases/d' -e 's/there\.xsl/integration\/there.xsl/; s/back\.xsl/integration\/back.xsl/'
echo "routes:"
policies() {
  case $1 in
    1) echo "      - soap: { schema: soap/calculator/calculator.wsdl, verbose: true, fetch: { ttl: $TTL } }" ;;
    5) cat << YAML
      - xslt: { on: request, stylesheet: soap/rename.xsl, verbose: true, fetch: { ttl: $TTL } }
      - soap: { schema: soap/calculator/calculator.wsdl, action: required, verbose: true, fetch: { ttl: $TTL } }
      - xslt: { on: request, stylesheet: soap/thirteen.xsl, verbose: true, fetch: { ttl: $TTL } }
      - xpath_route:
          namespaces: { t: "http://tempuri.org/" }
          cases: [{ xpath: "/soap:Envelope/soap:Body/t:Add/t:intA", equals: "5", upstream: calculator2 }]
          verbose: true
      - xslt: { on: response, stylesheet: soap/strip.xsl, verbose: true, fetch: { ttl: $TTL } }
      - soap: { schema: soap/calculator/kong-result.wsdl, validate: [response], verbose: true, fetch: { ttl: $TTL } }
      - xslt: { on: response, stylesheet: soap/kong-result.xsl, verbose: true, fetch: { ttl: $TTL } }
YAML
    ;;
    9) cat << YAML
      - xslt: { on: response, stylesheet: soap/saxon/soap-to-json.xsl, engine: saxon, verbose: true, fetch: { ttl: $TTL } }
      - xslt: { on: request, stylesheet: soap/saxon/json-to-soap.xsl, engine: saxon, verbose: true, fetch: { ttl: $TTL } }
      - soap: { schema: soap/calculator/calculator.wsdl, validate: [request, response], verbose: true, fetch: { ttl: $TTL } }
YAML
    ;;
    10) cat << YAML
      - soap: { envelope: { "1.1": soap/saxon/company.xsd }, validate: [request, response], verbose: true, fetch: { ttl: $TTL } }
      - xslt: { on: request, stylesheet: soap/saxon/company-to-json.xsl, engine: saxon, verbose: true, fetch: { ttl: $TTL } }
      - xslt: { on: response, stylesheet: soap/saxon/json-to-company.xsl, engine: saxon, verbose: true, fetch: { ttl: $TTL } }
YAML
    ;;
  esac
}
for scenario in 1 5 9 10; do
  path=/ws upstream=calculator
  if [ "$scenario" = 10 ]; then path=/anything upstream=httpbin; fi
  for route in $(seq "$ROUTES"); do
    printf '  scen%s-%s:\n    match: { path: "/scen%s/%s" }\n    rewrite: %s\n    errors: kong\n    policies:\n' "$scenario" "$route" "$scenario" "$route" "$path"
    policies "$scenario"
    echo "    upstream: $upstream"
  done
done
cat << 'YAML'
  api: { match: { path: "/api/**" }, policies: [{ jwt: { issuers: [main] } }], upstream: echo }
  broken:
    match: { path: "/broken" }
    errors: kong
    policies: [{ soap: { schema: soap/calculator/invalid.wsdl, verbose: true, bad_definitions: fault } }]
    upstream: calculator
  down: { match: { path: "/down" }, upstream: nobody }
  xslt: { match: { path: "/services/XSLTProxy/**" }, flow: xslt-both-ways }
  build: { match: { path: "/services/MessageBuildingProxy/**" }, flow: build }
  clone4: { match: { path: "/services/CloneAndAggregateWithFourBackendProxy/**" }, flow: clone4 }
  enrich: { match: { path: "/services/EnrichBackAndForthProxy/**" }, flow: enrich }
  events: { match: { path: "/sse/**" }, policies: [{ sse: { events: 1000000, per: 1h } }], upstream: sse }
  sockets: { match: { path: "/ws/**" }, policies: [{ websocket: { messages: 1000000, per: 1h, message_bytes_max: 64KiB } }], upstream: reverse }
  news: { match: { path: "/news/**" }, hub: news }
YAML
