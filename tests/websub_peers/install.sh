#!/usr/bin/env bash
# Installs the peer of tests/websub_peers.rs, Flask-WebSub, below websub-peers in the target folder. Does nothing, quickly, where
# what is there was made of the same file.
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

here=tests/websub_peers
mkdir -p "$target"
folder=$(realpath "$target")/websub-peers
made_of=$(sha256sum <"$here/requirements.txt")
[ "$(cat "$folder/made-of" 2>/dev/null)" = "$made_of" ] && exit 0

say "installing the peer of tests/websub_peers"
rm -rf "$folder"
mkdir -p "$folder"
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"
printf '%s\n' "$made_of" >"$folder/made-of"
