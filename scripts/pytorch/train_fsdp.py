# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""Trains the model of a deck in PyTorch on the CPU and prints its speed: the peer that Shardmark is compared with.

    python3 -m torch.distributed.run --nproc-per-node 2 scripts/pytorch/train_fsdp.py inputs/small.toml --mode fsdp2

Same model, batch a rank, fused AdamW and clipping by the global norm; tokens are random, as speed does not depend on
them. Last line: JSON with the seconds of the timed steps and the items (tokens or samples) of one step.
"""

import argparse
import contextlib
import json
import os
import time
import tomllib

import torch
import torch.distributed as dist
from torch.nn import functional

from models import Block, Gpt, Mlp

MODES = ("ddp", "fsdp1", "fsdp1sgo", "fsdp2", "fsdp2nr")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("deck")
    parser.add_argument("--mode", choices=MODES, default="fsdp2",
                        help="fsdp1 FULL_SHARD, fsdp1sgo SHARD_GRAD_OP, fsdp2 fully_shard, fsdp2nr without reshard")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--attention", choices=("auto", "math"), default="auto")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--micro-batches", type=int, default=1, help="that a step goes in")
    parser.add_argument("--warmup", type=int, default=2)
    return parser.parse_args()


def make_model(deck):
    model = deck["model"]
    if model["kind"] == "mlp":
        return Mlp(model["sizes"]), torch.nn.Linear
    return Gpt(model["layers"], model["width"], model["heads"], model["context"], model["vocab"],
               model.get("tie_embeddings", True)), Block


def shard(model, kind, mode, dtype):
    low = torch.bfloat16 if dtype == "bf16" else None
    if mode == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    if mode.startswith("fsdp1"):
        from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy
        strategy = ShardingStrategy.FULL_SHARD if mode == "fsdp1" else ShardingStrategy.SHARD_GRAD_OP
        mixed = MixedPrecision(param_dtype=low, reduce_dtype=torch.float32, buffer_dtype=low) if low else None
        return FullyShardedDataParallel(model, sharding_strategy=strategy, mixed_precision=mixed, use_orig_params=True,
                                        auto_wrap_policy=ModuleWrapPolicy({kind}), device_id=torch.device("cpu"))
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    options = {"mesh": init_device_mesh("cpu", (dist.get_world_size(),)), "reshard_after_forward": mode == "fsdp2"}
    if low:
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32)
    for module in model.modules():
        if isinstance(module, kind):
            fully_shard(module, **options)
    return fully_shard(model, **options)


def batch_of_a_rank(deck):
    """Decks are made for two ranks."""
    return deck["train"]["global_batch"] // 2


def make_batch(deck):
    model, rows = deck["model"], batch_of_a_rank(deck)
    if model["kind"] == "mlp":
        return torch.randn(rows, model["sizes"][0]), torch.randn(rows, model["sizes"][-1])
    tokens = torch.randint(model["vocab"], (rows, model["context"] + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def loss_of(model, deck, inputs, targets):
    outputs = model(inputs)
    if deck["model"]["kind"] == "mlp":
        return functional.mse_loss(outputs.float(), targets)
    return functional.cross_entropy(outputs.flatten(0, 1).float(), targets.flatten())


def gradients_stay(model, mode, stay):
    """Gradients of all micro-batches but the last are added up before they are reduced."""
    if mode.startswith("fsdp2"):
        model.set_requires_gradient_sync(not stay)
    return model.no_sync() if stay and not mode.startswith("fsdp2") else contextlib.nullcontext()


def main():
    options = parse()
    with open(options.deck, "rb") as file:
        deck = tomllib.load(file)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model, kind = make_model(deck)
    # As Shardmark draws them. PyTorch's own N(0, 1) for embeddings makes logits so large that their probabilities are
    # denormal numbers, with which processors compute many times slower.
    for parameter in model.parameters():
        if parameter.dim() > 1 and deck["model"]["kind"] == "gpt":
            torch.nn.init.normal_(parameter, std=0.02)
    model = shard(model, kind, options.mode, options.dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    autocast = options.mode == "ddp" and options.dtype == "bf16"
    kernel = contextlib.nullcontext
    if options.attention == "math":
        from torch.nn.attention import SDPBackend, sdpa_kernel
        kernel = lambda: sdpa_kernel(SDPBackend.MATH)  # noqa: E731
    inputs, targets = make_batch(deck)
    if options.micro_batches < 1 or len(inputs) % options.micro_batches != 0:
        raise SystemExit(f"--micro-batches {options.micro_batches}: must divide the {len(inputs)} samples of a rank")
    seconds = []
    for step in range(options.warmup + options.steps):
        dist.barrier()
        start = time.perf_counter()
        step_loss = 0.0
        pieces = list(zip(inputs.chunk(options.micro_batches), targets.chunk(options.micro_batches)))
        for number, piece in enumerate(pieces):
            with gradients_stay(model, options.mode, number + 1 < len(pieces)):
                with kernel(), torch.autocast("cpu", torch.bfloat16) if autocast else contextlib.nullcontext():
                    loss = loss_of(model, deck, *piece) / len(pieces)
                loss.backward()
            step_loss += loss.item()
        if options.mode.startswith("fsdp1"):
            model.clip_grad_norm_(1.0)
        else:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        slowest = torch.tensor(time.perf_counter() - start)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        if step >= options.warmup:
            seconds.append(slowest.item())
    tokens = 1 if deck["model"]["kind"] == "mlp" else deck["model"]["context"]
    items = batch_of_a_rank(deck) * tokens * dist.get_world_size()
    if dist.get_rank() == 0:
        print(json.dumps({"torch": torch.__version__, "seconds": seconds, "items": items, "loss": step_loss}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
