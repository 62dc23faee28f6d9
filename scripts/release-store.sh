#!/usr/bin/env bash
# Writes tests/releases/VERSION for the version in Cargo.toml: a store as this version writes it, which the tests of all later versions
# open. The folder of a released version is not written again. See RELEASING.md.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
released=$(release_tags)
! grep -qxF "v$version" <<<"$released" || fail "$version is released: its store is never changed"
scripts/setup.sh tests
export UPDATE_RELEASE=1
# The tests of the store write what the other ones have written.
cargo test --locked --package hub --package queues --package catalog --lib releases
cargo test --locked --package store --test contract releases
say "tests/releases/$version: $(ls "tests/releases/$version" | paste -sd' ')"
