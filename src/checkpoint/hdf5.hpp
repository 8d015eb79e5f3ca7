// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "checkpoint/format.hpp"
#include "comm/communicator.hpp"
#include "core/dtype.hpp"
#include "core/handle.hpp"

#ifndef H5_HAVE_PARALLEL
#error "Shardmark needs an HDF5 that was built with MPI (parallel HDF5)"
#endif

/// Parallel HDF5, 1.10 or newer. Files are opened with the MPI-IO driver always, by one rank alone too: it
/// takes no file locks, which some parallel file systems lack.
namespace shardmark::checkpoint {

template <herr_t (*Close)(hid_t)>
struct Hdf5Traits {
  using type = hid_t;
  static type empty() { return H5I_INVALID_HID; }
  static void close(type id) { Close(id); }
};
using DatasetId = Handle<Hdf5Traits<H5Dclose>>;
using SpaceId = Handle<Hdf5Traits<H5Sclose>>;
using TypeId = Handle<Hdf5Traits<H5Tclose>>;
using ListId = Handle<Hdf5Traits<H5Pclose>>;
using ObjectId = Handle<Hdf5Traits<H5Oclose>>;

/// Throws EnvironmentError with the call, the file, and the innermost entry of HDF5's error stack.
[[noreturn]] void throw_hdf5_error(const std::string& path, const char* expression);

/// A call failed where it returns less than zero, or zero where its type has nothing less (sizes).
template <class Result>
Result check_hdf5(Result result, const std::string& path, const char* expression) {
  bool failed;
  if constexpr (std::is_unsigned_v<Result>) {
    failed = result == 0;
  } else {
    failed = result < 0;
  }
  if (failed) throw_hdf5_error(path, expression);
  return result;
}

/// The form in which HDF5 is called: `path` names the file in the error.
#define SHARDMARK_HDF5(path, call) ::shardmark::checkpoint::check_hdf5((call), (path), #call)

/// An open file. One that this rank alone reads closes itself; any other one is closed by close() only: an
/// error leaves it open, [Note: Full disk].
class File {
 public:
  enum class Closing { by_itself, by_close };

  File(std::string path, hid_t id, Closing closing) : path_(std::move(path)), id_(id), closing_(closing) {}
  File(File&&) = default;
  File& operator=(File&&) = delete;
  ~File() {
    if (closing_ == Closing::by_close) id_.release();
  }

  const std::string& path() const { return path_; }
  hid_t id() const { return id_.get(); }
  void close() { SHARDMARK_HDF5(path_, H5Fclose(id_.release())); }

 private:
  std::string path_;
  Handle<Hdf5Traits<H5Fclose>> id_;
  Closing closing_;
};

/// Creates the file, empty, on this rank alone; an old one is overwritten. Alignment and hints are those of
/// the options. `virtual_datasets`: the file may have some, for which HDF5 has had a form since 1.10.
File create_alone(const std::string& path, const Options& options = {}, bool virtual_datasets = false);

enum class Access { read, write };

/// Throws EnvironmentError where `path` can't be read, or does not begin as an HDF5 file does.
void require_hdf5(const std::string& path);

/// Opens on this rank alone. Says in the error whether the file is missing, not HDF5 or truncated.
File open_alone(const std::string& path, Access access = Access::read, const Options& options = {});

/// Opens on all ranks together. Where any rank does not see the file, all throw alike before HDF5 is asked.
/// Collective, as is close().
File open_together(const Communicator& comm, const std::string& path, Access access, const Options& options);

/// Little-endian in the file, this machine's in memory. For fp32, fp64, int64 and uint64.
hid_t file_type(Dtype dtype);
hid_t memory_type(Dtype dtype);

/// A contiguous dataset with its space allocated and never filled; missing groups above it are made.
DatasetId create_dataset(const File& file, const std::string& name, hid_t type,
                         const std::vector<std::size_t>& shape);
DatasetId open_dataset(const File& file, const std::string& name);

/// Names of all datasets below a group, relative to it, sorted; none where the group does not exist.
std::vector<std::string> dataset_names(const File& file, const std::string& group);

/// What a dataset of tensor data holds: its dtype, or nothing where it is none that tensors have; its shape.
struct Stored {
  std::optional<Dtype> dtype;
  std::vector<std::size_t> shape;
};
Stored stored_in(const File& file, const DatasetId& dataset);

/// What a dataset holds, for comparing and for messages: "float32 (3, 4)", "uint64 ()".
std::string describe(Dtype dtype, const std::vector<std::size_t>& shape);
std::string describe(const File& file, const DatasetId& dataset);

/// Scalars; strings are UTF-8 of fixed length, padded with NUL.
void write_scalar(const File& file, const std::string& name, const Value& value);
Value read_scalar(const File& file, const std::string& name);

/// One-dimensional datasets of uint64.
void write_array(const File& file, const std::string& name, const std::vector<std::uint64_t>& values);
std::vector<std::uint64_t> read_array(const File& file, const std::string& name);

/// A regular block of a row-major dataset that is one contiguous range of the flattened tensor.
struct Box {
  std::vector<hsize_t> start, count;  ///< one entry a dimension
  std::size_t begin, size;            ///< first element and number of elements
};

/// The range [begin, end) of a tensor with at least one dimension as boxes in order: with two dimensions at
/// most a row's end, whole rows and a row's start.
std::vector<Box> make_boxes(const std::vector<std::size_t>& shape, std::size_t begin, std::size_t end);

/// Transfer properties: collective or independent.
ListId make_transfer(const File& file, bool collective);

/// One call of H5Dwrite or H5Dread; `box` null: join a collective call with nothing.
void write_box(const File& file, const DatasetId& dataset, Dtype dtype, const Box* box, const void* data,
               const ListId& transfer);
void read_box(const File& file, const DatasetId& dataset, Dtype dtype, const Box* box, void* data,
              const ListId& transfer);

/// A block of a virtual dataset, and where its elements lie: from `offset` on in the one-dimensional dataset
/// of the same name in the file `source`, whose path is relative to the folder of the virtual one's.
struct Mapped {
  Box box;
  std::string source;
  std::size_t offset, source_size;  ///< source_size: elements of the dataset there
};

/// Creates a virtual dataset; where a source is missing, readers see NaN.
void create_virtual_dataset(const File& file, const std::string& name, Dtype dtype,
                            const std::vector<std::size_t>& shape, const std::vector<Mapped>& mapped);
/// The blocks of a virtual dataset; none for other datasets. Throws EnvironmentError where they are not of
/// the form above.
std::vector<Mapped> read_mapped(const File& file, const std::string& name);

}  // namespace shardmark::checkpoint
