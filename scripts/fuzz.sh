#!/usr/bin/env bash
# Runs every fuzz target for some seconds; what it finds stays in build/fuzz/corpus/<target> for the next run.
#   scripts/fuzz.sh [seconds]
set -euo pipefail
cd "$(dirname "$0")/.."

seconds="${1:-60}"
cmake --preset fuzz >/dev/null
mapfile -t names < <(find src -name '*_fuzz.cc' -exec basename {} .cc \; | sort)
((${#names[@]})) || { echo "fuzz: no *_fuzz.cc under src" >&2; exit 1; }
ninja -C build/fuzz --quiet "${names[@]}"
for name in "${names[@]}"; do
  corpus="build/fuzz/corpus/$name"
  mkdir -p "$corpus"
  echo "fuzz: $name for $seconds s"
  "build/fuzz/bin/$name" -max_total_time="$seconds" -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 -artifact_prefix="build/fuzz/$name-" "$corpus"
done
