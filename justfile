# `just check` is what CI runs, cheapest first.

# All of it
check: fmt lint test slow

# Formatting
fmt:
    cargo fmt --all --check

# Lints
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# Tests that need no GPU, no network, no browser
test:
    cargo test --workspace

# The real model, the WebAssembly build
slow: smollm2 wasm
    cargo test --workspace --test smollm2 -- --ignored --nocapture

# The rollout crate compiles for browsers
wasm:
    .ci/wasm-check

# Fetch SmolLM2-135M-Instruct into models/
smollm2:
    scripts/smollm2

# Fetch the sentence encoder all-MiniLM-L6-v2 into models/
minilm:
    scripts/minilm

# BM25 beside the PyPI package bm25s: just bm25s CORPUS QUESTIONS
bm25s corpus questions:
    cargo build --release --workspace --bins --examples && scripts/bm25s {{corpus}} {{questions}}

# An index over a million invented passages
scale:
    cargo build --release --workspace --bins --examples && scripts/scale

# Three REX steps on SmolLM2
demo: smollm2
    cargo run --release -- train -c configs/smollm2-mini.toml trainer.total_steps=3
