# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""On a Markov chain the lowest possible loss is known: training reaches it, and nothing gets below it."""

import json
import re

import harness


class KnownAnswer(harness.CliTest):
    def test_validation_loss_reaches_the_entropy_rate(self):
        ended = self.run_program("train", harness.TOP / "inputs" / "markov.toml", "--set", "output.dir=out",
                                 "--set", "train.peak_flops=1e9", ranks=2)
        self.assert_valid(ended, ranks=2)
        self.assertIn("data markov: 32 states with 4 successors", "\n".join(ended.out))
        printed = [match.group(1) for line in ended.out
                   if (match := re.fullmatch(r"lowest possible loss \(entropy rate\): (\S+)", line))]
        entropy_rate = float(printed[0])
        self.assertGreater(entropy_rate, 1.0)

        losses = [row["validation_loss"] for row in harness.metrics_of(self.folder / "out") if "validation_loss" in row]
        self.assertEqual(len(losses), 6)
        self.assertGreater(losses[0], 1.05 * entropy_rate, "there was something left to learn")
        self.assertLess(losses[-1], 1.02 * entropy_rate)
        self.assertGreater(min(losses), 0.99 * entropy_rate)
        report = json.loads((self.folder / "out" / "report.json").read_text())
        self.assertEqual(report["loss"]["validation"], losses[-1])
        self.assertAlmostEqual(report["loss"]["lowest_possible"], entropy_rate, places=5)


if __name__ == "__main__":
    harness.main()
