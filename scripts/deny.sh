#!/usr/bin/env bash
# Licences, duplicates, sources and known vulnerabilities of what is built in: deny.toml has the rules and the exceptions.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/setup.sh deny
deny=$target/tools/bin/cargo-deny
"$deny" --locked check bans licenses sources
# The list of advisories is a repository of others. Where it cannot be fetched, and was not before, nothing can be said of them.
if "$deny" fetch db >/dev/null 2>&1; then
  "$deny" --locked check --disable-fetch advisories
else
  say "SKIPPED: the list of advisories could not be fetched, so known vulnerabilities are not checked"
fi
