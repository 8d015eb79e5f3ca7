# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/read_checkpoint.py reads both layouts, and its weights give the run's losses in a forward pass in numpy."""

import json
import subprocess
import sys
import tomllib

import harness

sys.path[:0] = [str(harness.TOP / "scripts"), str(harness.TOP / "scripts" / "pytorch")]

if harness.h5py:
    import numpy as np
    import read_checkpoint
    import samples

STEPS = 4
NAMES = [f"step_{step:08}.h5" for step in (STEPS - 1, STEPS)]


def gpt_loss(weights, layers, heads, batch):
    """The mean cross-entropy of tokens (B, T + 1), in nats: GPT-2 from its description."""

    def linear(x, name):
        return x @ weights[name + ".weight"].T + weights[name + ".bias"]

    def layer_norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weights[name + ".weight"] + weights[name + ".bias"]

    def softmax(x):
        x = np.exp(x - x.max(-1, keepdims=True))
        return x / x.sum(-1, keepdims=True)

    def attention(x, name):
        b, t, c = x.shape
        q, k, v = (part.reshape(b, t, heads, c // heads).swapaxes(1, 2)
                   for part in np.split(linear(x, name + ".c_attn"), 3, axis=-1))  # (B, H, T, C / H)
        scores = q @ k.swapaxes(2, 3) / np.sqrt(c // heads) + np.triu(np.full((t, t), -np.inf), 1)
        return linear((softmax(scores) @ v).swapaxes(1, 2).reshape(b, t, c), name + ".c_proj")

    def mlp(x, name):
        x = linear(x, name + ".c_fc")
        return linear(x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), name + ".c_proj")

    inputs, targets = batch[:, :-1], batch[:, 1:, None]
    x = weights["transformer.wte.weight"][inputs] + weights["transformer.wpe.weight"][:inputs.shape[1]]
    for block in (f"transformer.h.{layer}." for layer in range(layers)):
        x = x + attention(layer_norm(x, block + "ln_1"), block + "attn")
        x = x + mlp(layer_norm(x, block + "ln_2"), block + "mlp")
    logits = layer_norm(x, "transformer.ln_f") @ weights["transformer.wte.weight"].T
    return -np.log(np.take_along_axis(softmax(logits), targets, axis=-1)).mean()


@harness.needs_h5py
class ReadCheckpoint(harness.CliTest):
    def setUp(self):
        super().setUp()
        changes = {"data.path": str(harness.TOP / "tests/golden/tokens.bin"), "train.steps": STEPS,
                   "train.eval_every": STEPS, "checkpoint.every": 1, "output.dir": "out"}
        self.assert_valid(self.run_program("train", harness.TOP / "inputs/golden.toml", *(
            word for key, value in changes.items() for word in ("--set", f"{key}={value}"))))
        self.saved = self.folder / "out" / "checkpoints"
        for name in NAMES:
            subprocess.run([harness.PROGRAM, "ckpt", "convert", self.saved / name, self.folder / "rank_files",
                            "--layout", "file_per_rank"], check=True, stdout=subprocess.DEVNULL,
                           env=harness.environment())

    def test_losses(self):
        metrics = harness.metrics_of(self.folder / "out")
        for folder in [self.saved, self.folder / "rank_files"]:
            before, last = (read_checkpoint.read_checkpoint(folder / name) for name in NAMES)
            self.assertEqual((before.state["step"], last.state["step"]), (STEPS - 1, STEPS))
            deck = tomllib.loads(last.state["deck"])
            size, layers, heads = deck["train"]["global_batch"], deck["model"]["layers"], deck["model"]["heads"]
            batches = samples.Tokens(deck)
            loss = gpt_loss(before.model, layers, heads, batches.training((STEPS - 1) * size, size))
            self.assertAlmostEqual(loss, metrics[STEPS - 1]["loss"], delta=1e-10)
            loss = gpt_loss(last.model, layers, heads, batches.validation())
            self.assertAlmostEqual(loss, metrics[STEPS - 1]["validation_loss"], delta=1e-10)
            self.assertNotAlmostEqual(loss, metrics[STEPS - 1]["loss"], delta=1e-3)
            self.assertEqual(set(last.optimizer), {"exp_avg", "exp_avg_sq"})

    def test_what_is_missing_or_damaged(self):
        indexed = self.folder / "rank_files" / NAMES[1]
        rank_file = indexed.with_suffix(".shards") / "rank_00001.h5"
        whole = rank_file.read_bytes()
        rank_file.unlink()
        with self.assertRaisesRegex(FileNotFoundError, "rank_00001.h5 is missing"):
            read_checkpoint.read_checkpoint(indexed)
        rank_file.write_bytes(whole)
        for path, opened in [(indexed, rank_file), (self.saved / NAMES[1], self.saved / NAMES[1])]:
            read_checkpoint.read_checkpoint(path)
            with harness.h5py.File(opened, "r+") as file:
                file["/model/transformer.ln_f.weight"][0] += 1e-9
            with self.assertRaisesRegex(ValueError, "wrong fingerprint of /model/transformer.ln_f.weight"):
                read_checkpoint.read_checkpoint(path)

    def test_listing(self):
        listed = subprocess.run([sys.executable, read_checkpoint.__file__, self.folder / "rank_files" / NAMES[1]],
                                check=True, text=True, stdout=subprocess.PIPE).stdout
        self.assertIn("/model/transformer.wte.weight  float64 (97, 96)  norm ", listed)
        self.assertIn(f"/state/step  {STEPS}\n", listed)
        self.assertIn(json.dumps("zero3"), listed)


if __name__ == "__main__":
    harness.main()
