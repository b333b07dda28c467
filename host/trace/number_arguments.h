#pragma once

#include "trace/frontend.h"
#include "trace/numbers.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace tracehost::trace {

class Trace;

/// Traced numbers that C code has read, maybe for the op that comes next. number_arguments.cpp says
/// how an op's node gets them.
class NumberArguments {
public:
  explicit NumberArguments(Trace &trace) : trace_(trace) {}

  /// C code asks for the value of a traced number. `as_constant`: the op has the value as a
  /// constant then. `place`: where the op that is called next has it, if that is known.
  void read_by_c_code(const at::Tensor &number, const c10::IValue &value, bool as_constant,
                      std::optional<ArgumentPlace> place = {});
  /// Whether the op that reads values is such a read: of a traced number, or of a tensor.
  bool reads(const c10::OperatorHandle &op, const torch::jit::Stack &stack) {
    return reads_number(op, stack) || reads_tensor(op, stack);
  }
  /// Before an op of the body: whether a traced number is among its arguments.
  bool check(const c10::OperatorHandle &op, const torch::jit::Stack &stack);
  /// `x[i, j] = n` of a traced number. `stack`: of index_put_.
  void cast_number(torch::jit::Stack &stack);
  /// After an op that the body calls (null: at its end, or a block's): what was read before is
  /// among the op's arguments, or C code has the value itself.
  void settle(const c10::OperatorHandle *op);
  bool any() const { return !reads_.empty(); }
  void clear() { reads_.clear(); }
  void forget(torch::jit::Node *node);
  void forget(torch::jit::Value *value);
  bool has_numbers = false; ///< the body has got one

  std::vector<torch::jit::Value *> texts; ///< of numbers, by their marks (messages.h)

private:
  struct NumberRead {
    at::Tensor number;
    torch::jit::Value *tensor; ///< that stands for it
    c10::IValue value;         ///< that the code got
    bool as_constant;          ///< the parser has the value, and has put no node behind `tensor`
    torch::jit::Node *last;    ///< of the graph, when it was read: a check comes behind it
    Instruction by;
    Site where;
    std::string effect = {}; ///< before it
    at::Tensor source = {};  ///< that it was read from, where the body has no number; or undefined
    std::optional<ArgumentPlace> place = {};
  };
  bool reads_number(const c10::OperatorHandle &op, const torch::jit::Stack &stack);
  bool reads_tensor(const c10::OperatorHandle &op, const torch::jit::Stack &stack);
  void need(const NumberRead &read);
  bool takes_place(const c10::OperatorHandle &op, const NumberRead &read);
  bool takes_parsed(const c10::OperatorHandle &op, const NumberRead &read);
  void note_sizes_of(const c10::OperatorHandle &op, const torch::jit::Value *number);
  void take_constants(const c10::OperatorHandle &op, std::vector<NumberRead> &reads);

  Trace &trace_;
  std::unordered_set<const torch::jit::Node *> parsed_; ///< of the parser's nodes, those of an op
  std::vector<NumberRead> reads_;
};

} // namespace tracehost::trace
