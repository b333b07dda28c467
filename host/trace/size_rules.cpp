#include "trace/size_rules.h"

#include "program/autograd_ops.h"
#include "program/callback.h"
#include "shapes/kernels.h"
#include "shapes/op_names.h"
#include "trace/op_traits.h"

#include <ATen/core/enum_tag.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <stdexcept>

namespace tracehost::trace {

namespace jit = torch::jit;

namespace {

const auto kNumberTensor = c10::Symbol::fromQualString("tracehost::py_tensor");

std::unordered_map<std::string_view, SizeRule> all_size_rules() {
  std::unordered_map<std::string_view, SizeRule> result;
  for (const auto *table :
       {&kElementSizes, &kReductionSizes, &kFactorySizes, &kViewSizes, &kMoveSizes, &kPartSizes,
        &kJoinSizes, &kIndexSizes, &kProductSizes, &kNetworkSizes, &kWindowSizes})
    for (const NamedSizeRule &rule : *table)
      for_each_name(rule.ops, [&](std::string_view op) { result.emplace(op, rule.rule); });
  return result;
}

Parts sizes_of_self(const SizeCall &call) { return {call.dims("self")}; }

bool is_pointwise(const c10::FunctionSchema &schema) {
  const auto op = shapes::op_of(schema);
  return op && op->hasTag(at::Tag::pointwise);
}

/// An op that changes its first argument has the rule of the op that gives the result, or leaves
/// the sizes as they are.
SizeRule size_rule_of(const c10::FunctionSchema &schema) {
  static const auto rules = all_size_rules();
  std::string_view name = schema.name();
  const auto &given = schema.arguments();
  const bool to_other =
      std::any_of(given.begin(), given.end(), [](const c10::Argument &a) { return a.is_out(); });
  if (!name.starts_with("aten::") || to_other)
    return nullptr;
  name.remove_prefix(6);
  const auto find = [](std::string_view op) {
    const auto found = rules.find(op);
    return found == rules.end() ? nullptr : found->second;
  };
  if (const SizeRule rule = find(name))
    return rule;
  const bool in_place = name.ends_with('_') && !name.ends_with("__");
  if (in_place) {
    const std::string_view plain = name.substr(0, name.size() - 1);
    static constexpr std::string_view moves[] = {"t",        "transpose", "squeeze", "unsqueeze",
                                                 "swapaxes", "swapdims",  "resize"};
    if (std::find(std::begin(moves), std::end(moves), plain) != std::end(moves))
      return find(plain);
    const auto &arguments = schema.arguments();
    const bool changes = !arguments.empty() && arguments[0].alias_info() &&
                         arguments[0].alias_info()->isWrite() && arguments[0].name() == "self" &&
                         plain != "set" && plain != "resize_as";
    return changes ? sizes_of_self : nullptr;
  }
  return is_pointwise(schema) ? sizes_broadcast : nullptr;
}

} // namespace

Parts sizes_of_first(const SizeCall &call) { return {call.first()}; }

Parts sizes_broadcast(const SizeCall &call) {
  Dims result;
  for (const Dims &dims : call.all())
    result = call.broadcast(result, dims);
  return {result};
}

Parts sizes_given(const SizeCall &call) { return {call.numbers("size")}; }

Parts sizes_of_number(const SizeCall &) { return {Dims{}}; }

std::optional<std::int64_t> SizeRules::at_trace(const Size &size) const {
  return size.known() ? evaluate(size.expression(), SizesAt(points_, SizePoints::real))
                      : std::nullopt;
}

void SizeRules::restart() {
  known_.clear();
  done_.clear();
}

const Dims *SizeRules::dims(jit::Value *tensor) {
  const Known &known = of(tensor);
  return known && known->size() == 1 ? &known->front() : nullptr;
}

const Parts *SizeRules::parts(jit::Value *list) {
  const Known &known = of(list);
  return known ? &*known : nullptr;
}

/// Runs the rules of all that `value` is computed from, in the order of the graph. A graph may be
/// thousands of nodes deep, so nothing here calls itself.
const SizeRules::Known &SizeRules::of(jit::Value *value) {
  std::vector<std::pair<jit::Node *, bool>> stack{{value->node(), false}};
  while (!stack.empty()) {
    const auto [node, ready] = stack.back();
    stack.pop_back();
    if (node->kind() == c10::prim::Param || done_.contains(node))
      continue;
    if (ready) {
      infer(node);
      done_.insert(node);
      continue;
    }
    stack.emplace_back(node, true);
    const auto push = [&](const jit::Value *v) {
      if (v->node()->kind() != c10::prim::Param && !done_.contains(v->node()))
        stack.emplace_back(const_cast<jit::Node *>(v->node()), false);
    };
    for (const jit::Value *input : node->inputs())
      push(input);
    if (node->kind() == c10::prim::If)
      for (const jit::Block *block : node->blocks())
        for (const jit::Value *output : block->outputs())
          push(output);
  }
  if (const auto found = known_.find(value); found != known_.end())
    return found->second;
  return known_[value] = input_sizes(value);
}

SizeRules::Known SizeRules::input_sizes(jit::Value *value) {
  if (value->node() != value->owningGraph()->param_node() || !is_tensor(value))
    return std::nullopt;
  const at::Tensor actual = input_(value->offset());
  Dims result;
  for (std::int64_t d = 0; d < actual.dim(); ++d) {
    const int leaf = points_.leaf_at(static_cast<std::uint32_t>(value->offset()), d);
    const bool open = leaf >= 0 && !points_.leaves()[static_cast<std::size_t>(leaf)].specialized;
    result.push_back(
        open ? Size::input(static_cast<std::int32_t>(value->offset()), static_cast<std::int32_t>(d))
             : Size(actual.size(d)));
  }
  return Parts{result};
}

/// A rule must say what the op does at the points.
bool SizeRules::fits(jit::Value *value, const Dims &dims) {
  const Shadow::Entry &entry = shadow_.of(value);
  for (std::size_t p = 0; p < std::min<std::size_t>(points_.count(), SizePoints::kTogether); ++p) {
    if (!entry.has(p) || !entry.at[p].isTensor() || !entry.at[p].toTensor().defined())
      continue;
    const auto sizes = entry.at[p].toTensor().sizes();
    if (sizes.size() != dims.size())
      return p >= SizePoints::kMust; // its kind differs there, which is a condition of its own
    const SizesAt at(points_, p);
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const bool holds =
          std::all_of(dims[d].needs().begin(), dims[d].needs().end(), [&](const Size::Need &need) {
            return tracehost::holds({need.expression, need.expected, ""}, at);
          });
      if (dims[d].known() && holds && evaluate(dims[d].expression(), at) != sizes[d])
        return false;
    }
  }
  return true;
}

/// The sizes are what they were if they are `constant`, or no size that may differ reaches the
/// value. Else only the number of dimensions is known.
SizeRules::Known SizeRules::at_trace(jit::Value *value, bool constant) {
  const Shadow::Entry &entry = shadow_.of(value);
  if (!entry.has(SizePoints::real))
    return std::nullopt;
  const c10::IValue &actual = entry.at[SizePoints::real];
  const auto sizes = [&](const at::Tensor &t) {
    Dims dims;
    for (std::int64_t d = 0; d < t.dim(); ++d)
      dims.push_back(constant || !entry.leaves ? Size(t.size(d)) : Size());
    return dims;
  };
  if (actual.isTensor() && actual.toTensor().defined())
    return Parts{sizes(actual.toTensor())};
  if (!actual.isTensorList())
    return std::nullopt;
  Parts parts;
  for (const at::Tensor &t : actual.toTensorVector())
    parts.push_back(t.defined() ? sizes(t) : Dims{});
  return parts;
}

void SizeRules::set(jit::Value *value, Known known) {
  if (known && is_tensor(value) && (known->size() != 1 || !fits(value, known->front())))
    known = at_trace(value, false);
  known_[value] = std::move(known);
}

void SizeRules::infer(jit::Node *node) {
  const auto kind = node->kind();
  if (kind == c10::prim::ListUnpack || kind == c10::prim::TupleUnpack) {
    const Known list = of(node->input());
    for (std::size_t i = 0; i < node->outputs().size(); ++i)
      set(node->outputs()[i], list && i < list->size() ? Known(Parts{(*list)[i]}) : std::nullopt);
  } else if (kind == c10::prim::If) {
    for (std::size_t i = 0; i < node->outputs().size(); ++i) {
      const Known a = of(node->blocks()[0]->outputs()[i]), b = of(node->blocks()[1]->outputs()[i]);
      set(node->outputs()[i], a && b && *a == *b ? a : at_trace(node->outputs()[i], false));
    }
  } else if (node->outputs().size() == 1 && (kind.is_prim() || is_autograd_op(*node))) {
    set(node->output(), infer_output(node));
  } else {
    infer_op(node);
  }
}

SizeRules::Known SizeRules::infer_output(jit::Node *node) {
  const auto kind = node->kind();
  if (kind == c10::prim::Constant) {
    const auto value = jit::toIValue(node->output());
    if (!value || !value->isTensor() || !value->toTensor().defined())
      return std::nullopt;
    Dims dims;
    for (const std::int64_t size : value->toTensor().sizes())
      dims.emplace_back(size);
    return Parts{dims};
  }
  if (kind == c10::prim::ListConstruct || kind == c10::prim::TupleConstruct) {
    Parts parts;
    for (jit::Value *item : node->inputs()) {
      const Known known = of(item);
      if (!known || known->size() != 1)
        return std::nullopt;
      parts.push_back(known->front());
    }
    return parts;
  }
  if (kind == c10::prim::NumToTensor)
    return Parts{Dims{}};
  if (is_autograd_op(*node)) // a gradient is as its tensor is
    return of(node->inputs()[is_tensor(node->input(0)) ? 0 : 1]);
  return at_trace(node->output(), false);
}

/// Whether nothing that `node` takes may have another size at another call.
bool SizeRules::all_constant(jit::Node *node) {
  return std::all_of(node->inputs().begin(), node->inputs().end(), [&](jit::Value *input) {
    if (is_tensor(input) || input->type()->isSubtypeOf(*c10::ListType::ofTensors())) {
      const Known &known = of(input);
      return known && std::all_of(known->begin(), known->end(), [](const Dims &dims) {
               return std::all_of(dims.begin(), dims.end(),
                                  [](const Size &size) { return size.constant(); });
             });
    }
    return jit::toIValue(input).has_value();
  });
}

void SizeRules::infer_op(jit::Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  const SizeRule rule = schema ? size_rule_of(*schema) : nullptr;
  const bool list = node->outputs().size() == 1 && !is_tensor(node->output());
  std::optional<Parts> parts;
  if (node->kind() == kNumberTensor)
    parts = Parts{Dims{}};
  try {
    if (rule)
      parts = rule(SizeCall(*node, *schema, *this));
  } catch (const NoRule &) { // the sizes of its results are not known
    parts.reset();
  } catch (const std::out_of_range &) { // nor of a number of dimensions that the rule does not have
    parts.reset();
  }
  // Code behind a call gives what it promises (shape=), else the entry is not known.
  const bool constant = !parts && node->blocks().empty() && (is_call(*node) || all_constant(node));
  for (std::size_t i = 0; i < node->outputs().size(); ++i) {
    jit::Value *output = node->outputs()[i];
    if (parts && list)
      set(output, parts);
    else if (parts && i < parts->size())
      set(output, Parts{(*parts)[i]});
    else
      set(output, at_trace(output, constant));
  }
}

std::optional<Dims> SizeRules::squeezed_sizes(jit::Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  const Dims *own = dims(node->input(0));
  if (!schema || !own)
    return std::nullopt;
  try {
    Dims result;
    for (const std::size_t d : squeezed(SizeCall(*node, *schema, *this), own->size()))
      if (d < own->size()) // a number has none
        result.push_back((*own)[d]);
    return result;
  } catch (const NoRule &) {
    return std::nullopt;
  }
}

std::vector<SizeExpression> SizeRules::bounds(jit::Value *value) {
  std::vector<SizeExpression> result;
  std::vector<jit::Value *> stack{value};
  std::unordered_set<const jit::Value *> seen;
  while (!stack.empty()) {
    jit::Value *one = stack.back();
    stack.pop_back();
    if (!seen.insert(one).second)
      continue;
    const Dims *sizes = is_tensor(one) ? dims(one) : nullptr;
    if (sizes)
      for (const Size &size : *sizes)
        size.add_bounds(result);
    if (one->node()->kind() != c10::prim::Param)
      stack.insert(stack.end(), one->node()->inputs().begin(), one->node()->inputs().end());
  }
  return result;
}

Size SizeRules::count(jit::Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  std::string_view name = node->kind().toQualString();
  if (!schema || !name.starts_with("aten::"))
    return {};
  try {
    return count_of_parts(name.substr(6), SizeCall(*node, *schema, *this));
  } catch (const NoRule &) {
    return {};
  } catch (const std::out_of_range &) {
    return {};
  }
}

} // namespace tracehost::trace
