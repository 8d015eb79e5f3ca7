// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "core/deck.hpp"
#include "train/config.hpp"

namespace shardmark {
namespace {

const std::filesystem::path inputs = SHARDMARK_INPUTS;

std::string content_of(const std::filesystem::path& path) {
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

std::string effective(const std::string& text, const std::string& name) {
  Deck deck(text, name);
  read_run_config(deck);
  return deck.effective();
}

TEST(Inputs, EveryDeckIsValidAndSaysWhatItIsFor) {
  int decks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(inputs)) {
    const std::string text = content_of(entry.path());
    EXPECT_EQ(entry.path().extension(), ".toml");
    EXPECT_EQ(text.rfind("# ", 0), 0u) << entry.path() << ": the first line is a comment";
    EXPECT_NO_THROW(effective(text, entry.path().string()));
    ++decks;
  }
  EXPECT_GE(decks, 6);
}

/// The reference without its comments is, to the letter, the effective deck of an empty one: every key, in
/// the order of reading, with its default.
TEST(Inputs, ReferenceListsEveryKeyWithItsDefaultAndOneComment) {
  const std::regex key_line(R"((\w+ = .*\S)  # (.+))");
  std::istringstream lines(content_of(inputs / "reference.toml"));
  std::string line, bare;
  std::getline(lines, line);
  for (std::getline(lines, line); std::getline(lines, line);) {
    std::smatch parts;
    if (line.find(" = ") == std::string::npos) {
      bare += line + "\n";
    } else if (std::regex_match(line, parts, key_line)) {
      bare += parts.str(1) + "\n";
    } else {
      ADD_FAILURE() << "not of the form: key = default  # comment\n" << line;
    }
  }
  EXPECT_EQ(bare, effective("", "an empty deck"));
}

}  // namespace
}  // namespace shardmark
