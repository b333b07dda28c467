#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <functional>
#include <string>

/// Runs ops without data: what each would give, by its sizes, strides, dtype and device.
///
/// Problem: a branch that is not taken, a loop's body and a trace from specs are recorded without
/// being run. A trace with open sizes must not run its ops at other sizes either. torch's
/// FakeTensorMode does this in Python: its first op imports a second of modules, each further one
/// takes 100 us. Answer: tracehost has a kernel for every op, on a dispatch key that this thread
/// includes. The key lies below autograd, autocast and the tracer, which see the ops as they do in
/// eager. The key lies above the kernels of the devices, none of which is reached. For each op the
/// kernel takes the first of these ways (make_plan):
///
///     rule       tracehost's (rules.h): torch has none in C++, or one that depends on the device
///     meta       torch's C++ meta kernel, which the op itself begins with
///     composite  the op is made of others: its own code runs, on fake tensors
///     in place   the result is an argument, whose sizes stay
///     fake       of an op that is not torch's: the meta kernel that its library has, in Python too
///     data       the kernel itself, on zeros of these sizes, if there are at most kMostElements
///     none       NotImplementedError: the op needs values, or its result's size depends on them
///
///     y = relu(x @ w)      matmul: composite -> mm: meta [8, 4];   relu: rule, clamp_min: meta

namespace tracehost::shapes {

/// The dispatch key. torch has no kernel there; 2.15 plans one for its own fake tensors.
inline constexpr auto kKey = c10::DispatchKey::Fake;

/// Ops of this thread run without data for a block.
struct WithoutData : c10::impl::ForceDispatchKeyGuard {
  WithoutData();
};

/// For a block in a WithoutData block: ops of this thread run for real.
struct WithData : c10::impl::ForceDispatchKeyGuard {
  WithData();
};

/// For a block: an op of this thread that would reach a kernel calls `watch` instead, which runs
/// the op. Autograd has been above, so that its ops are seen as well. Ops that `watch` itself calls
/// are seen by the WatchedOps around this one; without one they run in a WithData block.
class WatchedOps {
public:
  /// `below`: the keys by which `watch` may redispatch the op.
  using Watch = std::function<void(const c10::OperatorHandle &, c10::DispatchKeySet below,
                                   torch::jit::Stack &)>;
  explicit WatchedOps(Watch watch);
  WatchedOps(const WatchedOps &) = delete;
  WatchedOps &operator=(const WatchedOps &) = delete;
  ~WatchedOps();
  void see(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack &stack) const;

private:
  Watch watch_;
  const WatchedOps *around_;
  WithoutData keys_;
};

/// Zeros that the way "data" makes for one op.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 24;

/// Whether this thread runs a meta kernel in Python, of an op that is not torch's. Code that the
/// kernel runs is not the body.
bool in_python_kernel();

/// Whether the op's code runs above tracehost's key, with autograd on, and reads memory there. The
/// dispatching code calls run_above() for such an op.
bool runs_above(const c10::OperatorHandle &op);
void run_above(const c10::OperatorHandle &op, torch::jit::Stack &stack);

/// If an op has failed since its code reads a fake tensor's memory itself: NotImplementedError.
void check_memory_read(const c10::OperatorHandle &op, const c10::Error &error);

/// The op that an error says needs data, or that code of torch has read the memory of a fake tensor
/// itself; empty: the error is another one. `text`: of the error.
std::string needs_data(const std::string &text);

} // namespace tracehost::shapes
