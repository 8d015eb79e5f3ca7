// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "data/dataset.hpp"
#include "data/files.hpp"
#include "data/windows.hpp"
#include "test_data.hpp"

namespace shardmark {
namespace {

using Tokens = std::vector<std::int32_t>;

std::unique_ptr<Dataset> open(const std::string& kind, const std::vector<std::string>& path,
                              std::size_t context, std::size_t vocab = 256, double validation = 0,
                              std::uint64_t seed = 1) {
  DataConfig config;
  config.kind = kind;
  config.path = path;
  config.validation = validation;
  SampleShape shape;
  shape.context = context;
  shape.vocab = vocab;
  return make_dataset(config, shape, seed);
}

Tokens sample(const Dataset& data, Split split, std::uint64_t index, std::size_t context) {
  Tokens tokens(context + 2, -7);
  data.tokens(split, index, tokens.data());
  EXPECT_EQ(tokens.back(), -7) << "more than T + 1 tokens were written";
  tokens.pop_back();
  return tokens;
}

/// All windows of one epoch, in ascending order.
std::multiset<Tokens> epoch(const Dataset& data, std::uint64_t number, std::size_t context) {
  std::multiset<Tokens> windows;
  const std::uint64_t n = data.samples(Split::training);
  for (std::uint64_t i = 0; i < n; ++i)
    windows.insert(sample(data, Split::training, number * n + i, context));
  return windows;
}

std::string numbered(std::size_t n, std::size_t first = 0) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text.push_back(static_cast<char>(first + i));
  return text;
}

std::string words(const std::vector<int>& tokens) {
  std::string text;
  for (int token : tokens) text += {static_cast<char>(token & 255), static_cast<char>(token >> 8)};
  return text;
}

std::string token_header(std::uint32_t magic, std::uint32_t version, std::uint32_t count) {
  std::string header(1024, '\0');
  const std::uint32_t fields[] = {magic, version, count};
  for (std::size_t i = 0; i < 12; ++i) header[i] = static_cast<char>(fields[i / 4] >> (8 * (i % 4)));
  return header;
}

TEST(DataBytes, WindowsHoldTheTextEachOnceAnEpoch) {
  const TestFolder folder;
  const auto data = open("bytes", {folder.write("text", numbered(250))}, 8);
  ASSERT_EQ(data->samples(Split::training), 31u);  // 249 / 8
  EXPECT_EQ(data->samples(Split::validation), 0u);
  std::multiset<Tokens> expected;
  for (int first = 0; first < 248; first += 8) {
    Tokens window;
    for (int t = 0; t <= 8; ++t) window.push_back(first + t);
    expected.insert(window);
  }
  EXPECT_EQ(epoch(*data, 0, 8), expected);
  EXPECT_EQ(epoch(*data, 5, 8), expected);
  Tokens firsts[2];
  for (std::uint64_t i = 0; i < 62; ++i) firsts[i / 31].push_back(sample(*data, Split::training, i, 8)[0]);
  EXPECT_NE(firsts[0], firsts[1]) << "epochs have the same order";
  EXPECT_FALSE(std::is_sorted(firsts[0].begin(), firsts[0].end()));
}

// Windows run across files, small (read), large (mapped) and empty ones, in the order of their paths.
TEST(DataBytes, FilesAreOneTextInTheOrderOfTheirPaths) {
  const TestFolder folder;
  std::string large(100'000, 'x');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * i % 251);
  folder.write("b/2", large);
  folder.write("b/1", "");
  folder.write("c", numbered(20, 100));
  folder.write("a", numbered(3, 50));
  const std::string text = numbered(3, 50) + large + numbered(20, 100);
  const std::size_t context = text.size() - 1;  // one window: the whole text
  const auto data = open("bytes", {folder.path("c"), folder.path(".")}, context);
  ASSERT_EQ(data->samples(Split::training), 1u);
  const Tokens tokens = sample(*data, Split::training, 0, context);
  for (std::size_t i = 0; i < text.size(); ++i)
    ASSERT_EQ(tokens[i], static_cast<unsigned char>(text[i])) << "at " << i;
  EXPECT_EQ(data->describe(), "bytes: 4 files, 100023 tokens, 1 training and 0 validation windows of 100022");
}

TEST(DataBytes, WalksLeaveOutHiddenFilesBuildFoldersAndOwnOutputs) {
  const TestFolder folder;
  for (const char* name :
       {".git/config", ".hidden", "step_00000100.h5", "run/metrics.jsonl", "run/report.json", "run/x.partial",
        "y.partial/rank", "build/out", "build-cuda/out", "objects/CMakeCache.txt", "objects/out"})
    folder.write(name, "no");
  const std::vector<std::string> expected = {folder.write("builder", "yes"),
                                             folder.write("run/log.json", "yes"),
                                             folder.write("sub/deep/text", "yes")};
  EXPECT_EQ(find_files({folder.path("")}, Folders::walk), expected);
  EXPECT_EQ(find_files({folder.path("*"), folder.path("sub")}, Folders::walk), expected);
  const std::string named = folder.path("run/report.json");
  EXPECT_EQ(find_files({named}, Folders::walk), std::vector<std::string>{named});
}

TEST(DataBytes, Patterns) {
  const TestFolder folder;
  for (const char* name : {"b.txt", "a.txt", "c.md", "odd[1].txt"}) folder.write(name, name);
  EXPECT_EQ(
      find_files({folder.path("?.txt"), folder.path("*.md"), folder.path("odd[1].txt")}, Folders::refuse),
      (std::vector<std::string>{folder.path("a.txt"), folder.path("b.txt"), folder.path("c.md"),
                                folder.path("odd[1].txt")}));
}

// No token of a validation window lies in a training window, the shared boundary token of neighbours
// included.
TEST(DataBytes, SplitsShareNoToken) {
  const TestFolder folder;
  for (std::size_t length : {10, 101, 102, 103, 127, 250}) {
    for (double part : {0.001, 0.1, 0.5, 0.7}) {
      const std::size_t context = 4;
      const auto data = open("bytes", {folder.write("text", numbered(length))}, context, 256, part);
      std::set<std::int32_t> training, validation;
      for (const Tokens& window : epoch(*data, 0, context)) training.insert(window.begin(), window.end());
      for (std::uint64_t i = 0; i < data->samples(Split::validation); ++i) {
        const Tokens window = sample(*data, Split::validation, i, context);
        validation.insert(window.begin(), window.end());
      }
      const std::uint64_t windows = (length - 2) / context;
      EXPECT_EQ(data->samples(Split::training) + data->samples(Split::validation), windows);
      EXPECT_EQ(data->samples(Split::validation), std::max(1ll, std::llround(part * double(windows))));
      EXPECT_EQ(*validation.begin(), *training.rbegin() + 1) << "the splits must touch and not overlap";
      EXPECT_LT(*validation.rbegin(), static_cast<int>(length));
      EXPECT_THROW(sample(*data, Split::validation, data->samples(Split::validation), context),
                   std::out_of_range);
    }
  }
}

TEST(DataBytes, FingerprintFollowsContent) {
  const TestFolder folder;
  const std::string text = numbered(100);
  const auto print = [&](const std::string& content, double validation = 0, std::size_t context = 8) {
    return open("bytes", {folder.write("text", content)}, context, 256, validation)->fingerprint();
  };
  const std::uint64_t original = print(text);
  EXPECT_EQ(print(text), original);
  for (std::size_t i : {0, 50, 99}) {
    std::string changed = text;
    changed[i] ^= 1;
    EXPECT_NE(print(changed), original) << "byte " << i;
  }
  EXPECT_NE(print(text + '\0'), original);
  EXPECT_NE(print(text, 0.2), original) << "other training windows";
  EXPECT_NE(print(text, 0, 9), original) << "other windows";
  EXPECT_NE(open("tokens", {folder.write("text", text)}, 8, 65536)->fingerprint(), original);
}

TEST(DataTokens, BothFormsAndSeveralFiles) {
  const TestFolder folder;
  folder.write("1.bin", token_header(20240520, 1, 3) + words({1000, 50256, 7}));
  folder.write("2.bin", words({65000, 2, 3}));
  const auto data = open("tokens", {folder.path("*.bin")}, 5, 65536);
  ASSERT_EQ(data->samples(Split::training), 1u);
  EXPECT_EQ(sample(*data, Split::training, 0, 5), (Tokens{1000, 50256, 7, 65000, 2, 3}));
}

TEST(DataTokens, Failures) {
  const TestFolder folder;
  const auto fails = [&](const std::string& content, std::initializer_list<std::string> fragments) {
    const std::string path = folder.write("x.bin", content);
    expect_failure<DeckError>([&] { open("tokens", {path}, 2, 50257); }, fragments);
  };
  fails(words({1, 2, 3}) + "x", {"x.bin", "7 bytes", "even"});
  fails(token_header(20240520, 2, 3) + words({1, 2, 3}), {"x.bin", "version 2", "valid: 1"});
  fails(token_header(20240520, 1, 4) + words({1, 2, 3}), {"x.bin", "4 tokens", "1032 bytes", "1030"});
  fails(token_header(20240520, 1, 3).substr(0, 512), {"x.bin", "3 tokens", "1030 bytes", "512"});
  fails(words({1, 2, 50256, 50257, 9}), {"model.vocab = 50257", "token 50257", "position 3", "x.bin"});
  fails(token_header(20240520, 1, 3) + words({1, 60000, 3}), {"token 60000", "position 1", "x.bin"});
  fails(words({1, 2}), {"2 tokens", "model.context + 1 = 3", "needs 3"});
  expect_failure<DeckError>([&] { open("tokens", {folder.path("")}, 2); },
                            {"data.path", "is a folder", "*.bin"});
}

TEST(DataFiles, Failures) {
  const TestFolder folder;
  const std::string text = folder.write("text", numbered(100));
  expect_failure<DeckError>([&] { open("bytes", {}, 8); }, {"data.path is empty"});
  expect_failure<DeckError>(
      [&] {
        open("bytes", {text, folder.path("none")}, 8);
      },
      {"data.path", "no file matches", folder.path("none")});
  expect_failure<DeckError>([&] { open("bytes", {folder.path("*.txt")}, 8); }, {folder.path("*.txt")});
  expect_failure<DeckError>([&] { open("bytes", {text}, 100); },
                            {"100 tokens", "one window of model.context + 1 = 101", "needs 101"});
  expect_failure<DeckError>([&] { open("bytes", {text}, 50, 256, 0.1); },
                            {"100 tokens", "validation window of model.context + 1 = 51", "needs 102"});
  expect_failure<DeckError>([&] { open("bytes", {text}, 8, 256, 0.97); },
                            {"data.validation = 0.97", "no training window", "12"});
  for (double part : {-0.1, 1.0})
    expect_failure<DeckError>([&] { open("bytes", {text}, 8, 256, part); },
                              {"data.validation", "0 <= x < 1"});
  expect_failure<DeckError>([&] { open("bytes", {text}, 8, 99); },
                            {"model.vocab = 99", "token 99", "position 99", text});
  EXPECT_NO_THROW(open("bytes", {text}, 8, 100));
  expect_failure<DeckError>([&] { open("byte", {text}, 8); },
                            {"data.kind = \"byte\"", "\"bytes\", \"tokens\", \"markov\", \"teacher\""});
  expect_failure<DeckError>([&] { open("teacher", {}, 8); },
                            {"takes tokens", "valid: \"bytes\", \"tokens\", \"markov\""});
  expect_failure<DeckError>([&] { open("bytes", {text}, 0); }, {"takes arrays", "valid: \"teacher\""});
}

TEST(DataFiles, UnreadableFiles) {
  const TestFolder folder;
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_failure<EnvironmentError>([&] { open("bytes", {pipe}, 8); }, {pipe, "not a regular file"});
  const std::string name = folder.path(std::string(300, 'n'));
  expect_failure<EnvironmentError>([&] { open("bytes", {name}, 8); }, {name, "File name too long"});
  const std::string locked = folder.write("locked", numbered(100));
  ASSERT_EQ(chmod(locked.c_str(), 0), 0);
  ASSERT_EQ(chmod(folder.path("").c_str(), 0755), 0);
  // Root may read everything, so it becomes somebody else for a moment.
  struct Unprivileged {
    const uid_t before = geteuid();
    bool done = before != 0 || seteuid(65534) == 0;
    ~Unprivileged() { done = seteuid(before) == 0; }
  } unprivileged;
  ASSERT_TRUE(unprivileged.done);
  expect_failure<EnvironmentError>([&] { open("bytes", {locked}, 8); }, {locked, "Permission denied"});
}

}  // namespace
}  // namespace shardmark
