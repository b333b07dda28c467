#include "signature/grad_read.h"
#include "tape/build.h"
#include "tape/generator.h"
#include "tape/ops.h"
#include "tape/own_draws.h"
#include "tape/quiet.h"
#include "tape/training.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>

/// A recording: of a training step the flat graph, then the two passes. The thread's modes are as
/// before at its end; torch's generator does not move at all.

namespace tracehost::tape {
namespace {

/// Where a recording of a graph that draws begins to draw, in each pass; undefined: it does not.
at::Tensor state_for(const jit::Graph &graph) {
  const auto nodes = graph.nodes();
  if (std::any_of(nodes.begin(), nodes.end(), [](const jit::Node *node) { return draws(*node); }))
    return state_of_generator();
  return {};
}

std::optional<OwnDraws> draws_from(const at::Tensor &state) {
  return state.defined() ? std::make_optional<OwnDraws>(state) : std::nullopt;
}

/// For a scope, the writes of a block are counted, which runs below autograd.
class CountedWrites {
public:
  explicit CountedWrites(const jit::Graph &graph) {
    const auto now = c10::impl::tls_local_dispatch_key_set();
    const auto nodes = graph.nodes();
    if (now.excluded_.has(c10::DispatchKey::ADInplaceOrView) &&
        std::any_of(nodes.begin(), nodes.end(),
                    [](const jit::Node *node) { return writes(*node); }))
      guard_.emplace(now.included_, now.excluded_.remove(c10::DispatchKey::ADInplaceOrView));
  }

private:
  std::optional<c10::impl::ForceDispatchKeyGuard> guard_;
};

} // namespace

std::unique_ptr<Tape> Tape::record_flat(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs,
                                        const Versions *below) {
  // With guards of the settings outside.
  std::unique_ptr<Tape> tape(new Tape(inputs));
  const at::AutoGradMode grad(c10::GradMode::is_enabled()); // restores it
  const at::Tensor state = state_for(graph);
  Recorded found = [&] {
    const auto draws = draws_from(state);
    const CountedWrites counted(graph);
    return evaluate(graph, inputs, below);
  }();
  const at::AutoGradMode again(tape->guards().settings().grad);
  const at::AutoDispatchBelowADInplaceOrView guard;
  const auto draws = draws_from(state);
  return Recording(graph, std::move(found), std::move(tape)).make(inputs);
}

std::unique_ptr<Tape> Tape::record_training(const jit::Graph &graph,
                                            c10::ArrayRef<c10::IValue> inputs) {
  Leaves leaves(inputs);
  FlatGraph flat = [&] {
    const auto draws = draws_from(state_for(graph));
    return flatten(graph, inputs);
  }();
  std::vector<c10::IValue> given(inputs.begin(), inputs.end());
  for (const std::size_t input : flat.reads)
    given.emplace_back(grad_of(inputs[input].toTensor()));
  auto tape = record_flat(*flat.graph, given, &flat.versions);
  tape->is_quiet_ = false; // to replace a .grad may free one that Python watches
  tape->training_ = std::make_unique<Training>(
      Training{std::move(leaves), std::move(flat),
               chooses_attention(graph) ? std::optional(AttentionChoice::now()) : std::nullopt,
               std::vector<c10::IValue>()});
  return tape;
}

std::unique_ptr<Tape> Tape::record(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs,
                                   std::string &why) {
  const TimeLimit limit;
  const Quiet quiet;
  try {
    if (needs_flat_graph(graph, inputs))
      return record_training(graph, inputs);
    return record_flat(graph, inputs, nullptr);
  } catch (const NoTape &none) {
    why = none.why;
  } catch (...) {        // an op has thrown, and another call may record
    if (limit.is_over()) // a loop in a block: the interpreter has its own words for that
      why = TimeLimit::kWhy;
  }
  return nullptr;
}

} // namespace tracehost::tape
