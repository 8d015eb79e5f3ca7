// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/fingerprint.hpp"
#include "data/files.hpp"
#include "data/shuffle.hpp"
#include "data/sources.hpp"
#include "data/windows.hpp"

namespace shardmark {

/// The tokens of one file, `skip` bytes into it.
template <class Token>
struct TokenFile {
  FileContent content;
  std::size_t skip = 0;

  const Token* tokens() const { return reinterpret_cast<const Token*>(content.bytes.get() + skip); }
  std::uint64_t count() const { return (content.size - skip) / sizeof(Token); }
};

/// Windows over the tokens of files, one after the other as if they were one text. Opening reads every file
/// once: the fingerprint and the check against the vocabulary need all tokens.
template <class Token>
class TokenFiles : public Dataset {
 public:
  TokenFiles(const char* kind, std::vector<TokenFile<Token>> files, double validation,
             const SampleShape& shape, std::uint64_t seed)
      : kind_(kind), files_(std::move(files)), context_(shape.context), seed_(seed) {
    for (const TokenFile<Token>& file : files_) {
      begins_.push_back(total_);
      total_ += file.count();
      fingerprint_ = mix64(fingerprint_ ^ scan(file, shape.vocab));
    }
    windows_ = cut_windows(total_, context_, validation);
    for (std::uint64_t part : {std::uint64_t{sizeof(Token)}, std::uint64_t{context_}, windows_.training})
      fingerprint_ = mix64(fingerprint_ ^ part);
  }

  std::uint64_t samples(Split split) const override {
    return split == Split::training ? windows_.training : windows_.validation;
  }

  void tokens(Split split, std::uint64_t index, std::int32_t* tokens) const override {
    if (split == Split::training) {
      const std::uint64_t n = windows_.training;
      copy(epoch_order(seed_, index / n, n)(index % n) * context_, tokens);
    } else {
      check_validation_index(index, windows_.validation);
      copy(windows_.validation_begin + index * context_, tokens);
    }
  }

  bool has_tokens() const override { return true; }
  std::uint64_t fingerprint() const override { return fingerprint_; }

  std::string describe() const override {
    return fmt::format("{}: {} {}, {} tokens, {} training and {} validation windows of {}", kind_,
                       files_.size(), files_.size() == 1 ? "file" : "files", total_, windows_.training,
                       windows_.validation, context_);
  }

 private:
  /// Checks that every token is below `vocab` and returns a mix of the file's length and content.
  static std::uint64_t scan(const TokenFile<Token>& file, std::size_t vocab) {
    constexpr std::uint64_t block = 8192;  // tokens looked at together: both passes find them in the cache
    const Token* tokens = file.tokens();
    std::uint64_t print = mix64(file.count());
    for (std::uint64_t begin = 0; begin < file.count(); begin += block) {
      const std::uint64_t end = std::min(file.count(), begin + block);
      Token largest = 0;
      for (std::uint64_t i = begin; i < end; ++i) largest = std::max(largest, tokens[i]);
      if (largest >= vocab) refuse(file, begin, vocab);
      constexpr std::uint64_t per_word = sizeof(std::uint64_t) / sizeof(Token);
      for (std::uint64_t i = begin; i < end; i += per_word) {
        std::uint64_t word = 0;
        std::memcpy(&word, tokens + i, std::min(per_word, end - i) * sizeof(Token));
        print += fingerprint_term(i, word);
      }
    }
    return print;
  }

  [[noreturn]] static void refuse(const TokenFile<Token>& file, std::uint64_t position, std::size_t vocab) {
    while (file.tokens()[position] < vocab) ++position;
    throw DeckError(fmt::format("model.vocab = {} is too small for token {} at position {} of {}", vocab,
                                file.tokens()[position], position, file.content.path));
  }

  /// The T + 1 tokens from token `first` of the whole text.
  void copy(std::uint64_t first, std::int32_t* tokens) const {
    std::size_t file = std::upper_bound(begins_.begin(), begins_.end(), first) - begins_.begin() - 1;
    for (std::uint64_t left = context_ + 1; left > 0; ++file) {
      const std::uint64_t skip = first - begins_[file];
      const std::uint64_t count = std::min(left, files_[file].count() - skip);
      tokens = std::copy_n(files_[file].tokens() + skip, count, tokens);
      first += count;
      left -= count;
    }
  }

  const char* kind_;
  std::vector<TokenFile<Token>> files_;
  std::vector<std::uint64_t> begins_;  // of each file, in tokens of the whole text
  std::size_t context_;
  std::uint64_t seed_;
  std::uint64_t total_ = 0;
  std::uint64_t fingerprint_ = 0;
  Windows windows_;
};

}  // namespace shardmark
