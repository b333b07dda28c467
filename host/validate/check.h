#pragma once

#include "program/output_spec.h"
#include "program/program.h"
#include "validate/originals.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// A trace is checked to be right: its graph runs once more, on the inputs as they were before the
/// body, and has to give what the body gave: values, dtypes, shapes, strides, requires_grad, which
/// results share memory with what, what is left in the inputs that were written, and where the
/// random generators are. Python's code never runs for it.

namespace tracehost::validate {

/// A body's run, for comparison.
struct BodyRun {
  const Program &program;
  const OutputSpec &outputs;
  /// The body's, in the order of OutputSpec's slots; those past them are hidden outputs.
  const std::vector<at::Tensor> &results;
  std::function<std::string(std::size_t)> input_name;        ///< of the graph: `x`, `self.weight`
  std::function<void(const std::function<void()> &)> around; ///< runs the Program
  bool alone = false; ///< no other thread can have used the random generators
  /// Whether the exception being handled ends the caller (Ctrl-C), and says nothing of the graph.
  std::function<bool()> is_exit = [] { return false; };
};

struct Verdict {
  enum class Kind : std::uint8_t { right, skipped, wrong };
  Kind kind = Kind::right;
  /// Skipped: why, the rest of a sentence. Wrong: what differs first, `output[0]['loss'], element
  /// (1, 2): 3.0 in the graph, 1.0 in the body`.
  std::string why;
  std::string culprit; ///< wrong: the op, `aten::mul at net.py:12`; may be empty
};

/// Compares. The generators are after it as the body left them, and so is what it wrote.
Verdict check(Originals &originals, const BodyRun &body);

} // namespace tracehost::validate
