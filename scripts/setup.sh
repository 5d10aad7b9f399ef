#!/usr/bin/env bash
# Installs what is missing, and nothing else: Debian packages by name, and a Python environment in the cache directory, linked as .venv.
#   scripts/setup.sh         what build, test and demo need
#   scripts/setup.sh clang   the tools of lint and fuzz as well
#   scripts/setup.sh bench   the peers that benchmarks compare with as well, in an environment of their own: .venv-bench
#   scripts/setup.sh valgrind   what make instructions counts with
#   scripts/setup.sh slurm   the cluster that tests/test_slurm.py runs
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build ccache flatbuffers-compiler
  libasio-dev libflatbuffers-dev libsqlite3-dev libisal-dev liblz4-dev libzstd-dev libssl-dev libcli11-dev libspdlog-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev libbenchmark-dev openssl python3-venv python3-dev)
case "${1:-}" in
  clang) packages+=(clang clang-format clang-tidy libclang-rt-14-dev zlib1g-dev) ;;
  valgrind) packages+=(valgrind) ;;
  slurm) packages+=(slurmctld slurmd slurm-client munge) ;;
esac

install_packages() {
  local missing=()
  for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  local root=()
  ((EUID == 0)) || root=(sudo)
  echo "setup: installing ${missing[*]}"
  "${root[@]}" apt-get update -qq
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# Outside the clone, so that a second clone is ready at once; named after its contents, so that no clone changes it under another.
make_environment() {
  local requirements="$1" link="$2"
  local cache="${PENSTOCK_CACHE:-$HOME/.cache/penstock}" python="${PYTHON:-python3}"
  local hash venv
  hash=$({ cat "$requirements"; [[ "$link" == .venv ]] || cat requirements/dev.txt; "$python" -c 'import sys; print(sys.executable, sys.version)'; } | sha256sum | cut -c1-12)
  venv="$cache/venv-$hash"
  mkdir -p "$cache"
  exec 9>"$venv.lock"
  flock 9
  if [[ ! -e "$venv/complete" ]]; then
    echo "setup: making $venv"
    "$python" -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
    touch "$venv/complete"
  fi
  ln -sfn "$venv" "$link"
}

install_packages
make_environment requirements/dev.txt .venv
if [[ "${1:-}" == bench ]]; then
  make_environment requirements/bench.txt .venv-bench
fi
