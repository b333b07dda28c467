#pragma once

#include "program/numbers.h"
#include "trace/head.h"
#include "trace/tracer.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tracehost::trace {

class Trace;

/// Numbers whose value or type the body needs: the graph checks them. speculation.cpp says how.
class Speculation {
public:
  Speculation(Trace &trace, const Outcomes *outcomes) : trace_(trace), outcomes_(outcomes) {}

  /// The trace continues with `actual`, and the graph checks the number here. `how`: `bool()`.
  /// `where`: the line that needs it.
  void speculate(torch::jit::Value *scalar, const c10::IValue &actual, const std::string &how,
                 const std::string &where);
  /// The same of its type, if the type depends on values.
  void check_kind(torch::jit::Value *scalar, NumberKind actual);
  /// A number op raises or does not, and an `except` of the body may depend on that. So the graph
  /// checks it. `known`: the operands have values in this call.
  void check_raises(const NumberOp &op, const std::vector<torch::jit::Value *> &operands,
                    bool raises, bool known = true);
  /// Whether an op that reads values becomes a checked number; then it runs aside.
  bool reads(const c10::OperatorHandle &op, const torch::jit::Stack &stack);

  /// Whether one more graph, for another value, may serve the same arguments.
  bool may_check() const;
  bool may_branch() const { return !outcomes_ || outcomes_->graphs < Outcomes::most_graphs; }

  /// Numbers of slots, and checks that follow from them alone.
  Head &head();
  bool is_of_head(const torch::jit::Value *scalar) const { return head_ && head_->reaches(scalar); }
  /// `number` is one of a slot: also known behind the block in which it was met first.
  void keep_known(const at::Tensor &number);
  void know_slots(torch::jit::tracer::TracingState &state) const;

  /// Numbers whose type depends on values (`min` of an int and a float), and the types that they
  /// may have. While only numbers are computed of one, no check is needed.
  std::unordered_map<const torch::jit::Value *, unsigned> loose;

private:
  void insert_check(const char *name, torch::jit::Value *scalar, const c10::IValue &expected);

  Trace &trace_;
  const Outcomes *const outcomes_; ///< null: none
  std::optional<Head> head_;
  std::vector<std::pair<at::Tensor, torch::jit::Value *>> slots_known_; ///< numbers of slots
};

} // namespace tracehost::trace
