#pragma once

#include "event/event.h"
#include "signature/value_guard.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tracehost::trace {

/// What a read of a traced value does.
enum class ValueReads : std::uint8_t {
  trace, ///< item() gives a traced number (numbers.h); a read of the value itself is checked
  error, ///< it raises
  guard, ///< of an input: the graph serves only calls with that value
  bake,  ///< the graph keeps this call's value, with a warning
};

/// A value that the graph keeps though later calls may have another one.
struct BakedRead {
  std::string what; ///< `the value of 'x' (aten::item), 3.0`
  Site where;
};

/// Which inputs have still the values of the call, and which of them the body read.
///
/// Problem: a guard is compared before the graph runs, so it must hold what an input had then.
/// Answer: the storages that ops write, and torch's version counters, which see what no op shows (a
/// callback); of a tensor met only after such a callback nothing is known.
class InputReads {
public:
  explicit InputReads(const std::vector<at::Tensor> &slots) {
    for (const at::Tensor &t : slots)
      met(t);
  }

  /// The body is about to use `t` for the first time.
  void met(const at::Tensor &t);
  /// An op is about to run.
  void before(const c10::OperatorHandle &op, const torch::jit::Stack &stack);
  /// Code that no op shows is about to run.
  void before_call() { hidden_writes_ = true; }
  bool is_unchanged(const at::Tensor &t) const;

  /// `t`, input `input`, is read at `where`. Requires: can_be_guarded().
  void guard(std::uint32_t input, const at::Tensor &t, const Site &where);

  std::vector<ValueGuard> guards;

private:
  struct Met {
    std::int64_t version; ///< -1: it has none
    bool late;            ///< something may have changed it before
  };
  std::unordered_map<const c10::TensorImpl *, Met> met_;
  std::unordered_set<const c10::StorageImpl *> written_;
  bool hidden_writes_ = false;
};

} // namespace tracehost::trace
