// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "forecast/memory.hpp"

// The largest batches of fp32 AdamW on two devices of 24 GB, measured with PyTorch by S. Mangrulkar and
// S. Gugger, "Accelerate Large Model Training using PyTorch Fully Sharded Data Parallel", Hugging Face, 2022,
// tables 1 and 2. The one number that the model does not have is the activations' bytes a sample: the row of
// DDP bounds it, and one value within the bounds must give the other rows.
namespace shardmark::forecast {
namespace {

// What PyTorch could reserve on a TITAN RTX of 24 GB: the out-of-memory message in table 2 gives 22.76 GiB
// reserved and 20.31 MiB free, of 23.65 GiB; the rest is the CUDA context's and NCCL's.
constexpr double device_bytes = 22.76 * 1024 * 1024 * 1024 + 20.31 * 1024 * 1024;

struct Gpt2 {
  double layers, width;

  /// The root has both embeddings and the final norm; a block is 12 C^2 + 13 C; the head is tied.
  Units units() const {
    const auto C = static_cast<std::uint64_t>(width);
    return {(50257 + 1024 + 2) * C,
            std::vector<std::uint64_t>(static_cast<std::size_t>(layers), 12 * C * C + 13 * C)};
  }
};
constexpr Gpt2 large{36, 1280}, xl{48, 1600};

/// PyTorch's name for a row, as a strategy with PyTorch's terms. One unit is gathered ahead.
Sharding peer(const std::string& name, bool offload = false, std::uint64_t ranks = 2) {
  for (const Strategy& strategy : strategies) {
    if (name != strategy.alias) continue;
    Sharding sharding{strategy};
    sharding.shard_size = strategy.shard_group == Strategy::ShardGroup::one ? 1 : ranks;
    sharding.terms.separate_buckets = true;
    sharding.terms.offload = offload;
    return sharding;
  }
  throw std::logic_error("no strategy " + name);
}

/// Activations of a sample, of which GPT-2 Large has `sample`. They grow as layers times width; attention's
/// too, as the heads are of 64 in both.
double activations(const Gpt2& model, double sample) {
  return sample * model.layers * model.width / (large.layers * large.width);
}

int largest_batch(const Gpt2& model, const Sharding& sharding, double sample) {
  const double left = device_bytes - peak_bytes(sharding, model.units(), 0);
  return static_cast<int>(std::floor(left / activations(model, sample)));
}

struct Row {
  std::string name;
  Gpt2 model;
  Sharding sharding;
  int least, most;  ///< published, with the tolerance
};

const std::vector<Row> rows = {
    {"GPT-2 Large SHARD_GRAD_OP 11", large, peer("shard_grad_op"), 11 - 1, 11 + 1},
    {"GPT-2 Large FULL_SHARD 15", large, peer("full_shard"), 15 - 1, 15 + 1},
    {"GPT-2 Large FULL_SHARD + offload 20", large, peer("full_shard", true), 20 - 3, 20 + 3},
    {"GPT-2 Large FULL_SHARD + offload, finer units 22", large, peer("full_shard", true), 22 - 3, 22 + 3},
    {"GPT-2 XL FULL_SHARD 5", xl, peer("full_shard"), 5 - 1, 5 + 1},
    {"GPT-2 XL FULL_SHARD + offload 14", xl, peer("full_shard", true), 14 - 3, 14 + 3},
    {"GPT-2 XL FULL_SHARD + offload, one device 10", xl, peer("full_shard", true, 1), 10 - 3, 10 + 3},
};

/// Bytes a sample by the DDP row of GPT-2 Large, batch 7: above the lower bound, up to the upper.
struct Interval {
  double above, up_to;
};
Interval sample_by_ddp(const Sharding& ddp) {
  const double left = device_bytes - peak_bytes(ddp, large.units(), 0);
  return {left / 8, left / 7};
}

/// The part of the interval that gives every row; empty (above >= up_to) if none does.
Interval narrowed(Interval sample, const std::vector<Row>& by) {
  for (const Row& row : by) {
    const double left =
        (device_bytes - peak_bytes(row.sharding, row.model.units(), 0)) / activations(row.model, 1);
    sample.above = std::max(sample.above, left / (row.most + 1));
    sample.up_to = std::min(sample.up_to, left / row.least);
  }
  return sample;
}

TEST(Peer, ParametersOfGpt2) {
  const auto parameters = [](const Gpt2& model) {
    const Units units = model.units();
    return units.root + units.others.size() * units.others[0];
  };
  EXPECT_EQ(parameters(large), 774030080u);  // "762M"
  EXPECT_EQ(parameters(xl), 1557611200u);
}

TEST(Peer, BytesAParameterOfPyTorch) {
  const Sharding ddp = peer("no_shard"), grad_op = peer("shard_grad_op"), full = peer("full_shard");
  EXPECT_EQ(model_state(ddp).on_device(), 16 + 4);
  EXPECT_EQ(model_state(grad_op).on_device(), 16 / 2 + 4);
  EXPECT_EQ(model_state(full).on_device(), 16 / 2);
  EXPECT_EQ(model_state(peer("full_shard", true)).on_device(), 0);
  EXPECT_EQ(model_state(peer("full_shard", true)).on_host(), 16 / 2);
}

TEST(Peer, OneValueInTheIntervalOfDdpGivesTheTable) {
  const Interval bounds = sample_by_ddp(peer("no_shard"));
  const Interval sample = narrowed(bounds, rows);
  ASSERT_LT(sample.above, sample.up_to);
  const double middle = (sample.above + sample.up_to) / 2;
  std::printf("GB a sample by DDP: %.3f to %.3f; by all rows: %.3f to %.3f; taken: %.3f\n",
              bounds.above / 1e9, bounds.up_to / 1e9, sample.above / 1e9, sample.up_to / 1e9, middle / 1e9);
  EXPECT_EQ(largest_batch(large, peer("no_shard"), middle), 7);
  for (const Row& row : rows) {
    const int batch = largest_batch(row.model, row.sharding, middle);
    std::printf("%s: %d\n", row.name.c_str(), batch);
    EXPECT_GE(batch, row.least) << row.name;
    EXPECT_LE(batch, row.most) << row.name;
  }
  EXPECT_LT(largest_batch(xl, peer("no_shard"), middle), 1);
}

TEST(Peer, NoValueGivesTheTableWithoutItsTerms) {
  Sharding no_buckets = peer("no_shard");
  no_buckets.terms.separate_buckets = false;
  const Interval sample = narrowed(sample_by_ddp(no_buckets), rows);
  EXPECT_GE(sample.above, sample.up_to);

  auto resharded = rows;
  resharded[0].sharding.strategy.reshard_after_forward = true;  // SHARD_GRAD_OP without its whole parameters
  const Interval other = narrowed(sample_by_ddp(peer("no_shard")), resharded);
  EXPECT_GE(other.above, other.up_to);
}

}  // namespace
}  // namespace shardmark::forecast
