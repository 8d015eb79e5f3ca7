#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""Trains the model of a finished run again, in PyTorch, and compares losses and gradient norms step by step.

    scripts/run.sh inputs/golden.toml
    scripts/pytorch/compare.py runs/golden

The run needs checkpoint.at_start = true, for its weights at step 0, and data of kind "tokens" or "teacher"; a data.path
in its deck is taken from the current folder, as the run took it. Everything else is read from RUN/deck.toml and
RUN/metrics.jsonl. Needs torch, numpy and h5py. Exit code 1 where a figure differs by more than the tolerance.
models.py says how to read checkpoints into PyTorch for other ends.
"""

import argparse
import json
import math
import pathlib
import sys

import torch
from torch.nn import functional

from models import load_checkpoint
from samples import make_samples

TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-9}  # relative


def learning_rate(deck, step):
    """At `step`, counted from 1; see src/optim/schedule.hpp."""
    schedule, lr, total = deck["schedule"], deck["optimizer"]["lr"], deck["train"]["steps"]
    warmup = schedule["warmup"]
    if step < warmup:
        return lr * step / warmup
    done = min(1.0, (step - warmup) / max(1, total - warmup))
    left = {"constant": 1.0, "linear": 1 - done, "cosine": 0.5 * (1 + math.cos(math.pi * done))}[schedule["kind"]]
    return schedule["min_lr"] + (lr - schedule["min_lr"]) * left


def make_optimizer(deck, model):
    """Weight decay acts on matrices, embeddings included, and not on biases and norms."""
    options = deck["optimizer"]
    decays = [[p for p in model.parameters() if p.dim() >= 2], [p for p in model.parameters() if p.dim() < 2]]
    groups = [{"params": decays[0], "weight_decay": options["weight_decay"]}, {"params": decays[1], "weight_decay": 0}]
    if options["kind"] == "sgd":
        return torch.optim.SGD(groups, lr=0.0, momentum=options["momentum"])
    return torch.optim.AdamW(groups, lr=0.0, betas=options["betas"], eps=options["eps"])


def loss_of(model, batch):
    """The mean over all tokens (in nats), or over all responses."""
    if isinstance(batch, tuple):
        features, responses = (torch.from_numpy(part).to(next(model.parameters()).dtype) for part in batch)
        return functional.mse_loss(model(features), responses)
    tokens = torch.from_numpy(batch)
    return functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def train(model, deck):
    """Trains the model; returns the losses and gradient norms of all steps and the validation loss at the end."""
    samples, optimizer = make_samples(deck), make_optimizer(deck, model)
    batch, clip = deck["train"]["global_batch"], deck["optimizer"]["clip"]
    figures = {"loss": [], "grad_norm": []}
    for step in range(1, deck["train"]["steps"] + 1):
        optimizer.zero_grad()
        loss = loss_of(model, samples.training((step - 1) * batch, batch))
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip if clip > 0 else math.inf)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(deck, step)
        optimizer.step()
        figures["loss"].append(loss.item())
        figures["grad_norm"].append(norm.item())
    with torch.no_grad():
        figures["validation_loss"] = [loss_of(model, samples.validation()).item()]
    return figures


def read_metrics(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    figures = {key: [row[key] for row in rows] for key in ("loss", "grad_norm")}
    figures["validation_loss"] = [rows[-1]["validation_loss"]]
    return figures


def largest_difference(measured, expected):
    """The largest relative difference, infinite where the numbers of figures differ or one is not a number."""
    if len(measured) != len(expected):
        return math.inf
    differences = [abs(a - b) / abs(b) for a, b in zip(measured, expected)]
    return math.inf if any(map(math.isnan, differences)) else max(differences)


def compare(folder):
    """Prints how far the run is from PyTorch. Returns PyTorch's figures, and whether all agree."""
    model, deck = load_checkpoint(folder / "checkpoints" / "step_00000000.h5")
    dtype = next(model.parameters()).dtype
    expected = train(model, deck)
    measured = read_metrics(folder / "metrics.jsonl")
    differences = {key: largest_difference(measured[key], expected[key]) for key in expected}
    agree = max(differences.values()) <= TOLERANCE[dtype]
    listed = ", ".join(f"{key} {difference:.1e}" for key, difference in differences.items())
    print(f"{folder}: {len(expected['loss'])} steps in {dtype}; largest relative differences from PyTorch "
          f"{torch.__version__}: {listed}; allowed {TOLERANCE[dtype]:.0e}: {'agrees' if agree else 'DIFFERS'}")
    return expected, agree


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=pathlib.Path, help="the run's folder, its output.dir")
    return not compare(parser.parse_args().run)[1]


if __name__ == "__main__":
    sys.exit(main())
