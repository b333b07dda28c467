#include "trace/numbers.h"

#include "program/nodes.h"
#include "program/ops.h"
#include "program/passes.h"
#include "shapes/fake_tensor.h"
#include "trace/ancestry.h"
#include "trace/block.h"
#include "trace/eager_region.h"
#include "trace/trace.h"

#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/jit/ir/constants.h>

#include <fmt/format.h>

#include <array>
#include <bit>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

namespace {

const auto kTensor = c10::Symbol::fromQualString("tracehost::py_tensor");

/// A bool is a Scalar: TorchScript takes no `bool` for one.
c10::TypePtr type_of(NumberKind kind) {
  switch (kind) {
  case NumberKind::boolean:
    return c10::NumberType::get();
  case NumberKind::integer:
    return c10::IntType::get();
  default:
    return c10::FloatType::get();
  }
}

constexpr std::array kDtypes{at::kBool, at::kLong, at::kDouble}; ///< by NumberKind

/// The scalar that a 0-dim tensor was made of; null: it was made of none.
jit::Value *scalar_behind(jit::Value *tensor) {
  const auto kind = tensor->node()->kind();
  return kind == kTensor || kind == c10::prim::NumToTensor ? tensor->node()->input(0) : nullptr;
}

/// The traced number that `scalar` is, with its value in this call, or none.
at::Tensor number(jit::Value *scalar, NumberKind kind, const std::optional<c10::IValue> &value) {
  current->number_arguments.has_numbers = true;
  scalar->setType(type_of(kind));
  jit::Node *node = record_op("tracehost::py_tensor", {scalar});
  at::Tensor result;
  {
    const PausedWithData paused;
    const auto dtype = kDtypes[static_cast<std::size_t>(kind)];
    result = value ? at::scalar_tensor(value->toScalar(), at::TensorOptions(dtype))
                   : shapes::contiguous_fake_tensor({}, dtype, at::kCPU);
  }
  result.unsafeGetTensorImpl()->set_wrapped_number(true);
  tracer::getTracingState()->setValue(result, node->output());
  return result;
}

} // namespace

jit::Value *scalar_of(const at::Tensor &number) {
  jit::Value *tensor = tracer::getTracingState()->getValue(number);
  if (jit::Value *scalar = scalar_behind(tensor)) {
    if (const auto value = value_of_number(number))
      current->blocks.meet(scalar, *value);
    return scalar;
  }
  jit::Graph &graph = *tensor->owningGraph(); // a size may be a tensor that ops computed
  return graph.insert(c10::aten::Int, {tensor});
}

jit::Value *number_constant(jit::Graph &graph, const c10::IValue &number) {
  jit::Value *value = graph.insertConstant(number);
  return number.isBool() ? insert_truth(graph, value) : value;
}

std::optional<NumberKind> number_kind(at::ScalarType dtype) {
  if (dtype == at::kBool)
    return NumberKind::boolean;
  if (at::isIntegralType(dtype, false))
    return NumberKind::integer;
  return at::isFloatingType(dtype) ? std::optional(NumberKind::real) : std::nullopt;
}

bool has_numbers() { return current && current->number_arguments.has_numbers; }

bool is_traced_number(const at::Tensor &t) {
  const auto &state = tracer::getTracingState();
  return t.defined() && t.unsafeGetTensorImpl()->is_wrapped_number() && state &&
         state->hasValue(t) && state->getValue(t)->node()->kind() == kTensor;
}

static at::Tensor item_of(const at::Tensor &t, bool without_data) {
  jit::Node *node = record_op("aten::item", {tracer::getTracingState()->getValue(t)});
  if (t.scalar_type() == at::kUInt64) { // the graph's ints are int64: `int` asks for the range
    node->output()->setType(type_of(NumberKind::integer));
    node = record_op("tracehost::py_int", {node->output()});
  }
  return number(node->output(), *number_kind(t.scalar_type()),
                without_data ? std::nullopt : value_of_number(t));
}

at::Tensor read_number(const at::Tensor &t) {
  current->inputs.know(t);
  if (!shapes::is_fake_tensor(t))
    current->blocks.meet(t);
  current->record_modes();
  return item_of(t, current->without_data());
}

at::Tensor number_of_slot(const at::Tensor &t) {
  current->inputs.know(t);
  return current->speculation.head().add([&] { return item_of(t, false); });
}

void keep_known(const at::Tensor &number) { current->speculation.keep_known(number); }

bool is_constant_number(const at::Tensor &number) {
  return is_traced_number(number) &&
         is_of_constants(tracer::getTracingState()->getValue(number)->node()->input(0));
}

bool can_be_checked(const at::Tensor &number) {
  return is_traced_number(number) && current->speculation.may_branch() &&
         current->speculation.is_of_head(
             tracer::getTracingState()->getValue(number)->node()->input(0));
}

namespace {

/// What `scalar` reads of `t`'s sizes, or of how they lie in memory.
at::Tensor size_read(const at::Tensor &t, jit::Value *scalar, const c10::IValue &actual) {
  const bool no_data = shapes::is_fake_tensor(t);
  if (!no_data)
    current->blocks.meet(t);
  return number(scalar, kind_of(actual), no_data ? std::nullopt : std::optional(actual));
}

at::Tensor read_whole(const at::Tensor &t, const char *op, std::int64_t actual) {
  jit::Value *value = tracer::getTracingState()->getValue(t);
  return size_read(t, record_op(op, {value})->output(), actual);
}

at::Tensor read_dimension(const at::Tensor &t, const char *op, std::int64_t dimension,
                          std::int64_t actual) {
  jit::Value *value = tracer::getTracingState()->getValue(t);
  jit::Value *which = value->owningGraph()->insertConstant(dimension);
  return size_read(t, record_op(op, {value, which})->output(), actual);
}

} // namespace

at::Tensor read_size(const at::Tensor &t, std::int64_t dimension) {
  return read_dimension(t, "aten::size", dimension, t.size(dimension));
}
at::Tensor read_numel(const at::Tensor &t) { return read_whole(t, "aten::numel", t.numel()); }
at::Tensor read_stride(const at::Tensor &t, std::int64_t dimension) {
  return read_dimension(t, "aten::stride", dimension, t.stride(dimension));
}
at::Tensor read_offset(const at::Tensor &t) {
  return read_whole(t, "aten::storage_offset", t.storage_offset());
}

static at::Tensor truth_read(const at::Tensor &t, const char *op,
                             std::initializer_list<jit::Value *> inputs, bool actual) {
  jit::Value *truth = record_op(op, inputs)->output();
  truth->setType(c10::BoolType::get());
  return size_read(t, insert_truth(*truth->owningGraph(), truth), actual);
}

at::Tensor read_contiguity(const at::Tensor &t, at::MemoryFormat format) {
  jit::Value *value = tracer::getTracingState()->getValue(t);
  jit::Value *wanted = value->owningGraph()->insertConstant(static_cast<std::int64_t>(format));
  return truth_read(t, "aten::is_contiguous", {value, wanted}, t.is_contiguous(format));
}
at::Tensor read_requires_grad(const at::Tensor &t) {
  return truth_read(t, "prim::requires_grad", {tracer::getTracingState()->getValue(t)},
                    in_eager(t).requires_grad());
}
at::Tensor read_is_leaf(const at::Tensor &t) {
  return truth_read(t, "aten::is_leaf", {tracer::getTracingState()->getValue(t)},
                    in_eager(t).is_leaf());
}

at::Tensor tensor_of_number(const at::Tensor &number) {
  settle_kind(number);
  jit::Graph &graph = *tracer::getTracingState()->graph;
  jit::Node *node = graph.insertNode(graph.createNumToTensor(scalar_of(number)));
  tracer::recordSourceLocation(node);
  at::Tensor result;
  {
    const PausedWithData paused;
    result = shapes::is_fake_tensor(number)
                 ? shapes::contiguous_fake_tensor({}, number.scalar_type(), at::kCPU)
                 : at::scalar_tensor(number.item(), number.options());
  }
  tracer::getTracingState()->setValue(result, node->output());
  return result;
}

std::optional<c10::IValue> value_of_number(const at::Tensor &number) {
  if (shapes::is_fake_tensor(number))
    return std::nullopt;
  const PausedWithData paused;
  return c10::IValue(number.item());
}

namespace {

/// All kinds that `scalar` may have, as bits. There are several only if its kind depends on values.
Kinds kinds_of(const jit::Value *scalar, NumberKind kind) {
  const auto found = current->speculation.loose.find(scalar);
  return found == current->speculation.loose.end() ? bit(kind) : found->second;
}

/// What `op` may give for operands of these kinds.
Kinds kinds_of_result(const NumberOp &op, const std::vector<Kinds> &operands) {
  Kinds result = 0;
  std::vector<NumberKind> chosen(operands.size());
  const auto choose = [&](auto &self, std::size_t at) -> void {
    if (at == operands.size()) {
      if (const auto kind = kind_of_result(op, chosen)) {
        result |= bit(*kind);
        return;
      }
      for (const NumberKind kind : chosen) // one of the operands, or what a power gives
        result |= bit(kind);
      result |= op.name == "pow" ? bit(NumberKind::integer) | bit(NumberKind::real) : Kinds{0};
      return;
    }
    for (const auto kind : {NumberKind::boolean, NumberKind::integer, NumberKind::real})
      if (operands[at] & bit(kind)) {
        chosen[at] = kind;
        self(self, at + 1);
      }
  };
  choose(choose, 0);
  return result;
}

} // namespace

at::Tensor compute_number(const NumberOp &op, const std::vector<c10::IValue> &operands) {
  jit::Graph &graph = *tracer::getTracingState()->graph;
  std::vector<jit::Value *> scalars;
  std::vector<c10::IValue> values;
  std::vector<Kinds> kinds;
  bool known = true;
  for (const c10::IValue &operand : operands) {
    if (!operand.isTensor()) {
      scalars.push_back(number_constant(graph, operand));
      values.push_back(operand);
      kinds.push_back(bit(kind_of(operand)));
      continue;
    }
    const at::Tensor &t = operand.toTensor();
    scalars.push_back(scalar_of(t));
    kinds.push_back(kinds_of(scalars.back(), *number_kind(t.scalar_type())));
    auto value = value_of_number(t);
    known &= value.has_value();
    values.push_back(value.value_or(c10::IValue()));
  }
  std::optional<c10::IValue> result;
  try {
    if (known)
      result = apply_number_op(op, values);
  } catch (const Raised &) {
    current->speculation.check_raises(op, scalars, true);
    throw;
  }
  if (op.raises)
    current->speculation.check_raises(op, scalars, false, known);
  const Kinds possible = kinds_of_result(op, kinds);
  if (!std::has_single_bit(possible) && !result)
    reject(Rejection::value_read,
           fmt::format("the type of a number ({}) at {} depends on values, in a branch or "
                       "loop that is staged, or in a trace from specs. Give it one type "
                       "(float(), int()).",
                       op.name, text(current->here())));
  jit::Node *node = record_op("tracehost::py_" + std::string(op.name), scalars);
  const auto kind = result ? kind_of(*result) : static_cast<NumberKind>(std::countr_zero(possible));
  at::Tensor made = number(node->output(), kind, result);
  if (op.raises)
    current->effects.note_raise();
  if (!std::has_single_bit(possible)) { // a later call's may be of another type
    node->output()->setType(c10::NumberType::get());
    current->speculation.loose.emplace(node->output(), possible);
  }
  return made;
}

void check_sizes(const at::Tensor &t, const std::string &what) {
  current->value_sizes.check(t, what);
}

void settle_kind(const at::Tensor &number) {
  if (current->speculation.loose.empty() || !is_traced_number(number))
    return;
  jit::Value *scalar = tracer::getTracingState()->getValue(number)->node()->input(0);
  if (!current->speculation.loose.contains(scalar))
    return;
  current->speculation.check_kind(scalar, *number_kind(number.scalar_type()));
  if (current->blocks.depth == 0) // else another path may not have checked
    current->speculation.loose.erase(scalar);
}

std::int64_t index_of_number(const at::Tensor &number) {
  const auto value = value_of_number(number);
  if (!value || !tracer_records())
    reject_number(number, "as an index");
  current->number_arguments.read_by_c_code(number, *value, false);
  return value->isBool() ? value->toBool() : value->toInt();
}

c10::IValue give_number(const at::Tensor &number, ArgumentPlace place) {
  const auto value = value_of_number(number);
  const c10::IValue given = value                                 ? *value
                            : number.scalar_type() == at::kDouble ? c10::IValue(1.0)
                                                                  : c10::IValue(std::int64_t{1});
  current->number_arguments.read_by_c_code(number, given, true, std::move(place));
  return given;
}

double real_of_number(const at::Tensor &number) {
  const auto value = value_of_number(number);
  if (value && !value->isDouble()) { // an int is checked
    need_number(number, "float()");
    return value->toScalar().toDouble();
  }
  if (!value || !tracer_records())
    reject_number(number, "float()");
  current->number_arguments.read_by_c_code(number, *value, true);
  return value->toDouble();
}

[[noreturn]] static void reject_without_value(Rejection why, const std::string &how) {
  const bool from_specs = current->frontend.without_data();
  reject(why,
         fmt::format("the body uses a tensor's number as a Python value ({}) at {}, and {} has "
                     "no values. Keep the computation in numbers and tensors (torch.where, "
                     "masks; under autograph, if, while and range() take them), or {}.",
                     how, text(current->here()),
                     from_specs ? "a trace from specs" : "a branch or loop of the graph",
                     from_specs ? "let the first call trace it, which has values"
                                : "compute the number before the branch or loop"));
}

void reject_number(const at::Tensor &, const std::string &how) {
  reject_without_value(Rejection::value_read, how);
}

void abandon_number(const std::string &how) { reject_without_value(Rejection::limit, how); }

bool may_check() { return !current->without_data() && current->speculation.may_check(); }

void check_condition(const at::Tensor &condition, bool actual, const std::string &where) {
  const Resumed resumed; // an effect may come in code that tracehost asks
  jit::Value *value = value_of(condition);
  jit::Node *read = record_op("aten::is_nonzero", {value});
  read->output()->setType(c10::NumberType::get());
  current->speculation.speculate(read->output(), actual, "bool()", where);
}

void need_number(const at::Tensor &t, const std::string &how) {
  const Resumed resumed;
  if (!is_traced_number(t))
    return;
  const auto value = value_of_number(t);
  if (!value)
    reject_number(t, how);
  current->speculation.speculate(scalar_of(t), *value, how, text(current->here()));
}

void fold_numbers(jit::Block &block) {
  each_node(&block, [](jit::Node *node) {
    const auto kind = node->kind();
    const bool reads =
        kind == c10::aten::ScalarImplicit || kind == c10::aten::Int || kind == c10::aten::Float;
    if (!reads || node->inputs().size() != 1 || node->input()->node()->kind() != kTensor)
      return;
    jit::Value *scalar = node->input()->node()->input(0);
    const bool same = kind == c10::aten::ScalarImplicit ||
                      (kind == c10::aten::Int && scalar->type() == c10::IntType::get()) ||
                      (kind == c10::aten::Float && scalar->type() == c10::FloatType::get());
    if (!same)
      return;
    node->output()->replaceAllUsesWith(scalar);
    node->destroy();
  });
}

} // namespace tracehost::trace
