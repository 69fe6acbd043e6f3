// A call from XLA: its arrays and attributes, each checked against what the kernel expects before it is read.
//
// This uses XLA's C interface for foreign functions: its C++ interface doubles the time to compile the kernels.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>

#include "xla/ffi/api/c_api.h"

namespace smrl {

template <class T>
struct Array {
  T* data;
  const int64_t* dims;
  int64_t rank;
  int64_t size() const {
    int64_t product = 1;
    for (int64_t i = 0; i < rank; i++) product *= dims[i];
    return product;
  }
};

using Shape = std::initializer_list<int64_t>;
constexpr int64_t ANY = -1;  // a size in a shape that is not checked

// Throw unless the condition holds. The caller of the kernel sees the message as an error.
inline void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

class Call {
 public:
  explicit Call(const XLA_FFI_CallFrame* frame) : frame_(frame) {}

  int64_t arguments() const { return frame_->args.size; }
  int64_t results() const { return frame_->rets.size; }
  // Throw unless there are as many arguments and results.
  void require_counts(int64_t arguments, int64_t results) const {
    require(frame_->args.size == arguments && frame_->rets.size == results, "wrong number of arguments or results");
  }
  // Return an argument or a result; throw if its type or shape is another one, or if it is empty.
  template <class T = float>
  Array<T> argument(int64_t i, Shape shape) const {
    return view<T>(true, i, &shape);
  }
  Array<float> argument(int64_t i) const { return view<float>(true, i, nullptr); }
  Array<float> result(int64_t i, Shape shape) const { return view<float>(false, i, &shape); }
  Array<float> result(int64_t i) const { return view<float>(false, i, nullptr); }
  // Return a number that the call was compiled with; throw if there is none with this name and type.
  int64_t integer(const char* name) const { return *static_cast<int64_t*>(scalar(name, XLA_FFI_DataType_S64)); }
  double number(const char* name) const { return *static_cast<double*>(scalar(name, XLA_FFI_DataType_F64)); }

 private:
  template <class T>
  static constexpr XLA_FFI_DataType TYPE = XLA_FFI_DataType_INVALID;

  template <class T>
  Array<T> view(bool is_argument, int64_t i, const Shape* shape) const {
    const XLA_FFI_Buffer& found = buffer(is_argument, i, TYPE<T>, shape);
    return {static_cast<T*>(found.data), found.dims, found.rank};
  }
  const XLA_FFI_Buffer& buffer(bool is_argument, int64_t i, XLA_FFI_DataType type, const Shape* shape) const;
  void* scalar(const char* name, XLA_FFI_DataType type) const;

  const XLA_FFI_CallFrame* frame_;
};

template <>
inline constexpr XLA_FFI_DataType Call::TYPE<float> = XLA_FFI_DataType_F32;
template <>
inline constexpr XLA_FFI_DataType Call::TYPE<int32_t> = XLA_FFI_DataType_S32;

// Add a kernel to the names that `smrl_kernels` returns.
bool list_kernel(const char* name);

// Answer a call of XLA: its question for the version of the interface, or a call of the kernel. Exceptions of the
// kernel become errors of XLA.
XLA_FFI_Error* answer(XLA_FFI_CallFrame* frame, const char* name, void (*kernel)(const Call&));

}  // namespace smrl

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Define the handler `name`, which XLA calls.
#define KERNEL(name)                                                                                   \
  static void name##_body(const Call& call);                                                           \
  [[maybe_unused]] static const bool name##_is_listed = list_kernel(#name " ");                        \
  EXPORTED XLA_FFI_Error* name(XLA_FFI_CallFrame* frame) { return answer(frame, #name, name##_body); } \
  static void name##_body(const Call& call)
