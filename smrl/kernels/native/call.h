// A call from XLA: its arrays and attributes, in XLA's C interface for foreign functions.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

#include "xla/ffi/api/c_api.h"

struct Array {
  float* data;
  const int64_t* dims;
  int64_t rank;
  int64_t size() const {
    int64_t product = 1;
    for (int64_t i = 0; i < rank; i++) product *= dims[i];
    return product;
  }
};

// Ask for pages of 2 MiB for a large array: walking through images in small pages causes many TLB misses.
inline void use_large_pages(void* data, int64_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t PAGE = 2 << 20;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(data) + PAGE - 1) & -PAGE;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) & -PAGE;
  if (end > first + 2 * PAGE) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#endif
}

struct Call {
  XLA_FFI_CallFrame* frame;
  static Array view(void* buffer) {
    const auto* b = static_cast<XLA_FFI_Buffer*>(buffer);
    return {static_cast<float*>(b->data), b->dims, b->rank};
  }
  Array argument(int64_t i) const { return view(frame->args.args[i]); }
  Array result(int64_t i) const { return view(frame->rets.rets[i]); }
  int64_t arguments() const { return frame->args.size; }
  // Return a number that the call was compiled with: int64_t or double.
  template <class Number>
  Number attribute(const char* name) const {
    for (int64_t i = 0; i < frame->attrs.size; i++) {
      const XLA_FFI_ByteSpan* span = frame->attrs.names[i];
      if (span->len == std::strlen(name) && !std::memcmp(span->ptr, name, span->len))
        return *static_cast<Number*>(static_cast<XLA_FFI_Scalar*>(frame->attrs.attrs[i])->value);
    }
    __builtin_trap();  // the Python side passes all attributes
  }
};

// The names of all kernels, each followed by a space. KERNEL adds to it when the library is loaded.
inline std::string kernel_names;

// Define the handler `name`, which XLA calls. Before its first call, XLA asks for the version of the interface.
#define KERNEL(name)                                                                                        \
  [[maybe_unused]] static const std::string& name##_is_listed = kernel_names.append(#name " ");             \
  static void name##_body(const Call& call);                                                                \
  extern "C" XLA_FFI_Error* name(XLA_FFI_CallFrame* frame) {                                                \
    XLA_FFI_Extension_Base* extension = frame->extension_start;                                             \
    if (extension != nullptr && extension->type == XLA_FFI_Extension_Metadata) {                            \
      XLA_FFI_Metadata* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;      \
      metadata->api_version = {sizeof(XLA_FFI_Api_Version), nullptr, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR}; \
      metadata->traits = 0;                                                                                 \
      return nullptr;                                                                                       \
    }                                                                                                       \
    for (int64_t i = 0; i < frame->rets.size; i++) {                                                        \
      const Array array = Call::view(frame->rets.rets[i]);                                                  \
      use_large_pages(array.data, 4 * array.size());                                                        \
    }                                                                                                       \
    name##_body(Call{frame});                                                                               \
    return nullptr;                                                                                         \
  }                                                                                                         \
  static void name##_body(const Call& call)
