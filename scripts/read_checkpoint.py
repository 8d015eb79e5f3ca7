#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a checkpoint of either layout, shared file or file per rank, with numpy and h5py alone.

    scripts/read_checkpoint.py runs/tiny/checkpoints/step_00000300.h5      # lists what it holds

    from read_checkpoint import read_checkpoint, load_into_torch           # with scripts in PYTHONPATH
    checkpoint = read_checkpoint("runs/tiny/checkpoints/step_00000300.h5")
    checkpoint.model["transformer.h.0.attn.c_attn.weight"]                 # (3C, C) float32
    checkpoint.optimizer["exp_avg"]["transformer.h.0.attn.c_attn.weight"]  # the same shape
    checkpoint.state["step"], checkpoint.state["deck"]                     # numbers and texts
    load_into_torch(model, "runs/tiny/checkpoints/step_00000300.h5")       # a GPT-2 in PyTorch

Names and orientation are those of GPT-2 written with nn.Linear, (outputs, inputs): c_attn is (3C, C). Hugging Face's
Conv1D has the transpose, so transpose the weights of c_attn, c_proj and c_fc for it. A tied head is stored once, as
transformer.wte.weight.

A file step_00000300.h5 of the layout "file_per_rank" is an index whose datasets are virtual: their elements lie in
step_00000300.shards/rank_00000.h5 and so on, beside it. HDF5 fills in NaN where such a file is missing; this reader
raises. It also compares every tensor with the fingerprint that the checkpoint keeps, so that damage raises too.
"""

import argparse
import collections
import pathlib

import h5py
import numpy as np

# model: {name: array}; optimizer: {state: {name: array}}; state and run: {key: number or text}.
Checkpoint = collections.namedtuple("Checkpoint", "model optimizer state run")


def mix(x):
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014) of every 64-bit word, modulo 2^64."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def fingerprint(array):
    """The sum of mix(mix(index) ^ bits) over the elements, modulo 2^64: src/core/fingerprint.hpp."""
    bits = np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}").astype(np.uint64)
    return mix(mix(np.arange(bits.size, dtype=np.uint64)) ^ bits).sum(dtype=np.uint64)


def read_tensors(file, group):
    """{name: array} of the datasets in a group, each compared with its fingerprint."""
    tensors = {}
    for name, dataset in file[group].items():
        for source in dataset.virtual_sources() if dataset.is_virtual else []:
            rank_file = pathlib.Path(file.filename).parent / source.file_name
            if not rank_file.exists():
                raise FileNotFoundError(f"{file.filename}: its rank file {rank_file} is missing")
        tensors[name] = dataset[()]
        if fingerprint(tensors[name]) != file[f"fingerprint/{group}/{name}"][()]:
            raise ValueError(f"{file.filename} is damaged: wrong fingerprint of /{group}/{name}")
    return tensors


def read_scalars(group):
    """{key: number or text} of all datasets below a group."""
    values = {}
    group.visititems(lambda key, item: values.update({key: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return {key: value.decode() if isinstance(value, bytes) else value.item() for key, value in values.items()}


def read_checkpoint(path):
    with h5py.File(path, "r") as file:
        states = file["optimizer"] if "optimizer" in file else {}
        optimizer = {state: read_tensors(file, f"optimizer/{state}") for state in states}
        state, run = (read_scalars(file[group]) for group in ("state", "run"))
        return Checkpoint(read_tensors(file, "model"), optimizer, state, run)


def load_into_torch(model, path):
    """Copies /model into a PyTorch module with parameters of the same names and shapes; others raise."""
    import torch  # here only: all else works without it

    weights = {name: torch.from_numpy(array) for name, array in read_checkpoint(path).model.items()}
    if "lm_head.weight" in model.state_dict():
        weights.setdefault("lm_head.weight", weights["transformer.wte.weight"])
    model.load_state_dict(weights)
    return model


def main():
    parser = argparse.ArgumentParser(description="Lists the tensors and the state of a checkpoint, all verified.")
    parser.add_argument("file", help="step_00000100.h5")
    checkpoint = read_checkpoint(parser.parse_args().file)
    groups = {"model": checkpoint.model, **{f"optimizer/{state}": t for state, t in checkpoint.optimizer.items()}}
    for group, tensors in groups.items():
        for name, array in tensors.items():
            print(f"/{group}/{name}  {array.dtype} {array.shape}  norm {np.linalg.norm(array):.6g}")
    for key, value in checkpoint.state.items():
        print(f"/state/{key}  {value if not isinstance(value, str) else repr(value)}")


if __name__ == "__main__":
    main()
