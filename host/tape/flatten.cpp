#include "shapes/without_data.h"
#include "signature/grad_read.h"
#include "tape/blocks.h"
#include "tape/flat_values.h"
#include "tape/guards.h"
#include "tape/ops.h"
#include "tape/recording.h"
#include "tape/training.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/jit/ir/constants.h>

/// How a training step becomes one list: a walk over its graph, which runs on copies. An op that
/// autograd does nothing for stays one node; for another one, and for the engine, the ops below
/// autograd are written down as they come.

namespace tracehost::tape {
namespace {

class Flattening {
public:
  Flattening(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs, bool limited)
      : limited_(limited), graph_(graph), grad_(c10::GradMode::is_enabled()),
        made_(std::make_shared<jit::Graph>()), tensors_(*made_) {
    if (limited_)
      check_size_of_copies(inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      add_input(*graph.inputs()[i], inputs[i]);
    for (const jit::Value *input : graph.inputs())
      if (const c10::IValue &value = values_.at(input); value.isTensor())
        add_gradient(value.toTensor());
  }

  FlatGraph make() {
    for (const jit::Node *node : graph_.nodes()) {
      add(*node);
      check_limit();
    }
    if (c10::GradMode::is_enabled() != grad_)
      give_up("it leaves another grad mode");
    for (const auto &[input, t] : given_) {
      versions_[input] = version_of(t); // a copy begins with 0
      if (!t.is_leaf() || (t.requires_grad() != requires_grad_.contains(input)))
        give_up("an input becomes another one for autograd");
    }
    for (const jit::Value *output : graph_.outputs())
      add_output(*output);
    FlatGraph flat;
    add_sets(flat);
    drop_unread(flat);
    flat.versions = std::move(versions_);
    flat.graph = std::move(made_);
    return flat;
  }

private:
  void add_input(const jit::Value &input, const c10::IValue &given) {
    jit::Value *made = made_->addInput();
    made->setType(input.type());
    flat_[&input] = made;
    if (!given.isTensor()) {
      values_[&input] = given;
      if (!given.isNone())
        varying_.insert(&input);
      return;
    }
    const at::Tensor &t = given.toTensor();
    at::Tensor copy = copy_of(t);
    tensors_.know_input(copy, made);
    given_.emplace_back(made, copy);
    if (const at::Tensor &grad = grad_of(t); grad.defined())
      copy.mutable_grad() = copy_of(grad);
    copy.set_requires_grad(t.requires_grad());
    if (t.requires_grad())
      requires_grad_.insert(made);
    values_[&input] = std::move(copy);
  }

  void add_gradient(const at::Tensor &leaf) {
    const at::Tensor grad = grad_of(leaf);
    if (grad.defined()) {
      tensors_.know_input(grad, made_->addInput());
      given_.emplace_back(made_->inputs().back(), grad);
    }
    given_grads_.push_back(grad);
  }

  /// A value of the graph in the new one.
  jit::Value *flat(const jit::Value &value) {
    if (varying_.contains(&value))
      return flat_.at(&value);
    return tensors_.of(values_.at(&value), value.type());
  }

  void add(const jit::Node &node) {
    std::vector<c10::IValue> arguments;
    bool varies = false;
    for (const jit::Value *input : node.inputs()) {
      arguments.push_back(values_.at(input));
      varies |= varying_.contains(input);
    }
    switch (node.kind()) {
    case c10::prim::Constant:
      return add_constant(*node.output());
    case c10::prim::ListConstruct:
      values_[node.output()] = construct_list(node, arguments);
      if (varies)
        copy(node);
      return;
    case c10::prim::ListUnpack:
      for (std::size_t i = 0; i < node.outputs().size(); ++i)
        values_[node.outputs()[i]] = arguments[0].toListRef()[i];
      return;
    default:
      if (!does_nothing(node) || !node.outputs().empty())
        run(node, std::move(arguments), varies);
    }
  }

  void add_constant(const jit::Value &constant) {
    c10::IValue value = *jit::toIValue(&constant);
    if (value.isTensor())
      tensors_.know(value.toTensor(), made_->insertConstant(value));
    values_[&constant] = std::move(value);
  }

  /// Whether autograd sees the op, and has ops of its own for it.
  bool is_differentiated(const c10::ArrayRef<c10::IValue> arguments) const {
    bool requires_grad = false;
    for (const c10::IValue &argument : arguments)
      each_tensor(argument,
                  [&](const at::Tensor &t) { requires_grad |= t.defined() && t.requires_grad(); });
    return requires_grad && c10::GradMode::is_enabled();
  }

  void run(const jit::Node &node, std::vector<c10::IValue> arguments, bool varies) {
    const std::string_view name = node.kind().toQualString();
    const bool of_autograd = is_autograd_op(node);
    if (!of_autograd)
      if (auto why = why_not(node); !why.empty())
        give_up(std::move(why));
    const bool gives_numbers = !node.outputs().empty() && !gives_tensors(node);
    const bool whole = !of_autograd && !name.starts_with("aten::set_grad") &&
                       (gives_numbers || !is_differentiated(arguments));
    if (whole)
      return run_whole(node, std::move(arguments), varies);
    if (is_outlined(node))
      give_up("a loop or a branch that is differentiated");
    if (varies)
      give_up(std::string(name) + " takes a number of the call, and is differentiated");
    read_.clear();
    differentiated_ = &node;
    const std::vector<at::Tensor> integers = integers_of(arguments, true);
    {
      const shapes::WatchedOps watched([this](const c10::OperatorHandle &op, c10::DispatchKeySet,
                                              jit::Stack &stack) { write_down(op, stack); });
      node.getOperation()(arguments);
    }
    for (const at::Tensor &t : integers)
      if (!read_.contains(t.storage().unsafeGetStorageImpl()))
        give_up(std::string(name) + " reads the values of a tensor");
    for (std::size_t i = 0; i < node.outputs().size(); ++i)
      values_[node.outputs()[i]] = arguments[arguments.size() - node.outputs().size() + i];
  }

  /// An op that autograd does nothing for stays one op.
  void run_whole(const jit::Node &node, std::vector<c10::IValue> arguments, bool varies) {
    const std::size_t count = node.outputs().size();
    const bool by_value = moves_by_value(arguments, varies);
    operation_of(node)(arguments);
    for (std::size_t i = 0; i < count; ++i) {
      c10::IValue &result = values_[node.outputs()[i]];
      result = arguments[arguments.size() - count + i];
      if (by_value && !writes(node))
        each_tensor(result, [this](const at::Tensor &t) {
          if (t.defined())
            tensors_.know_moved(t);
        });
    }
    const bool of_tensors = count > 0 && gives_tensors(node);
    if (!varies && !of_tensors && is_fixed(node))
      return; // sizes, and checks of them
    copy(node);
  }

  void copy(const jit::Node &node) {
    std::vector<jit::Value *> inputs;
    for (const jit::Value *input : node.inputs())
      inputs.push_back(flat(*input));
    jit::Node *made = made_->create(node.kind(), inputs, node.outputs().size());
    made->copyAttributes(node);
    made->setSourceRange(node.sourceRange());
    made_->insertNode(made);
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      made->outputs()[i]->setType(node.outputs()[i]->type());
      tensors_.know_result(values_.at(node.outputs()[i]), made->outputs()[i]);
      if (!values_.at(node.outputs()[i]).isTensor() &&
          !values_.at(node.outputs()[i]).isTensorList()) {
        varying_.insert(node.outputs()[i]);
        flat_[node.outputs()[i]] = made->outputs()[i];
      }
    }
  }

  /// C++ code may read memory, and fill it, without an op.
  void note_memory(const c10::OperatorHandle &op, c10::ArrayRef<c10::IValue> arguments) {
    const c10::FunctionSchema &schema = op.schema();
    const bool copies = schema.name() == "aten::_to_copy" || schema.name() == "aten::clone" ||
                        schema.name() == "aten::detach" || schema.name() == "aten::alias";
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const auto *alias = schema.arguments()[i].alias_info();
      each_tensor(arguments[i], [&](const at::Tensor &t) {
        if (!t.defined() || !t.has_storage())
          return;
        const auto *storage = t.storage().unsafeGetStorageImpl();
        if (alias && alias->isWrite())
          unwritten_.erase(storage);
        else if (unwritten_.contains(storage) && !alias)
          give_up("it fills memory without an op");
        if (!copies)
          read_.insert(storage);
      });
    }
  }

  /// One op that has come through autograd.
  void write_down(const c10::OperatorHandle &op, jit::Stack &stack) {
    check_limit();
    const c10::FunctionSchema &schema = op.schema();
    const std::size_t count = schema.arguments().size();
    std::vector<jit::Value *> inputs;
    for (std::size_t i = 0; i < count; ++i)
      inputs.push_back(tensors_.of(stack[stack.size() - count + i], schema.arguments()[i].type()));
    note_memory(op, c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - count));
    op.callBoxed(stack);
    jit::Node *made =
        made_->create(c10::Symbol::fromQualString(schema.name()), inputs, schema.returns().size());
    made->setSourceRange(differentiated_->sourceRange());
    made_->insertNode(made);
    for (std::size_t i = 0; i < schema.returns().size(); ++i) {
      const c10::IValue &result = stack[stack.size() - schema.returns().size() + i];
      if (!result.isTensor() && !result.isTensorList())
        give_up(schema.name() + " reads a value");
      made->outputs()[i]->setType(schema.returns()[i].type());
      tensors_.know_result(result, made->outputs()[i]);
      if (is_uninitialized(*made) && result.isTensor())
        unwritten_.insert(result.toTensor().storage().unsafeGetStorageImpl());
    }
    if (made->schema().overload_name() != schema.overload_name())
      give_up("no list says " + full_name(schema));
  }

  void register_output(const at::Tensor &t) {
    jit::Value *made = tensors_.output_of(t);
    made_->registerOutput(made);
    if (t.defined() && !tensors_.is_given(t)) // those of inputs are there
      versions_.emplace(made, version_of(t));
  }

  void add_output(const jit::Value &output) {
    const c10::IValue &value = values_.at(&output);
    if (value.isTensor() && value.toTensor().requires_grad() && !value.toTensor().is_leaf())
      give_up("a result records gradients: return its detach()");
    if (value.isTensor() && value.toTensor().defined() && grad_of(value.toTensor()).defined() &&
        output.node() != graph_.param_node())
      give_up("a result with a .grad");
    if (value.isTensor())
      register_output(value.toTensor());
    else
      made_->registerOutput(flat(output));
  }

  void add_sets(FlatGraph &result) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const c10::IValue &value = values_.at(graph_.inputs()[i]);
      if (!value.isTensor())
        continue;
      const at::Tensor &now = grad_of(value.toTensor());
      if (now.is_same(given_grads_[at++]))
        continue;
      if (now.defined() && now.requires_grad())
        give_up("a .grad that requires gradients");
      result.sets.push_back({i, !now.defined()});
      if (now.defined())
        register_output(now);
    }
  }

  /// A gradient that no op reads is no input.
  void drop_unread(FlatGraph &result) {
    std::size_t next = graph_.inputs().size();
    for (std::size_t i = 0, at = 0; i < graph_.inputs().size(); ++i) {
      if (!values_.at(graph_.inputs()[i]).isTensor() || !given_grads_[at++].defined())
        continue;
      if (made_->inputs()[next]->hasUses()) {
        result.reads.push_back(i);
        ++next;
      } else {
        versions_.erase(made_->inputs()[next]);
        made_->eraseInput(next);
      }
    }
  }

  void check_limit() const {
    if (limited_)
      limit_.check();
  }

  const TimeLimit limit_;
  const bool limited_;
  const jit::Graph &graph_;
  const bool grad_;
  std::shared_ptr<jit::Graph> made_;
  FlatValues tensors_; ///< of made_
  std::unordered_map<const jit::Value *, c10::IValue> values_;
  std::unordered_map<const jit::Value *, jit::Value *> flat_; ///< numbers of the call
  std::unordered_set<const jit::Value *> varying_;
  std::unordered_set<const c10::StorageImpl *> unwritten_;       ///< of `empty`
  std::unordered_set<const c10::StorageImpl *> read_;            ///< by ops of the node under way
  const jit::Node *differentiated_ = nullptr;                    ///< the node under way
  std::vector<std::pair<const jit::Value *, at::Tensor>> given_; ///< inputs, gradients as well
  std::vector<at::Tensor> given_grads_;                          ///< by tensor input
  Versions versions_;
  std::unordered_set<const jit::Value *> requires_grad_; ///< inputs
};

} // namespace

FlatGraph flatten(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs, bool limited) {
  const at::AutoGradMode grad(c10::GradMode::is_enabled()); // restores it
  return Flattening(graph, inputs, limited).make();
}

} // namespace tracehost::tape
