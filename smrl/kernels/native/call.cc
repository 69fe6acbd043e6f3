#include "call.h"

#include <cstring>
#include <new>
#include <string>

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

namespace smrl {
namespace {

// The names of all kernels, each followed by a space.
std::string& kernel_names() {
  static std::string names;
  return names;
}

std::string type_name(XLA_FFI_DataType type) {
  switch (type) {
    case XLA_FFI_DataType_F32:
      return "float32";
    case XLA_FFI_DataType_F64:
      return "float64";
    case XLA_FFI_DataType_S32:
      return "int32";
    case XLA_FFI_DataType_S64:
      return "int64";
    default:
      return "type " + std::to_string(type);
  }
}

std::string describe(XLA_FFI_DataType type, const int64_t* dims, int64_t rank) {
  std::string sizes;
  for (int64_t i = 0; i < rank; i++) sizes += (i ? ", " : "") + (dims[i] == ANY ? "*" : std::to_string(dims[i]));
  return type_name(type) + "[" + sizes + "]";
}

// Ask for pages of 2 MiB for a large array: walking through images in small pages causes many TLB misses.
void use_large_pages([[maybe_unused]] void* data, [[maybe_unused]] int64_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t PAGE = 2 << 20;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(data) + PAGE - 1) & -PAGE;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) & -PAGE;
  if (end > first + 2 * PAGE) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#endif
}

XLA_FFI_Error* make_error(const XLA_FFI_CallFrame* frame, const char* name, XLA_FFI_Error_Code code,
                          const char* reason) noexcept {
  char message[512];  // there may be no memory for a string
  std::strncpy(message, name, 64);
  message[64] = 0;
  std::strcat(message, ": ");
  std::strncat(message, reason, 400);
  XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr, message, code};
  return frame->api->XLA_FFI_Error_Create(&args);
}

}  // namespace

const XLA_FFI_Buffer& Call::buffer(bool is_argument, int64_t i, XLA_FFI_DataType type, const Shape* shape) const {
  const auto refuse = [&](const std::string& reason) {
    throw std::invalid_argument((is_argument ? "argument " : "result ") + std::to_string(i) + reason);
  };
  if (i < 0 || i >= (is_argument ? arguments() : results())) refuse(" is missing");
  const auto& found = *static_cast<XLA_FFI_Buffer*>(is_argument ? frame_->args.args[i] : frame_->rets.rets[i]);
  bool is_expected = found.dtype == type && (!shape || found.rank == static_cast<int64_t>(shape->size()));
  for (int64_t k = 0; is_expected && k < found.rank; k++) {
    const int64_t wanted = shape ? shape->begin()[k] : ANY;
    is_expected = found.dims[k] > 0 && (wanted == ANY || wanted == found.dims[k]);
  }
  if (!is_expected)
    refuse(" is " + describe(found.dtype, found.dims, found.rank) + " instead of " +
           (shape ? describe(type, shape->begin(), shape->size()) : "a non-empty " + type_name(type)));
  return found;
}

void* Call::scalar(const char* name, XLA_FFI_DataType type) const {
  for (int64_t i = 0; i < frame_->attrs.size; i++) {
    const XLA_FFI_ByteSpan* span = frame_->attrs.names[i];
    if (span->len != std::strlen(name) || std::memcmp(span->ptr, name, span->len)) continue;
    const auto* found = static_cast<XLA_FFI_Scalar*>(frame_->attrs.attrs[i]);
    if (frame_->attrs.types[i] == XLA_FFI_AttrType_SCALAR && found->dtype == type) return found->value;
  }
  throw std::invalid_argument("the attribute " + std::string(name) + " is missing or has another type");
}

bool list_kernel(const char* name) {
  kernel_names().append(name);
  return true;
}

XLA_FFI_Error* answer(XLA_FFI_CallFrame* frame, const char* name, void (*kernel)(const Call&)) {
  XLA_FFI_Extension_Base* extension = frame->extension_start;
  if (extension != nullptr && extension->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
    metadata->api_version = {sizeof(XLA_FFI_Api_Version), nullptr, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
    metadata->traits = 0;
    return nullptr;
  }
  try {
    const Call call(frame);
    for (int64_t i = 0; i < call.results(); i++) {
      const Array<float> array = call.result(i);
      use_large_pages(array.data, 4 * array.size());
    }
    kernel(call);
    return nullptr;
  } catch (const std::bad_alloc&) {
    return make_error(frame, name, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "out of memory");
  } catch (const std::invalid_argument& error) {
    return make_error(frame, name, XLA_FFI_Error_Code_INVALID_ARGUMENT, error.what());
  } catch (const std::exception& error) {
    return make_error(frame, name, XLA_FFI_Error_Code_INTERNAL, error.what());
  }
}

}  // namespace smrl

// Return the names of all kernels in this library, separated by spaces.
EXPORTED const char* smrl_kernels() { return smrl::kernel_names().c_str(); }
