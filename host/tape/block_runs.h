#pragma once

#include "tape/tapes.h"

#include <ATen/core/stack.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/custom_class.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

/// How the ops of blocks.h run: which block, how often, and by what.

namespace tracehost::tape {

namespace jit = torch::jit;

/// A block as a graph: its own inputs, then what it reads from around it.
struct Block {
  Block(std::shared_ptr<jit::Graph> graph, void (*interruptible)());
  void run(Operands &operands);

private:
  bool run_tape(Operands &operands);

  std::shared_ptr<jit::Graph> graph_;
  jit::Code code_;
  Tapes tapes_;
  void (*const interruptible_)();
  const bool counts_writes_;
  const bool has_composite_;
};

/// An `if` or a loop. The node's inputs: those that it had, then what each block captures.
struct Blocks : torch::CustomClassHolder {
  bool is_loop = false;
  std::size_t own = 0; ///< inputs of the node that the blocks do not capture
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<std::vector<std::size_t>> captures; ///< by block: inputs of the node
  void (*interruptible)() = nullptr;

  /// Takes `inputs` values from the stack, and leaves `outputs`.
  void run(jit::Stack &stack, std::size_t inputs, std::size_t outputs);

private:
  void lend_captures(std::size_t block, const std::vector<c10::IValue> &given, Operands &operands);
  void branch(const std::vector<c10::IValue> &given, Operands &operands);
  void loop(const std::vector<c10::IValue> &given, Operands &turn);
};

/// How the last run of an outlined node on this thread copied the result at `index`. The copy may
/// have other strides than what the block gave.
enum class Copied : std::uint8_t { no, yes, with_other_strides };
Copied was_copied(std::size_t index);

} // namespace tracehost::tape
