// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace shardmark {

/// A TOML input deck with typed gets. A key is "section.key". Each get names the default and the valid range,
/// and so makes the key known; when all components have read theirs, check_unknown() refuses the rest. Every
/// error is a DeckError that names file, line, key and valid values.
class Deck {
 public:
  /// Parses `text`; `name` is what errors call it (the file's path).
  Deck(const std::string& text, const std::string& name);
  ~Deck();
  Deck(Deck&&) noexcept;

  /// Overrides one key: "section.key=value", the value as in TOML; a bare word is a string.
  void set(const std::string& assignment);

  std::int64_t integer(const std::string& key, std::int64_t default_value, std::int64_t least,
                       std::int64_t most);
  std::size_t count(const std::string& key, std::size_t default_value, std::size_t least = 0);
  double real(const std::string& key, double default_value, double least, double most);
  bool boolean(const std::string& key, bool default_value);
  std::string text(const std::string& key, const std::string& default_value);
  std::string choice(const std::string& key, const std::string& default_value,
                     const std::vector<std::string>& valid);
  /// An array of positive integers.
  std::vector<std::size_t> counts(const std::string& key, const std::vector<std::size_t>& default_value);
  /// An array of reals of exactly the default's length, each from `least` to below `below`.
  std::vector<double> reals(const std::string& key, const std::vector<double>& default_value, double least,
                            double below);
  /// A string or an array of strings.
  std::vector<std::string> texts(const std::string& key, const std::vector<std::string>& default_value);

  /// Throws where the deck or an override has a section or key that nobody read.
  void check_unknown() const;

  /// Throws DeckError: "<where>: <key> = <value>: <problem>".
  [[noreturn]] void fail(const std::string& key, const std::string& problem) const;

  /// Puts the place in front of a message that starts with a key ("model.heads = 5 must …"), else returns it
  /// as it is.
  std::string locate(const std::string& message) const;

  /// Every key that was read with the value in force, as TOML.
  std::string effective() const;
  /// The same as pairs of key and TOML literal, in the order of reading.
  const std::vector<std::pair<std::string, std::string>>& values() const { return values_; }

 private:
  struct Tables;
  struct Found;
  Found find(const std::string& key) const;
  std::string where(const std::string& key) const;
  void record(const std::string& key, const std::string& literal);

  std::string name_;
  std::unique_ptr<Tables> tables_;
  std::vector<std::pair<std::string, std::string>> values_;
};

/// A string as a TOML literal, quoted and escaped.
std::string toml_quoted(const std::string& text);

}  // namespace shardmark
