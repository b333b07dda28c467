#include "tape/ops.h"
#include "tape/recording.h"
#include "tape/steps.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

/// The second pass: each op becomes nothing (a view), a kernel, or a call. It runs at once, and its
/// result must have the bits of the first pass.

namespace tracehost::tape {
namespace {

using Kind = Memory::Kind;

/// Above, a call is bound by its memory and not by what a tape saves.
constexpr std::size_t kMostBytes = 8 << 20;

std::string full_name(const c10::FunctionSchema &schema) {
  return schema.overload_name().empty() ? schema.name()
                                        : schema.name() + "." + schema.overload_name();
}

bool same_bits(const at::Tensor &a, const at::Tensor &b) {
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

/// Memory that someone else owns.
c10::Storage borrowed(void *data, std::size_t bytes) {
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes,
                      at::DataPtr(data, c10::DeviceType::CPU));
}

at::Tensor over(const c10::Storage &storage, const at::Tensor &like) {
  at::Tensor made =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), like.key_set(), like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(),
                                                    like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number())
    made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

} // namespace

class Recording {
public:
  Recording(const jit::Graph &graph, Recorded found, std::unique_ptr<Tape> tape)
      : graph_(graph), found_(std::move(found)), tape_(std::move(tape)) {
    tape_->roots_.resize(found_.roots.size());
    tape_->called_.resize(found_.roots.size());
    for (std::size_t i = 0; i < found_.roots.size(); ++i)
      last_uses_[found_.roots[i].last].push_back(i);
  }

  std::unique_ptr<Tape> make(c10::ArrayRef<c10::IValue> given) {
    for (std::size_t i = 0; i < given.size(); ++i)
      add_input(*graph_.inputs()[i], given[i]);
    for (const jit::Node *node : graph_.nodes()) {
      build(*node);
      release(*node);
    }
    if (tape_->bytes_ > kMostBytes)
      give_up(fmt::format("{} MB of results in between", tape_->bytes_ >> 20));
    add_outputs();
    return std::move(tape_);
  }

private:
  std::size_t root_of(const at::Tensor &t) const { return found_.root_of(t); }

  void add_input(const jit::Value &input, const c10::IValue &given) {
    using To = Tape::Given::To;
    if (given.isTensor()) {
      const std::size_t root = root_of(found_.tensor(input));
      place(root);
      tape_->inputs_.push_back({To::root, root});
      fix(input);
    } else if (found_.varies(input)) {
      tape_->inputs_.push_back({To::slot, add_slot(input)});
      tape_->slots_.back() = given;
    } else {
      tape_->inputs_.push_back({To::nothing, 0});
      fix(input);
    }
  }

  std::size_t add_slot(const jit::Value &value) {
    slot_of_[&value] = tape_->slots_.size();
    tape_->slots_.emplace_back();
    return tape_->slots_.size() - 1;
  }

  /// The memory of a root, and its place on the tape.
  void place(std::size_t index) {
    Memory &root = found_.roots[index];
    c10::Storage &storage = tape_->roots_[index].storage;
    if (storage || root.kind == Kind::constant)
      return;
    if (const auto free = pool_.find(root.bytes);
        root.kind == Kind::planned && free != pool_.end()) {
      root.planned = free->second;
      pool_.erase(free);
    } else {
      root.planned =
          at::empty({static_cast<std::int64_t>(std::max<std::size_t>(root.bytes, 1))}, at::kByte);
      if (root.kind == Kind::planned) {
        tape_->bytes_ += root.bytes;
        tape_->kept_.push_back(root.planned);
      } else {
        scratch_.push_back(root.planned);
      }
    }
    storage = borrowed(root.planned.data_ptr(), root.bytes);
    if (root.kind == Kind::input)
      for (const jit::Value *input : graph_.inputs())
        if (const c10::IValue &value = found_.values.at(input);
            value.isTensor() && root_of(value.toTensor()) == index)
          std::memcpy(root.planned.data_ptr(), value.toTensor().storage().data(), root.bytes);
  }

  c10::IValue fixed_of(const c10::IValue &value) const {
    if (!value.isTensor())
      return value;
    const at::Tensor &t = value.toTensor();
    if (!t.defined() || found_.roots[root_of(t)].kind == Kind::constant)
      return value;
    return over(tape_->roots_[root_of(t)].storage, t);
  }

  /// The fixed tensor of a value, whose memory is placed.
  void fix(const jit::Value &value) {
    const c10::IValue &recorded = found_.values.at(&value);
    if (!recorded.isList()) {
      fixed_[&value] = fixed_of(recorded);
      return;
    }
    c10::IValue list = recorded;
    if (recorded.isTensorList()) {
      c10::List<at::Tensor> tensors;
      for (const at::Tensor &t : recorded.toTensorVector())
        tensors.push_back(fixed_of(t).toTensor());
      list = tensors;
    } else if (list.type()->isSubtypeOf(*c10::ListType::create(c10::OptionalType::ofTensor()))) {
      c10::List<std::optional<at::Tensor>> tensors;
      for (const c10::IValue &item : recorded.toListRef())
        tensors.push_back(item.isNone() ? std::nullopt : std::optional(fixed_of(item).toTensor()));
      list = tensors;
    }
    fixed_[&value] = list;
  }

  void build(const jit::Node &node) {
    const auto outputs = node.outputs();
    const auto any = [&](const auto &test) {
      return std::any_of(outputs.begin(), outputs.end(),
                         [&](const jit::Value *output) { return test(*output); });
    };
    const bool computes = any([this](const jit::Value &v) { return found_.made(v); });
    const bool counts = any([this](const jit::Value &v) { return found_.varies(v); });
    const auto inputs = node.inputs();
    const bool varies = std::any_of(inputs.begin(), inputs.end(), [this](const jit::Value *input) {
      return found_.varies(*input);
    });
    if (node.kind() == c10::prim::ListConstruct && counts)
      build_list(node);
    else if (node.kind() == c10::prim::Constant || node.kind() == c10::prim::ListConstruct ||
             node.kind() == c10::prim::ListUnpack)
      fix_all(node);
    else if (computes && !varies && !writes(node) && has_plain_result(node) &&
             (build_kernel(node) || build_out_kernel(node)))
      return;
    else if (computes || counts || writes(node) || outputs.empty())
      build_call(node);
    else
      fix_all(node);
  }

  void fix_all(const jit::Node &node) {
    for (const jit::Value *output : node.outputs())
      fix(*output);
  }

  /// One result that fills its memory, which the tape could have made.
  bool has_plain_result(const jit::Node &node) const {
    if (node.outputs().size() != 1)
      return false;
    const at::Tensor &t = found_.tensor(*node.output());
    return t.storage_offset() == 0 &&
           at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize()) ==
               t.storage().nbytes();
  }

  /// An operand of a kernel; undefined: none.
  at::Tensor operand(const jit::Value &value) {
    const c10::IValue &fixed = fixed_.at(&value);
    if (fixed.isTensor())
      return fixed.toTensor();
    if (!fixed.isScalar())
      return {};
    at::Tensor number = at::scalar_to_tensor(fixed.toScalar());
    number.unsafeGetTensorImpl()->set_wrapped_number(true);
    return number;
  }

  bool build_kernel(const jit::Node &node) {
    const Kernel *kernel = find_kernel(full_name(node.schema()));
    if (!kernel)
      return false;
    const at::Tensor result = found_.result(*node.output());
    const auto dtype = result.scalar_type();
    if (dtype != at::kFloat && dtype != at::kDouble)
      return false;
    std::vector<at::Tensor> operands;
    for (std::size_t i = 0; i < kernel->operands; ++i) {
      operands.push_back(operand(*node.input(i)));
      const at::Tensor &t = operands.back();
      // A constant is cast here once; a tensor would be cast from the memory of this recording.
      const bool is_constant = !found_.values.at(node.input(i)).isTensor();
      if (!t.defined() || (t.scalar_type() != dtype && !is_constant))
        return false;
    }
    const bool has_alpha = node.inputs().size() > kernel->operands;
    const c10::Scalar alpha = has_alpha ? fixed_.at(node.input(kernel->operands)).toScalar() : 1;
    const std::size_t root = root_of(found_.tensor(*node.output()));
    place(root);
    fix(*node.output());
    at::Tensor out = fixed_.at(node.output()).toTensor();
    auto iterator = operands.size() == 1
                        ? at::TensorIterator::unary_op(out, operands[0])
                        : at::TensorIterator::borrowing_binary_op(out, operands[0], operands[1]);
    auto step = std::make_unique<Tape::KernelStep>(*kernel, alpha, std::move(iterator));
    step->run(*tape_);
    if (!same_bits(out, result))
      return false;
    patch(step->iterator, 0, out, root);
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (const c10::IValue &value = found_.values.at(node.input(i)); value.isTensor())
        patch(step->iterator, static_cast<int>(i) + 1, operands[i], root_of(value.toTensor()));
    tape_->kept_.push_back(std::move(out));
    for (at::Tensor &t : operands)
      tape_->kept_.push_back(std::move(t));
    ++tape_->kernels_;
    tape_->steps_.push_back(std::move(step));
    return true;
  }

  void patch(at::TensorIteratorBase &iterator, int operand, const at::Tensor &t, std::size_t root) {
    if (found_.roots[root].is_external())
      tape_->roots_[root].patches.push_back(
          {&iterator, operand,
           static_cast<std::ptrdiff_t>(t.storage_offset() *
                                       static_cast<std::int64_t>(t.itemsize()))});
  }

  bool build_out_kernel(const jit::Node &node) {
    if (!has_only_floats(node))
      return false;
    const at::Tensor result = found_.result(*node.output());
    const std::size_t root = root_of(found_.tensor(*node.output()));
    std::vector<c10::IValue> arguments;
    for (const jit::Value *input : node.inputs())
      arguments.push_back(fixed_.at(input));
    place(root);
    fix(*node.output());
    const at::Tensor out = fixed_.at(node.output()).toTensor();
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

  bool has_only_floats(const jit::Node &node) const {
    bool floats = true;
    for (const jit::Value *input : node.inputs())
      each_tensor(found_.values.at(input), [&](const at::Tensor &t) {
        floats &= !t.defined() || t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble;
      });
    return floats;
  }

  /// An op reads the fixed tensors of its arguments, whose memory has to be theirs at each call.
  void note_reads(const jit::Node &node) {
    for (const jit::Value *input : node.inputs())
      each_tensor(found_.values.at(input), [&](const at::Tensor &t) {
        if (t.defined() && found_.roots[root_of(t)].is_external())
          tape_->roots_[root_of(t)].has_tensors = true;
      });
  }

  /// Arguments of an op: constants and fixed tensors in their places, the places of slots apart.
  void add_arguments(const jit::Node &node, std::vector<c10::IValue> &arguments,
                     std::vector<SlotArgument> &slots) {
    for (const jit::Value *input : node.inputs()) {
      const auto slot = slot_of_.find(input);
      if (slot != slot_of_.end())
        slots.push_back({arguments.size(), slot->second});
      arguments.push_back(slot == slot_of_.end() ? fixed_.at(input) : c10::IValue());
    }
    note_reads(node);
  }

  void build_list(const jit::Node &node) {
    auto step = std::make_unique<Tape::ListStep>();
    step->node = &node;
    add_arguments(node, step->items, step->slots);
    step->result = add_slot(*node.output());
    step->run(*tape_);
    tape_->steps_.push_back(std::move(step));
  }

  void build_call(const jit::Node &node) {
    auto step = std::make_unique<Tape::CallStep>(node.getOperation());
    add_arguments(node, step->arguments, step->slots);
    for (const jit::Value *output : node.outputs())
      step->results.push_back(add_result(node, *output));
    step->run(*tape_);
    for (const jit::Value *output : node.outputs())
      if (found_.made(*output) && !is_uninitialized(node) &&
          !same_bits(tape_->called_[root_of(found_.tensor(*output))], found_.result(*output)))
        give_up(std::string(node.kind().toQualString()) + " gives other bits each time");
    tape_->steps_.push_back(std::move(step));
  }

  Tape::CallStep::Result add_result(const jit::Node &node, const jit::Value &output) {
    using To = Tape::CallStep::Result::To;
    if (found_.varies(output))
      return {To::slot, add_slot(output), {}};
    const c10::IValue &value = found_.values.at(&output);
    if (!found_.made(output)) {
      if (!writes(node)) // what it writes to is its result
        give_up(std::string(node.kind().toQualString()) + " gives a view among its results");
      fix(output);
      return {};
    }
    const std::size_t root = root_of(value.toTensor());
    found_.roots[root].kind = Kind::called;
    tape_->roots_[root].storage = {};
    place(root);
    tape_->roots_[root].has_tensors = true;
    fix(output);
    return {To::root, root, fixed_.at(&output).toTensor()};
  }

  /// What no later op reads goes back to the pool.
  void release(const jit::Node &node) {
    const auto roots = last_uses_.find(&node);
    if (roots == last_uses_.end())
      return;
    for (const std::size_t index : roots->second)
      if (Memory &root = found_.roots[index];
          root.kind == Kind::planned && root.planned.defined()) {
        pool_.emplace(root.bytes, root.planned);
        root.planned.reset();
      }
  }

  void add_outputs() {
    std::unordered_map<const c10::TensorImpl *, std::size_t> known;
    for (const jit::Value *output : graph_.outputs()) {
      const c10::IValue &value = found_.values.at(output);
      const auto index = tape_->outputs_.size();
      if (value.isTensor()) {
        const auto [first, is_new] = known.emplace(value.toTensor().unsafeGetTensorImpl(), index);
        tape_->outputs_.push_back(is_new ? output_of(*output)
                                         : Tape::Output{From::earlier, first->second, {}, {}});
      } else if (found_.varies(*output)) {
        tape_->outputs_.push_back({From::slot, slot_of_.at(output), {}, {}});
      } else {
        tape_->outputs_.push_back({From::constant, 0, value, {}});
      }
    }
    note_versions();
  }

  using From = Tape::Output::From;

  /// A tensor that an op made, an input or a constant, with the views between it and the output.
  Tape::Output output_of(const jit::Value &output) {
    std::vector<Tape::View> views;
    const jit::Value *value = &output;
    while (!is_base(*value))
      value = base_of(*value, views);
    std::reverse(views.begin(), views.end());
    if (!views.empty() && std::any_of(graph_.nodes().begin(), graph_.nodes().end(),
                                      [](const jit::Node *node) { return switches_grad(*node); }))
      give_up("an output that is a view, in a graph that switches grad mode");
    if (value->node() == graph_.param_node())
      return {From::input, value->offset(), {}, std::move(views)};
    const std::size_t root = root_of(found_.tensor(*value));
    switch (found_.roots[root].kind) {
    case Kind::constant:
      return {From::constant, 0, found_.values.at(value), std::move(views)};
    case Kind::called:
      return {From::called, root, {}, std::move(views)};
    default:
      return {From::fresh, add_fresh(*value), {}, std::move(views)};
    }
  }

  bool is_base(const jit::Value &value) const {
    return value.node() == graph_.param_node() || value.node()->kind() == c10::prim::Constant ||
           found_.made(value);
  }

  /// What a value is a view of, one op back.
  const jit::Value *base_of(const jit::Value &value, std::vector<Tape::View> &views) const {
    const jit::Node *node = value.node();
    for (const jit::Value *input : node->inputs())
      if (const c10::IValue &argument = found_.values.at(input);
          argument.isTensor() && argument.toTensor().is_same(found_.tensor(value)))
        return input;
    std::size_t element = 0;
    if (node->kind() == c10::prim::ListUnpack) {
      element = value.offset();
      node = node->input()->node();
    }
    const std::string name = node->kind().toQualString();
    if (!name.starts_with("aten::") || writes(*node) || node->outputs().size() != 1)
      give_up("an output that is a view by " + name);
    Tape::View view{node->getOperation(), {}, element};
    for (const jit::Value *input : node->inputs()) {
      const c10::IValue &argument = found_.values.at(input);
      bool tensors = false;
      each_tensor(argument, [&tensors](const at::Tensor &) { tensors = true; });
      if (tensors != view.arguments.empty())
        give_up("an output that is a view by " + name);
      view.arguments.push_back(tensors ? c10::IValue() : argument);
    }
    views.push_back(std::move(view));
    return node->input(0);
  }

  std::size_t add_fresh(const jit::Value &value) {
    const at::Tensor &t = found_.tensor(value);
    const std::size_t root = root_of(t);
    for (std::size_t i = 0; i < tape_->fresh_.size(); ++i)
      if (tape_->fresh_[i].root == root)
        return i;
    tape_->fresh_.push_back(
        {root, t.sizes().vec(), t.strides().vec(), t.scalar_type(), version_of(t)});
    tape_->made_.emplace_back();
    return tape_->fresh_.size() - 1;
  }

  static std::int64_t version_of(const at::Tensor &t) {
    return t.is_inference() ? 0 : t._version();
  }

  void note_versions() {
    for (const jit::Node *node : graph_.nodes())
      for (const jit::Value *output : node->outputs())
        if (found_.made(*output))
          if (const at::Tensor &t = found_.tensor(*output);
              found_.roots[root_of(t)].kind == Kind::called && version_of(t) > 0)
            tape_->versions_.emplace_back(root_of(t), version_of(t));
  }

  const jit::Graph &graph_;
  Recorded found_;
  std::unique_ptr<Tape> tape_;
  std::unordered_map<const jit::Value *, c10::IValue> fixed_;
  std::unordered_map<const jit::Value *, std::size_t> slot_of_;
  std::unordered_map<const jit::Node *, std::vector<std::size_t>> last_uses_; ///< roots
  std::multimap<std::size_t, at::Tensor> pool_;
  std::vector<at::Tensor> scratch_; ///< of what is bound at each call
};

std::unique_ptr<Tape> Tape::record(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs,
                                   std::string &why) {
  const bool switches = std::any_of(graph.nodes().begin(), graph.nodes().end(),
                                    [](const jit::Node *node) { return switches_grad(*node); });
  std::unique_ptr<Tape> tape(new Tape(inputs, switches));   // guards of the settings outside
  const at::AutoGradMode grad(c10::GradMode::is_enabled()); // restores it
  try {
    Recorded found = evaluate(graph, inputs);
    const at::AutoGradMode again(tape->guards().settings().grad);
    const at::AutoDispatchBelowADInplaceOrView below;
    return Recording(graph, std::move(found), std::move(tape)).make(inputs);
  } catch (const NoTape &none) {
    why = none.why;
  } catch (...) { // an op has thrown, and another call may record
  }
  return nullptr;
}

} // namespace tracehost::tape
