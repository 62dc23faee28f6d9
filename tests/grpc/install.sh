#!/usr/bin/env bash
# Installs the peers of tests/grpc.rs: grpcio, and a program of grpc-go, all below grpc-peers in the target folder. Does nothing,
# quickly, where what is there was made of the same files.
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

here=tests/grpc
mkdir -p "$target"
folder=$(realpath "$target")/grpc-peers
made_of=$(cat "$here/go.mod" "$here/go.sum" "$here"/*.go "$here/requirements.txt" | sha256sum)
[ "$(cat "$folder/made-of" 2>/dev/null)" = "$made_of" ] && exit 0

say "installing the peers of tests/grpc"
rm -rf "$folder"
mkdir -p "$folder"

python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --requirement "$here/requirements.txt"
# A path without the version of Python, for tests.
ln -s "$("$folder/python/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" "$folder/python/packages"

# Go's own installation is not on everybody's PATH.
PATH=$PATH:/usr/local/go/bin
(cd "$here" && GOTOOLCHAIN=local go build -o "$folder/peer" .)

printf '%s\n' "$made_of" >"$folder/made-of"
