// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "checkpoint/hdf5.hpp"

namespace shardmark::checkpoint {
namespace {

DatasetId create_in_space(const File& file, const std::string& name, hid_t type, const SpaceId& space) {
  const ListId links(SHARDMARK_HDF5(file.path(), H5Pcreate(H5P_LINK_CREATE)));
  SHARDMARK_HDF5(file.path(), H5Pset_create_intermediate_group(links.get(), 1));
  SHARDMARK_HDF5(file.path(), H5Pset_char_encoding(links.get(), H5T_CSET_UTF8));
  const ListId creation(SHARDMARK_HDF5(file.path(), H5Pcreate(H5P_DATASET_CREATE)));
  SHARDMARK_HDF5(file.path(), H5Pset_layout(creation.get(), H5D_CONTIGUOUS));
  SHARDMARK_HDF5(file.path(), H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY));
  SHARDMARK_HDF5(file.path(), H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER));
  return DatasetId(SHARDMARK_HDF5(file.path(), H5Dcreate2(file.id(), name.c_str(), type, space.get(),
                                                          links.get(), creation.get(), H5P_DEFAULT)));
}

TypeId string_type(const File& file, std::size_t length) {
  TypeId type(SHARDMARK_HDF5(file.path(), H5Tcopy(H5T_C_S1)));
  SHARDMARK_HDF5(file.path(), H5Tset_size(type.get(), std::max<std::size_t>(length, 1)));
  SHARDMARK_HDF5(file.path(), H5Tset_cset(type.get(), H5T_CSET_UTF8));
  SHARDMARK_HDF5(file.path(), H5Tset_strpad(type.get(), H5T_STR_NULLPAD));
  return type;
}

/// "float32", "uint64", "string"; anything that this format does not use is "other".
std::string type_name(const File& file, const TypeId& type) {
  const std::string bits = std::to_string(8 * SHARDMARK_HDF5(file.path(), H5Tget_size(type.get())));
  switch (SHARDMARK_HDF5(file.path(), H5Tget_class(type.get()))) {
    case H5T_FLOAT:
      return "float" + bits;
    case H5T_INTEGER:
      return (H5Tget_sign(type.get()) == H5T_SGN_NONE ? "uint" : "int") + bits;
    case H5T_STRING:
      return H5Tis_variable_str(type.get()) ? "other" : "string";
    default:
      return "other";
  }
}

std::vector<std::size_t> shape_of(const File& file, const DatasetId& dataset) {
  const SpaceId space(SHARDMARK_HDF5(file.path(), H5Dget_space(dataset.get())));
  std::vector<hsize_t> extents(SHARDMARK_HDF5(file.path(), H5Sget_simple_extent_ndims(space.get())));
  SHARDMARK_HDF5(file.path(), H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr));
  return {extents.begin(), extents.end()};
}

std::string describe(const std::string& type, const std::vector<std::size_t>& shape) {
  std::string text = type + " (";
  for (std::size_t d = 0; d < shape.size(); ++d) text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + ")";
}

extern "C" herr_t keep_link_name(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->push_back(name);
  return 0;
}

template <class T>
T read_as(const File& file, const DatasetId& dataset) {
  T value{};
  SHARDMARK_HDF5(file.path(),
                 H5Dread(dataset.get(), memory_type(dtype_of<T>), H5S_ALL, H5S_ALL, H5P_DEFAULT, &value));
  return value;
}

}  // namespace

DatasetId create_dataset(const File& file, const std::string& name, hid_t type,
                         const std::vector<std::size_t>& shape) {
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  const SpaceId space(SHARDMARK_HDF5(
      file.path(), H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr)));
  return create_in_space(file, name, type, space);
}

DatasetId open_dataset(const File& file, const std::string& name) {
  return DatasetId(SHARDMARK_HDF5(file.path(), H5Dopen2(file.id(), name.c_str(), H5P_DEFAULT)));
}

std::vector<std::string> dataset_names(const File& file, const std::string& group) {
  std::vector<std::string> names;
  if (!SHARDMARK_HDF5(file.path(), H5Lexists(file.id(), group.c_str(), H5P_DEFAULT))) return names;
  const ObjectId root(SHARDMARK_HDF5(file.path(), H5Oopen(file.id(), group.c_str(), H5P_DEFAULT)));
  // In native order: for a sorted one HDF5 1.10 makes a table first, and crashes where a link is damaged.
  SHARDMARK_HDF5(file.path(), H5Lvisit(root.get(), H5_INDEX_NAME, H5_ITER_NATIVE, keep_link_name, &names));
  std::erase_if(names, [&](const std::string& name) {
    const ObjectId object(SHARDMARK_HDF5(file.path(), H5Oopen(root.get(), name.c_str(), H5P_DEFAULT)));
    return H5Iget_type(object.get()) != H5I_DATASET;
  });
  std::sort(names.begin(), names.end());
  return names;
}

void write_array(const File& file, const std::string& name, const std::vector<std::uint64_t>& values) {
  const DatasetId dataset = create_dataset(file, name, file_type(Dtype::uint64), {values.size()});
  SHARDMARK_HDF5(file.path(), H5Dwrite(dataset.get(), memory_type(Dtype::uint64), H5S_ALL, H5S_ALL,
                                       H5P_DEFAULT, values.data()));
}

std::vector<std::uint64_t> read_array(const File& file, const std::string& name) {
  const DatasetId dataset = open_dataset(file, name);
  const std::vector<std::size_t> shape = shape_of(file, dataset);
  if (shape.size() != 1 || describe(file, dataset) != describe("uint64", shape))
    throw EnvironmentError(file.path() + ": " + name + " is " + describe(file, dataset) +
                           " and not one-dimensional uint64");
  std::vector<std::uint64_t> values(shape[0]);
  SHARDMARK_HDF5(file.path(), H5Dread(dataset.get(), memory_type(Dtype::uint64), H5S_ALL, H5S_ALL,
                                      H5P_DEFAULT, values.data()));
  return values;
}

Stored stored_in(const File& file, const DatasetId& dataset) {
  const TypeId type(SHARDMARK_HDF5(file.path(), H5Dget_type(dataset.get())));
  const std::string name = type_name(file, type);
  Stored stored{{}, shape_of(file, dataset)};
  if (name == "float32") stored.dtype = Dtype::fp32;
  if (name == "float64") stored.dtype = Dtype::fp64;
  return stored;
}

std::string describe(Dtype dtype, const std::vector<std::size_t>& shape) {
  return describe(dtype == Dtype::fp32   ? "float32"
                  : dtype == Dtype::fp64 ? "float64"
                                         : name_of(dtype),
                  shape);
}

std::string describe(const File& file, const DatasetId& dataset) {
  const TypeId type(SHARDMARK_HDF5(file.path(), H5Dget_type(dataset.get())));
  return describe(type_name(file, type), shape_of(file, dataset));
}

void write_scalar(const File& file, const std::string& name, const Value& value) {
  const SpaceId space(SHARDMARK_HDF5(file.path(), H5Screate(H5S_SCALAR)));
  const auto write = [&](hid_t type_in_file, hid_t type_in_memory, const void* data) {
    const DatasetId dataset = create_in_space(file, name, type_in_file, space);
    SHARDMARK_HDF5(file.path(), H5Dwrite(dataset.get(), type_in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
  };
  if (const auto* text = std::get_if<std::string>(&value)) {
    const TypeId type = string_type(file, text->size());
    return write(type.get(), type.get(), text->c_str());
  }
  const auto write_number = [&](const auto* number) {
    if (number)
      write(file_type(dtype_of<std::decay_t<decltype(*number)>>),
            memory_type(dtype_of<std::decay_t<decltype(*number)>>), number);
  };
  write_number(std::get_if<std::int64_t>(&value));
  write_number(std::get_if<std::uint64_t>(&value));
  write_number(std::get_if<double>(&value));
}

Value read_scalar(const File& file, const std::string& name) {
  const DatasetId dataset = open_dataset(file, name);
  const std::string found = describe(file, dataset);
  if (found == "int64 ()") return read_as<std::int64_t>(file, dataset);
  if (found == "uint64 ()") return read_as<std::uint64_t>(file, dataset);
  if (found == "float64 ()") return read_as<double>(file, dataset);
  if (found != "string ()")
    throw EnvironmentError(file.path() + ": " + name + " is " + found +
                           "; valid are scalars of int64, uint64, float64 or fixed-length string");
  const TypeId type(SHARDMARK_HDF5(file.path(), H5Dget_type(dataset.get())));
  std::string text(H5Tget_size(type.get()), '\0');
  SHARDMARK_HDF5(file.path(), H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()));
  text.erase(text.find_last_not_of('\0') + 1);
  return text;
}

}  // namespace shardmark::checkpoint
