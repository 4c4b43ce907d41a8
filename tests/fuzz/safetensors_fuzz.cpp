// libFuzzer: a header from anybody is read or refused, and every tensor that comes out lies within the file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include <tenon/io/safetensors_header.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto header = tenon::parse_safetensors_header(std::as_bytes(std::span(data, size)), "fuzz");
    for (const tenon::TensorInfo& info : header.tensors) {
      if (info.offset > size || info.bytes > size - info.offset) std::abort();
    }
  } catch (const tenon::Error&) {
    return 0;
  }
  return 0;
}
