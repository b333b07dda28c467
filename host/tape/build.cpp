#include "tape/build.h"

#include "signature/grad_read.h"
#include "tape/blocks.h"
#include "tape/ops.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tracehost::tape {
namespace {

/// Above, a call is bound by its memory and not by what a tape saves.
constexpr std::size_t kMostBytes = 8 << 20;

/// Of float32 or float64: as eager's of the same operands. None: eager would make a copy.
std::optional<at::TensorIterator> iterator_over(at::Tensor &out,
                                                const std::vector<at::Tensor> &operands) {
  switch (operands.size()) {
  case 1:
    if (out.sizes() != operands[0].sizes())
      return std::nullopt;
    return at::TensorIterator::unary_op(out, operands[0]);
  case 2:
    return at::TensorIterator::borrowing_binary_op(out, operands[0], operands[1]);
  default:
    at::TensorIteratorConfig config;
    config.add_output(out);
    for (const at::Tensor &operand : operands)
      config.add_const_input(operand);
    return config.promote_inputs_to_common_dtype(true)
        .cast_common_dtype_to_outputs(true)
        .enforce_safe_casting_to_output(true)
        .build();
  }
}

/// The state of torch's generator is at the end what it was, if the graph draws.
class GeneratorKept {
public:
  explicit GeneratorKept(const jit::Graph &graph) {
    const auto nodes = graph.nodes();
    if (std::any_of(nodes.begin(), nodes.end(), [](const jit::Node *node) { return draws(*node); }))
      state_ = at::detail::getDefaultCPUGenerator().get_state();
  }
  GeneratorKept(const GeneratorKept &) = delete;
  GeneratorKept &operator=(const GeneratorKept &) = delete;
  ~GeneratorKept() { restore(); }
  void restore() const {
    if (state_.defined())
      at::Generator(at::detail::getDefaultCPUGenerator()).set_state(state_);
  }

private:
  at::Tensor state_;
};

bool same_bits(const at::Tensor &a, const at::Tensor &b) {
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

} // namespace

Recording::Recording(const jit::Graph &graph, Recorded found, std::unique_ptr<Tape> tape)
    : graph_(graph), found_(std::move(found)), tape_(std::move(tape)), memories_(graph, found_) {
  tape_->roots_.resize(found_.roots.size());
  tape_->called_.resize(found_.roots.size());
}

std::unique_ptr<Tape> Recording::make(c10::ArrayRef<c10::IValue> given) {
  for (std::size_t i = 0; i < given.size(); ++i)
    add_input(*graph_.inputs()[i], given[i]);
  for (const jit::Node *node : graph_.nodes()) {
    build(*node);
    memories_.release(*node);
  }
  close_group();
  tape_->bytes_ = memories_.bytes();
  if (tape_->bytes_ > kMostBytes)
    give_up(fmt::format("{} MB of results in between", tape_->bytes_ >> 20));
  add_outputs();
  for (at::Tensor &memory : memories_.take_planned())
    tape_->kept_.push_back(std::move(memory));
  return std::move(tape_);
}

void Recording::add_input(const jit::Value &input, const c10::IValue &given) {
  using To = Tape::Given::To;
  if (given.isTensor()) {
    const std::size_t root = root_of(input);
    place(root);
    tape_->inputs_.push_back({To::root, root});
    memories_.fix(input);
  } else if (found_.varies(input)) {
    tape_->inputs_.push_back({To::slot, add_slot(input)});
    tape_->slots_.back() = given;
  } else {
    tape_->inputs_.push_back({To::nothing, 0});
    memories_.fix(input);
  }
}

std::size_t Recording::add_slot(const jit::Value &value) {
  slot_of_[&value] = tape_->slots_.size();
  tape_->slots_.emplace_back();
  return tape_->slots_.size() - 1;
}

void Recording::place(std::size_t root) { tape_->roots_[root].storage = memories_.place(root); }

void Recording::build(const jit::Node &node) {
  const auto any = [](const auto &values, const auto &test) {
    return std::any_of(values.begin(), values.end(),
                       [&](const jit::Value *value) { return test(*value); });
  };
  const auto varies = [this](const jit::Value &v) { return found_.varies(v); };
  const bool computes = any(node.outputs(), [this](const jit::Value &v) {
    return found_.made(v) || found_.lists.contains(&v);
  });
  const bool is_list = node.kind() == c10::prim::ListConstruct;
  const bool is_step =
      any(node.outputs(), varies) ||
      (!is_list && node.kind() != c10::prim::Constant && node.kind() != c10::prim::ListUnpack &&
       !does_nothing(node) && (computes || writes(node) || node.outputs().empty()));
  if (!is_step)
    return fix_all(node);
  ++tape_->ops_;
  const bool is_new = computes && node.maybeSchema() && !writes(node) && has_plain_result(node);
  const bool fixed = !any(node.inputs(), varies);
  join_group(node, is_new && fixed);
  note_effects(node);
  if ((is_new || writes_in_place(node)) && build_kernel(node))
    return;
  if (is_new && fixed && build_out_kernel(node))
    return;
  leave_group();
  if (is_list)
    build_list(node);
  else
    build_call(node);
}

void Recording::fix_all(const jit::Node &node) {
  for (const jit::Value *output : node.outputs())
    memories_.fix(*output);
}

/// The steps at which the graph first writes to an input, and draws.
void Recording::note_effects(const jit::Node &node) {
  const auto next = static_cast<std::ptrdiff_t>(tape_->steps_.size());
  for (const std::size_t i : written_arguments(node))
    each_tensor(found_.values.at(node.input(i)), [&](const at::Tensor &t) {
      if (t.defined() && found_.roots[found_.root_of(t)].written)
        first_write_.emplace(found_.root_of(t), next);
    });
  if (draws(node))
    first_draw_ = std::min(first_draw_, next);
}

/// One result that fills its memory, which the tape could have made.
bool Recording::has_plain_result(const jit::Node &node) const {
  if (node.outputs().size() != 1 || !found_.values.at(node.output()).isTensor())
    return false;
  const at::Tensor &t = found_.tensor(*node.output());
  return t.storage_offset() == 0 &&
         at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize()) ==
             t.storage().nbytes();
}

/// The number that an argument was at the recording; none: it is no number.
std::optional<c10::Scalar> Recording::number(const jit::Value &value) const {
  const c10::IValue &found = found_.values.at(&value);
  return found.isScalar() ? std::optional(found.toScalar()) : std::nullopt;
}

/// An operand of a kernel; undefined: none.
at::Tensor Recording::operand(const jit::Value &value) const {
  if (found_.values.at(&value).isTensor())
    return memories_.fixed(value).toTensor();
  const auto given = number(value);
  if (!given)
    return {};
  at::Tensor tensor = at::scalar_to_tensor(*given);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

/// A kernel for an op with a result of its own, or for one that writes to its first argument.
bool Recording::build_kernel(const jit::Node &node) {
  const Kernel *kernel = find_kernel(full_name(node.schema()));
  if (!kernel)
    return false;
  const at::Tensor result = found_.result(*node.output());
  const auto dtype = result.scalar_type();
  if (!has_kernels(dtype))
    return false;
  std::vector<at::Tensor> operands;
  std::vector<SlotArgument> slots;
  for (std::size_t i = 0; i < kernel->operands; ++i) {
    const jit::Value &argument = *node.input(kernel->first + i);
    operands.push_back(operand(argument));
    const at::Tensor &t = operands.back();
    // A number is cast to the dtype; a tensor would be cast from the memory of this recording.
    const bool is_number = !found_.values.at(&argument).isTensor();
    if (!t.defined() || (t.scalar_type() != dtype && !is_number))
      return false;
    if (found_.varies(argument))
      slots.push_back({i + 1, slot_of_.at(&argument)});
  }
  const std::size_t next = kernel->first + kernel->operands;
  const jit::Value *last = node.inputs().size() > next ? node.input(next) : nullptr;
  const auto alpha = last ? number(*last) : c10::Scalar(1);
  if (!alpha)
    return false;
  const std::size_t root = root_of(*node.output());
  place(root);
  memories_.fix(*node.output());
  at::Tensor out = memories_.fixed(*node.output()).toTensor();
  auto iterator = iterator_over(out, operands);
  if (!iterator)
    return false;
  auto step = std::make_unique<Tape::KernelStep>(*kernel, *alpha, std::move(*iterator));
  step->numbers = slots;
  if (last && found_.varies(*last))
    step->alpha_slot = slot_of_.at(last);
  // A step that is none after all leaves what it wrote to as it was.
  const at::Tensor before = writes(node) ? out.clone() : at::Tensor();
  step->run_kernel(step->iterator, *alpha);
  if (!same_bits(out, result)) {
    if (before.defined())
      out.copy_(before);
    return false;
  }
  patch(step->iterator, 0, out, root);
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (const c10::IValue &value = found_.values.at(node.input(kernel->first + i));
        value.isTensor())
      patch(step->iterator, static_cast<int>(i) + 1, operands[i], found_.root_of(value.toTensor()));
  tape_->kept_.push_back(std::move(out));
  for (at::Tensor &t : operands)
    tape_->kept_.push_back(std::move(t));
  ++tape_->kernels_;
  if (!step->numbers.empty() || step->alpha_slot) // a number may be complex
    last_to_end_ = static_cast<std::ptrdiff_t>(tape_->steps_.size());
  tape_->steps_.push_back(std::move(step));
  return true;
}

void Recording::patch(at::TensorIteratorBase &iterator, int operand, const at::Tensor &t,
                      std::size_t root) {
  if (found_.roots[root].is_external())
    tape_->roots_[root].patches.push_back({&iterator, operand, bytes_before(t)});
}

bool Recording::build_out_kernel(const jit::Node &node) {
  if (!has_only_floats(node))
    return false;
  const at::Tensor result = found_.result(*node.output());
  const std::size_t root = root_of(*node.output());
  std::vector<c10::IValue> arguments;
  for (const jit::Value *input : node.inputs())
    arguments.push_back(memories_.fixed(*input));
  place(root);
  memories_.fix(*node.output());
  const at::Tensor out = memories_.fixed(*node.output()).toTensor();
  OutKernel kernel = bind_out_kernel(full_name(node.schema()), arguments, out);
  if (!kernel)
    return false;
  kernel();
  if (!same_bits(out, result))
    return false;
  tape_->roots_[root].has_tensors = true;
  note_reads(node);
  ++tape_->kernels_;
  tape_->steps_.push_back(std::make_unique<Tape::OutStep>(std::move(kernel)));
  return true;
}

bool Recording::has_only_floats(const jit::Node &node) const {
  bool floats = true;
  for (const jit::Value *input : node.inputs())
    each_tensor(found_.values.at(input), [&](const at::Tensor &t) {
      floats &= !t.defined() || has_kernels(t.scalar_type());
    });
  return floats;
}

/// An op reads the fixed tensors of its arguments, whose memory has to be theirs at each call.
void Recording::note_reads(const jit::Node &node) {
  for (const jit::Value *input : node.inputs())
    each_tensor(found_.values.at(input), [&](const at::Tensor &t) {
      if (t.defined() && found_.roots[found_.root_of(t)].is_external())
        tape_->roots_[found_.root_of(t)].has_tensors = true;
    });
}

/// Arguments of an op: constants and fixed tensors in their places, the places of slots apart.
void Recording::add_arguments(const jit::Node &node, std::vector<c10::IValue> &arguments,
                              std::vector<SlotArgument> &slots) {
  for (const jit::Value *input : node.inputs()) {
    const auto slot = slot_of_.find(input);
    if (slot != slot_of_.end())
      slots.push_back({arguments.size(), slot->second});
    arguments.push_back(slot == slot_of_.end() ? memories_.fixed(*input) : c10::IValue());
  }
  note_reads(node);
}

void Recording::build_list(const jit::Node &node) {
  auto step = std::make_unique<Tape::ListStep>();
  step->node = &node;
  add_arguments(node, step->items, step->slots);
  step->result = add_slot(*node.output());
  step->run(*tape_);
  tape_->steps_.push_back(std::move(step));
}

void Recording::build_call(const jit::Node &node) {
  auto step = std::make_unique<Tape::CallStep>(operation_of(node));
  step->is_outlined = is_outlined(node);
  add_arguments(node, step->arguments, step->slots);
  for (const jit::Value *output : node.outputs())
    step->results.push_back(add_result(node, *output));
  step->run(*tape_);
  for (std::size_t i = 0; i < step->results.size(); ++i)
    step->results[i].exposed = step->is_outlined && is_exposed(*node.outputs()[i]);
  for (const jit::Value *output : node.outputs()) {
    std::vector<at::Tensor> results;
    if (const auto list = found_.lists.find(output); list != found_.lists.end())
      results = list->second;
    else if (found_.made(*output))
      results = {found_.result(*output)};
    std::vector<std::size_t> roots;
    each_tensor(found_.values.at(output),
                [&](const at::Tensor &t) { roots.push_back(t.defined() ? found_.root_of(t) : 0); });
    for (std::size_t i = 0; i < results.size(); ++i)
      if (!is_uninitialized(node) && !gives_workspace(node) &&
          !same_bits(tape_->called_[roots[i]], results[i]))
        give_up(std::string(node.kind().toQualString()) + " gives other bits each time");
  }
  if (!step->slots.empty() || may_fail(node, has_integers(node)))
    last_to_end_ = static_cast<std::ptrdiff_t>(tape_->steps_.size());
  tape_->steps_.push_back(std::move(step));
}

bool Recording::has_integers(const jit::Node &node) const {
  bool integers = false;
  for (const jit::Value *input : node.inputs())
    each_tensor(found_.values.at(input), [&](const at::Tensor &t) {
      integers |= t.defined() && at::isIntegralType(t.scalar_type(), false);
    });
  return integers;
}

Tape::CallStep::Result Recording::add_result(const jit::Node &node, const jit::Value &output) {
  using To = Tape::CallStep::Result::To;
  if (found_.varies(output))
    return {To::slot, add_slot(output)};
  const c10::IValue &value = found_.values.at(&output);
  if (found_.lists.contains(&output))
    return add_list(output);
  if (!found_.made(output)) {
    if (value.isTensor() && !value.toTensor().defined()) {
      memories_.fix(output);
      return {};
    }
    if (!writes(node)) // what it writes to is its result
      give_up(std::string(node.kind().toQualString()) + " gives a view among its results");
    memories_.fix(output);
    return {};
  }
  place_result(value.toTensor());
  memories_.fix(output);
  const std::size_t root = found_.root_of(value.toTensor());
  Tape::CallStep::Result result{To::root, root, memories_.fixed(output).toTensor()};
  result.moves = found_.roots[root].moves_in.has_value();
  return result;
}

/// Whether the caller gets the memory of a result.
bool Recording::is_exposed(const jit::Value &value) const {
  bool exposed = false;
  for (const jit::Value *output : graph_.outputs())
    each_tensor(found_.values.at(output), [&](const at::Tensor &t) {
      each_tensor(found_.values.at(&value), [&](const at::Tensor &made) {
        exposed |= t.defined() && made.defined() && found_.root_of(t) == found_.root_of(made);
      });
    });
  return exposed;
}

/// Memory that an op gives.
void Recording::place_result(const at::Tensor &t) {
  const std::size_t root = found_.root_of(t);
  tape_->roots_[root].storage = memories_.place_again(root);
  tape_->roots_[root].has_tensors = true;
}

Tape::CallStep::Result Recording::add_list(const jit::Value &output) {
  using To = Tape::CallStep::Result::To;
  for (const at::Tensor &t : found_.values.at(&output).toTensorVector())
    place_result(t);
  memories_.fix(output);
  Tape::CallStep::Result result{To::list};
  const auto fixed = memories_.fixed(output).toTensorVector();
  const auto recorded = found_.values.at(&output).toTensorVector();
  for (std::size_t i = 0; i < fixed.size(); ++i)
    result.elements.push_back({To::root, found_.root_of(recorded[i]), fixed[i]});
  return result;
}

std::unique_ptr<Tape> Tape::record_flat(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs,
                                        const Versions *below) {
  // With guards of the settings outside.
  std::unique_ptr<Tape> tape(new Tape(inputs));
  const at::AutoGradMode grad(c10::GradMode::is_enabled()); // restores it
  const GeneratorKept generator(graph);
  Recorded found = evaluate(graph, inputs, below);
  generator.restore();
  const at::AutoGradMode again(tape->guards().settings().grad);
  const at::AutoDispatchBelowADInplaceOrView guard;
  return Recording(graph, std::move(found), std::move(tape)).make(inputs);
}

std::unique_ptr<Tape> Tape::record_training(const jit::Graph &graph,
                                            c10::ArrayRef<c10::IValue> inputs) {
  const GeneratorKept generator(graph);
  Leaves leaves(inputs);
  FlatGraph flat = flatten(graph, inputs);
  generator.restore();
  std::vector<c10::IValue> given(inputs.begin(), inputs.end());
  for (const std::size_t input : flat.reads)
    given.emplace_back(grad_of(inputs[input].toTensor()));
  auto tape = record_flat(*flat.graph, given, &flat.versions);
  tape->training_ = std::make_unique<Training>(
      Training{std::move(leaves), std::move(flat), std::vector<c10::IValue>()});
  return tape;
}

std::unique_ptr<Tape> Tape::record(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs,
                                   std::string &why) {
  try {
    if (needs_flat_graph(graph, inputs))
      return record_training(graph, inputs);
    auto tape = record_flat(graph, inputs, nullptr);
    if (c10::GradMode::is_enabled() || switches_grad(graph))
      tape->guards().forbid_gradients();
    return tape;
  } catch (const NoTape &none) {
    why = none.why;
  } catch (...) { // an op has thrown, and another call may record
  }
  return nullptr;
}

} // namespace tracehost::tape
