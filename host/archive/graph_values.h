#pragma once

#include "archive/bytes.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>

/// Types and constants of a stored graph.
///
///     type       a kind; of a list, an optional, a tuple and a dict the types inside follow
///     constant   a kind, and its value: bits of floats, bytes of texts, the number
///                of a tensor or a generator
///
/// A type and a constant hold others to a bounded depth, and a type no more than so many
/// (limits.h).

namespace tracehost::archive {

/// With each tensor's type as `Tensor` alone.
c10::TypePtr plain_type(const c10::TypePtr &type);

/// Throws Error: it is none.
c10::Device read_device(ByteReader &from);

/// How many types it is made of, itself included.
std::size_t size_of(const c10::Type &type);

/// False: no file has such a type.
bool write_type(ByteWriter &to, const c10::TypePtr &type);
/// Throws Error.
c10::TypePtr read_type(ByteReader &from);

/// The numbers by which a file knows its tensors and its generators.
struct NumbersInFile {
  std::function<std::uint64_t(const at::Tensor &)> tensor;
  std::function<std::uint64_t(const at::Generator &)> generator; ///< of the CPU
};
/// And back. Each throws Error for a number of none.
struct ValuesOfFile {
  std::function<at::Tensor(std::uint64_t)> tensor;
  std::function<at::Generator(std::uint64_t)> generator;
};

/// False: no file has such a value.
bool write_constant(ByteWriter &to, const c10::IValue &value, const NumbersInFile &numbers);
/// Throws Error.
c10::IValue read_constant(ByteReader &from, const ValuesOfFile &values);

} // namespace tracehost::archive
