#!/usr/bin/env bash
# Resolves requirements/*.txt: one set of versions for every platform, hashed, with no address in it.
# Arguments go to the resolver, e.g. `make lock ARGS=--upgrade`.
set -euo pipefail
cd "$(dirname "$0")/.."

compile() {
    local target=requirements/$1.txt; shift
    "${BIN:-.venv/bin}/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-header --no-emit-index-url --no-emit-find-links --output-file "$target" "$@"
}

compile runtime pyproject.toml --all-extras "$@"
compile build requirements/build.in "$@"
compile dev requirements/dev.in --constraint requirements/runtime.txt --constraint requirements/build.txt "$@"
compile rivals requirements/rivals.in "$@"
