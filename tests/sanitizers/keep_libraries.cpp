// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

/// Takes the place of the C library's in builds with sanitizers: libraries stay loaded, so that what they
/// leave behind is reported under their names, which leaks.txt knows, and not as of an unknown module or of
/// another library that took the place in memory.
extern "C" int dlclose(void*) noexcept {
  return 0;
}
