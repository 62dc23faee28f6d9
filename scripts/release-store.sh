#!/usr/bin/env bash
# Writes tests/releases/VERSION for the version in Cargo.toml: a store as this version writes it, which the tests of all later versions
# open. A folder that belongs to a release is not written again. See RELEASING.md.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
! git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null || fail "$version is released: its store is never changed"
scripts/setup.sh
export UPDATE_RELEASE=1
cargo test --locked --package hub --package queues --package catalog --lib releases
cargo test --locked --package store --test contract releases
say "tests/releases/$version: $(ls "tests/releases/$version" | paste -sd' ')"
