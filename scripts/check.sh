#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
# Style only: format, include directions, names, headers that compile alone.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/test.sh" --label-regex '^style$' "$@"
