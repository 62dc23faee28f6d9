#!/usr/bin/env bash
# Licences, duplicates, sources and known vulnerabilities of what is built in: deny.toml has the rules and the exceptions.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/setup.sh deny
deny=$target/tools/bin/cargo-deny
"$deny" --locked check bans licenses sources
# The list of advisories comes from the network. If it cannot be fetched, the check for known vulnerabilities is skipped.
if "$deny" fetch db >/dev/null 2>&1; then
  "$deny" --locked check --disable-fetch advisories
else
  say "SKIPPED: the list of advisories could not be fetched, so known vulnerabilities are not checked"
fi
