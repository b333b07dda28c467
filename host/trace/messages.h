#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <string_view>

/// Texts of numbers in what a graph raises.
///
/// Problem: a branch that is not taken runs without data, so a number has no text there. What such
/// a branch can use a text for is an exception that it raises. Answer: the text is a mark, and the
/// graph makes the number's text in its place.
///
///     raise ValueError(f"{n:.1f} is negative")
///
///     `<traced float #0> is negative`     %4 : str = tracehost::py_text(%n, ".1f")
///                                         %5 : str = aten::format("{} is negative", %4)
///                                         tracehost::raise_error("builtins:ValueError", %5)

namespace tracehost::trace {

/// The mark for format(number, spec). `kind`: "int". Without a number (`<traced int>`) where the
/// graph can't make that text. Requires: recording(), `number` is a traced one.
std::string mark_of_text(const at::Tensor &number, std::string_view spec, const std::string &kind);
/// `message`, a str of the graph at its insert point, with the numbers' texts in place of marks.
torch::jit::Value *insert_message(torch::jit::Graph &graph, const std::string &message);

} // namespace tracehost::trace
