#!/usr/bin/env bash
# Builds a release and installs it: the program, its manual pages, and completions for bash, zsh and fish. PREFIX (/usr/local) says
# where to, DESTDIR below which folder, for packagers; PROGRAM names one that is built already; BENCH names a built tidegate-bench, which
# is put beside it for `tidegate bench`. Where this user may not write, the copying alone is done by sudo.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

prefix=${DESTDIR:-}${PREFIX:-/usr/local}
program=${PROGRAM:-}
if [ -z "$program" ]; then
  program=$target/release/tidegate
  step "building a release" cargo build --release --locked -p tidegate --bin tidegate
fi

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
scripts/words.sh "$program" "$made"

# The nearest folder that is there says whether this user may write.
there=$prefix
while [ ! -d "$there" ]; do there=$(dirname "$there"); done
as_root=()
if [ ! -w "$there" ]; then
  command -v sudo >/dev/null 2>&1 || fail "$there is not yours: as root, or make install PREFIX=\$HOME/.local"
  as_root=(sudo)
fi

put() {
  "${as_root[@]}" install -D --mode "$1" "$2" "$prefix/$3"
}

put 755 "$program" bin/tidegate
[ -z "${BENCH:-}" ] || put 755 "$BENCH" bin/tidegate-bench
for page in "$made"/man/*.1; do put 644 "$page" "share/man/man1/${page##*/}"; done
put 644 "$made/tidegate.bash" share/bash-completion/completions/tidegate
put 644 "$made/_tidegate" share/zsh/site-functions/_tidegate
put 644 "$made/tidegate.fish" share/fish/vendor_completions.d/tidegate.fish

say "installed $prefix/bin/tidegate"
case ":$PATH:" in
  *":${PREFIX:-/usr/local}/bin:"*) ;;
  *) say "not on your PATH yet: export PATH=\"${PREFIX:-/usr/local}/bin:\$PATH\"" ;;
esac
