// cuDNN, as far as tenon uses it: a handle, and the descriptors of its graph API as objects. Only those who include this
// need cuDNN: link tenon::cudnn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cudnn.h>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/cuda/error.hpp>
#include <tenon/cuda/runtime.hpp>
#include <tenon/cuda/toolkit.hpp>

static_assert(CUDNN_VERSION >= 90000, "tenon needs cuDNN 9.0 or later");

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN

/// What cuDNN answered. Refusals mean that it cannot run what it was asked for; all else is a failure.
class CudnnError : public DeviceError {
 public:
  CudnnError(const std::string& what, cudnnStatus_t status) : DeviceError(what), status_(status) {}

  [[nodiscard]] cudnnStatus_t status() const noexcept { return status_; }
  /// Whether cuDNN does not support the request, or does not take one like it.
  [[nodiscard]] bool is_refusal() const noexcept { return is_refusal(status_); }
  [[nodiscard]] static bool is_refusal(cudnnStatus_t status) noexcept {
    const int category = CUDNN_STATUS_CATEGORY(static_cast<int>(status));
    return category == CUDNN_STATUS_NOT_SUPPORTED || category == CUDNN_STATUS_BAD_PARAM ||
           status == CUDNN_STATUS_INTERNAL_ERROR || status == CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED ||
           status == CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE;
  }

 private:
  cudnnStatus_t status_;
};

namespace detail {

/// "CUDNN_STATUS_NOT_SUPPORTED", and what cuDNN said about it last in this thread.
inline std::string cudnn_text(cudnnStatus_t status) {
  std::string text = cudnnGetErrorString(status);
  std::vector<char> message(2048, '\0');
  cudnnGetLastErrorString(message.data(), message.size() - 1);
  std::string_view said(message.data());
  if (said.empty()) return text;
  text += " (";
  for (const char c : said) text += c == '\n' ? ' ' : c;
  while (text.back() == ' ') text.pop_back();
  return text + ")";
}

/// No code stays behind in the CUDA runtime either.
inline void check_cudnn(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  static_cast<void>(cudaGetLastError());
  throw CudnnError("cudnn: " + std::string(what) + ": " + cudnn_text(status), status);
}

/// A cuDNN handle of one device. Threads take turns: whoever uses `get` holds a lock.
class CudnnHandle {
 public:
  explicit CudnnHandle(int ordinal) : ordinal_(ordinal) {
    const CurrentDevice device(ordinal);
    check_cudnn(cudnnCreate(&handle_), "starting cuDNN");
  }
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;
  ~CudnnHandle() { static_cast<void>(cudnnDestroy(handle_)); }

  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  [[nodiscard]] cudnnHandle_t get() const noexcept { return handle_; }
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  /// Where work goes from now on. Setting what is set already asks the driver nothing.
  void set_stream(cudaStream_t stream) {
    if (has_stream_ && stream == stream_) return;
    check_cudnn(cudnnSetStream(handle_, stream), "selecting a stream");
    stream_ = stream;
    has_stream_ = true;
  }

 private:
  int ordinal_;
  cudnnHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
  bool has_stream_ = false;
  std::mutex mutex_;
};

/// A descriptor of cuDNN's graph API. Descriptors that it was given must live as long.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type) {
    check_cudnn(cudnnBackendCreateDescriptor(type, &descriptor_), "making a descriptor");
  }
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;
  CudnnDescriptor(CudnnDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~CudnnDescriptor() {
    if (descriptor_ != nullptr) static_cast<void>(cudnnBackendDestroyDescriptor(descriptor_));
  }

  [[nodiscard]] cudnnBackendDescriptor_t get() const noexcept { return descriptor_; }

  /// `type` is how cuDNN calls Value.
  template <class Value>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::span<const Value> values) {
    check_cudnn(
        cudnnBackendSetAttribute(descriptor_, name, type, static_cast<std::int64_t>(values.size()), values.data()),
        "describing an operation");
  }
  template <class Value>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const Value& value) {
    set(name, type, std::span<const Value>(&value, 1));
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.descriptor_);
  }
  void set(cudnnBackendAttributeName_t name, std::int64_t value) { set(name, CUDNN_TYPE_INT64, value); }
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value) { set(name, CUDNN_TYPE_DATA_TYPE, value); }

  void finalize(std::string_view what) { check_cudnn(cudnnBackendFinalize(descriptor_), what); }
  /// False where cuDNN refuses; `reason` says why then.
  [[nodiscard]] bool try_finalize(std::string_view what, std::string& reason) {
    const cudnnStatus_t status = cudnnBackendFinalize(descriptor_);
    if (status != CUDNN_STATUS_SUCCESS && CudnnError::is_refusal(status)) {
      static_cast<void>(cudaGetLastError());
      reason = std::string(what) + ": " + cudnn_text(status);
      return false;
    }
    check_cudnn(status, what);
    return true;
  }

  /// As many values as there are and fit; returns how many.
  template <class Value>
  [[nodiscard]] std::size_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                std::span<Value> values) const {
    std::int64_t count = 0;
    check_cudnn(cudnnBackendGetAttribute(descriptor_, name, type, static_cast<std::int64_t>(values.size()), &count,
                                         values.data()),
                "asking a descriptor");
    return static_cast<std::size_t>(count) < values.size() ? static_cast<std::size_t>(count) : values.size();
  }
  [[nodiscard]] std::int64_t get_int(cudnnBackendAttributeName_t name) const {
    std::int64_t value = 0;
    static_cast<void>(get(name, CUDNN_TYPE_INT64, std::span<std::int64_t>(&value, 1)));
    return value;
  }
  /// How many values an attribute has.
  [[nodiscard]] std::size_t count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
    std::int64_t count = 0;
    check_cudnn(cudnnBackendGetAttribute(descriptor_, name, type, 0, &count, nullptr), "asking a descriptor");
    return static_cast<std::size_t>(count);
  }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
