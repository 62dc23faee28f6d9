#!/usr/bin/env bash
# Makes the Debian package, and tries it: installed, started, upgraded, removed and purged in a folder of its own. BUILD is the
# profile of the program: release, dist (what `make dist` builds) or dev. cargo-deb is installed where it is missing.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

build=${BUILD:-release}
command -v dpkg-deb >/dev/null 2>&1 || fail "there is no dpkg here; scripts/install.sh installs anywhere"
if ! cargo deb --version >/dev/null 2>&1; then
  step "installing cargo-deb" cargo install cargo-deb --locked --version '^3.8'
fi

case $build in
  dist) scripts/dist.sh ;;
  *) step "building ($build)" cargo build --profile "$build" --locked -p tidegate --bin tidegate ;;
esac
folder=$target/$build
[ "$build" != dev ] || folder=$target/debug

scripts/words.sh "$folder/tidegate" "$folder/package"
gzip --best --no-name "$folder"/package/man/*.1
# A program with its debug information is not worth minutes of packing.
fast=()
[ "$build" != dev ] || fast=(--fast)
mkdir -p "$target/debian"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
package=$target/debian/tidegate_$version-1_$(dpkg --print-architecture).deb
step "packing" cargo deb --package tidegate --no-build --locked --quiet "${fast[@]}" --profile "$build" --output "$package"
# cargo-deb leaves the symbols out. Those of this very program are kept beside the package.
if [ "$build" != dev ]; then
  scripts/symbols.sh "$folder/tidegate" "$folder/shipped"
  mv "$folder/shipped/tidegate.debug" "${package%.deb}.debug"
fi
step "trying it" env SHIPPED="$([ "$build" = dev ] || echo yes)" scripts/try-deb.sh "$package"
say "$package"
