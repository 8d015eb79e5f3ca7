// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "data/token_files.hpp"

namespace shardmark {

/// Every byte of every file is a token, 0 to 255: nothing to prepare, any text will do.
std::unique_ptr<Dataset> make_bytes(const DataConfig& config, const SampleShape& shape, std::uint64_t seed) {
  std::vector<TokenFile<std::uint8_t>> files;
  for (const std::string& path : find_files(config.path, Folders::walk)) files.push_back({open_file(path)});
  return std::make_unique<TokenFiles<std::uint8_t>>("bytes", std::move(files), config.validation, shape,
                                                    seed);
}

}  // namespace shardmark
