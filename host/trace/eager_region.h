#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

/// A block of the body that is not recorded. It runs once, at the trace, eagerly, under the modes
/// that the call itself had.
///
///     body:  if self.w is None:              graph(%x, %w):
///              with init_scope():              return (aten::mul(%x, %w))
///                self.w = make_weight()
///            return x * self.w
///
/// To the trace, a tensor that is made there existed before, so it is a capture. A tensor that the
/// trace made, or was given, is unsupported there. Such a tensor stands for a value of every later
/// call, and has no value that a block which runs once could use.

namespace tracehost::trace {

/// Begins one. Returns what leave_eager_region() takes; 0 where this thread does not record.
std::uint64_t enter_eager_region();
/// Ends it. Does nothing for 0, or where the trace is over, or another thread's.
void leave_eager_region(std::uint64_t block);
/// Whether this thread is in such a block.
bool in_eager_region();
/// Whether this thread records, or is in such a block: where reads of a tensor are looked at.
bool guarded();
/// Whether this thread runs an op's kernel that has left the tracing state on, as that of copy_:
/// what Python code asks of tensors there (a mode without data is such code) is no part of the
/// trace. Requires: active().
bool in_kernel();
/// Whether the trace made `t`, or was given it. Requires: in_eager_region().
bool is_traced(const at::Tensor &t);

/// Resumes recording for a moment, so that a read in an eager region raises, or is noted, as a read
/// of the body is. Does nothing outside of an eager region.
class Resumed {
public:
  Resumed();
  ~Resumed();
  Resumed(const Resumed &) = delete;
  Resumed &operator=(const Resumed &) = delete;

private:
  bool resumed_;
};

} // namespace tracehost::trace
