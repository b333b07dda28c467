#include "signature/difference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

namespace tracehost {
namespace {

bool sequences(Kind a, Kind b) {
  const auto is = [](Kind kind) { return kind == Kind::tuple || kind == Kind::list; };
  return is(a) && is(b);
}

/// What is compared by identity is shown in angle brackets, as Python shows what has no literal.
bool is_object(const std::string &text) { return text.starts_with('<'); }

std::string shape_text(const TensorMeta &meta) {
  return fmt::format("[{}]", sizes_text(meta.sizes));
}

std::string strides_text(const TensorMeta &meta) {
  return fmt::format("strides [{}]", fmt::join(meta.strides, ", "));
}

/// Strides change with a dynamic size, so for a dynamic tensor only contiguity is compared.
bool same_strides(const TensorMeta &a, const TensorMeta &b) {
  return a.strides == b.strides || (a.dynamic && a.contiguous && b.contiguous);
}

/// Differences of two tensors' metadata, without a path. Strides and is_leaf where the body read
/// them.
std::vector<Difference> differences(const TensorMeta &a, const TensorMeta &b, bool strides,
                                    bool leaf) {
  std::vector<Difference> found;
  const auto add = [&](Cause cause, std::string before, std::string after) {
    found.push_back(
        {.cause = cause, .path = {}, .before = std::move(before), .after = std::move(after)});
  };
  if (a.dtype != b.dtype)
    add(Cause::dtype, dtype_name(a.dtype), dtype_name(b.dtype));
  if (a.sizes.size() != b.sizes.size())
    add(Cause::rank, shape_text(a), shape_text(b));
  else
    for (std::size_t i = 0; i < a.sizes.size(); ++i)
      if (a.sizes[i] != b.sizes[i] && a.sizes[i] != kAnySize) {
        add(Cause::shape, sizes_text(a.sizes[i]), sizes_text(b.sizes[i]));
        found.back().dimension = static_cast<int>(i);
        found.back().rank = static_cast<int>(a.sizes.size());
      }
  if (a.device != b.device)
    add(Cause::device, a.device.str(), b.device.str());
  if (a.layout() != b.layout())
    add(Cause::layout, a.layout(), b.layout());
  if (a.requires_grad != b.requires_grad)
    add(Cause::requires_grad, a.requires_grad ? "True" : "False",
        b.requires_grad ? "True" : "False");
  else if (leaf && a.is_leaf != b.is_leaf)
    add(Cause::requires_grad, a.is_leaf ? "a leaf" : "not a leaf",
        b.is_leaf ? "a leaf" : "not a leaf");
  if (a.type != b.type)
    add(Cause::subclass, a.type_name, b.type_name);
  if (found.empty() && a.keys != b.keys) // a key that has no name of its own here
    add(Cause::layout, c10::toString(a.keys), c10::toString(b.keys));
  if (found.empty() && strides && !same_strides(a, b))
    add(Cause::layout, strides_text(a), strides_text(b));
  return found;
}

/// Walks two Signatures' trees in lockstep.
class Walk {
public:
  Walk(const Signature &a, const Signature &b, std::vector<Difference> &found)
      : a_(a), b_(b), found_(found) {}

  void arguments() {
    std::size_t i = 0, j = 0;
    while (i < a_.nodes.size() && j < b_.nodes.size()) {
      node(i, j);
      i = a_.nodes[i].end;
      j = b_.nodes[j].end;
    }
    if (i < a_.nodes.size() || j < b_.nodes.size())
      found_.push_back({.cause = Cause::structure,
                        .path = "the parameters",
                        .before = text(a_),
                        .after = text(b_)});
  }

  void current_guards() {
    for (const auto &difference : tracehost::differences(a_.context, b_.context))
      found_.push_back({.cause = Cause::context,
                        .path = difference.field,
                        .before = difference.before,
                        .after = difference.after});
    const bool same_tree = found_.empty();
    if (same_tree)
      conditions();
    for (std::size_t i = 0; i < a_.guarded.size(); ++i)
      guarded(a_.guarded[i], counterpart(b_.guarded, a_.guarded[i].path, i));
    for (std::size_t i = 0; i < a_.captures.size(); ++i)
      capture(a_.captures[i], counterpart(b_.captures, a_.captures[i].path, i));
    if (same_tree) {
      grads();
    }
  }

private:
  void add(Cause cause, std::size_t at, std::string before, std::string after) {
    found_.push_back({.cause = cause,
                      .path = path(b_, at),
                      .before = std::move(before),
                      .after = std::move(after)});
  }

  void node(std::size_t i, std::size_t j) {
    const Node &a = a_.nodes[i], &b = b_.nodes[j];
    if (a.kind == Kind::tensor && b.kind == Kind::tensor)
      return tensor(a.payload.slot, b.payload.slot, j);
    if (a.is_container() && b.is_container())
      return container(i, j);
    if (a.kind != b.kind && (a.kind == Kind::alias || b.kind == Kind::alias))
      return add(Cause::alias, j, object_text(a_, a), object_text(b_, b));
    if (a.kind != b.kind)
      return add(Cause::type, j, type_name(a_, i), type_name(b_, j));
    if (same(a, b))
      return;
    const std::string before = text(a_, a), after = text(b_, b);
    const bool objects = a.kind == Kind::atom && is_object(before) && is_object(after);
    add(objects ? Cause::object : Cause::value, j, before, after);
  }

  /// Slots are numbered by first use in either tree: those that stand for each other are paired
  /// when first met, and met again with another partner where the alias pattern differs.
  void tensor(std::uint32_t slot_a, std::uint32_t slot_b, std::size_t at) {
    const auto [partner, is_new_a] = pairs_.emplace(slot_a, Place{slot_b, at});
    const auto [first, is_new_b] = first_.emplace(slot_b, Place{slot_a, at});
    if (!is_new_a && !is_new_b && partner->second.slot == slot_b && first->second.slot == slot_a)
      return; // the same pair again
    const auto metas =
        differences(a_.slots[slot_a], b_.slots[slot_b], a_.reads_strides, a_.reads_leaf);
    for (Difference difference : metas) {
      difference.path = path(b_, at);
      found_.push_back(std::move(difference));
    }
    if (metas.empty() && (!is_new_a || !is_new_b))
      add(Cause::alias, at, alias_text(is_new_a, partner->second.at),
          alias_text(is_new_b, first->second.at));
  }

  std::string alias_text(bool is_new, std::size_t first) const {
    return is_new ? "a tensor of its own" : "the same tensor as " + path(b_, first);
  }

  static std::string object_text(const Signature &signature, const Node &node) {
    return node.kind == Kind::alias ? "the same object as " + text(signature, node)
                                    : "an object of its own";
  }

  void container(std::size_t i, std::size_t j) {
    const Node &a = a_.nodes[i], &b = b_.nodes[j];
    Node type_a = a, type_b = b; // the types alone, without the extents
    type_a.end = type_b.end = 0;
    const bool same_type = same(type_a, type_b);
    if (!same_type)
      add(Cause::type, j, type_name(a_, i), type_name(b_, j));
    const bool by_type = a.kind == Kind::record || a.kind == Kind::custom;
    if (by_type ? !same_type : a.kind != b.kind && !sequences(a.kind, b.kind))
      return; // nothing in them corresponds
    auto items_a = children(a_, i), items_b = children(b_, j);
    further(j, items_a, items_b);
    if (items_a.size() != items_b.size() || (a.kind == Kind::dict && !same_keys(items_a, items_b)))
      return structure(i, j, items_a, items_b);
    // Keys are equal here; only the values of a dict are walked.
    for (std::size_t k = a.kind == Kind::dict ? 1 : 0; k < items_a.size();
         k += a.kind == Kind::dict ? 2 : 1)
      node(items_a[k], items_b[k]);
  }

  /// What containers have besides their children: taken off the two lists, and compared.
  void further(std::size_t at, std::vector<std::size_t> &items_a,
               std::vector<std::size_t> &items_b) {
    const auto take = [](const Signature &signature, std::vector<std::size_t> &items) {
      std::vector<std::size_t> result;
      if (!items.empty() && signature.nodes[items.back()].kind == Kind::further) {
        result = children(signature, items.back());
        items.pop_back();
      }
      return result;
    };
    const auto a = take(a_, items_a), b = take(b_, items_b);
    if (a.size() != b.size() || !same_keys(a, b))
      return add(Cause::structure, at, keys_text(a_, a, "with"), keys_text(b_, b, "with"));
    for (std::size_t k = 1; k < a.size(); k += 2)
      node(a[k], b[k]);
  }

  void structure(std::size_t i, std::size_t j, const std::vector<std::size_t> &items_a,
                 const std::vector<std::size_t> &items_b) {
    if (a_.nodes[i].kind == Kind::dict)
      add(Cause::structure, j, keys_text(a_, items_a), keys_text(b_, items_b));
    else
      add(Cause::structure, j, text(a_, a_.nodes[i]), text(b_, b_.nodes[j]));
  }

  bool same_keys(const std::vector<std::size_t> &items_a, const std::vector<std::size_t> &items_b) {
    for (std::size_t k = 0; k < items_a.size(); k += 2)
      if (!same_subtree(items_a[k], items_b[k]))
        return false;
    return true;
  }

  bool same_subtree(std::size_t i, std::size_t j) {
    const std::size_t size = a_.nodes[i].end - i;
    if (size != b_.nodes[j].end - j)
      return false;
    for (std::size_t k = 0; k < size; ++k) {
      Node a = a_.nodes[i + k], b = b_.nodes[j + k];
      a.end -= static_cast<std::uint32_t>(i);
      b.end -= static_cast<std::uint32_t>(j);
      if (!same(a, b))
        return false;
    }
    return true;
  }

  /// Requires: the trees are the same, so that slots have the same numbers.
  void conditions() {
    struct Sizes final : SizeSource {
      explicit Sizes(const Signature &signature) : signature(signature) {}
      std::int64_t size(std::int32_t slot, std::int32_t dimension) const override {
        const auto input = static_cast<std::size_t>(slot), slots = signature.slots.size();
        const auto at = static_cast<std::size_t>(dimension);
        if (input < slots)
          return signature.slots[input].sizes[at];
        const auto &captures = signature.captures;
        return input - slots < captures.size() && at < captures[input - slots].meta.sizes.size()
                   ? captures[input - slots].meta.sizes[at]
                   : kAnySize;
      }
      const Signature &signature;
    };
    const Sizes sizes(b_);
    for (const SizeCondition &condition : a_.conditions) {
      if (holds(condition, sizes) || open(condition, sizes))
        continue;
      SizeCondition opposite = condition;
      opposite.expected = !condition.expected;
      found_.push_back({.cause = Cause::condition,
                        .path = condition.where,
                        .before = text(condition, a_),
                        .after = text(opposite, b_)});
    }
  }

  /// What the body read of the same input now; null: not known. Requires: as conditions().
  template <class Read> static const Read *now(const Read &read, const std::vector<Read> &request) {
    const auto found = std::find_if(request.begin(), request.end(),
                                    [&](const Read &other) { return other.input == read.input; });
    return found == request.end() ? nullptr : &*found;
  }

  void grads() {
    for (const GradRead &read : a_.grads)
      if (const GradRead *other = now(read, b_.grads); other && other->state != read.state)
        found_.push_back({.cause = Cause::guarded,
                          .path = grad_path(a_.input_path(read.input)),
                          .before = text(read.state),
                          .after = text(other->state)});
  }

  static bool open(const SizeCondition &condition, const SizeSource &sizes) {
    return std::any_of(
        condition.expression.begin(), condition.expression.end(), [&](const SizeTerm &term) {
          return term.op == SizeTerm::Op::size && sizes.size(term.slot, term.dimension) == kAnySize;
        });
  }

  void guarded(const GuardedSlot &a, const GuardedSlot *b) {
    if (b && !same(a.node, b->node))
      found_.push_back({.cause = Cause::guarded,
                        .path = a.path,
                        .before = text(a_, a.node),
                        .after = text(b_, b->node)});
  }

  void capture(const CaptureSpec &a, const CaptureSpec *b) {
    if (!b)
      return;
    const auto metas = differences(a.meta, b->meta, a_.reads_strides, a_.reads_leaf);
    std::string before = a.meta.text(), after = b->meta.text();
    int dimension = -1;
    if (!metas.empty()) {
      if (std::all_of(metas.begin(), metas.end(),
                      [](const Difference &d) { return d.cause == Cause::shape; }))
        dimension = metas.front().dimension;
      if (before == after) { // strides, or a key that the text does not show
        before = metas.front().before;
        after = metas.front().after;
      }
    } else if (a.same_as_slot != b->same_as_slot) {
      const auto alias = [](std::int32_t slot) {
        return slot < 0 ? "no argument" : fmt::format("tensor argument {}", slot);
      };
      before = alias(a.same_as_slot);
      after = alias(b->same_as_slot);
    } else {
      return;
    }
    found_.push_back({.cause = Cause::capture,
                      .path = a.path,
                      .dimension = dimension,
                      .before = std::move(before),
                      .after = std::move(after)});
  }

  /// The entry of the request for `path`: at the same place as a rule; null where it was not read.
  template <class Entry>
  static const Entry *counterpart(const std::vector<Entry> &entries, const std::string &path,
                                  std::size_t likely) {
    if (likely < entries.size() && entries[likely].path == path)
      return &entries[likely];
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const Entry &entry) { return entry.path == path; });
    return found == entries.end() ? nullptr : &*found;
  }

  static std::vector<std::size_t> children(const Signature &signature, std::size_t index) {
    std::vector<std::size_t> result;
    for (std::size_t i = index + 1; i < signature.nodes[index].end; i = signature.nodes[i].end)
      result.push_back(i);
    return result;
  }

  static std::string keys_text(const Signature &signature, const std::vector<std::size_t> &items,
                               const std::string &what = "keys") {
    std::string result;
    for (std::size_t k = 0; k < items.size() && k < 16; k += 2)
      result += (k ? ", " : "") + text(signature, signature.nodes[items[k]]);
    return what + " {" + result + (items.size() > 16 ? ", ..." : "") + "}";
  }

  static std::string type_name(const Signature &signature, std::size_t index) {
    Node node = signature.nodes[index];
    switch (node.kind) {
    case Kind::tensor:
      return signature.slots[node.payload.slot].type_name;
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    default: // a copy of a container's node has its type as text
      return text(signature, node);
    }
  }

  struct Place {
    std::uint32_t slot; ///< the partner
    std::size_t at;     ///< the node of the request where they met first
  };
  const Signature &a_, &b_;
  std::vector<Difference> &found_;
  std::unordered_map<std::uint32_t, Place> pairs_, first_; ///< slot of a -> of b, of b -> of a
};

} // namespace

std::vector<Difference> differences(const Signature &specialization, const Signature &request) {
  std::vector<Difference> found;
  Walk walk(specialization, request, found);
  walk.arguments();
  walk.current_guards();
  return found;
}

} // namespace tracehost
