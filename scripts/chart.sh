#!/usr/bin/env bash
# Lints and renders the Helm chart by Helm's own code, and compares the plain manifests with it; `chart.sh write` writes them anew.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python=$target/chart/bin/python
packages="helm-python-sdk==0.2.2 pyyaml==6.0.2"
if [ "$(cat "$target/chart/installed" 2>/dev/null)" != "$packages" ]; then
  say "installing Helm's library"
  python3 -m venv --clear "$target/chart"
  # It asks for a newer Python than it needs.
  # shellcheck disable=SC2086 # a list of words
  "$target/chart/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --ignore-requires-python $packages
  printf '%s\n' "$packages" >"$target/chart/installed"
fi
program=()
[ ! -x "$target/debug/tidegate" ] || program=("$target/debug/tidegate")
"$python" scripts/chart.py "${1:-check}" "${program[@]}"
