# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""What is missing or does not fit stops the configuration with one sentence that says what to install.

Usage: test_configure.py SOURCE CMAKE COMPILER PREFIX_PATH [CMAKE_OPTION…]
The options are those with which the configuration is known to work here.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, CMAKE, COMPILER, PREFIX_PATH, *OPTIONS = sys.argv[1:]

# A package that is hidden from CMake, and what the sentence must name.
HIDDEN = {
    "Kokkos": "libtrilinos-kokkos-dev",
    "KokkosKernels": "libtrilinos-kokkos-kernels-dev",
    "tomlplusplus": "libtomlplusplus-dev",
    "nlohmann_json": "nlohmann-json3-dev",
    "fmt": "libfmt-dev",
    "CLI11": "libcli11-dev",
    "MPI": "libopenmpi-dev",
    "HDF5": "libhdf5-openmpi-dev",
    "BLAS": "libopenblas-pthread-dev",
    "GTest": "libgtest-dev",
}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def make_kokkos(root, version):
    """A package that only says that it is Kokkos of that version."""
    folder = root / "lib/cmake/Kokkos"
    write(folder / "KokkosConfig.cmake", "add_library(Kokkos::kokkos INTERFACE IMPORTED)\n")
    write(folder / "KokkosConfigVersion.cmake",
          f"set(PACKAGE_VERSION {version})\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n")


def make_kokkos_kernels(root, version):
    folder = root / "lib/cmake/KokkosKernels"
    write(root / "include/KokkosKernels_config.h", "#define KOKKOSKERNELS_ENABLE_TPL_BLAS\n")
    write(folder / "KokkosKernelsConfig.cmake",
          "add_library(Kokkos::kokkoskernels INTERFACE IMPORTED)\n"
          f"target_include_directories(Kokkos::kokkoskernels INTERFACE {root}/include)\n")
    write(folder / "KokkosKernelsConfigVersion.cmake",
          f"set(PACKAGE_VERSION {version})\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n")


def make_cuda(root, version):
    """A CUDA toolkit as far as CMake looks at it."""
    nvcc = f'#!/bin/sh\necho "#\\$ TOP={root}" >&2\necho "Cuda compilation tools, release {version}, V{version}.1"\n'
    write(root / "bin/nvcc", nvcc)
    (root / "bin/nvcc").chmod(0o755)
    write(root / "include/cuda_runtime.h", "")
    write(root / "lib64/libcudart.so", "")


def make_nccl(root, version, library):
    numbers = zip(["MAJOR", "MINOR", "PATCH"], version.split("."))
    write(root / "include/nccl.h", "".join(f"#define NCCL_{name} {number}\n" for name, number in numbers))
    write(root / "lib" / library, "")


class Configure(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)

    def configure(self, *options, **variables):
        command = [CMAKE, "-S", SOURCE, "-B", str(self.root / "build"), f"-DCMAKE_CXX_COMPILER={COMPILER}",
                   f"-DCMAKE_PREFIX_PATH={PREFIX_PATH}", *options]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              env=os.environ | variables)

    def assert_stops(self, expected, *options):
        result = self.configure(*options)
        self.assertNotEqual(result.returncode, 0, result.stdout)
        errors = re.findall(r"CMake Error at .*\(message\):\n\n?(.*?)\n(?:Call Stack|\n)", result.stdout, re.DOTALL)
        self.assertEqual(len(errors), 1, result.stdout)
        sentence = " ".join(errors[0].split())
        self.assertRegex(sentence, expected)
        self.assertRegex(sentence, r"^[^!?]*\.$")
        self.assertNotRegex(sentence, r"\. ", "more than one sentence")

    def test_control_configures(self):
        result = self.configure("-DSHARDMARK_TESTS=OFF", *OPTIONS)
        self.assertEqual(result.returncode, 0, result.stdout)
        for row in ["Kokkos", "Kokkos Kernels", "BLAS", "oneDNN", "MPI", "HDF5", "NCCL", "Compiler", "Tests"]:
            self.assertRegex(result.stdout, rf"\n   {row}  +\S")

    def test_hidden_packages(self):
        for package, debian in HIDDEN.items():
            with self.subTest(package):
                (self.root / "build/CMakeCache.txt").unlink(missing_ok=True)
                self.assert_stops(debian, *OPTIONS, f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON")

    def test_old_kokkos(self):
        make_kokkos(self.root, "3.3.1")
        self.assert_stops(r"Kokkos 3\.3\.1 in .* is too old", f"-DKokkos_ROOT={self.root}")

    def test_empty_root_is_not_replaced_by_the_system(self):
        self.assert_stops("Kokkos", f"-DKokkos_ROOT={self.root}", *OPTIONS)

    def test_root_without_kernels_does_not_take_the_systems(self):
        make_kokkos(self.root, "4.2.0")
        self.assert_stops("Kokkos Kernels .*-DKokkosKernels_ROOT=FOLDER", f"-DKokkos_ROOT={self.root}")

    def test_pairs(self):
        for kokkos, kernels in [("4.2.0", "4.4.0"), ("4.2.0", "4.3.0"), ("4.2.0", "5.2.0"), ("4.6.99", "4.8.99")]:
            with self.subTest(kokkos=kokkos, kernels=kernels):
                make_kokkos(self.root, kokkos)
                make_kokkos_kernels(self.root, kernels)
                self.assert_stops(f"Kokkos {kokkos} in .* and Kokkos Kernels {kernels} in .* do not belong together",
                                  f"-DKokkos_ROOT={self.root}")

    def test_pairs_that_fit_go_on(self):
        for kokkos, kernels in [("4.2.0", "4.2.1"), ("4.6.99", "4.7.99"), ("5.0.0", "5.0.0")]:
            with self.subTest(kokkos=kokkos, kernels=kernels):
                make_kokkos(self.root, kokkos)
                make_kokkos_kernels(self.root, kernels)
                self.assert_stops("libfmt-dev", f"-DKokkos_ROOT={self.root}", "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON")

    def test_serial_hdf5(self):
        write(self.root / "include/hdf5.h", '#include "H5pubconf.h"\n')
        write(self.root / "include/H5pubconf.h", '#define H5_VERSION "1.14.3"\n')
        write(self.root / "lib/libhdf5.so", "")
        self.assert_stops(r"HDF5 1\.14\.3 in .* is serial.*libhdf5-openmpi-dev", *OPTIONS, f"-DHDF5_ROOT={self.root}")

    def test_onednn_is_looked_for_as_asked(self):
        missing = "-DONEDNN_LIBRARY="
        self.assert_stops("oneDNN was not found: install libdnnl-dev", *OPTIONS, "-DSHARDMARK_ONEDNN=ON", missing)
        self.assert_stops("SHARDMARK_ONEDNN=YES is not one of AUTO, ON, OFF", *OPTIONS, "-DSHARDMARK_ONEDNN=YES")
        for choice, row in [("AUTO", "not found"), ("OFF", "off")]:
            result = self.configure("-DSHARDMARK_TESTS=OFF", *OPTIONS, f"-DSHARDMARK_ONEDNN={choice}", missing)
            self.assertRegex(result.stdout, rf"\n   oneDNN +{row}: bf16 products on the host are emulated")

    def test_nccl_is_looked_for_as_asked(self):
        nowhere = f"-DNCCL_ROOT={self.root}"
        self.assert_stops("(NCCL|The CUDA toolkit, which NCCL needs,) was not found: .*or -DSHARDMARK_NCCL=OFF",
                          *OPTIONS, "-DSHARDMARK_NCCL=ON", nowhere)
        self.assert_stops("SHARDMARK_NCCL=YES is not one of AUTO, ON, OFF", *OPTIONS, "-DSHARDMARK_NCCL=YES")
        for choice, row in [("AUTO", r"not used\. .* was not found"), ("OFF", "off")]:
            result = self.configure("-DSHARDMARK_TESTS=OFF", *OPTIONS, f"-DSHARDMARK_NCCL={choice}", nowhere)
            self.assertRegex(result.stdout, rf"\n   NCCL +{row}")

    def nccl_row(self, *options, **variables):
        result = self.configure("-DSHARDMARK_TESTS=OFF", *OPTIONS, "-DSHARDMARK_NCCL=ON", "--fresh", *options,
                                **variables)
        self.assertEqual(result.returncode, 0, result.stdout)
        return re.search(r"\n   NCCL +(.*)", result.stdout)[1]

    def test_nccl_of_an_hpc_sdk(self):
        sdk = self.root / "Linux_x86_64/24.7"
        make_cuda(sdk / "cuda/12.5", "12.5")
        make_nccl(sdk / "comm_libs/12.5/nccl", "2.18.5", "libnccl.so")
        self.assertRegex(self.nccl_row(f"-DCUDAToolkit_ROOT={sdk}/cuda/12.5"),
                         r"^2\.18\.5, .*/comm_libs/12\.5/nccl/lib/libnccl\.so")
        make_nccl(sdk / "comm_libs/nccl", "2.19.1", "libnccl.so")
        chosen = f"-DNCCL_ROOT={sdk}/comm_libs/nccl"
        self.assertRegex(self.nccl_row(f"-DCUDAToolkit_ROOT={sdk}/cuda/12.5", chosen),
                         r"^2\.19\.1, .*/comm_libs/nccl/lib/libnccl\.so")

    def test_nccl_of_a_python_package(self):
        make_cuda(self.root / "cuda", "12.5")
        make_nccl(self.root / "packages/nvidia/nccl", "2.28.9", "libnccl.so.2")
        self.assertRegex(self.nccl_row(f"-DCUDAToolkit_ROOT={self.root}/cuda", PYTHONPATH=str(self.root / "packages")),
                         r"^2\.28\.9, .*/packages/nvidia/nccl/lib/libnccl\.so\.2")

    def test_old_nccl(self):
        make_cuda(self.root / "cuda", "12.5")
        make_nccl(self.root / "nccl", "2.13.4", "libnccl.so")
        self.assert_stops(r"NCCL 2\.13\.4 in .* is too old: install 2\.14 or newer", *OPTIONS, "-DSHARDMARK_NCCL=ON",
                          f"-DCUDAToolkit_ROOT={self.root}/cuda", f"-DNCCL_ROOT={self.root}/nccl")

    def test_cuda_where_kokkos_has_none(self):
        make_kokkos(self.root, "4.6.0")
        make_kokkos_kernels(self.root, "4.6.0")
        self.assert_stops("Kokkos in .* has no CUDA", f"-DKokkos_ROOT={self.root}", "-DKokkos_ENABLE_CUDA=ON")

    def test_unknown_processor(self):
        self.assert_stops("SHARDMARK_ARCH=abacus", *OPTIONS, "-DSHARDMARK_ARCH=abacus")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
