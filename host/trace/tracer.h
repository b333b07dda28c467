#pragma once

#include "shapes/without_data.h"
#include "signature/grad_read.h"
#include "signature/size_condition.h"
#include "trace/frontend.h"

#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

/// Runs a body once, for real, and comes back with its graph.
///
/// Problem: libtorch's tracer records ops, and nothing else: a value read is baked, a tensor from
/// outside becomes a constant (or an error), `no_grad` is lost, an unused random op disappears.
/// Answer: an op hook that sees every dispatcher call of this thread *before* the tracer does
/// (op_hook.h). The hook turns unknown tensors into trailing graph inputs, literals into constant +
/// clone, and mode changes into nodes. For an unsupported read the hook raises, at the line of the
/// read.
///
///     body:  with no_grad(): s = w * 2        graph(%x, %w):
///            return x + s                       = aten::set_grad_enabled(False)
///                                               %s = aten::mul(%w, 2)
///     slots: x     captures: w                  = aten::set_grad_enabled(True)
///                                               return (aten::add(%x, %s))

namespace tracehost::trace {

/// What makes a size of the slots exact again, one trace a size.
enum class MaySpecialize : std::uint8_t {
  none,  ///< a read of its number raises: a trace without example data, value_reads="error"
  reads, ///< where the number is read; an op that fails at other sizes raises there (declared)
  all    ///< also an op that fails at other sizes (reduce_retracing)
};

/// Which sizes of the slots may differ at later calls.
struct DynamicDimensions {
  struct Dimension {
    std::uint32_t slot = 0;
    std::int32_t dimension = 0;
    bool operator==(const Dimension &) const = default;
  };
  /// A tensor that the body reaches by a path, and its dimensions.
  struct Capture {
    at::Tensor tensor;
    std::string path;
    std::vector<std::int32_t> dimensions;
  };
  std::vector<Dimension> dimensions;
  std::vector<Capture> captures;
  MaySpecialize may_specialize = MaySpecialize::all;
  std::vector<std::string> names; ///< of each slot, for messages: `x`, `batch['image']`
};

/// A dimension that was requested as dynamic, and has to be specialized.
struct SpecializedDimension {
  DynamicDimensions::Dimension dimension;
  std::string why; ///< `int() of the size`
  Site where;
};

/// A hidden input, in graph order (after the slots).
struct Capture {
  at::Tensor tensor; ///< what it held during the trace
  std::string path;  ///< Frontend::capture_path
};

/// What the body does at a line.
struct NotedLine {
  std::string what; ///< `random.random`
  Site where;
};

struct Traced {
  /// Inputs: slots, captures.
  /// Outputs: those of the body.
  std::shared_ptr<torch::jit::Graph> graph;
  std::vector<Capture> captures;
  bool reads_strides = false;
  bool reads_leaf = false;
  /// Something is changed, or drawn, before an op that raises what Python's arithmetic raises.
  bool raises_late = false;
  bool changes = false; ///< what was there before the run
  std::vector<SizeCondition>
      conditions; ///< on the sizes of inputs; those that hold always are not there
  /// The dynamic dimensions of captures, which are inputs past the slots.
  std::vector<DynamicDimensions::Dimension> dynamic_captures;
  std::vector<SpecializedDimension> specialized;
  std::vector<GradRead> grads; ///< of inputs, as they were before the call
  std::vector<CheckedNumber> checked;
  std::vector<NotedLine> caught;  ///< ops that some values make raise, in a `try`
  std::vector<NotedLine> draws;   ///< of random numbers that are not torch's
  std::vector<NotedLine> edited;  ///< code whose file says something else now
  std::vector<std::string> notes; ///< what the check at a second size found, a sentence each
};

class Witness;

/// The values that a Function's graphs were made for already.
struct Outcomes {
  std::map<std::string, std::set<std::string>> values; ///< by the line that needs them
  std::size_t graphs = 0;                              ///< live ones of this signature
  // A call with a value beyond these limits continues without a graph (Rejection::limit).
  static constexpr std::size_t most_values = 8;
  static constexpr std::size_t most_graphs = 16;
};

/// Runs `body` under the tracer with `slots` (distinct tensors) as inputs. `body` uses the tensors
/// of `slots` themselves, and returns the tensors of its result, each traced or reachable.
/// Exceptions of the body pass through; the thread is then as before.
/// `witness` (null: none) sees what the body does to tensors. `outcomes` (null: none) are those of
/// earlier graphs.
/// Requires: no trace active on this thread.
Traced trace(std::vector<at::Tensor> slots, const DynamicDimensions &dynamic, Frontend &frontend,
             const std::function<std::vector<at::Tensor>()> &body, Witness *witness = nullptr,
             const Outcomes *outcomes = nullptr);

/// Thrown in place of the front end's exception if the body continues without a graph
/// (Frontend::goes_on). Nothing is recorded any more. A caller of a function that may `reject()`
/// catches Abandoned, and acts as outside of a trace. trace() throws Abandoned at its end.
class Abandoned : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Whether this thread records: a body is running, and not inside an op or a Paused block.
bool recording();
/// Whether this thread is inside trace(), recording or not.
bool active();
/// Whether this thread is inside a trace() whose body was unsupported, and continues.
bool abandoned();
/// The same. For the code that stages a block, which has caught a rejection, and can't do without
/// what was rejected: the body continues from there if it may.
bool abandons();

/// Recording stops for a block, while tracehost itself reads sizes, writes messages or works with
/// tensors.
class Paused {
public:
  Paused();
  ~Paused();
  Paused(const Paused &) = delete;
  Paused &operator=(const Paused &) = delete;

private:
  std::shared_ptr<void> state_;
};

/// Paused, and ops of the block run for real, also where the body runs without data.
class PausedWithData : Paused {
  shapes::WithData for_real_;
};

/// The integer in `t`, which no node reads. Requires: it has data.
std::int64_t integer_now(const at::Tensor &t);

/// Raises for a read that no op shows (tolist, numpy, data_ptr ...). Requires: recording().
[[noreturn]] void reject_read(const at::Tensor &t, const std::string &how);
/// Whether item() gives a number of the graph (value_reads="trace"). Requires: active().
bool traces_reads();
/// Raises for a read of what differs at each call (_version). Requires: recording().
[[noreturn]] void reject_read(const std::string &what);
/// Raises for anything else that is not recorded. Requires: active().
[[noreturn]] void reject(Rejection why, const std::string &message);
/// Raises again if this trace was unsupported before: the body may end with another exception,
/// because code of the body replaced the first one. Does nothing if the trace was abandoned,
/// because the exception is then the body's own. Requires: active().
void repeat_rejection();
/// Raises if a size of `t` depends on values (nonzero, a mask as index). Requires: recording().
void check_size_read(const at::Tensor &t, const std::string &what);
/// Whether the sizes of `t` follow from the signature. Requires: recording().
bool has_exact_sizes(const at::Tensor &t);
/// Whether the trace has met sizes that depend on values.
bool has_unknown_sizes();
/// Strides, contiguity or storage offset / is_leaf are read: they become part of the signature.
void note_strides_read();
/// The same, of a tensor whose sizes may be dynamic. Dimensions that the strides depend on are
/// specialized.
void note_strides_read(const at::Tensor &t);
void note_contiguity_read(const at::Tensor &t);
/// What is read of how a tensor lies in memory.
enum class Layout : std::uint8_t { contiguity, strides };
/// Whether it may be another for other sizes of the inputs or other values, or after another side
/// of an `if`: the body gets
/// numbers of the graph. `name`: the method, for an error. Requires: recording().
bool lies_by_sizes(const at::Tensor &t, Layout read, const char *name);
/// Whether `contiguous()` returns such a tensor itself at some calls alone. Requires: recording().
bool lies_by_values(const at::Tensor &t);
/// Whether its strides may depend on which way a call takes through an `if` or a loop, and the
/// graph can check them. Requires: recording().
bool lies_by_block(const at::Tensor &t);
/// The same of whether it requires gradients, and is a leaf.
bool records_by_block(const at::Tensor &t);
void note_leaf_read();
/// The body draws a number from a generator that is not torch's. Requires: recording().
void note_draw(const std::string &what);
/// The body calls code whose file has changed since it was imported. Requires: recording().
void note_edited(const std::string &what);
/// Some values make the op raise. Noted if the body may catch the exception. Requires: recording().
void note_raising(const std::string &op);
/// Behind that: the op of that result stays in the graph, also if nothing uses the result.
void keep(torch::jit::Value *result);

/// A size (or numel) that may differ at a later call, as a traced 0-dim int64 tensor; nullopt where
/// it is exact, an int. Requires: recording().
std::optional<at::Tensor> traced_size(const at::Tensor &t, std::int64_t dimension);
std::optional<at::Tensor> traced_numel(const at::Tensor &t);
/// Whether this trace has dynamic dimensions. Requires: active().
bool has_dynamic_sizes();
/// `to`, made by tracehost's own code, stands for the same value of the graph as `from`.
void same_value(const at::Tensor &from, const at::Tensor &to);
/// What eager has in place of `t` in this call: a staged branch or loop gives its results a new
/// identity, in eager they may be what went in. Requires: active().
at::Tensor in_eager(at::Tensor t);
/// Whether two different tensors may be one in eager, in this call or another. The side of an `if`,
/// or the iterations of a loop, decide that. Requires: recording().
bool may_be_one(const at::Tensor &a, const at::Tensor &b);
/// Whether `t` is the result of a staged branch or loop. Requires: recording().
bool is_of_block(const at::Tensor &t);
/// Whether `t` is computed from traced sizes alone.
bool is_traced_size(const at::Tensor &t);
/// The value of a traced size. The dimensions that it depends on are specialized, or the read is
/// unsupported. `why`: `int() of a size`.
std::int64_t specialize_size(const at::Tensor &size, const std::string &why);
/// The same, of a size that may be on its way to an op, which records it (`x[:n]`).
std::int64_t index_of_size(const at::Tensor &size);

} // namespace tracehost::trace
