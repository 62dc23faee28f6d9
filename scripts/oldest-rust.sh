#!/usr/bin/env bash
# Compiles the workspace with the oldest Rust that it promises to work with: `rust-version` in Cargo.toml. rustup fetches it.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
rustup toolchain install "$oldest" --profile minimal
step "Rust $oldest" cargo +"$oldest" check --workspace --locked
