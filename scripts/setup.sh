#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
  cat <<'END'
Usage: scripts/setup.sh [--no-install] [--tests] [CMAKE OPTION…]

Installs what is missing (Debian and Ubuntu, as root or with sudo), configures, and builds into build/.
A second run does only what is left to do and needs no network.

  --no-install  installs nothing: configures with what is there
  --tests       also the tests and what they need: formatters, matplotlib, and Slurm for the tests of job scripts
  CMAKE OPTION  given to cmake, for example -DKokkos_ROOT=/opt/kokkos

Environment: SHARDMARK_BUILD names another build folder; SHARDMARK_JOBS sets the number of compile jobs.
Exit codes: 0 done · 1 the build failed · 2 bad arguments · 3 something is missing; the last lines say what.
END
}

say() { printf 'setup: %s\n' "$*" >&2; }

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${SHARDMARK_BUILD:-$top/build}
install=yes
tests=no
cmake_options=()
for argument in "$@"; do
  case $argument in
    -h | --help) usage && exit 0 ;;
    --no-install) install=no ;;
    --tests) tests=yes ;;
    *) cmake_options+=("$argument") ;;
  esac
done

installed() { [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

mpi="openmpi openmpi-bin"
if installed libmpich-dev && ! installed libopenmpi-dev; then mpi="mpich mpich"; fi

# One need a line: packages any of which will do, the first being installed; after a colon, a command that will do too.
needs="g++ : c++
cmake : cmake
ninja-build make : make
lib${mpi% *}-dev
libhdf5-${mpi% *}-dev
${mpi#* } : mpiexec
hdf5-tools : h5diff
libopenblas-pthread-dev libopenblas-openmp-dev libopenblas-serial-dev libmkl-dev
libdnnl-dev
libtomlplusplus-dev
nlohmann-json3-dev
libfmt-dev
libcli11-dev
libgtest-dev
python3 : python3
python3-h5py
python3-numpy"
# True where the caller names a Kokkos, now or when the folder was configured: it takes the place of the packages.
other_kokkos() {
  [[ -n ${Kokkos_ROOT:-}${Kokkos_DIR:-}${CMAKE_PREFIX_PATH:-} ]] ||
    [[ ${cmake_options[*]-} == *Kokkos_* || ${cmake_options[*]-} == *CMAKE_PREFIX_PATH* ]] ||
    grep -qs '^Kokkos_DIR:PATH=/\([^u]\|u[^s]\)' "$build/CMakeCache.txt"
}
if ! other_kokkos; then
  needs+="
libtrilinos-kokkos-dev
libtrilinos-kokkos-kernels-dev"
fi
if [[ $tests == yes ]]; then
  needs+="
clang-format : clang-format
clang-tidy : clang-tidy
shellcheck : shellcheck
slurmctld : slurmctld
slurmd : slurmd
slurm-client : sbatch
munge : munged
iproute2 : ip
python3-matplotlib"
fi

# Prints the first package of every need that nothing meets.
missing_packages() {
  local packages command package met
  while IFS=: read -r packages command; do
    met=no
    if [[ -n $command ]] && command -v "${command// /}" >/dev/null; then met=yes; fi
    for package in $packages; do
      if [[ $met == yes ]]; then break; fi
      if installed "$package"; then met=yes; fi
    done
    if [[ $met == no ]]; then echo "${packages%% *}"; fi
  done <<<"$needs"
}

missing=()
if command -v dpkg-query >/dev/null; then mapfile -t missing < <(missing_packages); fi

# Runs apt-get as root; false where there is no way to.
as_root() {
  if [[ $(id -u) == 0 ]]; then env DEBIAN_FRONTEND=noninteractive "$@"
  elif command -v sudo >/dev/null; then sudo env DEBIAN_FRONTEND=noninteractive "$@"
  else return 1
  fi
}

if [[ ${#missing[@]} -gt 0 && $install == yes ]] && command -v apt-get >/dev/null; then
  say "installing ${missing[*]}"
  apt=(apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  if as_root "${apt[@]}" update >&2 &&
    as_root "${apt[@]}" install --yes --no-install-recommends "${missing[@]}" >&2; then
    missing=()
  else
    say "the installation failed"
  fi
fi

explain_missing() {
  if [[ ${#missing[@]} -gt 0 ]]; then
    say "missing here; an administrator may run: apt-get install ${missing[*]}"
  elif ! command -v dpkg-query >/dev/null; then
    say "this is no Debian or Ubuntu; install or load what the sentence above asks for, then run this again"
  fi
  exit 3
}

if ! command -v cmake >/dev/null; then
  say "there is no cmake (3.20 or newer is needed)"
  explain_missing
fi
if [[ ! -f $build/CMakeCache.txt ]] && command -v ninja >/dev/null; then
  cmake_options+=(-G Ninja)
fi
# A configured folder configures itself again where a CMake file changed.
if [[ ${#cmake_options[@]} -gt 0 || ! -f $build/build.ninja && ! -f $build/Makefile ]]; then
  if ! cmake -S "$top" -B "$build" ${cmake_options[@]+"${cmake_options[@]}"} >&2; then
    # What a first try did not find must be looked for again.
    if [[ ! -f $build/build.ninja && ! -f $build/Makefile ]]; then rm -f "$build/CMakeCache.txt"; fi
    explain_missing
  fi
fi

# Kokkos needs about 1.5 GB a compile job.
memory_kb=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null || true)
jobs=$(($(nproc) < ${memory_kb:-1500000} / 1500000 ? $(nproc) : ${memory_kb:-1500000} / 1500000))
target=()
if [[ $tests == no ]]; then target=(--target shardmark); fi
jobs=${SHARDMARK_JOBS:-$((jobs > 0 ? jobs : 1))}
cmake --build "$build" ${target[@]+"${target[@]}"} --parallel "$jobs" >&2 || exit 1
