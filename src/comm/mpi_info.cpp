// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "comm/communicator.hpp"
#include "comm/mpi_call.hpp"
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace shardmark {

std::string mpi_library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  SHARDMARK_MPI(MPI_Get_library_version(text, &length));
  const std::string version(text, length);
  return version.substr(0, version.find_first_of(std::string_view("\n\0", 2)));
}

std::string mpi_io_component() {
  const std::string path =
      std::filesystem::temp_directory_path() / ("shardmark-io-" + std::to_string(getpid()));
  MPI_File file;
  const int mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
  if (MPI_File_open(MPI_COMM_SELF, path.c_str(), mode, MPI_INFO_NULL, &file) != MPI_SUCCESS) return "unknown";
  MPI_Info info;
  SHARDMARK_MPI(MPI_File_get_info(file, &info));
  int keys = 0;
  SHARDMARK_MPI(MPI_Info_get_nkeys(info, &keys));
  std::string component = mpi_library_version().find("Open MPI") != std::string::npos ? "ompio" : "unknown";
  for (int i = 0; i < keys; ++i) {
    char key[MPI_MAX_INFO_KEY + 1] = "";
    SHARDMARK_MPI(MPI_Info_get_nthkey(info, i, key));
    if (std::string(key).rfind("romio", 0) == 0) component = "romio";
  }
  SHARDMARK_MPI(MPI_Info_free(&info));
  SHARDMARK_MPI(MPI_File_close(&file));
  return component;
}

bool mpi_is_gpu_aware() {
#ifdef MPIX_CUDA_AWARE_SUPPORT
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

}  // namespace shardmark
