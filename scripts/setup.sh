#!/usr/bin/env bash
# Installs what building needs and this machine lacks. Does nothing, quickly, where nothing is missing.
# `setup.sh tests` also installs what tests compare with or speak to, `setup.sh java` a Java compiler, `setup.sh dist` what merges
# profiles, `setup.sh image` what makes container images, `setup.sh deny` what checks dependencies. Measuring and fuzzing install their
# own tools: bench/peers/install.sh, scripts/fuzz.sh.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# A C compiler builds aws-lc (TLS) and mimalloc; no cmake, no pkg-config. C++ is for the fuzz targets.
missing=()
command -v cc >/dev/null 2>&1 && command -v c++ >/dev/null 2>&1 || missing+=(build-essential)
command -v make >/dev/null 2>&1 || missing+=(make)
# cargo talks to crates.io over TLS and believes the system's authorities.
[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] ||
  missing+=(ca-certificates)

if [ "${1:-}" = tests ] || [ "${1:-}" = java ]; then
  # Stylesheets of XSLT 2.0 and 3.0 are run by Saxon, and Kafka is a Java program too; Maven is what fetches both.
  command -v javac >/dev/null 2>&1 || missing+=(default-jdk-headless)
  command -v mvn >/dev/null 2>&1 || missing+=(maven)
fi

if [ "${1:-}" = image ]; then
  for tool in podman runc mmdebstrap; do
    command -v "$tool" >/dev/null 2>&1 || missing+=("$tool")
  done
fi

if [ "${1:-}" = dist ]; then
  # It reads what the compiler's LLVM, which is newer, counts; the compiler's own comes with rustup's component llvm-tools.
  command -v llvm-profdata-19 >/dev/null 2>&1 || missing+=(llvm-19)
fi

if [ "${1:-}" = tests ]; then
  # The XML engine is compared with these two, limits are shared through the third, and flows ask the fourth.
  command -v xmllint >/dev/null 2>&1 || missing+=(libxml2-utils)
  command -v xsltproc >/dev/null 2>&1 || missing+=(xsltproc)
  command -v redis-server >/dev/null 2>&1 || missing+=(redis-server)
  # Debian keeps the server's programs off the path. The cluster that the package makes is nobody's; tests make their own.
  compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || command -v postgres >/dev/null 2>&1 ||
    missing+=(postgresql)
  command -v mariadbd >/dev/null 2>&1 || [ -x /usr/sbin/mariadbd ] || missing+=(mariadb-server)
  # Sets the wall clock of a gateway that runs.
  compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || missing+=(libfaketime)
  # A test of slow clients makes a network of its own.
  command -v ip >/dev/null 2>&1 || missing+=(iproute2)
  command -v unshare >/dev/null 2>&1 || missing+=(util-linux)
  # Clients of SOAP services and of streams: what they are made with.
  python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing+=(python3-venv)
  command -v npm >/dev/null 2>&1 || missing+=(nodejs npm)
  command -v wsdl2h >/dev/null 2>&1 || missing+=(gsoap)
  [ -e /usr/include/stdsoap2.h ] || missing+=(libgsoap-dev)
  # Builds h2spec, see tests/h2spec, and a peer of gRPC, see tests/grpc. Go's own installation is not on everybody's PATH.
  PATH=$PATH:/usr/local/go/bin
  [ -x "$target/tools/bin/h2spec" ] && [ -e "$target/grpc-peers/made-of" ] || command -v go >/dev/null 2>&1 || missing+=(golang-go)
  # Clients and servers of others, see tests/clients.
  command -v node >/dev/null 2>&1 || missing+=(nodejs)
  command -v npm >/dev/null 2>&1 || missing+=(npm)
  command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 ||
    command -v google-chrome >/dev/null 2>&1 || missing+=(chromium)
  # Tests alert and recording rules.
  command -v promtool >/dev/null 2>&1 || missing+=(prometheus)
  # One of the servers behind the gateway that speak HTTP/2.
  command -v nginx >/dev/null 2>&1 || [ -x /usr/sbin/nginx ] || missing+=(nginx-light)
fi

if [ "${#missing[@]}" -gt 0 ]; then
  say "installing ${missing[*]}"
  command -v apt-get >/dev/null 2>&1 || fail "install these with your package manager: ${missing[*]}"
  as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || fail "not root and no sudo; as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# Debian's own Rust is too old for this project, so it is never installed from there.
wanted=$(awk -F '"' '/^rust-version/ { print $2; exit }' Cargo.toml)
command -v cargo >/dev/null 2>&1 || fail "there is no Rust; install $wanted or newer from https://rustup.rs"
found=$(rustc --version | awk '{ print $2 }')
printf '%s\n' "$wanted" "${found%%-*}" | sort -V -C ||
  fail "Rust $found is too old: run \`rustup update\`, or install $wanted or newer"

# What tests/clients names, installed again only when that changes.
if [ "${1:-}" = tests ]; then
  clients=$(cat tests/clients/package-lock.json tests/clients/requirements.txt | sha256sum)
  if [ "$(cat "$target/clients/installed" 2>/dev/null)" != "$clients" ]; then
    say "installing the clients of tests/clients"
    mkdir -p "$target/clients"
    cp tests/clients/package.json tests/clients/package-lock.json tests/clients/.npmrc "$target/clients/"
    (cd "$target/clients" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
    python3 -m venv --clear "$target/clients/python"
    "$target/clients/python/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
      --requirement tests/clients/requirements.txt
    printf '%s\n' "$clients" >"$target/clients/installed"
  fi
fi

if [ "${1:-}" = tests ] && [ ! -x "$target/tools/bin/h2spec" ]; then
  say "building h2spec"
  mkdir -p "$target/tools/bin"
  tools=$(cd "$target/tools/bin" && pwd)
  (cd tests/h2spec && GOTOOLCHAIN=local go build -o "$tools/h2spec" github.com/summerwind/h2spec/cmd/h2spec)
fi

# One version, so that a newer one with stricter rules fails no build of an old commit.
cargo_deny=0.20.2
if [ "${1:-}" = deny ] && [ "$("$target/tools/bin/cargo-deny" --version 2>/dev/null)" != "cargo-deny $cargo_deny" ]; then
  say "building cargo-deny $cargo_deny"
  cargo install cargo-deny --locked --version "$cargo_deny" --root "$target/tools"
fi

if [ "${1:-}" = tests ]; then
  scripts/saxon.sh
  scripts/kafka.sh
  scripts/synapse.sh
fi

if [ "${1:-}" = tests ]; then
  tests/soap_clients/install.sh
  tests/grpc/install.sh
  tests/websub_peers/install.sh
fi
