#include "tape/steps.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/jit/ir/constants.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>
#include <unordered_set>

/// How a tape is made. Two passes over the graph:
///
///     1. evaluate(): each op runs on copies of the inputs; who shares whose memory is seen
///     2. build(): each op becomes nothing (a view), a kernel, or a call, and runs at once: its
///        result must have the bits of the first pass
///
/// A graph that the passes can't follow has no tape, and `why` says what stands against it.

namespace tracehost::tape {
namespace {

struct NoTape {
  std::string why;
};

[[noreturn]] void give_up(std::string why) { throw NoTape{std::move(why)}; }

std::string full_name(const c10::FunctionSchema &schema) {
  return schema.overload_name().empty() ? schema.name()
                                        : schema.name() + "." + schema.overload_name();
}

bool draws(const jit::Node &node) {
  const auto *op = node.maybeOperator();
  if (!op || !op->isC10Op())
    return false;
  const auto handle =
      c10::Dispatcher::singleton().findSchema(node.schema().operator_name());
  return handle && handle->hasTag(at::Tag::nondeterministic_seeded);
}

bool same_bits(const at::Tensor &a, const at::Tensor &b) {
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

at::Tensor copy_of(const at::Tensor &t) {
  at::Tensor copy = at::empty_strided(t.sizes(), t.strides(), t.options());
  copy.copy_(t);
  return copy;
}

/// Memory that someone else owns.
c10::Storage borrowed(void *data, std::size_t bytes) {
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes,
                      at::DataPtr(data, c10::DeviceType::CPU));
}

at::Tensor over(const c10::Storage &storage, const at::Tensor &like) {
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), like.key_set(),
                                                             like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(),
                                                    like.storage_offset());
  return made;
}

template <class T, class F> c10::IValue list_of(const std::vector<c10::IValue> &items, F get) {
  c10::List<T> list;
  for (const c10::IValue &item : items)
    list.push_back(get(item));
  return list;
}

c10::IValue construct_list(const jit::Node &node, const std::vector<c10::IValue> &items) {
  const auto type = node.output()->type()->expectRef<c10::ListType>().getElementType();
  switch (type->kind()) {
  case c10::TypeKind::IntType:
    return list_of<std::int64_t>(items, [](const c10::IValue &v) { return v.toInt(); });
  case c10::TypeKind::FloatType:
    return list_of<double>(items, [](const c10::IValue &v) { return v.toDouble(); });
  case c10::TypeKind::BoolType:
    return list_of<bool>(items, [](const c10::IValue &v) { return v.toBool(); });
  case c10::TypeKind::TensorType:
    return list_of<at::Tensor>(items, [](const c10::IValue &v) { return v.toTensor(); });
  case c10::TypeKind::OptionalType:
    return list_of<std::optional<at::Tensor>>(items, [](const c10::IValue &v) {
      return v.isNone() ? std::nullopt : std::optional(v.toTensor());
    });
  default:
    give_up("a list of " + type->str());
  }
}

} // namespace

class Recording {
public:
  Recording(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs)
      : graph_(graph), tape_(new Tape(inputs)) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      recorded_[graph.inputs()[i]] = copy_of(inputs[i].toTensor());
  }

  std::unique_ptr<Tape> make() {
    for (const jit::Value *input : graph_.inputs())
      claim(recorded_.at(input).toTensor(), Kind::input);
    for (const jit::Node *node : graph_.nodes())
      evaluate(*node);
    find_outputs();
    find_last_uses();
    for (std::size_t root = 0; root < roots_.size(); ++root)
      if (roots_[root].kind == Kind::input)
        place(root);
    for (const jit::Value *input : graph_.inputs()) {
      tape_->input_roots_.push_back(root_of(recorded_.at(input).toTensor()));
      fix(*input);
    }
    for (const jit::Node *node : graph_.nodes()) {
      build(*node);
      release(*node);
    }
    add_outputs();
    return std::move(tape_);
  }

private:
  enum class Kind : std::uint8_t { input, constant, planned, fresh, called };
  struct Memory {
    Kind kind;
    std::size_t bytes;
    const jit::Node *last = nullptr; ///< that reads it
    at::Tensor planned;              ///< what holds it
    const jit::Value *made = nullptr;
  };

  // -- the first pass

  std::size_t claim(const at::Tensor &t, Kind kind) {
    const auto [found, is_new] =
        root_by_storage_.emplace(t.storage().unsafeGetStorageImpl(), roots_.size());
    if (is_new)
      roots_.push_back({kind, t.storage().nbytes(), nullptr, {}, nullptr});
    return found->second;
  }
  std::size_t root_of(const at::Tensor &t) const {
    return root_by_storage_.at(t.storage().unsafeGetStorageImpl());
  }
  bool is_known(const at::Tensor &t) const {
    return root_by_storage_.contains(t.storage().unsafeGetStorageImpl());
  }

  void evaluate(const jit::Node &node) {
    if (!node.blocks().empty())
      give_up("a loop or a branch");
    std::vector<c10::IValue> arguments;
    for (const jit::Value *input : node.inputs())
      arguments.push_back(recorded_.at(input));
    switch (node.kind()) {
    case c10::prim::Constant: {
      c10::IValue value = *jit::toIValue(node.output());
      if (value.isTensor())
        claim(value.toTensor(), Kind::constant);
      recorded_[node.output()] = std::move(value);
      return;
    }
    case c10::prim::ListConstruct:
      recorded_[node.output()] = construct_list(node, arguments);
      return;
    case c10::prim::ListUnpack: {
      const auto list = arguments[0].toListRef();
      for (std::size_t i = 0; i < node.outputs().size(); ++i)
        recorded_[node.outputs()[i]] = list[i];
      return;
    }
    default:
      call(node, std::move(arguments));
    }
  }

  void call(const jit::Node &node, std::vector<c10::IValue> arguments) {
    const std::string name = node.kind().toQualString();
    const auto *schema = node.maybeSchema();
    if (!schema || !std::string_view(name).starts_with("aten::"))
      give_up(name);
    if (schema->is_mutable())
      give_up(name + " writes");
    if (draws(node))
      give_up(name + " draws");
    node.getOperation()(arguments);
    const std::size_t first = arguments.size() - node.outputs().size();
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      c10::IValue &value = arguments[first + i];
      if (value.isTensor())
        note_result(name, value.toTensor(), *node.outputs()[i]);
      else if (value.isTensorList())
        for (const at::Tensor &t : value.toTensorVector())
          note_element(name, t);
      else if (name != "aten::size" && name != "aten::dim" && name != "aten::numel")
        give_up(name + " reads a value");
      recorded_[node.outputs()[i]] = std::move(value);
    }
  }

  void note_result(const std::string &name, const at::Tensor &t, const jit::Value &value) {
    if (!t.defined() || !t.has_storage() || t.layout() != at::kStrided || !t.device().is_cpu())
      give_up(name + " gives no plain tensor");
    const bool is_new = !is_known(t);
    const std::size_t root = claim(t, Kind::planned);
    if (is_new)
      roots_[root].made = &value;
  }
  void note_element(const std::string &name, const at::Tensor &t) const {
    if (!is_known(t)) // a list of views is nothing to do
      give_up(name + " gives a list");
  }

  void find_outputs() {
    for (const jit::Value *output : graph_.outputs()) {
      const c10::IValue &value = recorded_.at(output);
      if (!value.isTensor())
        give_up("an output that is no tensor");
      Memory &root = roots_[root_of(value.toTensor())];
      if (output->node() == graph_.param_node())
        continue;
      if (root.made != output)
        give_up("an output that is a view");
      root.kind = Kind::fresh;
    }
  }

  void find_last_uses() {
    for (const jit::Node *node : graph_.nodes())
      for (const jit::Value *input : node->inputs())
        each_tensor(recorded_.at(input), [&](const at::Tensor &t) {
          if (t.defined())
            roots_[root_of(t)].last = node;
        });
    // A view that is made of a root is read later than the root itself is.
  }

  template <class F> static void each_tensor(const c10::IValue &value, F f) {
    if (value.isTensor())
      f(value.toTensor());
    else if (value.isList())
      for (const c10::IValue &item : value.toListRef())
        each_tensor(item, f);
  }

  // -- the second pass

  /// The memory of a root, and its place on the tape.
  void place(std::size_t index) {
    Memory &root = roots_[index];
    if (tape_->roots_.size() < roots_.size()) {
      tape_->roots_.resize(roots_.size());
      tape_->called_.resize(roots_.size());
    }
    c10::Storage &storage = tape_->roots_[index].storage;
    if (storage || root.kind == Kind::constant)
      return;
    if (const auto free = pool_.find(root.bytes); root.kind == Kind::planned && free != pool_.end()) {
      root.planned = free->second;
      pool_.erase(free);
    } else {
      root.planned = at::empty({static_cast<std::int64_t>(std::max<std::size_t>(root.bytes, 1))},
                               at::kByte);
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
        if (const at::Tensor &t = recorded_.at(input).toTensor(); root_of(t) == index)
          std::memcpy(root.planned.data_ptr(), t.storage().data(), root.bytes);
  }

  bool is_external(std::size_t root) const {
    const Kind kind = roots_[root].kind;
    return kind == Kind::input || kind == Kind::fresh || kind == Kind::called;
  }

  c10::IValue fixed_of(const c10::IValue &value) {
    if (!value.isTensor())
      return value;
    const at::Tensor &t = value.toTensor();
    if (!t.defined() || roots_[root_of(t)].kind == Kind::constant)
      return value;
    return over(tape_->roots_[root_of(t)].storage, t);
  }

  /// The fixed tensor of a value, whose memory is placed.
  void fix(const jit::Value &value) {
    const c10::IValue &recorded = recorded_.at(&value);
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
        tensors.push_back(item.isNone() ? std::nullopt
                                        : std::optional(fixed_of(item).toTensor()));
      list = tensors;
    }
    fixed_[&value] = list;
  }

  void build(const jit::Node &node) {
    const bool computes = std::any_of(node.outputs().begin(), node.outputs().end(),
                                      [&](const jit::Value *output) {
                                        const c10::IValue &value = recorded_.at(output);
                                        return value.isTensor() &&
                                               roots_[root_of(value.toTensor())].made == output;
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
    const at::Tensor result = recorded_.at(node.output()).toTensor();
    const auto dtype = result.scalar_type();
    if (dtype != at::kFloat && dtype != at::kDouble)
      return false;
    std::vector<at::Tensor> operands;
    for (std::size_t i = 0; i < kernel->operands; ++i) {
      operands.push_back(operand(*node.input(i)));
      const at::Tensor &t = operands.back();
      if (!t.defined() || (t.scalar_type() != dtype && !t.unsafeGetTensorImpl()->is_wrapped_number()))
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
      if (const c10::IValue &value = recorded_.at(node.input(i)); value.isTensor())
        patch(step->iterator, static_cast<int>(i) + 1, operands[i], root_of(value.toTensor()));
    tape_->kept_.push_back(std::move(out));
    for (at::Tensor &t : operands)
      tape_->kept_.push_back(std::move(t));
    ++tape_->kernels_;
    tape_->steps_.push_back(std::move(step));
    return true;
  }

  void patch(at::TensorIteratorBase &iterator, int operand, const at::Tensor &t, std::size_t root) {
    if (is_external(root))
      tape_->roots_[root].patches.push_back(
          {&iterator, operand,
           static_cast<std::ptrdiff_t>(t.storage_offset() * static_cast<std::int64_t>(t.itemsize()))});
  }

  bool build_out_kernel(const jit::Node &node) {
    if (node.outputs().size() != 1 || !has_only_floats(node))
      return false;
    const at::Tensor result = recorded_.at(node.output()).toTensor();
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
      each_tensor(recorded_.at(input), [&](const at::Tensor &t) {
        floats &= !t.defined() || t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble;
      });
    return floats;
  }

  /// An op reads the fixed tensors of its arguments, whose memory has to be theirs at each call.
  void note_reads(const jit::Node &node) {
    for (const jit::Value *input : node.inputs())
      each_tensor(recorded_.at(input), [&](const at::Tensor &t) {
        if (t.defined() && is_external(root_of(t)))
          tape_->roots_[root_of(t)].has_tensors = true;
      });
  }

  void build_call(const jit::Node &node) {
    auto step = std::make_unique<Tape::CallStep>(node.getOperation());
    for (const jit::Value *input : node.inputs())
      step->arguments.push_back(fixed_.at(input));
    note_reads(node);
    for (const jit::Value *output : node.outputs()) {
      const c10::IValue &value = recorded_.at(output);
      if (!value.isTensor() || roots_[root_of(value.toTensor())].made != output)
        give_up(std::string(node.kind().toQualString()) + " gives a view among its results");
      const std::size_t root = root_of(value.toTensor());
      roots_[root].kind = Kind::called;
      tape_->roots_[root].storage = {};
      place(root);
      tape_->roots_[root].has_tensors = true;
      fix(*output);
      step->results.push_back(root);
    }
    step->run(*tape_);
    for (const jit::Value *output : node.outputs())
      if (!same_bits(tape_->called_[root_of(recorded_.at(output).toTensor())],
                     recorded_.at(output).toTensor()))
        give_up(std::string(node.kind().toQualString()) + " gives other bits each time");
    tape_->steps_.push_back(std::move(step));
  }

  /// What no later op reads goes back to the pool.
  void release(const jit::Node &node) {
    for (Memory &root : roots_)
      if (root.kind == Kind::planned && root.last == &node && root.planned.defined()) {
        pool_.emplace(root.bytes, root.planned);
        root.planned.reset();
      }
  }

  void add_outputs() {
    std::unordered_map<const jit::Value *, std::size_t> known;
    for (const jit::Value *output : graph_.outputs()) {
      const at::Tensor &t = recorded_.at(output).toTensor();
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
      } else if (roots_[root].kind == Kind::called) {
        made.from = Tape::Output::From::called;
      }
      tape_->outputs_.push_back(std::move(made));
    }
  }

  const jit::Graph &graph_;
  std::unique_ptr<Tape> tape_;
  std::unordered_map<const jit::Value *, c10::IValue> recorded_, fixed_;
  std::vector<Memory> roots_;
  std::unordered_map<const c10::StorageImpl *, std::size_t> root_by_storage_;
  std::multimap<std::size_t, at::Tensor> pool_;
  std::vector<at::Tensor> scratch_; ///< of what is bound at each call
};

std::unique_ptr<Tape> Tape::record(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs,
                                   std::string &why) {
  Recording recording(graph, inputs); // the guards are of the settings outside
  const at::AutoDispatchBelowADInplaceOrView below;
  try {
    return recording.make();
  } catch (const NoTape &none) {
    why = none.why;
  }
  return nullptr;
}

} // namespace tracehost::tape
