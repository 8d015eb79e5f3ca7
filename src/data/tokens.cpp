// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "data/token_files.hpp"

namespace shardmark {
namespace {

/// The .bin files of llm.c (A. Karpathy, github.com/karpathy/llm.c): 256 words of 32 bits, of which three are
/// used (magic, version, count of tokens), then the tokens in 16 bits each. A file without the magic is
/// tokens from its first byte. Little endian.
TokenFile<std::uint16_t> open_token_file(const std::string& path) {
  constexpr std::uint32_t magic = 20240520, version = 1;
  constexpr std::size_t header_bytes = 256 * 4;
  TokenFile<std::uint16_t> file{open_file(path)};
  const std::size_t size = file.content.size;
  if (size % 2 != 0)
    throw DeckError(
        fmt::format("token file {} has {} bytes: tokens of 2 bytes need an even number", path, size));
  std::uint32_t header[3] = {};
  if (size >= sizeof header) std::memcpy(header, file.content.bytes.get(), sizeof header);
  if (header[0] != magic) return file;
  if (header[1] != version)
    throw DeckError(fmt::format("token file {} has version {}; valid: {}", path, header[1], version));
  if (size < header_bytes || (size - header_bytes) / 2 != header[2])
    throw DeckError(
        fmt::format("token file {}: its header counts {} tokens, which makes {} bytes, but it has {}", path,
                    header[2], header_bytes + std::size_t{2} * header[2], size));
  file.skip = header_bytes;
  return file;
}

}  // namespace

std::unique_ptr<Dataset> make_tokens(const DataConfig& config, const SampleShape& shape, std::uint64_t seed) {
  std::vector<TokenFile<std::uint16_t>> files;
  for (const std::string& path : find_files(config.path, Folders::refuse))
    files.push_back(open_token_file(path));
  return std::make_unique<TokenFiles<std::uint16_t>>("tokens", std::move(files), config.validation, shape,
                                                     seed);
}

}  // namespace shardmark
