#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <optional>

namespace torch::jit::tracer {
struct TracingState;
}

namespace tracehost::trace {

/// Sees each op of this thread while it is installed, above autocast, tracer and autograd, and may
/// throw: the exception leaves through the op. A boxed fallback on a dispatch key that this thread
/// alone includes; c10's RecordFunction can't do it, it swallows exceptions.
class OpHook {
public:
  virtual ~OpHook() = default;
  virtual void before(const c10::OperatorHandle &op, const torch::jit::Stack &stack) = 0;
  /// Whether an op that is not recorded runs with data, though the thread runs ops without.
  virtual bool keeps_data(const c10::OperatorHandle &) const { return false; }
  /// Whether a recorded op only computes sizes, and so runs with data as well.
  virtual bool is_of_sizes(const c10::OperatorHandle &, const torch::jit::Stack &) { return false; }
  /// Before before(): whether the op is no part of the graph, and runs as outside of a trace.
  virtual bool runs_aside(const c10::OperatorHandle &, const torch::jit::Stack &) { return false; }
  /// Before before(): an op of the same arguments that is called in place of this one.
  virtual std::optional<c10::OperatorHandle> instead(const c10::OperatorHandle &) { return {}; }
  /// After before(): may put other tensors in place of the op's.
  virtual void substitute(const c10::OperatorHandle &, torch::jit::Stack &) {}
  /// After that: whether record() makes the op's node. libtorch's tracer makes none of an op that
  /// returns nothing.
  virtual bool records(const c10::OperatorHandle &) const { return false; }
  virtual void record(const c10::OperatorHandle &, const torch::jit::Stack &) {}
  /// In place of after(): the op has thrown.
  virtual void failed(const c10::OperatorHandle &op) = 0;
  /// May put another tensor in place of the result.
  virtual void after(const c10::OperatorHandle &op, torch::jit::Stack &stack) = 0;
  /// An op called where torch has the tracer switched off for a moment, as torch.tensor([...]) has.
  virtual void unrecorded(const c10::OperatorHandle &op, const torch::jit::Stack &stack) = 0;
  /// An op called where nothing is traced: inside a recorded op, or in a block without tracing.
  virtual void outside(const c10::OperatorHandle &, const torch::jit::Stack &) {}
  /// Whether nothing is to be recorded any more. One of the above has said so by an Abandoned, or
  /// code that is not an op has.
  virtual bool abandoned() const = 0;
};

/// Installs `hook` for the current thread for a block; null: none, what runs there is no part of
/// the trace. before() and after() come only while the tracer records; none comes inside a recorded
/// op.
class InstalledHook {
public:
  explicit InstalledHook(OpHook *hook);
  ~InstalledHook();
  InstalledHook(const InstalledHook &) = delete;
  InstalledHook &operator=(const InstalledHook &) = delete;

private:
  OpHook *previous_;
  bool included_;
};

/// No hook, no tracing and no autograd while tracehost itself works with tensors, for a block.
class Aside {
public:
  Aside();
  ~Aside();

private:
  struct Guards;
  std::unique_ptr<Guards> guards_;
};

/// tracer::setTracingState, also where torch has excluded the tracer for a moment
/// (torch.tensor(...)), which libtorch asserts against.
void set_tracing_state(std::shared_ptr<torch::jit::tracer::TracingState> state);

/// How many ops are under way on this thread around the hook's call: 0 for one called by the body.
int op_depth();

/// Whether the tracer records the op that is being dispatched now.
bool tracer_records();

} // namespace tracehost::trace
