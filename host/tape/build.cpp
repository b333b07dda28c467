#include "tape/recording.h"
#include "tape/steps.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
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
  return made;
}

} // namespace

class Recording {
public:
  Recording(const jit::Graph &graph, Recorded found, std::unique_ptr<Tape> tape)
      : graph_(graph), found_(std::move(found)), tape_(std::move(tape)) {
    tape_->roots_.resize(found_.roots.size());
    tape_->called_.resize(found_.roots.size());
  }

  std::unique_ptr<Tape> make() {
    for (const jit::Value *input : graph_.inputs()) {
      const std::size_t root = root_of(found_.tensor(*input));
      place(root);
      tape_->input_roots_.push_back(root);
      fix(*input);
    }
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
        if (const at::Tensor &t = found_.tensor(*input); root_of(t) == index)
          std::memcpy(root.planned.data_ptr(), t.storage().data(), root.bytes);
  }

  c10::IValue fixed_of(const c10::IValue &value) {
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
    const bool computes =
        std::any_of(node.outputs().begin(), node.outputs().end(), [&](const jit::Value *output) {
          const c10::IValue &value = found_.values.at(output);
          return value.isTensor() && found_.roots[root_of(value.toTensor())].made == output;
        });
    if (computes && !build_kernel(node) && !build_out_kernel(node))
      build_call(node);
    else if (!computes)
      for (const jit::Value *output : node.outputs())
        fix(*output);
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
    if (!kernel || node.outputs().size() != 1)
      return false;
    const at::Tensor result = found_.tensor(*node.output());
    const auto dtype = result.scalar_type();
    if (dtype != at::kFloat && dtype != at::kDouble)
      return false;
    std::vector<at::Tensor> operands;
    for (std::size_t i = 0; i < kernel->operands; ++i) {
      operands.push_back(operand(*node.input(i)));
      const at::Tensor &t = operands.back();
      if (!t.defined() ||
          (t.scalar_type() != dtype && !t.unsafeGetTensorImpl()->is_wrapped_number()))
        return false;
    }
    const bool has_alpha = node.inputs().size() > kernel->operands;
    const c10::Scalar alpha = has_alpha ? fixed_.at(node.input(kernel->operands)).toScalar() : 1;
    const std::size_t root = root_of(result);
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
    if (node.outputs().size() != 1 || !has_only_floats(node))
      return false;
    const at::Tensor result = found_.tensor(*node.output());
    const std::size_t root = root_of(result);
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

  void build_call(const jit::Node &node) {
    auto step = std::make_unique<Tape::CallStep>(node.getOperation());
    for (const jit::Value *input : node.inputs())
      step->arguments.push_back(fixed_.at(input));
    note_reads(node);
    for (const jit::Value *output : node.outputs()) {
      const c10::IValue &value = found_.values.at(output);
      if (!value.isTensor() || found_.roots[root_of(value.toTensor())].made != output)
        give_up(std::string(node.kind().toQualString()) + " gives a view among its results");
      const std::size_t root = root_of(value.toTensor());
      found_.roots[root].kind = Kind::called;
      tape_->roots_[root].storage = {};
      place(root);
      tape_->roots_[root].has_tensors = true;
      fix(*output);
      step->results.push_back(root);
    }
    step->run(*tape_);
    for (const jit::Value *output : node.outputs())
      if (!same_bits(tape_->called_[root_of(found_.tensor(*output))], found_.tensor(*output)))
        give_up(std::string(node.kind().toQualString()) + " gives other bits each time");
    tape_->steps_.push_back(std::move(step));
  }

  /// What no later op reads goes back to the pool.
  void release(const jit::Node &node) {
    for (Memory &root : found_.roots)
      if (root.kind == Kind::planned && root.last == &node && root.planned.defined()) {
        pool_.emplace(root.bytes, root.planned);
        root.planned.reset();
      }
  }

  void add_outputs() {
    std::unordered_map<const jit::Value *, std::size_t> known;
    for (const jit::Value *output : graph_.outputs()) {
      const at::Tensor &t = found_.tensor(*output);
      const std::size_t root = root_of(t);
      Tape::Output made{Tape::Output::From::fresh, root, t.sizes().vec(), t.strides().vec(),
                        t.scalar_type()};
      const auto [found, is_new] = known.emplace(output, tape_->outputs_.size());
      if (output->node() == graph_.param_node()) {
        made.from = Tape::Output::From::input;
        made.index = output->offset();
      } else if (!is_new) {
        made.from = Tape::Output::From::earlier;
        made.index = found->second;
      } else if (found_.roots[root].kind == Kind::called) {
        made.from = Tape::Output::From::called;
      }
      tape_->outputs_.push_back(std::move(made));
    }
  }

  const jit::Graph &graph_;
  Recorded found_;
  std::unique_ptr<Tape> tape_;
  std::unordered_map<const jit::Value *, c10::IValue> fixed_;
  std::multimap<std::size_t, at::Tensor> pool_;
  std::vector<at::Tensor> scratch_; ///< of what is bound at each call
};

std::unique_ptr<Tape> Tape::record(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs,
                                   std::string &why) {
  std::unique_ptr<Tape> tape(new Tape(inputs)); // its guards are of the settings outside
  const at::AutoDispatchBelowADInplaceOrView below;
  try {
    return Recording(graph, evaluate(graph, inputs), std::move(tape)).make();
  } catch (const NoTape &none) {
    why = none.why;
  } catch (const std::exception &) { // an op has thrown, and another call may record
  }
  return nullptr;
}

} // namespace tracehost::tape
