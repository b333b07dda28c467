#pragma once

#include <ATen/core/Tensor.h>

#include <string>

/// What a body does to a tensor's object, not its values, as ops of the graph
/// (program/state_ops.cpp). All require: recording().

namespace tracehost::trace {

/// `t.data`
at::Tensor data_of(const at::Tensor &t);
/// `t.data = data`; both of one dtype, shape, device and layout.
void set_data(const at::Tensor &t, const at::Tensor &data);
/// `t.requires_grad_(on)`, which must be possible.
void set_requires_grad(const at::Tensor &t, bool on);
/// The body asks what `t` is of its memory (`how`: storage_offset, _base): refused where that is an
/// input's, of which the signature says nothing; else strides are part of it from now on.
void check_memory_read(const at::Tensor &t, const std::string &how);
/// Whether the body made `t`'s memory, as far as it is known. Requires: recording().
bool made_its_memory(const at::Tensor &t);

} // namespace tracehost::trace
