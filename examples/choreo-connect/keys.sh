#!/usr/bin/env bash
# Makes what no repository should hold: a key, its public half for the gateway, and a token signed with it.
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
cd "$(dirname "$0")"
tidegate=${TIDEGATE:-tidegate}
mkdir -p keys
"$tidegate" token --key keys/key.pem --algorithm rs256 --jwks > keys/jwks.json
"$tidegate" token --key keys/key.pem --issuer https://localhost:9095/testkey --subject ann \
  --claim keytype=PRODUCTION --expires 24h > keys/token
