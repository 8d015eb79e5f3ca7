# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""The models as PyTorch modules, and checkpoints read into them. Needs torch and h5py.

    from models import load_checkpoint                       # with scripts/pytorch in PYTHONPATH
    model, deck = load_checkpoint("runs/tiny/checkpoints/step_00000300.h5")
    logits = model(tokens)                                   # (B, T) int64 -> (B, T, V)

A checkpoint is plain HDF5, so numpy alone does too:

    with h5py.File("step_00000300.h5") as file:
        weight = file["model/transformer.h.0.attn.c_attn.weight"][()]                   # (3C, C)
        exp_avg = file["optimizer/exp_avg/transformer.h.0.attn.c_attn.weight"][()]

Names, shapes and orientation are those of GPT-2 written with nn.Linear: (outputs, inputs). For Hugging Face's GPT-2
transpose the weights of c_attn, c_proj and c_fc (its Conv1D has (inputs, outputs)). Tied embeddings are stored once, as
transformer.wte.weight: a model that wants lm_head.weight too takes the same tensor.
"""

import tomllib

import h5py
import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width, eps=1e-5)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)})
        self.ln_2 = nn.LayerNorm(width, eps=1e-5)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

    def forward(self, x):  # (B, T, C)
        x = x + self.attn["c_proj"](self.attention(self.ln_1(x)))
        hidden = functional.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + self.mlp["c_proj"](hidden)

    def attention(self, x):
        heads = [part.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, T, C / H)
                 for part in self.attn["c_attn"](x).chunk(3, dim=-1)]
        return functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(-2)


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context, vocab, tie_embeddings):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocab, width),
            "wpe": nn.Embedding(context, width),
            "h": nn.ModuleList(Block(width, heads) for _ in range(layers)),
            "ln_f": nn.LayerNorm(width, eps=1e-5),
        })
        if not tie_embeddings:
            self.lm_head = nn.Linear(width, vocab, bias=False)
        self.tied = tie_embeddings

    def forward(self, tokens):  # (B, T) -> (B, T, V)
        positions = torch.arange(tokens.shape[1])
        x = self.transformer["wte"](tokens) + self.transformer["wpe"](positions)
        for block in self.transformer["h"]:
            x = block(x)
        head = self.transformer["wte"] if self.tied else self.lm_head
        return functional.linear(self.transformer["ln_f"](x), head.weight)


class Mlp(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in zip(sizes, sizes[1:]))

    def forward(self, x):  # (B, inputs) -> (B, outputs)
        for layer in self.layers[:-1]:
            x = functional.relu(layer(x))
        return self.layers[-1](x)


def make_model(deck):
    section = deck["model"]
    if section["kind"] == "mlp":
        return Mlp(section["sizes"])
    return Gpt(*(section[key] for key in ("layers", "width", "heads", "context", "vocab", "tie_embeddings")))


def load_checkpoint(path):
    """The model with the checkpoint's weights and dtype, and the run's deck. A name or shape that differs raises."""
    with h5py.File(path) as file:
        deck = tomllib.loads(file["state/deck"][()].decode())
        weights = {name: torch.from_numpy(dataset[()]) for name, dataset in file["model"].items()}
    model = make_model(deck).to(next(iter(weights.values())).dtype)
    model.load_state_dict(weights)
    return model, deck
