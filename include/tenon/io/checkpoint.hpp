// The weights of a model folder: one safetensors file, or several with an index.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/io/file_map.hpp>
#include <tenon/io/json.hpp>
#include <tenon/io/safetensors.hpp>
#include <tenon/tensor/any_tensor.hpp>

TENON_NAMESPACE_BEGIN

/// The tensors of a checkpoint by name, whichever file they are in. Opening maps the files and checks every header;
/// no tensor data is read. It never changes after construction: any number of threads may use it.
class Checkpoint {
 public:
  /// All tensors of these files. Throws FormatError if two files hold the same name.
  Checkpoint(std::filesystem::path folder, std::vector<SafetensorsFile> files)
      : folder_(std::move(folder)), files_(std::move(files)) {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      for (const TensorInfo& info : files_[i].tensors()) {
        const auto [place, added] = places_.emplace(info.name, Place{i, &info});
        if (!added) {
          throw FormatError("tensor '" + detail::shortened(info.name) + "' is in both " +
                            detail::quoted(files_[place->second.file].path()) + " and " +
                            detail::quoted(files_[i].path()));
        }
        total_bytes_ += info.bytes;
      }
    }
  }
  // Copying would be possible, but nobody should do it by accident: pass a reference.
  Checkpoint(Checkpoint&&) = default;
  Checkpoint& operator=(Checkpoint&&) = default;
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;
  ~Checkpoint() = default;

  /// As given to open_checkpoint.
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  [[nodiscard]] const std::vector<SafetensorsFile>& files() const noexcept { return files_; }
  /// Number of tensors.
  [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }
  /// Bytes of all tensors together.
  [[nodiscard]] std::uint64_t total_bytes() const noexcept { return total_bytes_; }

  /// All names, file by file, in the order of their data.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> result;
    result.reserve(places_.size());
    for (const SafetensorsFile& file : files_) {
      for (const TensorInfo& info : file.tensors()) result.push_back(info.name);
    }
    return result;
  }

  [[nodiscard]] bool contains(std::string_view name) const { return places_.find(name) != places_.end(); }
  /// The entry of a tensor; its offset counts from the start of `file_of(name)`. Throws FormatError if it is missing.
  [[nodiscard]] const TensorInfo& info(std::string_view name) const { return *place(name).info; }
  /// The file that holds a tensor, for messages. Throws FormatError if the tensor is missing.
  [[nodiscard]] const std::filesystem::path& file_of(std::string_view name) const {
    return files_[place(name).file].path();
  }
  /// As `SafetensorsFile::tensor`: a view of the mapped file that keeps it alive.
  [[nodiscard]] AnyTensor tensor(std::string_view name) const { return files_[place(name).file].tensor(name); }

 private:
  struct Place {
    std::size_t file;
    const TensorInfo* info;  // owned by the file's shared state
  };

  [[nodiscard]] const Place& place(std::string_view name) const {
    const auto found = places_.find(name);
    if (found == places_.end()) {
      throw FormatError("the checkpoint in " + detail::quoted(folder_) + " has no tensor '" + detail::shortened(name) +
                        "'");
    }
    return found->second;
  }

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> files_;
  std::unordered_map<std::string_view, Place> places_;
  std::uint64_t total_bytes_ = 0;
};

namespace detail {

/// "'a', 'b' and 3 more": a large checkpoint that misses a file misses hundreds of names.
class NameList {
 public:
  void add(const std::string& name) {
    if (++count_ <= shown) text_ += (count_ == 1 ? "'" : ", '") + shortened(name) + "'";
  }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::string text() const {
    return count_ <= shown ? text_ : text_ + " and " + std::to_string(count_ - shown) + " more";
  }

 private:
  static constexpr std::size_t shown = 3;
  std::string text_;
  std::size_t count_ = 0;
};

/// weight_map of an index: file -> names of its tensors. File names must stay inside the folder.
inline std::map<std::string, std::vector<std::string>> read_shard_index(const std::filesystem::path& path) {
  const nlohmann::json document = read_json_file(path);
  const JsonFields fields(document, path.string());
  const nlohmann::json* weights = fields.find("weight_map");
  if (weights == nullptr || !weights->is_object() || weights->empty()) {
    fields.fail("weight_map", "must map the names of tensors to the names of files");
  }
  std::map<std::string, std::vector<std::string>> result;
  for (const auto& [tensor, value] : weights->items()) {
    if (!value.is_string()) fields.fail("weight_map", "has no file name for tensor '" + shortened(tensor) + "'");
    const auto& file = value.get_ref<const std::string&>();
    // An index is data from a stranger: it must not reach files outside the folder.
    if (file.empty() || file == "." || file == ".." || file.find_first_of(std::string_view("/\\:\0", 4)) != file.npos) {
      fields.fail("weight_map", "gives tensor '" + shortened(tensor) + "' the file '" + shortened(file) +
                                    "', which is not a plain file name");
    }
    result[file].push_back(tensor);
  }
  return result;
}

/// Every shard must hold the tensors that the index says, and no others.
inline void check_shards(const std::filesystem::path& index,
                         const std::map<std::string, std::vector<std::string>>& shards,
                         const std::vector<SafetensorsFile>& files) {
  std::unordered_map<std::string_view, std::string_view> expected;
  for (const auto& [shard, names] : shards) {
    for (const std::string& name : names) expected.emplace(name, shard);
  }
  std::size_t i = 0;
  for (const auto& [shard, names] : shards) {
    const SafetensorsFile& file = files[i++];
    NameList missing;
    const std::filesystem::path* elsewhere = nullptr;  // a file that has one of the missing names
    for (const std::string& name : names) {
      if (file.find(name) != nullptr) continue;
      missing.add(name);
      for (const SafetensorsFile& other : files) {
        if (elsewhere == nullptr && other.find(name) != nullptr) elsewhere = &other.path();
      }
    }
    if (!missing.empty()) {
      throw FormatError(quoted(file.path()) + " does not hold the tensors that " + quoted(index.filename()) +
                        " says: missing " + missing.text() +
                        (elsewhere == nullptr ? "" : " (found in " + quoted(*elsewhere) + "; are files swapped?)"));
    }
    NameList unexpected;
    for (const TensorInfo& info : file.tensors()) {
      const auto found = expected.find(info.name);
      if (found == expected.end() || found->second != shard) unexpected.add(info.name);
    }
    if (!unexpected.empty()) {
      throw FormatError(quoted(file.path()) + " holds tensors that " + quoted(index.filename()) +
                        " does not list for it: " + unexpected.text());
    }
  }
}

}  // namespace detail

/// Opens the weights of a model folder: `model.safetensors` or, where there is none, the shards that
/// `model.safetensors.index.json` lists, all of which must be there with exactly the tensors listed. Throws FileError
/// for what is missing or unreadable, and FormatError for files that are malformed or do not belong together.
inline Checkpoint open_checkpoint(const std::filesystem::path& folder) {
  std::error_code error;
  const auto status = std::filesystem::status(folder, error);
  if (!std::filesystem::exists(status)) detail::throw_file_error(folder, "open", error ? error.value() : ENOENT);
  if (!std::filesystem::is_directory(status)) {
    throw FileError("cannot open " + detail::quoted(folder) + ": a model is a folder, and this is not one");
  }

  std::vector<SafetensorsFile> files;
  // One file goes before an index, as in transformers.
  const std::filesystem::path single = folder / "model.safetensors";
  if (path_is_taken(single)) {
    files.emplace_back(single);
    return Checkpoint(folder, std::move(files));
  }
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  if (!path_is_taken(index)) {
    throw FileError("the folder " + detail::quoted(folder) +
                    " has neither 'model.safetensors' nor 'model.safetensors.index.json'");
  }
  // All files are looked for before the first is opened, so that one message names everything that is missing.
  const auto shards = detail::read_shard_index(index);
  detail::NameList missing_files;
  detail::NameList missing_tensors;
  for (const auto& [shard, names] : shards) {
    if (path_is_taken(folder / shard)) continue;
    missing_files.add(shard);
    for (const std::string& name : names) missing_tensors.add(name);
  }
  if (!missing_files.empty()) {
    throw FileError("the folder " + detail::quoted(folder) + " lacks " + missing_files.text() + ", listed by " +
                    detail::quoted(index.filename()) + " for the tensors " + missing_tensors.text());
  }
  for (const auto& entry : shards) files.emplace_back(folder / entry.first);
  detail::check_shards(index, shards, files);
  return Checkpoint(folder, std::move(files));
}

TENON_NAMESPACE_END
