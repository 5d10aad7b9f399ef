#!/usr/bin/env bash
# Runs every fuzz target for some seconds; what it finds stays in build/fuzz/corpus/<target> for the next run.
#   scripts/fuzz.sh [seconds]
set -euo pipefail
cd "$(dirname "$0")/.."

seconds="${1:-60}"
cmake --preset fuzz >/dev/null
ninja -C build/fuzz
shopt -s nullglob
targets=(build/fuzz/bin/*_fuzz)
((${#targets[@]})) || { echo "fuzz: no targets in build/fuzz/bin" >&2; exit 1; }
for target in "${targets[@]}"; do
  name=$(basename "$target")
  corpus="build/fuzz/corpus/$name"
  mkdir -p "$corpus"
  echo "fuzz: $name for $seconds s"
  "$target" -max_total_time="$seconds" -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 -artifact_prefix="build/fuzz/$name-" "$corpus"
done
