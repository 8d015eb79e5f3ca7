# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""What scripts/*.sh do on machines other than this one: every command they call is a stand-in that notes its call.

Usage: test_scripts.py SOURCE
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1])
REAL_COMMANDS = ["bash", "env", "awk", "cat", "dirname", "grep", "rm", "sed", "sort", "tail", "wc"]
OPEN_MPI = "mpirun (Open MPI) 4.1.4"


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.bin = self.top / "bin"
        self.bin.mkdir()
        for command in REAL_COMMANDS:
            (self.bin / command).symlink_to(shutil.which(command))
        shutil.copytree(SOURCE / "scripts", self.top / "scripts")
        self.stub("dpkg-query", "echo -n installed")
        self.stub("apt-get")
        self.stub("cmake", "case $1 in -S) touch $BUILD/build.ninja;; esac")
        self.stub("ninja")
        self.stub("ctest")
        self.stub("touch", ': > "$1"')
        self.stub("id", "echo 0", note=False)
        self.stub("nproc", 'echo "${OMP_NUM_THREADS:-4}"', note=False)  # as the real one does
        self.stub("lscpu", r"printf '# CPU\n0,0\n1,0\n2,0\n3,0\n'", note=False)
        self.build = self.top / "build"
        self.build.mkdir()
        (self.build / "CMakeCache.txt").write_text(f"MPIEXEC_EXECUTABLE:FILEPATH={self.bin}/mpiexec\n")
        self.launcher(OPEN_MPI)

    def stub(self, name, body="", note=True):
        file = self.bin / name
        file.unlink(missing_ok=True)
        noting = f'echo "{name} $*" >> {self.top}/calls\n' if note else ""
        file.write_text(f"#!{self.bin}/bash\nBUILD={self.top}/build\n{noting}{body}\n")
        file.chmod(0o755)

    def launcher(self, version, code=0):
        self.stub("mpiexec", f"if [[ $1 == --version ]]; then echo '{version}'; exit 0; fi\n"
                  f'echo "threads $OMP_NUM_THREADS $OPENBLAS_NUM_THREADS $OMP_PROC_BIND in $PWD"; exit {code}')

    def run_script(self, name, *arguments, cwd=None, **environment):
        (self.top / "calls").write_text("")
        result = subprocess.run([str(self.top / "scripts" / name), *arguments], cwd=cwd or "/", text=True,
                                env={"PATH": str(self.bin), **environment}, check=False,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.calls = (self.top / "calls").read_text().splitlines()
        return result

    def called(self, name):
        return [call[len(name) + 1:] for call in self.calls if call.split()[0] == name]

    def without(self, package):
        self.stub("dpkg-query", f'[[ ${{!#}} == {package}* ]] || echo -n installed')


class Setup(Scripts):
    def test_second_run_only_builds(self):
        self.assertEqual(self.run_script("setup.sh").returncode, 0)
        self.assertEqual(len(self.called("cmake")), 2)
        self.assertEqual(self.run_script("setup.sh").returncode, 0)
        self.assertRegex("\n".join(self.called("cmake")), r"^--build \S+/build --target shardmark --parallel \d+$")
        self.assertEqual(self.called("apt-get"), [])

    def test_root_installs_what_is_missing_and_no_more(self):
        self.without("libfmt-dev")
        self.assertEqual(self.run_script("setup.sh").returncode, 0)
        self.assertRegex(self.called("apt-get")[0], " update$")
        self.assertRegex(self.called("apt-get")[1], " install --yes --no-install-recommends libfmt-dev$")

    def test_user_installs_with_sudo(self):
        self.without("libfmt-dev")
        self.stub("id", "echo 1000", note=False)
        self.stub("sudo", '"$@"')
        self.assertEqual(self.run_script("setup.sh").returncode, 0)
        self.assertEqual(len(self.called("sudo")), 2)
        self.assertRegex(self.called("apt-get")[1], "libfmt-dev$")

    def test_user_without_sudo_is_told(self):
        self.without("libfmt-dev")
        self.stub("id", "echo 1000", note=False)
        self.stub("cmake", "exit 1")
        result = self.run_script("setup.sh")
        self.assertEqual((result.returncode, self.called("apt-get")), (3, []))
        self.assertRegex(result.stderr, "apt-get install libfmt-dev\n$")
        self.assertFalse((self.build / "CMakeCache.txt").exists(), "a failed first try must not be remembered")

    def test_other_systems_are_told(self):
        (self.bin / "dpkg-query").unlink()
        (self.bin / "apt-get").unlink()
        self.assertEqual(self.run_script("setup.sh").returncode, 0)
        (self.bin / "cmake").unlink()
        result = self.run_script("setup.sh")
        self.assertEqual(result.returncode, 3)
        self.assertRegex(result.stderr, "no cmake.*\n.*install or load")

    def test_another_kokkos_replaces_the_packages(self):
        self.without("libtrilinos")
        self.assertEqual(self.run_script("setup.sh", "-DKokkos_ROOT=/opt/kokkos").returncode, 0)
        self.assertEqual(self.called("apt-get"), [])
        self.assertIn("-DKokkos_ROOT=/opt/kokkos", self.called("cmake")[0])
        (self.build / "CMakeCache.txt").write_text("Kokkos_DIR:PATH=/opt/kokkos/lib/cmake/Kokkos\n")
        self.assertEqual(self.run_script("setup.sh").returncode, 0)
        self.assertEqual(self.called("apt-get"), [])
        (self.build / "CMakeCache.txt").write_text("Kokkos_DIR:PATH=/usr/lib/cmake/Kokkos\n")
        self.run_script("setup.sh")
        self.assertRegex(self.called("apt-get")[1], "libtrilinos-kokkos-dev libtrilinos-kokkos-kernels-dev$")

    def test_mpich_where_it_is_the_one_installed(self):
        self.stub("dpkg-query", "[[ ${!#} == *openmpi* || ${!#} == libhdf5* ]] || echo -n installed")
        self.run_script("setup.sh")
        self.assertRegex(self.called("apt-get")[1], "recommends libhdf5-mpich-dev$")

    def test_no_install(self):
        self.without("libfmt-dev")
        self.assertEqual(self.run_script("setup.sh", "--no-install").returncode, 0)
        self.assertEqual(self.called("apt-get"), [])

    def test_failing_build(self):
        self.stub("cmake", 'case $1 in -S) touch $BUILD/build.ninja;; --build) exit 2;; esac')
        self.assertEqual(self.run_script("setup.sh").returncode, 1)


class Run(Scripts):
    def arguments(self):
        return [call for call in self.called("mpiexec") if call != "--version"][0]

    def test_default(self):
        result = self.run_script("run.sh")
        self.assertEqual((result.returncode, result.stdout), (0, f"threads 1 1 false in {self.top}\n"))
        self.assertEqual(self.arguments(), "--allow-run-as-root --map-by slot:PE=2 --bind-to core -n 2 "
                         f"{self.build}/shardmark train {self.top}/inputs/tiny.toml")

    def test_options_and_exit_code(self):
        self.launcher(OPEN_MPI, code=75)
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "my.toml").write_text("")
            result = self.run_script("run.sh", "--resume", "auto", "my.toml", "-n", "3", "--set", "a.b=c d", cwd=folder)
        self.assertEqual(result.returncode, 75)
        self.assertEqual(result.stdout, f"threads 1 1 false in {folder}\n")
        self.assertRegex(self.arguments(), f"-n 3 \\S+/shardmark train {folder}/my.toml --resume auto --set a.b=c d$")

    def test_deck_of_the_project_from_elsewhere(self):
        (self.top / "inputs").mkdir()
        (self.top / "inputs/tiny.toml").write_text("")
        self.assertRegex(self.run_script("run.sh", "inputs/tiny.toml").stdout, f" in {self.top}$")
        self.assertRegex(self.arguments(), f"train {self.top}/inputs/tiny.toml$")

    def test_more_ranks_than_cores(self):
        self.stub("id", "echo 1000", note=False)
        self.run_script("run.sh", "-n8")
        self.assertRegex(self.arguments(), "^--map-by :OVERSUBSCRIBE --bind-to none -n 8 ")

    def test_threads_of_the_user(self):
        result = self.run_script("run.sh", OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="3")
        self.assertRegex(result.stdout, "^threads 2 3 close ")

    def test_other_launchers(self):
        for version, expected in [("HYDRA build details:", "-bind-to core:2 -n 2"),
                                  ("Intel(R) MPI Library for Linux* OS", "-n 2"), ("slurm 22.05.8", "-n 2")]:
            with self.subTest(version):
                self.launcher(version)
                self.run_script("run.sh")
                self.assertRegex(self.arguments(), f"^{expected} {self.build}")

    def test_flags_of_the_user(self):
        self.run_script("run.sh", SHARDMARK_MPIEXEC_FLAGS="--host a,b")
        self.assertRegex(self.arguments(), "^--host a,b -n 2 ")

    def test_wrong_number_of_ranks(self):
        for ranks in (["-n", "0"], ["-n", "two"], ["-n"]):
            self.assertEqual(self.run_script("run.sh", *ranks).returncode, 2)
            self.assertEqual(self.calls, [])


class Test(Scripts):
    def test_passes_options_and_exit_code(self):
        self.stub("ctest", "exit 8")
        self.assertEqual(self.run_script("check.sh", "-V").returncode, 8)
        self.assertEqual(self.called("ctest"), [f"--test-dir {self.build} --output-on-failure --no-tests=error "
                                                "--label-regex ^style$ -V"])

    def test_asks_for_formatters(self):
        self.without("clang-format")
        self.run_script("test.sh")
        self.assertRegex(self.called("apt-get")[1], "recommends clang-format$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
