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

# The real model, the browser demo
slow: smollm2 mpi web web-test
    cargo test --workspace --test smollm2 -- --ignored --nocapture

# Several processes
mpi:
    scripts/need mpicc libopenmpi-dev openmpi-bin libclang-dev
    cargo test --workspace --features mpi --test mpi -- --nocapture

# The browser demo, into web/dist (`just web webgpu` adds the WebGPU program)
web *bundles:
    scripts/web {{bundles}}

# The browser demo in headless Chromium
web-test:
    scripts/web-test

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

# A device beside the CPU, and its speed: just device-check cuda
device-check device="cuda":
    scripts/parity {{device}} --all
    cargo run --workspace --features {{replace_regex(device, ":.*", "")}} --example device_check -- {{device}}
