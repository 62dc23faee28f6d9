#!/usr/bin/env bash
# Runs public flows of Apache Synapse on Synapse itself and on what `tidegate import synapse` makes of them, with the same requests and
# backends, and compares what clients and backends see. tests/synapse/differences.txt has what is known to differ, with reasons.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/synapse.sh
TIDEGATE_SYNAPSE=all cargo test --locked -p tidegate --test blackbox -- --nocapture synapse_peer:: "$@"
