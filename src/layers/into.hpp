// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shardmark {

/// Whether a function writes its result or adds it to what is there.
enum class Into { write, add };

}  // namespace shardmark
