// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/hdf5.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace shardmark::checkpoint {
namespace {

extern "C" herr_t keep_innermost(unsigned n, const H5E_error2_t* entry, void* text) {
  if (n == 0) *static_cast<std::string*>(text) = entry->desc ? entry->desc : "";
  return 0;
}

std::string innermost_error() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &text);
  return text.empty() ? "no reason given" : text;
}

struct MpiInfoTraits {
  using type = MPI_Info;
  static type empty() { return MPI_INFO_NULL; }
  static void close(type info) { MPI_Info_free(&info); }
};

Handle<MpiInfoTraits> make_info(const std::vector<std::string>& hints) {
  Handle<MpiInfoTraits> info;
  if (hints.empty()) return info;
  MPI_Info raw = MPI_INFO_NULL;
  MPI_Info_create(&raw);
  info = Handle<MpiInfoTraits>(raw);
  for (const std::string& hint : hints) {
    if (!is_mpi_info(hint))
      throw DeckError("checkpoint.mpi_info: \"" + hint + "\" is not of the form key=value");
    const std::size_t equals = hint.find('=');
    MPI_Info_set(raw, hint.substr(0, equals).c_str(), hint.substr(equals + 1).c_str());
  }
  return info;
}

/// Access properties. The format is that of HDF5 1.8, which every later version reads, for all but virtual
/// datasets; its superblock has no "open for writing" mark, so opening and closing a file write nothing.
ListId make_access(const std::string& path, MPI_Comm comm, const Options& options,
                   bool virtual_datasets = false) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const auto info = make_info(options.mpi_info);
  ListId access(SHARDMARK_HDF5(path, H5Pcreate(H5P_FILE_ACCESS)));
  SHARDMARK_HDF5(path, H5Pset_fapl_mpio(access.get(), comm, info.get()));
  SHARDMARK_HDF5(path, H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18,
                                            virtual_datasets ? H5F_LIBVER_V110 : H5F_LIBVER_V18));
  if (options.alignment > 0)
    SHARDMARK_HDF5(path, H5Pset_alignment(access.get(), options.alignment, options.alignment));
  return access;
}

void require_access(const std::string& path, int mode, int rank) {
  if (access(path.c_str(), mode) == 0) return;
  const int reason = errno;
  throw EnvironmentError(
      path + " cannot be opened on rank " + std::to_string(rank) + ": " + std::strerror(reason) +
      (reason == ENOENT && rank > 0 ? "; the folder must be on a file system that all nodes share" : ""));
}

void require_signature(const std::string& path) {
  const char signature[] = "\x89HDF\r\n\x1a\n";
  char head[8] = {};
  if (std::filesystem::is_regular_file(path)) std::ifstream(path, std::ios::binary).read(head, sizeof head);
  if (std::memcmp(head, signature, sizeof head) != 0) throw EnvironmentError(path + " is not an HDF5 file");
}

}  // namespace

bool is_mpi_info(const std::string& hint) {
  const std::size_t equals = hint.find('=');
  return equals != 0 && equals != std::string::npos && equals + 1 < hint.size() &&
         equals <= MPI_MAX_INFO_KEY && hint.size() - equals <= MPI_MAX_INFO_VAL;
}

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release) + ", parallel";
}

void throw_hdf5_error(const std::string& path, const char* expression) {
  throw EnvironmentError(path + ": " + innermost_error() + " (HDF5: " + expression + ")");
}

void start_before_mpi() {
  H5dont_atexit();
  H5open();
}

File create_alone(const std::string& path, const Options& options, bool virtual_datasets) {
  const ListId access = make_access(path, MPI_COMM_SELF, options, virtual_datasets);
  const hid_t id = SHARDMARK_HDF5(path, H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()));
  return {path, id, File::Closing::by_close};
}

void require_hdf5(const std::string& path) {
  require_access(path, R_OK, 0);
  require_signature(path);
}

File open_alone(const std::string& path, Access mode, const Options& options) {
  require_hdf5(path);
  const bool writes = mode == Access::write;
  const ListId access = make_access(path, MPI_COMM_SELF, options, true);
  const hid_t id = H5Fopen(path.c_str(), writes ? H5F_ACC_RDWR : H5F_ACC_RDONLY, access.get());
  if (id < 0) throw EnvironmentError(path + " is truncated or damaged: " + innermost_error());
  return {path, id, writes ? File::Closing::by_close : File::Closing::by_itself};
}

File open_together(const Communicator& comm, const std::string& path, Access mode, const Options& options) {
  const bool writes = mode == Access::write;
  hid_t id = H5I_INVALID_HID;
  comm.agree([&] { require_access(path, writes ? R_OK | W_OK : R_OK, comm.rank()); });
  comm.agree([&] {
    const ListId access = make_access(path, MPI_Comm_f2c(comm.mpi_handle()), options);
    id = SHARDMARK_HDF5(path, H5Fopen(path.c_str(), writes ? H5F_ACC_RDWR : H5F_ACC_RDONLY, access.get()));
  });
  return {path, id, File::Closing::by_close};
}

hid_t file_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp32:
      return H5T_IEEE_F32LE;
    case Dtype::fp64:
      return H5T_IEEE_F64LE;
    case Dtype::int64:
      return H5T_STD_I64LE;
    case Dtype::uint64:
      return H5T_STD_U64LE;
    default:
      throw EnvironmentError(std::string("checkpoint: no file type for ") + name_of(dtype) +
                             "; valid are fp32, fp64, int64, uint64");
  }
}

hid_t memory_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp32:
      return H5T_NATIVE_FLOAT;
    case Dtype::fp64:
      return H5T_NATIVE_DOUBLE;
    case Dtype::int64:
      return H5T_NATIVE_INT64;
    case Dtype::uint64:
      return H5T_NATIVE_UINT64;
    default:
      return file_type(dtype);  // throws
  }
}

std::vector<Box> make_boxes(const std::vector<std::size_t>& shape, std::size_t begin, std::size_t end) {
  const std::size_t dimensions = shape.size();
  std::vector<std::size_t> stride(dimensions, 1);  // elements between neighbours along a dimension
  for (std::size_t d = dimensions - 1; d > 0; --d) stride[d - 1] = stride[d] * shape[d];
  std::vector<Box> boxes;
  while (begin < end) {
    std::size_t cut = 0;  // the outermost dimension along which whole sub-blocks start here
    while (begin % stride[cut] != 0 || end - begin < stride[cut]) ++cut;
    Box box{std::vector<hsize_t>(dimensions), std::vector<hsize_t>(dimensions, 1), begin, 0};
    for (std::size_t d = 0; d < dimensions; ++d) box.start[d] = begin / stride[d] % shape[d];
    for (std::size_t d = cut + 1; d < dimensions; ++d) box.count[d] = shape[d];
    box.count[cut] = std::min<std::size_t>((end - begin) / stride[cut], shape[cut] - box.start[cut]);
    box.size = box.count[cut] * stride[cut];
    begin += box.size;
    boxes.push_back(std::move(box));
  }
  return boxes;
}

ListId make_transfer(const File& file, bool collective) {
  ListId transfer(SHARDMARK_HDF5(file.path(), H5Pcreate(H5P_DATASET_XFER)));
  const auto mode = collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT;
  SHARDMARK_HDF5(file.path(), H5Pset_dxpl_mpio(transfer.get(), mode));
  return transfer;
}

namespace {

struct Selection {
  SpaceId memory, file;
};

Selection select(const File& file, const DatasetId& dataset, const Box* box) {
  const hsize_t size = box ? box->size : 1;
  Selection selection{SpaceId(SHARDMARK_HDF5(file.path(), H5Screate_simple(1, &size, nullptr))),
                      SpaceId(SHARDMARK_HDF5(file.path(), H5Dget_space(dataset.get())))};
  if (box) {
    SHARDMARK_HDF5(file.path(), H5Sselect_hyperslab(selection.file.get(), H5S_SELECT_SET, box->start.data(),
                                                    nullptr, box->count.data(), nullptr));
  } else {
    SHARDMARK_HDF5(file.path(), H5Sselect_none(selection.memory.get()));
    SHARDMARK_HDF5(file.path(), H5Sselect_none(selection.file.get()));
  }
  return selection;
}

}  // namespace

void write_box(const File& file, const DatasetId& dataset, Dtype dtype, const Box* box, const void* data,
               const ListId& transfer) {
  const Selection to = select(file, dataset, box);
  SHARDMARK_HDF5(file.path(), H5Dwrite(dataset.get(), memory_type(dtype), to.memory.get(), to.file.get(),
                                       transfer.get(), data));
}

void read_box(const File& file, const DatasetId& dataset, Dtype dtype, const Box* box, void* data,
              const ListId& transfer) {
  const Selection from = select(file, dataset, box);
  SHARDMARK_HDF5(file.path(), H5Dread(dataset.get(), memory_type(dtype), from.memory.get(), from.file.get(),
                                      transfer.get(), data));
}

}  // namespace shardmark::checkpoint
