# Read by the other scripts: the root of the project, and one way to speak.
# shellcheck shell=bash
set -euo pipefail

# A script that is asked for help prints the comment at its top, and does nothing else.
for argument in "$@"; do
  case $argument in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Where cargo puts what it builds.
target=${CARGO_TARGET_DIR:-target}

# Bold where somebody reads it on a terminal.
say() {
  if [ -t 1 ]; then printf '\033[1m==> %s\033[0m\n' "$*"; else printf '==> %s\n' "$*"; fi
}

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Runs a step under its name and says how long it took.
step() {
  local name=$1 began=$SECONDS
  shift
  say "$name"
  "$@"
  say "$name: $((SECONDS - began)) s"
}

# The folder that holds suites of foreign tests.
packs() { printf '%s\n' "${PACKS:-${TIDEGATE_PACKS:-../shared/conformance}}"; }

# The archive of a suite, or nothing where it is not on this machine.
pack() {
  local archive
  archive=$(packs)/$1.tar.gz
  [ -f "$archive" ] && printf '%s\n' "$archive"
}

# The tags of releases, here and in the repository that this one is a clone of. A clone of one commit has none itself.
release_tags() {
  git tag --list 'v*'
  if git remote get-url origin >/dev/null 2>&1; then
    git ls-remote --tags --refs origin 'v*' | sed 's|.*refs/tags/||'
  fi
}
