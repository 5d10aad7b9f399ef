#!/usr/bin/env bash
# Format and types of everything; clang-tidy, which is slow, on the C++ files that differ from the base (default: origin/main).
#   scripts/lint.sh [base]
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files '*.cc' '*.h')
clang-format --dry-run --Werror "${sources[@]}"
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy

base=$(git merge-base HEAD "${1:-origin/main}" 2>/dev/null || git rev-parse HEAD)
# The TensorFlow op is compiled apart, with TensorFlow's flags, and Arrow Flight's benchmark with pyarrow's.
mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- '*.cc' ':!python/penstock/_tf_op' ':!bench/cpp/flight.cc')
if ((${#changed[@]})); then
  cmake --preset dev >/dev/null
  ninja -C build/dev penstock_schema_headers >/dev/null
  clang-tidy --quiet --extra-arg=-Wno-unknown-warning-option -p build/dev "${changed[@]}"  # flags that only gcc has
fi
