// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "sharding/strategy.hpp"

namespace shardmark::forecast {

/// [Note: Memory model] Memory and traffic of sharded training in closed form: bytes of one rank, padding
/// left out. The rows of `strategies` say what is whole and what is sharded; 16-bit parameters have fp32
/// masters and fp32 optimizer states (mixed precision: S. Rajbhandari et al., "ZeRO: memory optimizations
/// toward training trillion parameter models", SC 2020, section 3.1).

/// What other programs hold beyond or instead of what Shardmark does, so that their figures come out of the
/// same functions.
struct MemoryTerms {
  /// 16-bit parameters that are resharded leave their 16-bit slice beside the fp32 master's: 2/S a parameter.
  /// The ZeRO paper counts it in figure 1 and table 1; Shardmark casts the masters anew for every gather.
  bool keeps_16_bit_slice = false;
  /// ddp sums gradients in buckets beside the gradients themselves: g more a parameter. PyTorch's
  /// DistributedDataParallel unless gradient_as_bucket_view is set (its documentation says that setting it
  /// saves the total size of the gradients); the default is false.
  bool separate_buckets = false;
  /// Parameters, masters, gradients and optimizer states lie on the host, the device has the unsharded units
  /// only (PyTorch: CPUOffload(offload_params=True)). For strategies that shard the parameters.
  bool offload = false;
};

/// What the model state depends on.
struct Sharding {
  Strategy strategy;
  std::uint64_t shard_size = 1;        ///< S; 1 for ddp
  Dtype param = Dtype::fp32;           ///< b = its bytes: fp32, fp64, bf16 or fp16
  Dtype reduce = Dtype::fp32;          ///< g = its bytes: gradients, and what is reduced
  std::uint64_t optimizer_states = 2;  ///< a parameter: 2 AdamW, 1 SGD with momentum
  bool accumulate_whole = false;       ///< gradients stay whole until the last micro-batch
  int prefetch = 1;                    ///< k
  bool shares = false;                 ///< shares_parameters(): no unit is gathered into memory of a rank
  MemoryTerms terms = {};
};

/// Bytes a parameter, by class.
struct ModelState {
  double parameters = 0;  ///< of the type `param`, kept between steps
  double masters = 0;     ///< fp32, beside 16-bit parameters
  double gradients = 0;
  double optimizer = 0;
  double buckets = 0;          ///< MemoryTerms::separate_buckets
  double while_unsharded = 0;  ///< from a unit's gather to the end of its backward, if not resharded between
  bool offloaded = false;

  double between_steps() const { return parameters + masters + gradients + optimizer + buckets; }
  double on_host() const { return offloaded ? between_steps() : 0; }
  double on_device() const { return between_steps() - on_host() + while_unsharded; }
};

/// With S shards, AdamW: 16-bit parameters ddp 14+g; zero1 2+g+12/S; zero2 (12+g)/S, +2 while unsharded;
/// zero3 and hybrid (12+g)/S. fp32 or fp64 with g = b: ddp 4b; zero1 2b+2b/S; zero2 4b/S, +b while unsharded;
/// zero3 and hybrid 4b/S. A shard group of one has no copies, except of 16-bit or offloaded parameters.
/// DeckError for what cannot be: no shard, ddp with a shard group, parameters that are not floating point,
/// offload of whole ones.
ModelState model_state(const Sharding& sharding);

/// The units of a model, in parameters.
struct Units {
  std::uint64_t root = 0;             ///< 0 without one. Gathered once a micro-batch
  std::vector<std::uint64_t> others;  ///< in forward order
  bool loss_in_last = false;  ///< the last one computes the loss (untied head, MLP): gathered once as well
};

/// Bytes of the device at the peak of a step: shards + root (parameters, and in backward its gradient) +
/// (k+1) times the largest other unit's parameters + (1+r) times its gradient + activations, r = max(1, k),
/// with no more units in flight than there are. All units' parameters where they are not resharded after
/// forward.
double peak_bytes(const Sharding& sharding, const Units& units, double activations);

/// Bytes that a rank sends in a step of m micro-batches, on rings, by collective.
struct StepTraffic {
  double gathers = 0;      ///< in the shard group, of type `param`
  double reductions = 0;   ///< in the shard group, of type `reduce`
  double all_reduces = 0;  ///< over R replicas: of gradients or their slices, counted twice; once a step
  double total() const { return gathers + reductions + all_reduces; }
};

/// (S-1)/S times the sum over units of gathers and reductions: at m = 1 about 2 (ddp, zero1, zero2) or 3
/// (zero3) times the parameters' bytes (ZeRO paper, section 7). zero1 gathers once a step. Gradients that
/// stay whole are reduced once a step, others every micro-batch. R and m are at least 1.
StepTraffic step_traffic(const Sharding& sharding, const Units& units, std::uint64_t replicas,
                         std::uint64_t micro_batches);

/// A line a strategy with S shards (ddp: whole): bytes a parameter by class, and gigabytes (10^9 bytes) that
/// a rank holds for all `parameters`, with those that stay unsharded through a micro-batch.
std::string model_state_table(std::uint64_t parameters, std::uint64_t shard_size, Dtype param, Dtype reduce);

}  // namespace shardmark::forecast
