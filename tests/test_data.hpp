// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>

#include "core/error.hpp"

namespace shardmark {

/// A folder for one test, removed with its content.
class TestFolder {
 public:
  TestFolder() {
    std::string pattern = testing::TempDir() + "shardmark-data-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder for the test");
    path_ = pattern;
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }

  /// Writes a file, with the folders above it, and returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

/// f() must throw a Failure whose message contains every fragment.
template <class Failure, class Function>
void expect_failure(const Function& f, std::initializer_list<std::string> fragments) {
  try {
    f();
    FAIL() << "no error was thrown";
  } catch (const Failure& failure) {
    for (const std::string& fragment : fragments)
      EXPECT_NE(std::string(failure.what()).find(fragment), std::string::npos)
          << "\"" << fragment << "\" is missing in: " << failure.what();
  }
}

}  // namespace shardmark
