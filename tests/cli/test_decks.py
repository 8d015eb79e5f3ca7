# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""The decks of inputs/ run; without a deck's keys the reference's values are in force."""

import harness


class Decks(harness.CliTest):
    def setUp(self):
        super().setUp()
        (self.folder / "src").symlink_to(harness.TOP / "src")

    def run_deck(self, deck, *options):
        ended = self.run_program("train", deck, *options, ranks=2)
        self.assert_valid(ended, ranks=2)
        return (self.folder / "runs" / "out" / "deck.toml").read_text()

    def test_reference_runs_as_it_stands(self):
        reference = self.run_deck(harness.TOP / "inputs" / "reference.toml")
        losses = [row["loss"] for row in harness.metrics_of(self.folder / "runs" / "out")]
        self.assertEqual(len(losses), 20)
        self.assertLess(losses[-1], losses[0] - 0.5)
        (self.folder / "empty.toml").write_text("")
        self.assertEqual(self.run_deck("empty.toml"), reference)
        self.assertEqual([row["loss"] for row in harness.metrics_of(self.folder / "runs" / "out")], losses)

    def test_others_start(self):
        for name, steps in [("tiny", 2), ("mlp", 1), ("markov", 2), ("small", 0)]:
            with self.subTest(name):
                deck = self.run_deck(harness.TOP / "inputs" / f"{name}.toml", "--set", "output.dir=runs/out",
                                     "--set", f"train.steps={steps}", "--set", "train.eval_every=0",
                                     "--set", "checkpoint.every=0", "--set", "train.peak_flops=1e9")
                self.assertIn(f"steps = {steps}\n", deck)


if __name__ == "__main__":
    harness.main()
