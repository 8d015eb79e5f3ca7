# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""The samples of a run, in its order, from its deck: data.kind "tokens" and "teacher". Needs numpy only.

Training sample i of a run is the same at any number of ranks, and step s (from 0) takes samples
s x train.global_batch up to (s + 1) x train.global_batch - 1. The order is a Feistel network over Philox4x32-10, as
src/data/shuffle.hpp and src/core/rng.hpp describe it; windows are cut as src/data/windows.hpp says.
"""

import numpy as np

WORD = 0xFFFFFFFF


def philox(key, low, high=0):
    """Four arrays of 32-bit words for each counter low + 2^64 high: Salmon et al. 2011, ten rounds."""
    low, high = np.broadcast_arrays(*(np.atleast_1d(half).astype(np.uint64) for half in (low, high)))
    words = [low & WORD, low >> 32, high & WORD, high >> 32]
    key0, key1 = key & WORD, key >> 32
    for _ in range(10):
        product0, product1 = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [product1 >> 32 ^ words[1] ^ key0, product1 & WORD, product0 >> 32 ^ words[3] ^ key1, product0 & WORD]
        key0, key1 = (key0 + 0x9E3779B9) & WORD, (key1 + 0xBB67AE85) & WORD
    return words


def bits64(words, half=0):
    return words[2 * half] | words[2 * half + 1] << 32


def stream_key(seed, name):
    hash_of_name = 0xCBF29CE484222325  # FNV-1a
    for byte in name.encode():
        hash_of_name = ((hash_of_name ^ byte) * 0x100000001B3) % 2**64
    return int(bits64(philox(seed, hash_of_name))[0])


def normal(key, low, high=0):
    """Standard normal by Box and Muller."""
    words = philox(key, low, high)
    uniform = [((bits64(words, half) >> 11).astype(np.float64) + 0.5) / 2**53 for half in (0, 1)]
    return np.sqrt(-2 * np.log(uniform[0])) * np.cos(2 * np.pi * uniform[1])


def epoch_order(seed, epoch, n):
    """What comes at places 0 ... n - 1 of an epoch."""
    key = int(bits64(philox(stream_key(seed, "data/shuffle"), epoch))[0])
    half_bits = max(1, ((n - 1).bit_length() + 1) // 2)
    mask = 2**half_bits - 1
    order, walking = np.arange(n, dtype=np.uint64), np.ones(n, bool)
    while walking.any():
        left, right = order[walking] >> half_bits, order[walking] & mask
        for number in range(8):
            left, right = right, left ^ philox(key, right, number)[0] & mask
        order[walking] = left << half_bits | right
        walking = order >= n
    return order.astype(np.int64)


def read_tokens(path):
    """llm.c's .bin files: 256 words of header, or none, then 16 bits a token."""
    content = np.fromfile(path, "<u2")
    has_header = content.size > 1 and content[:2].view("<u4")[0] == 20240520
    return content[512 if has_header else 0:].astype(np.int64)


class Tokens:
    """Batches are (B, T + 1): T inputs and, one further, T targets."""

    def __init__(self, deck):
        data = deck["data"]
        self.seed, self.context = deck["train"]["seed"], deck["model"]["context"]
        self.tokens = np.concatenate([read_tokens(path) for path in sorted(data["path"])])
        splits = 2 if data["validation"] > 0 else 1
        windows = (self.tokens.size - splits) // self.context
        held_out = max(1, int(data["validation"] * windows + 0.5)) if splits == 2 else 0
        self.windows = windows - held_out
        self.validation_begins = self.windows * self.context + 1 + self.context * np.arange(held_out)

    def cut(self, begins):
        return self.tokens[np.asarray(begins)[:, None] + np.arange(self.context + 1)]

    def training(self, first, count):
        places = np.arange(first, first + count)
        orders = {epoch: epoch_order(self.seed, epoch, self.windows) for epoch in set(places // self.windows)}
        return self.cut([orders[place // self.windows][place % self.windows] * self.context for place in places])

    def validation(self):
        return self.cut(self.validation_begins)


class Teacher:
    """Batches are pairs of features (B, inputs) and responses (B, outputs) in double; see src/data/teacher.cpp."""

    HIDDEN = 32

    def __init__(self, deck):
        self.seed = deck["train"]["seed"]
        self.features, self.responses = deck["model"]["sizes"][0], deck["model"]["sizes"][-1]
        self.validation_samples = deck["data"]["validation_samples"]
        self.inner = self.weights("inner", self.HIDDEN, self.features) / np.sqrt(self.features)
        self.outer = self.weights("outer", self.responses, self.HIDDEN)
        self.outer /= np.sqrt((self.samples("scale", 0, 2048)[1]**2).mean(axis=0))[:, None]

    def weights(self, name, rows, columns):
        return normal(stream_key(self.seed, "data/teacher/" + name), np.arange(rows * columns)).reshape(rows, columns)

    def samples(self, name, first, count):
        key = stream_key(self.seed, "data/teacher/" + name)
        features = normal(key, np.arange(first, first + count)[:, None], np.arange(self.features))
        return features, np.tanh(features @ self.inner.T) @ self.outer.T

    def training(self, first, count):
        return self.samples("training", first, count)

    def validation(self):
        return self.samples("validation", 0, self.validation_samples)


def make_samples(deck):
    kinds = {"tokens": Tokens, "teacher": Teacher}
    kind = deck["data"]["kind"]
    if kind not in kinds:
        raise SystemExit(f'data.kind = "{kind}": only {" and ".join(kinds)} can be read here')
    return kinds[kind](deck)
