#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

/// What a TensorArray is in a graph: a TorchScript list, in which an undefined tensor stands for an
/// element that is not written yet. The functions are registered as ops of the same names,
/// `tracehost::array_new` ...

namespace tracehost {

using TensorArrayList = c10::List<at::Tensor>;

/// `size` elements that are not written.
TensorArrayList array_new(std::int64_t size);
/// Writes element `index`; counts from the end if negative. If not `fixed`, the list grows so that
/// it has one. Throws c10::IndexError.
void array_write(TensorArrayList list, std::int64_t index, const at::Tensor &value, bool fixed);
/// Throws c10::IndexError: there is none, or it is not written.
at::Tensor array_read(const TensorArrayList &list, std::int64_t index);
/// The list itself. Throws where it has no element, or one that is not written.
TensorArrayList array_written(const TensorArrayList &list);
/// Puts the rows of `t` in place of all elements. If `fixed`, there must be as many.
void array_unstack(TensorArrayList list, const at::Tensor &t, bool fixed);

} // namespace tracehost
