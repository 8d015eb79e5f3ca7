// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/deck.hpp"
#include "core/error.hpp"
#include "train/config.hpp"

namespace shardmark {
namespace {

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const DeckError& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "no error";
}

// Reads a whole deck with overrides and returns the error.
std::string error_of_deck(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return error_of([&] {
    Deck deck(text, "d.toml");
    for (const auto& assignment : overrides) deck.set(assignment);
    read_run_config(deck);
  });
}

TEST(Deck, ErrorsNameFileLineKeyAndValidValues) {
  struct Case {
    const char* text;
    const char* error;
  };
  const Case cases[] = {
      {"[model]\nlayers = \n", "d.toml:2: bad TOML"},
      {"steps = 3\n", "d.toml:1: \"steps\" stands outside a section"},
      {"[train]\n\nstep = 3\n", "d.toml:3: unknown key train.step; valid in [train]: steps, global_batch"},
      {"[trian]\nsteps = 3\n", "d.toml:2: unknown section [trian]; valid: "},
      {"[trian]\n", "d.toml:1: unknown section [trian]; valid: "},
      {"[train]\nsteps = \"many\"\n", "d.toml:2: train.steps = 'many': must be an integer, at least 0"},
      {"[train]\nsteps = 1.5\n", "d.toml:2: train.steps = 1.5: must be an integer, at least 0"},
      {"[train]\nsteps = -1\n", "d.toml:2: train.steps = -1: must be an integer, at least 0"},
      {"[train]\nglobal_batch = 0\n", "d.toml:2: train.global_batch = 0: must be an integer from 1 to "},
      {"[parallel]\nprefetch = 5000\n",
       "d.toml:2: parallel.prefetch = 5000: must be an integer from 0 to 1024"},
      {"[optimizer]\nlr = \"fast\"\n", "d.toml:2: optimizer.lr = 'fast': must be a number"},
      {"[optimizer]\nlr = nan\n", "d.toml:2: optimizer.lr = nan: must be a number"},
      {"[optimizer]\nbetas = [0.9]\n", "must be an array of 2 numbers, each at least 0 and below 1"},
      {"[optimizer]\nbetas = [0.9, 1.0]\n", "must be an array of 2 numbers, each at least 0 and below 1"},
      {"[model]\ntie_embeddings = 1\n", "d.toml:2: model.tie_embeddings = 1: must be true or false"},
      {"[model]\nkind = \"rnn\"\n", "d.toml:2: model.kind = 'rnn': is not one of \"gpt\", \"mlp\""},
      {"[model]\nsizes = [3, 0]\n", "must be an array of positive integers"},
      {"[data]\npath = 3\n", "d.toml:2: data.path = 3: must be a string or an array of strings"},
      {"[parallel]\nstrategy = \"zero4\"\n", "is not one of \"ddp\", \"no_shard\", \"zero1\", \"zero2\""},
      {"[optimizer]\nlr = 1e-5\n[schedule]\nmin_lr = 1e-4\n",
       "d.toml:4: schedule.min_lr = 0.0001: must be at most optimizer.lr = 1e-05"},
      {"[parallel]\nshard_size = 2\n", "d.toml:2: parallel.shard_size = 2: is for the strategy hybrid"},
      {"[parallel]\nstrategy = \"ddp\"\nreshard_after_forward = true\n",
       "d.toml:3: parallel.reshard_after_forward"},
      {"[precision]\nparam = \"fp32\"\nreduce = \"fp64\"\n",
       "d.toml:3: precision.reduce = 'fp64': with precision.param = fp32 it must be auto, bf16 or fp32"},
      {"[precision]\nparam = \"fp8\"\n", "is not one of \"fp32\", \"fp64\""},
      {"[data]\nkind = \"teacher\"\n", "d.toml:2: data.kind = 'teacher': needs model.kind = \"mlp\""},
      {"[comm]\nbackend = \"gloo\"\n", "d.toml:2: comm.backend = 'gloo': is not one of \"auto\", \"mpi\""},
  };
  for (const Case& c : cases)
    EXPECT_NE(error_of_deck(c.text).find(c.error), std::string::npos)
        << error_of_deck(c.text) << "\nexpected " << c.error;
}

TEST(Deck, OverridesWinAndAreNamedInErrors) {
  Deck deck("[train]\nsteps = 3\n", "d.toml");
  deck.set("train.steps=7");
  deck.set("model.kind=mlp");         // a bare word is a string
  deck.set("data.kind=\"teacher\"");  // and so is a quoted one
  deck.set("model.sizes=[2, 3]");
  const RunConfig config = read_run_config(deck);
  EXPECT_EQ(config.train.steps, 7u);
  EXPECT_EQ(config.model.kind, "mlp");
  EXPECT_EQ(config.model.sizes, (std::vector<std::size_t>{2, 3}));
  EXPECT_NE(error_of_deck("", {"train.steps=x"}).find("--set: train.steps = 'x': must be an integer"),
            std::string::npos);
  EXPECT_NE(error_of_deck("", {"train.stepz=1"}).find("--set: unknown key train.stepz"), std::string::npos);
  EXPECT_NE(error_of_deck("", {"steps"}).find("write section.key=value"), std::string::npos);
}

// The effective deck says everything: read again, it gives the same.
TEST(Deck, EffectiveDeckReadsBackAsItself) {
  Deck first(
      "[data]\npath = [\"a b\", \"c\\\\d\\\"e\"]\n[optimizer]\nlr = 1e-7\n"
      "[parallel]\nstrategy = \"hsdp\"\n",
      "d.toml");
  const RunConfig config = read_run_config(first);
  EXPECT_EQ(config.data.path, (std::vector<std::string>{"a b", "c\\d\"e"}));
  Deck second(first.effective(), "effective");
  read_run_config(second);
  EXPECT_EQ(second.values(), first.values());
  EXPECT_EQ(second.effective(), first.effective());
}

TEST(Deck, AliasesNameTheSameStrategy) {
  for (const Strategy& strategy : strategies) {
    Deck deck("", "d.toml");
    deck.set(std::string("parallel.strategy=") + strategy.alias);
    EXPECT_EQ(std::string(read_run_config(deck).parallel.strategy.name), strategy.name);
  }
}

TEST(Deck, LocatesMessagesThatStartWithAKey) {
  Deck deck("[model]\n\nheads = 5\n", "d.toml");
  read_run_config(deck);
  EXPECT_EQ(deck.locate("model.heads = 5 must divide"), "d.toml:3: model.heads = 5 must divide");
  EXPECT_EQ(deck.locate("no key here"), "no key here");
}

}  // namespace
}  // namespace shardmark
