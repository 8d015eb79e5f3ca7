// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/batcher.hpp"

#include "core/precision.hpp"

namespace shardmark {

SampleRange share_of(const SampleRange& all, int rank, int ranks) {
  const std::uint64_t begin = all.count * rank / ranks, end = all.count * (rank + 1) / ranks;
  return {all.first + begin, end - begin};
}

template <class T>
Batcher<T>::Batcher(const Dataset& dataset, const SampleShape& shape, std::size_t micro_batch)
    : dataset_(dataset),
      tokens_(dataset.has_tokens() ? shape.context + 1 : 0),
      features_(dataset.has_tokens() ? 0 : shape.features),
      responses_(dataset.has_tokens() ? 0 : shape.responses),
      token_memory_(allocate<std::int32_t>("shardmark::batcher::tokens", micro_batch * tokens_)),
      array_memory_(allocate<T>("shardmark::batcher::arrays", micro_batch * (features_ + responses_))),
      host_tokens_(mirror_of(token_memory_)),
      host_arrays_(mirror_of(array_memory_)),
      sample_(features_ + responses_) {}

template <class T>
Batch<T> Batcher<T>::load(const Exec& exec, Split split, std::uint64_t first, std::size_t count) {
  Batch<T> batch;
  batch.samples = count;
  copied_.wait("shardmark::batcher::load: the host fills the buffer again");
  if (tokens_ > 0) {
    for (std::size_t b = 0; b < count; ++b)
      dataset_.tokens(split, first + b, host_tokens_.data() + b * tokens_);
    Kokkos::deep_copy(exec, token_memory_, host_tokens_);
    copied_.record(exec);
    batch.tokens = Matrix<const std::int32_t>(token_memory_.data(), count, tokens_);
    return batch;
  }
  // Features of all samples first, then their responses.
  const std::size_t responses_begin = count * features_;
  for (std::size_t b = 0; b < count; ++b) {
    dataset_.arrays(split, first + b, sample_.data(), sample_.data() + features_);
    for (std::size_t i = 0; i < features_; ++i) host_arrays_(b * features_ + i) = static_cast<T>(sample_[i]);
    for (std::size_t i = 0; i < responses_; ++i)
      host_arrays_(responses_begin + b * responses_ + i) = static_cast<T>(sample_[features_ + i]);
  }
  Kokkos::deep_copy(exec, array_memory_, host_arrays_);
  copied_.record(exec);
  batch.features = Matrix<const T>(array_memory_.data(), count, features_);
  batch.responses = Matrix<const T>(array_memory_.data() + responses_begin, count, responses_);
  return batch;
}

#define SHARDMARK_INSTANTIATE(T) template class Batcher<T>;
SHARDMARK_FOR_SCALARS(SHARDMARK_INSTANTIATE)
#undef SHARDMARK_INSTANTIATE

}  // namespace shardmark
