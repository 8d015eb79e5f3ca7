# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""The program's checks of itself and its benchmarks: verify, bench strategies, bench gemm, bench step, --dry-run."""

import json
import re

import harness


class Verify(harness.CliTest):
    def test_every_check_passes_and_leaves_nothing(self):
        for ranks in (1, 3):
            ended = self.run_program("verify", self.write_deck(), ranks=ranks)
            self.assertEqual(ended.codes, [0] * ranks, ended.stderr)
            lines = [line for line in ended.out if " PASSED " in line or " FAILED " in line]
            self.assertEqual(len(lines), 12, ended.out)
            self.assertNotIn("FAILED", "\n".join(lines))
            self.assertEqual(ended.out[-1], "0 of 12 checks failed")
            self.assertEqual(list((self.folder / "out").glob("*")), [])


    def test_the_deck_s_own_precision_is_checked(self):
        emulated = {"precision.gemm": "emulated"}
        for precision, changes, checks in [("fp32", {}, 12), ("bf16", emulated, 12), ("fp16", emulated, 12),
                                           ("fp64", {}, 11)]:
            with self.subTest(precision):
                ended = self.run_program("verify", self.write_deck({"precision.param": precision, **changes}), ranks=2)
                self.assertEqual(ended.codes, [0, 0], ended.stderr + "\n".join(ended.out))
                own = [line for line in ended.out if line.startswith(f"gradient in {precision} against fp64")]
                self.assertEqual((len(own), ended.out[-1]), (checks - 11, f"0 of {checks} checks failed"))
                for line in own:
                    # Rounding is seen: a check in double by mistake would show none.
                    self.assertGreater(float(re.search(r"gradients (\S+) ", line)[1]), 1e-8)


    def test_what_a_deck_says_of_its_strategy_does_not_hinder_the_others(self):
        for own in ({"parallel.unshard": "share"}, {"parallel.offload": "all"}, {"parallel.accumulate": "sharded"},
                    {"parallel.strategy": "hybrid", "parallel.shard_size": 2}):
            with self.subTest(str(own)):
                deck = self.write_deck(own)
                for command in (("verify",), ("bench", "strategies", "--steps", "1", "--rounds", "1")):
                    ended = self.run_program(*command, deck, ranks=2)
                    self.assertEqual(ended.codes, [0, 0], ended.stderr + "\n".join(ended.out))

    def test_an_mlp_with_its_kinks_passes(self):
        mlp = {"model.kind": "mlp", "model.sizes": [8, 64, 64, 4], "data.kind": "teacher", "train.global_batch": 64,
               "train.micro_batch": 16}
        for seed in range(3):
            ended = self.run_program("verify", self.write_deck({**mlp, "train.seed": seed}), ranks=2)
            self.assertEqual(ended.codes, [0, 0], "\n".join(ended.out))

    def test_a_deck_that_does_not_fit_is_forecast_with_a_warning(self):
        deck = self.write_deck({"model.width": 1 << 16, "model.layers": 4096, "train.global_batch": 2})
        ended = self.run_program("train", deck, "--dry-run")
        self.assertEqual(ended.codes, [0, 0, 0], ended.stderr)
        warnings = [line for line in ended.out if line.startswith("warning: ")]
        self.assertTrue(any("GB are free there" in line for line in warnings), warnings)
        self.assertIn("warning: train.global_batch = 2: 1 of 3 ranks have no sample in a step", warnings)


class Benches(harness.CliTest):
    def figures(self, *arguments, changes=None):
        ended = self.run_program("bench", *arguments, self.write_deck(changes), "--json", "figures.json")
        self.assertEqual(ended.codes, [0, 0, 0], ended.stderr)
        return json.loads((self.folder / "figures.json").read_text()), ended.out

    def test_odd_arguments(self):
        deck = self.write_deck()
        for arguments in [["comm", "--max", "-5"], ["comm", "--max", "-1", "--backend", "mpi"],
                          ["comm", "--seconds", "nan"], ["step", deck, "--steps", "0"],
                          ["io", deck, "--alignment", "-1"]]:
            ended = self.run_program("bench", *arguments, ranks=2)
            self.assertEqual(ended.codes, [2, 2], (arguments, ended.stderr))
            self.assertLess(len(ended.errors[0]), 200)
        ended = self.run_program("bench", "comm", "--min", "64GiB", "--max", "64GiB", ranks=2)
        self.assert_refused(ended, 3, "GB are free there", ranks=2)

    def test_strategies(self):
        rows, out = self.figures("strategies", "--steps", "2", "--rounds", "2")
        self.assertEqual([row["strategy"] for row in rows], ["ddp", "zero1", "zero2", "zero3", "hybrid"])
        self.assertEqual(len(out), 1 + 1 + len(rows))
        parts = ("parameters", "gradients", "optimizer")
        state = {row["strategy"]: sum(row["memory_rank0_bytes"][part] for part in parts) for row in rows}
        # 4b a parameter whole, 2b + 2b/3, 4b/3 with padding that is small but there.
        self.assertAlmostEqual(state["zero1"] / state["ddp"], (2 + 2 / 3) / 4, delta=0.05)
        self.assertAlmostEqual(state["zero3"] / state["ddp"], 1 / 3, delta=0.05)
        for row in rows:
            self.assertEqual(len(row["step_seconds"]), 4)
            self.assertAlmostEqual(row["loss"], rows[0]["loss"], delta=1e-5 * rows[0]["loss"])

    def test_gemm_and_step(self):
        products, out = self.figures("gemm", "--repeats", "2")
        self.assertEqual(len(products), 3 * 5 + 3)
        self.assertTrue(all(product["flops_per_second"] > 0 for product in products))
        flops = [p["times"] * 2 * p["m"] * p["n"] * p["k"] for p in products]
        mean = sum(flops) / sum(f / p["flops_per_second"] for f, p in zip(flops, products))
        roof, best, all_of_them = map(float, re.search(
            r"registers alone: ([\d.]+) GFLOP/s; the best product has ([\d.]+) of that, all of them ([\d.]+)",
            out[-1]).groups())
        self.assertAlmostEqual(best * roof * 1e9, max(product["flops_per_second"] for product in products),
                               delta=0.006 * roof * 1e9)
        self.assertAlmostEqual(all_of_them * roof * 1e9, mean, delta=0.006 * roof * 1e9)
        for changes in ({}, {"model.kind": "mlp", "model.sizes": [8, 16, 4], "data.kind": "teacher"}):
            step, _ = self.figures("step", "--steps", "2", changes=changes)
            parts = sum(step["seconds"].values()) + step["exposed_communication_seconds"]
            self.assertGreater(step["seconds"]["matrix products"], 0)
            self.assertLess(parts, 1.05 * step["mean_seconds"])


class DryRun(harness.CliTest):
    def test_a_monstrous_model_is_predicted_and_refused(self):
        huge = {"model.layers": 96, "model.width": 12288, "model.heads": 96, "model.context": 2048}
        deck = self.write_deck(huge)
        ended = self.run_program("train", deck, "--dry-run")
        self.assertEqual(ended.codes, [0, 0, 0], ended.stderr)
        parameters = 96 * (12 * 12288**2 + 13 * 12288) + 12288 * (32 + 2048 + 2)
        self.assertTrue(any(f"{parameters} parameters" in line for line in ended.out), ended.out)
        optimizer = [line for line in ended.out if re.match(r"  optimizer ", line)]
        self.assertAlmostEqual(float(optimizer[0].split()[1]), parameters * 8 / 3 / 1e6, delta=parameters / 1e9)
        self.assert_refused(self.run_program("train", deck), 3, "GB of memory a rank", "GB are free")
        self.assertFalse((self.folder / "out").exists())


if __name__ == "__main__":
    harness.main()
