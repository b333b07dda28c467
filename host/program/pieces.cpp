#include "program/pieces.h"

#include "program/places.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <cstring>
#include <utility>

namespace tracehost {

namespace {

/// One tensor, or a number that each call puts in a tensor of its own.
bool is_same(const c10::IValue &a, const c10::IValue &b) {
  const at::Tensor &t = a.toTensor(), &u = b.toTensor();
  if (t.is_same(u))
    return true;
  const auto holds_number = [](const at::Tensor &number) {
    return number.dim() == 0 && number.is_cpu() && !number.requires_grad() &&
           number.layout() == at::kStrided;
  };
  return holds_number(t) && holds_number(u) && t.scalar_type() == u.scalar_type() &&
         std::memcmp(t.const_data_ptr(), u.const_data_ptr(), t.itemsize()) == 0;
}

} // namespace

std::shared_ptr<Begun> Chain::run(torch::jit::Stack &stack, Begun *begun, Undo *undo) const {
  const torch::jit::Stack call = std::exchange(stack, {});
  std::vector<c10::IValue> known(values);
  torch::jit::Stack read(inputs.size());
  std::vector<Begun::Step> steps;
  if (begun) {
    steps = std::move(begun->steps);
    known = std::move(begun->values);
    read = std::move(begun->inputs);
    at::GradMode::set_enabled(begun->grad);
    if (undo)
      undo->take_over(std::move(begun->saved));
    begun->saved.forget();
  }
  for (;;) {
    const Link &link = links[steps.size()];
    const Piece &piece = *link.piece;
    for (const Piece::Taken &taken : piece.taken) {
      if (taken.input)
        stack.push_back(read[taken.place] = call[static_cast<std::size_t>(inputs[taken.place])]);
      else
        stack.push_back(taken.last ? std::move(known[taken.place]) : known[taken.place]);
    }
    const bool at_leaf = steps.size() + 1 == links.size();
    if (at_leaf)
      known.clear(); // what other graphs would need
    torch::jit::InterpreterState(piece.code).run(stack);
    if (at_leaf)
      return nullptr;
    steps.push_back({link.piece, torch::jit::pop(stack)});
    for (std::size_t i = 0; i < piece.given.size(); ++i)
      known[piece.given[i]] = std::move(stack[i]);
    stack.clear();
    if (link.check.holds(steps.back().number)) [[likely]]
      continue;
    auto left = std::make_shared<Begun>();
    left->steps = std::move(steps);
    left->values = std::move(known);
    left->inputs = std::move(read);
    left->grad = at::GradMode::is_enabled();
    if (undo)
      left->saved = undo->take();
    return left;
  }
}

void Chain::fail(std::shared_ptr<Begun> begun) const {
  const Check &check = links[begun->steps.size() - 1].check;
  const c10::IValue &number = begun->steps.back().number;
  set_op_place(check.place);
  throw CheckFailed(check.told(number), std::move(begun));
}

Program::Start Chain::start(const Begun &begun) const {
  if (begun.steps.empty()) // another run has gone on from it
    return Program::Start::other;
  for (std::size_t i = 0; i < begun.steps.size(); ++i) {
    if (i >= links.size() || links[i].piece != begun.steps[i].piece)
      return Program::Start::other;
    if (!links[i].check.holds(begun.steps[i].number))
      return Program::Start::differs;
  }
  return Program::Start::same;
}

bool Chain::reads_as(const Begun &begun, const torch::jit::Stack &call) const {
  for (std::size_t i = 0; i < begun.inputs.size(); ++i)
    if (!begun.inputs[i].isNone() &&
        (inputs[i] < 0 || !is_same(begun.inputs[i], call[static_cast<std::size_t>(inputs[i])])))
      return false;
  return true;
}

} // namespace tracehost
