#pragma once

#include <torch/csrc/jit/frontend/source_range.h>
#include <torch/csrc/jit/ir/ir.h>

#include <exception>
#include <string>

/// The user's line of each node of a graph, `net.py:12`.
///
/// Where: a node's SourceRange is the whole text of a Source, and that text is the line. What else
/// it serves: the interpreter throws a std::runtime_error with a text of its own in place of an
/// op's exception. While it writes that text it still handles the op's exception, and it asks the
/// Source of the node that failed what generated it. The Sources of tracehost keep both then.

namespace tracehost {

/// For nodes of one line; they may share it, on any thread. `undoable`: where a run fails here, all
/// that it has changed can be undone (undo.h), or it has changed nothing.
torch::jit::SourceRange place_range(const std::string &place, bool undoable = false);

/// Empty where it is not known.
std::string place_of(const torch::jit::Node &node);

/// Gives a place to all nodes without one. A node of a TorchScript function gets that function's
/// file and line.
void complete_places(torch::jit::Block &block);

/// What an op of a graph threw on this thread since this was asked; null: none did.
std::exception_ptr take_op_error();
/// The line of that op; empty as well where it is not known.
std::string take_op_place();
/// Whether that op's place is undoable. Asked before the others.
bool op_is_undoable();

} // namespace tracehost
