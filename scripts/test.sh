#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
  cat <<'END'
Usage: scripts/test.sh [CTEST OPTION…]

Sets up, builds and runs all tests. Options go to ctest, for example -L style, -LE style, -R checkpoint, -V.
Labels: unit, comm, training, checkpoint, cli, golden, slurm, slow, style, configure;
`ctest --test-dir build --print-labels` lists all.
Environment: SHARDMARK_BUILD names another build folder; CTEST_PARALLEL_LEVEL sets how many cores tests take.
END
}

case ${1:-} in -h | --help) usage && exit 0 ;; esac
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${SHARDMARK_BUILD:-$top/build}

"$top/scripts/setup.sh" --tests
# Tests state how many ranks they start, so that ctest fills the cores and no more.
CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)} \
  ctest --test-dir "$build" --output-on-failure --no-tests=error "$@"
