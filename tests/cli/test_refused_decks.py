# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""A wrong deck or argument ends the program at once, on all ranks, with one line that says what is wrong and valid."""

import struct

import harness

USAGE, ENVIRONMENT = 2, 3
GPT_KEYS = "valid in [model]: kind, layers, width, heads, context, vocab"


class RefusedDecks(harness.CliTest):
    def refuse(self, code, parts, changes=None, options=()):
        with self.subTest(parts[0]):
            deck = self.write_deck(changes)
            self.assert_refused(self.run_program("train", deck, *options), code, *parts)
            self.assertFalse((self.folder / "out").exists(), "a refused run leaves nothing behind")

    def refuse_text(self, parts, text):
        with self.subTest(parts[0]):
            (self.folder / "deck.toml").write_text(text)
            self.assert_refused(self.run_program("train", "deck.toml"), USAGE, *parts)

    def test_deck_that_is_not_there(self):
        self.assert_refused(self.run_program("train", "none.toml"), USAGE, "none.toml: no such deck")
        self.assert_refused(self.run_program("train", "."), USAGE, ".: no such deck")

    def test_text(self):
        for parts, text in [
                (["deck.toml:3: bad TOML"], "[model]\nlayers = 1\nwidth 16\n"),
                (["deck.toml:2: unknown key model.depth", GPT_KEYS], "[model]\ndepth = 3\n"),
                (["deck.toml:2: unknown section [modle]", "model", "train", "output"], "[modle]\nlayers = 3\n"),
                (['deck.toml:1: "layers" stands outside a section'], "layers = 3\n")]:
            self.refuse_text(parts, text)

    def test_values(self):
        for parts, changes in [
                (["train.steps = 'few'", "must be an integer"], {"train.steps": "few"}),
                (["train.global_batch = 0", "from 1 to"], {"train.global_batch": 0}),
                (["optimizer.lr = -1.0", "must be a number, at least 0"], {"optimizer.lr": -1.0}),
                (["data.kind = 'books'", '"bytes", "tokens", "markov", "teacher"'], {"data.kind": "books"}),
                (["model.heads = 3 must divide model.width = 16", "valid: 1, 2, 4, 8, 16"], {"model.heads": 3}),
                (["data.states = 33", "up to model.vocab = 32"], {"data.states": 33}),
                (["schedule.min_lr = 0.1", "optimizer.lr = 0.001"], {"schedule.min_lr": 0.1}),
                (["precision.reduce = 'fp64'", "with precision.param = fp32 it must be auto, bf16 or fp32"],
                 {"precision.reduce": "fp64"}),
                (["precision.tf32 = true is for fp32", "only false is valid"],
                 {"precision.tf32": True, "precision.param": "bf16", "precision.gemm": "emulated"}),
                (["precision.tf32 = 'yes'", "must be true or false"], {"precision.tf32": "yes"}),
                (["checkpoint.mpi_info", '"striping_factor:8" is not of the form key=value'],
                 {"checkpoint.mpi_info": ["a=b", "striping_factor:8"]}),
                (["checkpoint.mpi_info", '"a=" is not of the form'], {"checkpoint.mpi_info": ["a="]}),
                (["output.dir", "must name a folder"], {"output.dir": ""}),
                (["optimizer.eps = 1e-60"], {"optimizer.eps": 1e-60}),
                (["precision.loss_scale = 1e+300", "4294967296"], {"precision.loss_scale": 1e300}),
                (["train.global_batch = 16777216 makes 2796203 micro-batches a rank, at most 16384"],
                 {"train.global_batch": 16777216}),
                (["train.recompute", 'is for model.kind = "gpt"'],
                 {"model.kind": "mlp", "data.kind": "teacher", "train.recompute": "block"}),
                (["data.kind = 'markov'", 'needs model.kind = "gpt"'], {"model.kind": "mlp"})]:
            self.refuse(USAGE, parts, changes)

    def test_tf32_without_cublas(self):
        if any("Cuda" in line for line in self.run_program("info").out):
            self.skipTest("cuBLAS has it")
        self.refuse(USAGE, ["precision.tf32 = true is for products by cuBLAS, and this build multiplies by",
                            "only false is valid"], {"precision.tf32": True})

    def test_mesh(self):
        self.refuse(USAGE, ["deck.toml:", "parallel.shard_size = 2 does not divide the 3 ranks", "valid: 1, 3"],
                    {"parallel.strategy": "hybrid", "parallel.shard_size": 2})
        self.refuse(USAGE, ["parallel.shard_size = 3", "hybrid", "zero3"],
                    {"parallel.strategy": "zero3", "parallel.shard_size": 3})

    def test_overrides(self):
        for assignment, parts in [("steps=3", ["--set steps=3", "section.key=value"]),
                                  ("train.steps=three", ["--set: train.steps = 'three'", "must be an integer"]),
                                  ("train.step=3", ["--set: unknown key train.step", "steps, global_batch"])]:
            self.refuse(USAGE, parts, options=["--set", assignment])

    def test_data(self):
        (self.folder / "text").write_text("ten letters" * 10)
        (self.folder / "tokens.bin").write_bytes(struct.pack("<40H", *range(40)))
        for parts, changes in [
                (["model.vocab = 32 is too small for token 116 at position 0", "text"],
                 {"data.kind": "bytes", "data.path": ["text"]}),
                (["model.vocab = 32 is too small for token 32 at position 32", "tokens.bin"],
                 {"data.kind": "tokens", "data.path": ["tokens.bin"]}),
                (["data.path holds 110 tokens", "needs 402"],
                 {"data.kind": "bytes", "data.path": ["text"], "model.vocab": 256, "model.context": 200}),
                (["data.path: no file matches nothing"], {"data.kind": "bytes", "data.path": ["nothing"]})]:
            self.refuse(USAGE, parts, changes)

    def test_output_folder_that_cannot_be_made(self):
        (self.folder / "file").write_text("no folder")
        self.refuse(ENVIRONMENT, ["file/out: this folder can't be made", "Not a directory"],
                    {"output.dir": "file/out", "checkpoint.dir": "saved"})
        self.refuse(ENVIRONMENT, ["file/saved: Not a directory"], {"checkpoint.dir": "file/saved"})


class Arguments(harness.CliTest):
    def test_unknown_ones_name_the_valid_ones(self):
        deck = self.write_deck()
        for arguments, parts in [([], ["a subcommand is needed", "train", "info"]),
                                 (["trian"], ["trian", "train", "info"]),
                                 (["train"], ["deck is required", "--help"]),
                                 (["train", deck, "--bogus"], ["--bogus", "--help"]),
                                 (["train", deck, "--progress", "bar"], ["--progress", "auto,line,rows"]),
                                 (["train", deck, "--resume"], ["--resume"]),
                                 (["info", "--bogus"], ["--bogus"])]:
            with self.subTest(arguments=arguments):
                self.assert_refused(self.run_program(*arguments), USAGE, *parts)

    def test_help(self):
        for arguments, word in [(["--help"], "Subcommands:"), (["train", "--help"], "--skip-damaged"),
                                (["info", "--help"], "--json")]:
            with self.subTest(arguments=arguments):
                ended = self.run_program(*arguments)
                self.assertEqual((ended.codes, ended.errors), ([0] * 3, []))
                self.assertEqual(sum(word in line for line in ended.out), 1, ended.out)
                self.assertLess(len(ended.out), 40)

    def test_the_launcher_passes_the_code_on(self):
        for arguments, code in [(["train", "none.toml"], 2), (["train", self.write_deck()], 0),
                                (["train", self.write_deck(), "--resume", "deck.toml"], 3)]:
            self.assertEqual(self.launcher_code(*arguments), code)


if __name__ == "__main__":
    harness.main()
