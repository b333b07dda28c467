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
/// The body reads how `t` lies in its memory (`how`: storage_offset, _base). The read is
/// unsupported for memory that the body did not make, because the signature does not describe this
/// memory. Else strides are part of the signature from now on.
void check_memory_read(const at::Tensor &t, const std::string &how);
/// The first half of it.
void check_memory_is_own(const at::Tensor &t, const std::string &how);
/// Whether the body made `t`'s memory, as far as it is known. Requires: recording().
bool made_its_memory(const at::Tensor &t);

} // namespace tracehost::trace
