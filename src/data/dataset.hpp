// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shardmark {

class Deck;

enum class Split { training, validation };

/// A source of samples. The run is a function of the deck: sample i is the same on every rank and at any
/// number of ranks, so the cursor that a checkpoint keeps is the count of samples seen. Host memory.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Samples in one epoch of the split; 0 for a source without end (training only).
  virtual std::uint64_t samples(Split split) const = 0;

  /// Token sources: writes the T + 1 tokens of sample `index` to `tokens`. A training index may be any
  /// number: each epoch has its own order, in which every window comes exactly once. A validation index is
  /// below samples().
  virtual void tokens(Split split, std::uint64_t index, std::int32_t* tokens) const;

  /// Array sources: writes the features and the responses of sample `index`.
  virtual void arrays(Split split, std::uint64_t index, double* features, double* responses) const;

  virtual bool has_tokens() const = 0;

  /// Changes when the training samples do (content, windows, parameters of a generator): what a checkpoint
  /// compares on resume.
  virtual std::uint64_t fingerprint() const = 0;

  /// One line for the report, e.g. "bytes: 52 files, 301245 tokens, 2118 training and 235 validation windows
  /// of 128".
  virtual std::string describe() const = 0;

  /// The lowest possible mean loss in nats, where it is known (markov: the entropy rate); else NaN.
  virtual double lowest_loss() const;
};

/// The [data] section. Every key is read whatever the kind.
struct DataConfig {
  std::string kind;  ///< "bytes", "tokens", "markov" or "teacher"
  std::vector<std::string>
      path;               ///< files or globs; for bytes folders too. See find_files for what is left out
  double validation = 0;  ///< part of the windows, at the end, held out (bytes, tokens)
  std::size_t validation_samples = 0;  ///< validation samples of the generated kinds (markov, teacher)
  std::size_t states = 0;              ///< markov: states of the chain, from 2 up to the vocabulary
  std::size_t successors = 0;          ///< markov: successors of a state, from 2 up to the states
};

/// What the model asks of the data.
struct SampleShape {
  std::size_t context = 0;    ///< T (token sources)
  std::size_t vocab = 0;      ///< V: every token must be below it
  std::size_t features = 0;   ///< inputs (array sources)
  std::size_t responses = 0;  ///< outputs
};

/// Opens the data; throws DeckError that names what is wrong with which file or key.
std::unique_ptr<Dataset> make_dataset(const DataConfig& config, const SampleShape& shape, std::uint64_t seed);

}  // namespace shardmark
