# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""HDF5's own tools and h5py read a checkpoint, and find those of other rank counts equal."""

import re
import subprocess

import harness

LAST = "out/checkpoints/step_00000020.h5"
LAYERS, C, T, V = 2, 32, 32, 64
CHANGES = {"model.layers": LAYERS, "model.width": C, "model.heads": 4, "model.context": T, "model.vocab": V,
           "precision.param": "fp64", "optimizer.lr": 1e-3, "data.states": V, "train.steps": 20,
           "train.global_batch": 10, "checkpoint.every": 20, "checkpoint.at_start": True}
BLOCK = {"ln_1.weight": (C,), "ln_1.bias": (C,), "attn.c_attn.weight": (3 * C, C), "attn.c_attn.bias": (3 * C,),
         "attn.c_proj.weight": (C, C), "attn.c_proj.bias": (C,), "ln_2.weight": (C,), "ln_2.bias": (C,),
         "mlp.c_fc.weight": (4 * C, C), "mlp.c_fc.bias": (4 * C,), "mlp.c_proj.weight": (C, 4 * C),
         "mlp.c_proj.bias": (C,)}
SHAPES = {"wte.weight": (V, C), "wpe.weight": (T, C), "ln_f.weight": (C,), "ln_f.bias": (C,),
          **{f"h.{layer}.{name}": shape for layer in range(LAYERS) for name, shape in BLOCK.items()}}
SHAPES = {"transformer." + name: shape for name, shape in SHAPES.items()}
# Largest differences that rounding may leave after 20 steps of a gradient of norm 1, between runs on other ranks.
TOLERANCE = {"/model": "1e-11", "/optimizer/exp_avg": "1e-13", "/optimizer/exp_avg_sq": "1e-15"}


def tool(name, *arguments):
    return subprocess.run([name, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


@harness.needs_h5py
@harness.needs_tools
class StockTools(harness.CliTest):
    def trained_on(self, ranks):
        folder = self.folder / f"on{ranks}"
        self.train(CHANGES, ranks=ranks, cwd=folder)
        return folder / LAST

    def test_read(self):
        path = self.trained_on(3)
        listed = tool("h5ls", "-r", path)
        self.assertEqual(listed.returncode, 0)
        for name, shape in SHAPES.items():
            extents = re.escape("{" + ", ".join(map(str, shape)) + "}")
            for group in TOLERANCE:
                self.assertRegex(listed.stdout, rf"(?m)^{group}/{name}\s+Dataset {extents}$")
            for group in TOLERANCE:
                self.assertRegex(listed.stdout, rf"(?m)^/fingerprint{group}/{name}\s+Dataset {{SCALAR}}$")

        header = tool("h5dump", "-H", path)
        self.assertEqual(header.returncode, 0)
        self.assertEqual(header.stdout.count("H5T_IEEE_F64LE"), 3 * len(SHAPES) + 1)  # and the loss scale
        dump = tool("h5dump", "-m", "%.17g", "-d", "/model/transformer.ln_f.weight", path)
        self.assertEqual(dump.returncode, 0)
        dumped = [float(word) for line in re.findall(r"\(\d+\): (.*)", dump.stdout)
                  for word in line.split(",") if word.strip()]
        with harness.h5py.File(path, "r") as file:
            self.assertEqual(dumped, list(file["/model/transformer.ln_f.weight"]))
            self.assertEqual({name: data.shape for name, data in file["model"].items()}, SHAPES)
            self.assertEqual((file["/state/step"][()], file["/state/samples_seen"][()]), (20, 200))
            self.assertEqual(file["/state/deck"][()].decode(), (self.folder / "on3/out/deck.toml").read_text())
            self.assertEqual((file["/run/ranks"][()], file["/run/strategy"][()]), (3, b"zero3"))

    def test_repacked(self):
        """Chunked and compressed copies resume at another number of ranks, by either kind of transfer."""
        path = self.trained_on(3)
        start, packed = path.with_name("step_00000000.h5"), self.folder / "packed.h5"
        packing = tool("h5repack", "-f", "GZIP=4", start, packed)
        self.assertEqual(packing.returncode, 0, packing.stdout)
        self.assertIn("COMPRESSION DEFLATE", tool("h5dump", "-p", "-H", packed).stdout)
        for transfer in ["independent", "collective"]:
            folder = self.folder / transfer
            self.train({**CHANGES, "checkpoint.transfer": transfer}, ["--resume", packed], cwd=folder)
            self.assertEqual(tool("h5diff", folder / LAST, path, "/model").returncode, 0)

    def test_rank_files(self):
        """The same names, shapes and values from an index of virtual datasets, which can be moved and flattened."""
        path = self.trained_on(3)
        indexed, moved, flat = (self.folder / name / path.name for name in ("first", "moved", "flat"))
        self.convert(path, indexed.parent, "file_per_rank")
        indexed.parent.rename(moved.parent)
        self.assertEqual(tool("h5ls", "-r", moved).stdout.count("Dataset {96, 32}"), 3 * LAYERS)
        header = tool("h5dump", "-p", "-H", "-d", "/model/transformer.wte.weight", moved).stdout
        for rank in range(3):
            self.assertIn(f'FILE "step_00000020.shards/rank_{rank:05}.h5"', header)
        for group in [*TOLERANCE, "/state", "/fingerprint"]:
            compared = tool("h5diff", moved, path, group)
            self.assertEqual((compared.returncode, compared.stdout), (0, ""), group)
        with harness.h5py.File(moved) as file, harness.h5py.File(path) as shared:
            self.assertTrue(file["model/transformer.wte.weight"].is_virtual)
            for name in SHAPES:
                self.assertTrue((file["model"][name][...] == shared["model"][name][...]).all(), name)
        flat.parent.mkdir()
        self.assertEqual(tool("h5repack", "-l", "CONTI", moved, flat).returncode, 0)
        self.convert(flat, self.folder / "again", "file_per_rank")
        self.assertEqual(tool("h5diff", self.folder / "again" / path.name, path, "/model").returncode, 0)
        (moved.with_suffix(".shards") / "rank_00002.h5").unlink()
        with harness.h5py.File(moved) as file:  # what other readers see of a missing rank file
            values = file["model/transformer.wte.weight"][...].ravel()
            self.assertEqual([values[0] == values[0], values[-1] == values[-1]], [True, False])

    def convert(self, path, folder, layout):
        converted = tool(harness.PROGRAM, "ckpt", "convert", path, folder, "--layout", layout)
        self.assertEqual(converted.returncode, 0, converted.stdout)

    def test_other_ranks_are_equal_to_rounding(self):
        on2, on3 = self.trained_on(2), self.trained_on(3)
        for group, most in TOLERANCE.items():
            compared = tool("h5diff", "-v", "-d", most, on2, on3, group)
            self.assertEqual(compared.returncode, 0, compared.stdout)
            for name in SHAPES:
                self.assertIn(f"dataset: <{group}/{name}> and <{group}/{name}>\n0 differences found", compared.stdout)
        self.assertEqual(tool("h5diff", on2, on3, "/model").returncode, 1, "the sums had other orders")

        # The bounds mean something: the smallest is far below what the numbers are and how far they went.
        start = on3.with_name("step_00000000.h5")
        with harness.h5py.File(on3, "r") as file, harness.h5py.File(start, "r") as before:
            for name in SHAPES:
                self.assertGreater(abs(file["model"][name][...] - before["model"][name][...]).max(), 1e-3, name)
                self.assertGreater(abs(file["optimizer/exp_avg"][name][...]).max(), 1e-4, name)
                self.assertGreater(file["optimizer/exp_avg_sq"][name][...].max(), 1e-8, name)


if __name__ == "__main__":
    harness.main()
