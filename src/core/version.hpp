// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shardmark {

#define SHARDMARK_QUOTED_(text) #text
#define SHARDMARK_QUOTED(text) SHARDMARK_QUOTED_(text)

/// The project's, as "0.1.0". The build gives it without quotes, which not every compiler's wrapper hands on.
inline constexpr const char* version = SHARDMARK_QUOTED(SHARDMARK_VERSION);

#undef SHARDMARK_QUOTED
#undef SHARDMARK_QUOTED_

}  // namespace shardmark
