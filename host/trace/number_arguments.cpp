#include "trace/number_arguments.h"

#include "program/checks.h"
#include "program/places.h"
#include "trace/ancestry.h"
#include "trace/numbers.h"
#include "trace/op_tensors.h"
#include "trace/trace.h"

#include <c10/util/ScopeExit.h>
#include <torch/csrc/jit/ir/constants.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

/// Traced numbers on their way into an op.
///
/// Problem: libtorch's argument parser reads a number for the op that it calls next, and so does
/// other C code that has nothing to do with an op. Answer: each read waits for the next op.
///
///     torch.full((3,), n)    the parser puts aten::ScalarImplicit(%n) behind %n: the op uses that
///     F.dropout(x, p=n)      the parser calls n.__float__(): the op's node has n's value as a
///                            constant, and was called by the same instruction that asked
///     x.uniform_(t[0], 1.0)  the same of a tensor
///     x.topk(t[0])           the parser puts aten::Int(%t) behind the tensor: the op uses that
///     [1.0, 2.0][n] * x      neither
///
/// A function that is known to take a number alone (`pow`, `quantile`) is called with the value,
/// and its arguments say which input of the op's node is the number.
///
/// Else a constant stands for a number if the op has as many constants of that value as were read.
/// Else it is not known which constant is which number. A number that no op takes is checked by the
/// graph (speculation.cpp).

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

namespace {

/// Whether libtorch's argument parser makes such nodes, for an op's argument.
bool is_parsed(const jit::Node &node) {
  const auto kind = node.kind();
  return (kind == c10::aten::Int || kind == c10::aten::Float ||
          kind == c10::aten::ScalarImplicit) &&
         node.inputs().size() == 1;
}

bool is_parsed(const jit::Node &node, const jit::Value *tensor) {
  return is_parsed(node) && node.inputs()[0] == tensor;
}

// Ops that take a Python number in place of a tensor, and compute the same of either.
const std::unordered_set<std::string_view> kTakeNumbers = {
    "add", "sub", "mul", "div", "rsub", "floor_divide", "remainder", "fmod", "eq", "ne", "lt", "le",
    "gt", "ge", "not_equal", "less", "less_equal", "greater", "greater_equal", "where",
    "masked_fill", "fill", "index_put", "copy", "clamp", "clamp_min", "clamp_max", "bitwise_and",
    "bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__",
    "copysign", "xlogy", "lerp", "index_fill", "true_divide", "multiply", "subtract", "divide",
    "_index_put_impl", "logical_and", "logical_or", "logical_xor",
    // Where it starts.
    "narrow",
    // Of each tensor in a list.
    "_foreach_mul", "_foreach_div", "_foreach_add",
    // A learning rate: read as a double again.
    "_fused_sgd", "_fused_adam", "_fused_adamw", "_fused_adagrad"};

// Ints that say which elements, not how many.
const std::unordered_set<std::string_view> kPlaces = {
    "select index", "narrow start", "roll", "tril", "triu", "randint high", "randint low"};

/// Whether the op's numbers say how many results it has, or how many dimensions: no graph has that
/// as a number.
bool counts_by_numbers(const c10::OperatorHandle &op) {
  const OpTraits &of = traits(op);
  return of.splits || of.drops_dimensions || op.schema().name() == "aten::flatten";
}

/// Whether an op's results are of the sizes that its numbers say.
bool is_size_argument(const c10::FunctionSchema &schema, std::size_t i) {
  if (i >= schema.arguments().size())
    return true;
  const auto kind = schema.arguments()[i].type()->kind();
  const std::string_view name = schema.name();
  if (name.starts_with("aten::")) {
    const std::string op(name.substr(6));
    if (kPlaces.contains(op) || kPlaces.contains(op + " " + schema.arguments()[i].name()))
      return false;
  }
  return (kind != c10::TypeKind::NumberType && kind != c10::TypeKind::FloatType &&
          kind != c10::TypeKind::BoolType) ||
         name == "aten::arange" || name == "aten::range";
}

/// A number among a node's inputs: an input itself, or an element of one.
struct Place {
  std::size_t input;
  int element; ///< -1: the input itself
};

/// The elements of a list of numbers that is one constant, or made of constants.
std::vector<c10::IValue> numbers_in(const jit::Value *value) {
  std::vector<c10::IValue> found;
  if (value->node()->kind() == c10::prim::ListConstruct) {
    for (const jit::Value *item : value->node()->inputs())
      found.push_back(jit::toIValue(item).value_or(c10::IValue()));
  } else if (const auto list = jit::toIValue(value); list && list->isList()) {
    for (const c10::IValue &item : list->toListRef())
      found.push_back(item);
  }
  return found;
}

std::vector<Place> places_of(const jit::Node &node, const c10::IValue &number) {
  std::vector<Place> found;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    const jit::Value *input = node.inputs()[i];
    if (const auto constant = jit::toIValue(input); constant && is_number(*constant, number))
      found.push_back({i, -1});
    const auto items = numbers_in(input);
    for (std::size_t e = 0; e < items.size(); ++e)
      if (is_number(items[e], number))
        found.push_back({i, static_cast<int>(e)});
  }
  return found;
}

/// Puts `scalar` into that place.
void replace(jit::Node &node, const Place &place, jit::Value *scalar) {
  if (place.element < 0) {
    node.replaceInput(place.input, scalar);
    return;
  }
  jit::Graph &graph = *node.owningGraph();
  const jit::WithInsertPoint here(&node);
  jit::Value *list = node.input(place.input);
  std::vector<jit::Value *> items;
  if (list->node()->kind() == c10::prim::ListConstruct)
    items = list->node()->inputs().vec();
  else
    for (const c10::IValue &item : numbers_in(list))
      items.push_back(graph.insertConstant(item));
  items[static_cast<std::size_t>(place.element)] = scalar;
  const c10::TypePtr type = list->type()->expectRef<c10::ListType>().getElementType();
  node.replaceInput(place.input, graph.insertNode(graph.createList(type, items))->output());
}

jit::Node *node_of(const c10::OperatorHandle &op) {
  jit::Node *node = tracer::getTracingState()->graph->insertPoint()->prev();
  while (node->kind() == c10::prim::ListUnpack)
    node = node->prev();
  return node->kind().toQualString() == op.schema().name() ? node : nullptr;
}

/// torch's indexing takes a uint8 without dimensions for a mask. Of its truth it makes an index of
/// one element or none, which looks like the number where that is 1 or 0.
bool may_be_mask(const c10::OperatorHandle &op, const at::Tensor &source) {
  return source.defined() && source.scalar_type() == at::kByte &&
         op.schema().name() == "aten::empty";
}

} // namespace

/// `x[i, j] = n` of a traced number: torch makes a number of Python's a tensor of x's dtype, and
/// takes a tensor of that dtype alone. `stack`: of index_put_.
void NumberArguments::cast_number(jit::Stack &stack) {
  const at::Tensor &self = stack[stack.size() - 4].toTensor();
  c10::IValue &value = stack[stack.size() - 2];
  const at::Tensor number = value.toTensor();
  if (!is_traced_number(number) || number.scalar_type() == self.scalar_type())
    return;
  const auto &state = tracer::getTracingState();
  jit::Value *cast = state->graph->insert(
      c10::aten::to, {state->getValue(number), static_cast<std::int64_t>(self.scalar_type())});
  tracer::recordSourceLocation(cast->node());
  at::Tensor made;
  {
    const Paused paused;
    made = number.to(self.scalar_type());
  }
  state->setValue(made, cast);
  value = std::move(made);
}

/// Whether a traced number is among the op's arguments. To libtorch it is a tensor, but few of
/// eager's ops take a number in place of a tensor. So a number raises here, unless the op is one of
/// kTakeNumbers and has a tensor too.
bool NumberArguments::check(const c10::OperatorHandle &op, const jit::Stack &stack) {
  bool number = false, tensor = false;
  each_tensor(arguments_of(op, stack), [&](const at::Tensor &t) {
    settle_kind(t);
    (is_traced_number(t) ? number : tensor) = true;
  });
  std::string_view name = op.schema().name();
  if (!number || !name.starts_with("aten::"))
    return number || !reads_.empty() ||
           is_parsed(*tracer::getTracingState()->graph->insertPoint()->prev());
  name.remove_prefix(6);
  if (name.ends_with('_') && !name.ends_with("__"))
    name.remove_suffix(1);
  if (tensor && kTakeNumbers.contains(name))
    return true;
  reject(
      Rejection::value_read,
      fmt::format("a number that the body has read from a tensor is given to {} at {}, which "
                  "takes tensors alone, or takes a number by other arithmetic than a tensor. Give "
                  "it the tensor that was read, or torch.tensor() of the number.",
                  op.schema().name(), text(trace_.frontend.here())));
}

bool NumberArguments::reads_number(const c10::OperatorHandle &op, const jit::Stack &stack) {
  if (!traits(op).is_item || !is_traced_number(stack.back().toTensor()))
    return false;
  const at::Tensor &t = stack.back().toTensor();
  if (shapes::is_fake_tensor(t))
    reject_number(t, "as an argument of an op");
  read_by_c_code(t, *value_of_number(t), false);
  return true;
}

/// A float or an int that C code reads from a tensor, as eager's argument parser does.
bool NumberArguments::reads_tensor(const c10::OperatorHandle &op, const jit::Stack &stack) {
  if (!traits(op).is_item)
    return false;
  const at::Tensor t = stack.back().toTensor();
  const bool has_kind =
      at::isFloatingType(t.scalar_type()) || at::isIntegralType(t.scalar_type(), false);
  if (trace_.without_data() || shapes::is_fake_tensor(t) || t.layout() != at::kStrided ||
      t.numel() != 1 || !has_kind || t.unsafeGetTensorImpl()->is_wrapped_number() ||
      t.key_set().has(c10::DispatchKey::Python) ||
      (trace_.dynamic_sizes && trace_.dynamic_sizes->is_size(t)))
    return false;
  const at::Tensor number = read_number(t);
  read_by_c_code(number, *value_of_number(number), true);
  reads_.back().source = t;
  return true;
}

void NumberArguments::read_by_c_code(const at::Tensor &number, const c10::IValue &value,
                                     bool as_constant, std::optional<ArgumentPlace> place) {
  settle_kind(number);
  const auto &state = tracer::getTracingState();
  reads_.push_back({number, state->getValue(number), value, as_constant,
                    state->graph->insertPoint()->prev(), trace_.frontend.instruction(),
                    trace_.frontend.here(), trace_.effects.first});
  reads_.back().place = std::move(place);
}

/// The node of the op gets the number at the place where the body gave it.
bool NumberArguments::takes_place(const c10::OperatorHandle &op, const NumberRead &read) {
  jit::Node *node = node_of(op);
  const auto &[position, name, element] = *read.place;
  const auto named = name.empty() ? std::nullopt : op.schema().argumentIndexWithName(name);
  if (!name.empty() && !named)
    return false;
  const std::size_t index = named ? static_cast<std::size_t>(*named) : position;
  if (!node || index >= node->inputs().size() || index >= op.schema().arguments().size())
    return false;
  const jit::Value *argument = node->input(index);
  const bool fits = element < 0 ? jit::toIValue(argument).has_value()
                                : static_cast<std::size_t>(element) < numbers_in(argument).size();
  // An int for a float: the graph has no float of it, and checks the int.
  const bool is_real = op.schema().arguments()[index].type()->kind() == c10::TypeKind::FloatType;
  if (!fits || (is_real && !read.value.isDouble()))
    return false;
  replace(*node, {index, static_cast<int>(element)}, read.tensor->node()->input(0));
  if (is_size_argument(op.schema(), index) && !read.value.isDouble())
    trace_.value_sizes.note_results(*node);
  return true;
}

/// The nodes that have `number`, itself or in a list, get sizes by it where the op's results do.
void NumberArguments::note_sizes_of(const c10::OperatorHandle &op, const jit::Value *number) {
  const auto note = [&](const jit::Use &use) {
    if (is_size_argument(op.schema(), use.offset))
      trace_.value_sizes.note_results(*use.user);
  };
  for (const jit::Use &use : number->uses()) {
    if (use.user->kind() != c10::prim::ListConstruct)
      note(use);
    else
      for (const jit::Use &of_list : use.user->output()->uses())
        note(of_list);
  }
}

/// Whether the parser has made a node for it that the op uses. Of a tensor that the body has no
/// number of, the node reads the tensor.
bool NumberArguments::takes_parsed(const c10::OperatorHandle &op, const NumberRead &read) {
  const auto takes = [&](jit::Node *node) {
    if (node->output()->uses().empty() || !parsed_.insert(node).second)
      return false;
    note_sizes_of(op, node->output());
    return true;
  };
  if (read.source.defined()) {
    const jit::Value *number = read.tensor->node()->input(0); // py_tensor(item(tensor))
    const jit::Value *tensor = number->node()->input(0);
    for (const jit::Use &use : tensor->uses())
      if (is_parsed(*use.user, tensor) && takes(use.user))
        return true;
    return false;
  }
  for (jit::Node *node = read.tensor->node()->next(); is_parsed(*node, read.tensor);
       node = node->next())
    if (takes(node))
      return true;
  return false;
}

/// The op's node has constants of the values that were read, which become the numbers. Leaves those
/// in `reads` that the node does not have, or whose constant is not known.
void NumberArguments::take_constants(const c10::OperatorHandle &op,
                                     std::vector<NumberRead> &reads) {
  jit::Node *node = node_of(op);
  std::vector<NumberRead> left;
  const auto masks = std::ranges::stable_partition(
      reads, [&op](const NumberRead &read) { return !may_be_mask(op, read.source); });
  left.assign(masks.begin(), masks.end());
  reads.erase(masks.begin(), masks.end());
  while (node && !reads.empty()) {
    std::vector<NumberRead> equal;
    const c10::IValue value = reads.front().value;
    std::erase_if(reads, [&](const NumberRead &read) {
      const bool same = is_number(read.value, value);
      if (same)
        equal.push_back(read);
      return same;
    });
    const auto places = places_of(*node, value);
    const bool one_list = std::all_of(places.begin(), places.end(), [&](const Place &place) {
      return place.element >= 0 && place.input == places[0].input;
    });
    const bool one_number = std::all_of(equal.begin(), equal.end(), [&](const NumberRead &read) {
      return read.tensor == equal[0].tensor;
    });
    if (places.size() != equal.size() || !(one_list || one_number)) {
      left.insert(left.end(), equal.begin(), equal.end());
      continue;
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
      replace(*node, places[i], equal[i].tensor->node()->input(0));
      if (is_size_argument(op.schema(), places[i].input) && !value.isDouble())
        trace_.value_sizes.note_results(*node);
    }
  }
  reads.insert(reads.end(), left.begin(), left.end());
}

/// After an op that the body calls, or at its end: what was read before is among the op's
/// arguments, or C code has the value itself.
void NumberArguments::settle(const c10::OperatorHandle *op) {
  std::vector<NumberRead> as_constants, left;
  for (NumberRead &read : std::exchange(reads_, {})) {
    if (op && counts_by_numbers(*op) && !read.value.isDouble()) {
      need(read);
      continue;
    }
    const bool of_op = op && read.by == trace_.frontend.instruction();
    if (of_op && read.place && takes_place(*op, read))
      continue;
    if (of_op && (!read.as_constant || read.source.defined()) && takes_parsed(*op, read))
      continue;
    // The parser keeps nothing for an op that libtorch's tracer does not record.
    const bool constant = of_op && (read.as_constant || traits(*op).own_node);
    (constant ? as_constants : left).push_back(std::move(read));
  }
  if (!as_constants.empty())
    take_constants(*op, as_constants);
  left.insert(left.end(), as_constants.begin(), as_constants.end());
  for (const NumberRead &read : left)
    need(read);
}

void NumberArguments::forget(jit::Node *node) {
  parsed_.erase(node);
  std::erase_if(reads_, [&](const NumberRead &read) {
    return read.last == node || read.tensor->node() == node;
  });
}

void NumberArguments::forget(jit::Value *value) {
  std::replace(texts.begin(), texts.end(), value, static_cast<jit::Value *>(nullptr));
}

void NumberArguments::need(const NumberRead &read) {
  if (shapes::is_fake_tensor(read.number))
    reject_number(read.number, "by C code");
  if (read.source.defined() && read.value.isDouble() &&
      !is_of_constants(read.tensor->node()->input(0)))
    trace_.reject_read(&read.source, "aten::item", read.where);
  // Before the op that came then: it may raise for another value.
  jit::Node *const next = read.last->next();
  const jit::WithInsertPoint behind(next);
  const std::string now = std::exchange(trace_.effects.first, read.effect);
  const auto restore = c10::make_scope_exit([&] { trace_.effects.first = now; });
  trace_.speculation.speculate(read.tensor->node()->input(0), read.value, "by C code",
                               text(read.where));
  for (jit::Node *made = read.last->next(); made != next; made = made->next())
    made->setSourceRange(place_range(text(read.where)));
}

} // namespace tracehost::trace
