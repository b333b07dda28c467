#include "trace/ancestry.h"

#include "shapes/kernels.h"
#include "trace/op_traits.h"

#include <string_view>
#include <vector>

namespace tracehost::trace {

namespace jit = torch::jit;

namespace {

struct Search {
  std::unordered_set<const jit::Value *> found;
  std::vector<const jit::Value *> open;

  void add(const jit::Value *value) {
    if (found.insert(value).second)
      open.push_back(value);
  }

  /// Gives each value that is added to `visit`, which may add others; false: at once when that says
  /// false.
  template <class Visit> bool all(const Visit &visit) {
    while (!open.empty()) {
      const jit::Value *value = open.back();
      open.pop_back();
      if (!visit(*value))
        return false;
    }
    return true;
  }

  /// What a loop carries as number `i`: what it begins with, and what each round makes of it.
  void add_carried(const jit::Node &loop, std::size_t i) {
    add(loop.input(i + 2));
    add(loop.blocks()[0]->outputs()[i + 1]);
  }

  void add_loop(const jit::Node &loop) {
    add(loop.input(0)); // the trip count
    add(loop.input(1)); // whether there is a first round
    add(loop.blocks()[0]->outputs()[0]);
  }

  void visit(const jit::Value &value) {
    const jit::Node &node = *value.node();
    if (node.kind() == c10::prim::Param) {
      const jit::Node *owner = node.owningBlock()->owningNode();
      if (owner && owner->kind() == c10::prim::Loop && value.offset() > 0)
        add_carried(*owner, value.offset() - 1);
    } else if (node.kind() == c10::prim::If) {
      add(node.input());
      for (const jit::Block *block : node.blocks())
        add(block->outputs()[value.offset()]);
    } else if (node.kind() == c10::prim::Loop) {
      add_loop(node);
      add_carried(node, value.offset());
    } else {
      for (const jit::Value *input : node.inputs())
        add(input);
    }
  }
};

/// Ops whose result is contiguous, at offset 0 of its own memory, for any strides of their
/// arguments.
const std::unordered_set<std::string_view> kContiguous = {
    "aten::embedding", "aten::index_select", "aten::mm",    "aten::addmm",  "aten::bmm",
    "aten::baddbmm",   "aten::linear",       "aten::zeros", "aten::ones",   "aten::full",
    "aten::arange",    "aten::rand",         "aten::randn", "aten::randint"};

bool may_have_strides(const jit::Value &value) {
  switch (value.type()->kind()) {
  case c10::TypeKind::IntType:
  case c10::TypeKind::FloatType:
  case c10::TypeKind::BoolType:
  case c10::TypeKind::NumberType:
  case c10::TypeKind::NoneType:
  case c10::TypeKind::StringType:
    return false;
  default:
    return value.node()->kind() != c10::Symbol::fromQualString("prim::NumToTensor");
  }
}

} // namespace

bool is_always_contiguous(const jit::Node &node) {
  return kContiguous.contains(node.kind().toQualString());
}

namespace {

/// Null where it says nothing of the node's results.
const c10::FunctionSchema *schema_if_told(const jit::Node &node) {
  const auto *schema = node.maybeSchema();
  return schema && schema->returns().size() == node.outputs().size() ? schema : nullptr;
}

bool is_collection(const jit::Node &node) {
  return node.kind() == c10::prim::ListUnpack || node.kind() == c10::prim::ListConstruct ||
         node.kind() == c10::prim::TupleUnpack || node.kind() == c10::prim::TupleConstruct;
}

/// Adds to `search` what may share memory with `value`. False where that is an input or unknown.
bool add_sharing(Search &search, const jit::Value &value) {
  const jit::Node &node = *value.node();
  if (node.kind() == c10::prim::If) {
    for (const jit::Block *block : node.blocks())
      search.add(block->outputs()[value.offset()]);
    return true;
  }
  if (node.kind() == c10::prim::Loop) {
    search.add_carried(node, value.offset());
    return true;
  }
  if (is_collection(node)) {
    for (const jit::Value *input : node.inputs())
      search.add(input);
    return true;
  }
  const auto *schema = schema_if_told(node);
  if (!schema)
    return false;
  if (!schema->returns()[value.offset()].alias_info())
    return true; // memory of its own
  for (std::size_t i = 0; i < schema->arguments().size(); ++i)
    if (schema->arguments()[i].alias_info())
      search.add(node.input(i));
  return true;
}

} // namespace

bool may_share_memory_with_inputs(const jit::Value *tensor) {
  Search search;
  search.add(tensor);
  return !search.all([&](const jit::Value &value) { return add_sharing(search, value); });
}

bool may_lie_as_inputs(const jit::Value *tensor) {
  Search search;
  search.add(tensor);
  return !search.all([&](const jit::Value &value) {
    const jit::Node &node = *value.node();
    const std::string_view name = node.kind().toQualString();
    if (node.kind() == c10::prim::Constant || kContiguous.contains(name) ||
        !may_have_strides(value))
      return true;
    if (!node.blocks().empty() || !(name.starts_with("aten::") || is_collection(node)))
      return false;
    for (const jit::Value *input : node.inputs())
      search.add(input);
    return true;
  });
}

bool may_have_from(Fact fact, const jit::Value *tensor,
                   const std::unordered_set<const jit::Value *> &others) {
  const bool layout = fact == Fact::layout;
  Search search;
  search.add(tensor);
  return !search.all([&](const jit::Value &value) {
    if (others.contains(&value))
      return false;
    const jit::Node &node = *value.node();
    const bool ends = layout ? kContiguous.contains(node.kind().toQualString())
                             : node.kind() == c10::aten::detach;
    if (!ends && may_have_strides(value))
      search.visit(value);
    return true;
  });
}

/// Each value that `value` may be: what goes into blocks, and out of them, as it is.
static std::unordered_set<const jit::Value *> ways_of(const jit::Value *value) {
  Search search;
  search.add(value);
  search.all([&](const jit::Value &v) {
    const jit::Node &node = *v.node();
    const jit::Node *owner = node.owningBlock() ? node.owningBlock()->owningNode() : nullptr;
    if (node.kind() == c10::prim::If) {
      for (const jit::Block *block : node.blocks())
        search.add(block->outputs()[v.offset()]);
    } else if (node.kind() == c10::prim::Loop) {
      search.add_carried(node, v.offset());
    } else if (node.kind() == c10::prim::Param && owner && owner->kind() == c10::prim::Loop &&
               v.offset() > 0 && owner->blocks()[0]->outputs().size() > v.offset()) {
      search.add_carried(*owner, v.offset() - 1);
    }
    return true;
  });
  return std::move(search.found);
}

bool may_be_one(const jit::Value *a, const jit::Value *b) {
  const auto of_a = ways_of(a), of_b = ways_of(b);
  return std::any_of(of_a.begin(), of_a.end(),
                     [&](const auto *value) { return of_b.contains(value); });
}

bool is_of_block(const jit::Value *value) { return ways_of(value).size() > 1; }

std::unordered_set<const jit::Value *> ancestry(c10::ArrayRef<const jit::Value *> results) {
  Search search;
  for (const jit::Value *value : results)
    search.add(value);
  search.all([&](const jit::Value &value) {
    search.visit(value);
    return true;
  });
  return std::move(search.found);
}

bool is_of_constants(const jit::Value *scalar) {
  for (const jit::Value *value : ancestry({scalar})) {
    const jit::Node &node = *value->node();
    const std::string_view kind = node.kind().toQualString();
    if (kind == "prim::Constant" || kind == "prim::ListConstruct" || kind == "prim::NumToTensor" ||
        kind.starts_with("tracehost::py_"))
      continue;
    const auto *schema = kind.starts_with("aten::") ? node.maybeSchema() : nullptr;
    if (!schema)
      return false;
    const auto op = shapes::op_of(*schema);
    if (op && traits(*op).random)
      return false;
  }
  return true;
}

} // namespace tracehost::trace
