// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <limits>
#include <numeric>

#include "checkpoint/hdf5.hpp"

namespace shardmark::checkpoint {
namespace {

SpaceId make_space(const File& file, const std::vector<hsize_t>& extents) {
  return SpaceId(SHARDMARK_HDF5(file.path(),
                                H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr)));
}

void select(const File& file, const SpaceId& space, const std::vector<hsize_t>& start,
            const std::vector<hsize_t>& count) {
  SHARDMARK_HDF5(file.path(), H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr,
                                                  count.data(), nullptr));
}

/// Start and count of the block that holds a selection.
std::pair<std::vector<hsize_t>, std::vector<hsize_t>> selected(const File& file, const SpaceId& space) {
  const auto dimensions =
      static_cast<std::size_t>(SHARDMARK_HDF5(file.path(), H5Sget_simple_extent_ndims(space.get())));
  std::vector<hsize_t> start(dimensions), last(dimensions);
  SHARDMARK_HDF5(file.path(), H5Sget_select_bounds(space.get(), start.data(), last.data()));
  for (std::size_t d = 0; d < dimensions; ++d) last[d] += 1 - start[d];
  return {start, last};
}

/// A name that HDF5 writes into a buffer, given the buffer's size.
std::string read_name(const File& file, const std::function<ssize_t(char*, std::size_t)>& call) {
  const auto length = static_cast<std::size_t>(SHARDMARK_HDF5(file.path(), call(nullptr, 0)));
  std::string name(length + 1, '\0');
  SHARDMARK_HDF5(file.path(), call(name.data(), name.size()));
  name.resize(length);
  return name;
}

}  // namespace

void create_virtual_dataset(const File& file, const std::string& name, Dtype dtype,
                            const std::vector<std::size_t>& shape, const std::vector<Mapped>& mapped) {
  const ListId links(SHARDMARK_HDF5(file.path(), H5Pcreate(H5P_LINK_CREATE)));
  SHARDMARK_HDF5(file.path(), H5Pset_create_intermediate_group(links.get(), 1));
  SHARDMARK_HDF5(file.path(), H5Pset_char_encoding(links.get(), H5T_CSET_UTF8));
  const ListId creation(SHARDMARK_HDF5(file.path(), H5Pcreate(H5P_DATASET_CREATE)));
  const double fill = std::numeric_limits<double>::quiet_NaN();
  SHARDMARK_HDF5(file.path(), H5Pset_fill_value(creation.get(), H5T_NATIVE_DOUBLE, &fill));
  const SpaceId space = make_space(file, {shape.begin(), shape.end()});
  for (const Mapped& block : mapped) {
    const SpaceId source = make_space(file, {block.source_size});
    select(file, source, {block.offset}, {block.box.size});
    select(file, space, block.box.start, block.box.count);
    SHARDMARK_HDF5(file.path(), H5Pset_virtual(creation.get(), space.get(), block.source.c_str(),
                                               name.c_str(), source.get()));
  }
  SHARDMARK_HDF5(file.path(), H5Sselect_all(space.get()));
  const DatasetId dataset(
      SHARDMARK_HDF5(file.path(), H5Dcreate2(file.id(), name.c_str(), file_type(dtype), space.get(),
                                             links.get(), creation.get(), H5P_DEFAULT)));
}

std::vector<Mapped> read_mapped(const File& file, const std::string& name) {
  const DatasetId dataset = open_dataset(file, name);
  const ListId creation(SHARDMARK_HDF5(file.path(), H5Dget_create_plist(dataset.get())));
  if (SHARDMARK_HDF5(file.path(), H5Pget_layout(creation.get())) != H5D_VIRTUAL) return {};
  const std::vector<std::size_t> shape = stored_in(file, dataset).shape;
  std::size_t blocks = 0;
  SHARDMARK_HDF5(file.path(), H5Pget_virtual_count(creation.get(), &blocks));
  std::vector<Mapped> mapped;
  for (std::size_t i = 0; i < blocks; ++i) {
    const auto [start, count] =
        selected(file, SpaceId(SHARDMARK_HDF5(file.path(), H5Pget_virtual_vspace(creation.get(), i))));
    const auto [offset, size] =
        selected(file, SpaceId(SHARDMARK_HDF5(file.path(), H5Pget_virtual_srcspace(creation.get(), i))));
    const std::string source = read_name(file, [&](char* buffer, std::size_t length) {
      return H5Pget_virtual_filename(creation.get(), i, buffer, length);
    });
    const std::string source_name = read_name(file, [&](char* buffer, std::size_t length) {
      return H5Pget_virtual_dsetname(creation.get(), i, buffer, length);
    });
    std::size_t begin = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) begin = begin * shape[d] + start[d];
    const std::size_t elements =
        std::accumulate(count.begin(), count.end(), std::size_t{1}, std::multiplies<>());
    const auto boxes = make_boxes(shape, begin, begin + elements);
    if (source_name != name || offset.size() != 1 || size[0] != elements || boxes.size() != 1 ||
        boxes[0].start != start || boxes[0].count != count)
      throw EnvironmentError(file.path() + ": " + name +
                             " is a virtual dataset of a form that is not a checkpoint's");
    mapped.push_back({boxes[0], source, offset[0], 0});
  }
  return mapped;
}

}  // namespace shardmark::checkpoint
