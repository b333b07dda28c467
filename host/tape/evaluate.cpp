#include "tape/block_runs.h"
#include "tape/blocks.h"
#include "tape/guards.h"
#include "tape/ops.h"
#include "tape/recording.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

/// The first pass: which ops there are, what they give, and who shares memory with whom. Storages
/// say that, never names of ops: dropout in eval may return its argument, or a copy.

namespace tracehost::tape {
namespace {

using Kind = Memory::Kind;

constexpr std::size_t kMostCopied = 16 << 10; ///< bytes: each call copies what a block was given

bool any_overlap(c10::ArrayRef<c10::IValue> inputs) {
  std::vector<MemoryRange> ranges;
  for (const c10::IValue &input : inputs)
    if (input.isTensor())
      ranges.emplace_back(input.toTensor());
  std::sort(ranges.begin(), ranges.end(),
            [](const MemoryRange &a, const MemoryRange &b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].overlaps(ranges[i - 1]))
      return true;
  return false;
}

/// Where a tensor's values lie, all of it.
struct Layout {
  explicit Layout(const at::Tensor &t)
      : storage(t.storage().unsafeGetStorageImpl()), bytes(t.storage().nbytes()),
        offset(t.storage_offset()), sizes(t.sizes().vec()), strides(t.strides().vec()) {}
  bool operator==(const Layout &) const = default;

  const c10::StorageImpl *storage;
  std::size_t bytes;
  std::int64_t offset;
  std::vector<std::int64_t> sizes, strides;
};

class Evaluation {
public:
  explicit Evaluation(const jit::Graph &graph) : graph_(graph) {
    for (const jit::Node *node : graph.nodes())
      writes_ |= writes(*node);
  }

  Recorded run(c10::ArrayRef<c10::IValue> inputs, const Versions *below) {
    std::optional<at::AutoDispatchBelowADInplaceOrView> guard;
    if (below)
      guard.emplace();
    if (writes_)
      check_size_of_copies(inputs);
    if (writes_ && any_overlap(inputs))
      give_up("it writes, and its inputs share memory");
    for (std::size_t i = 0; i < inputs.size(); ++i)
      add_input(*graph_.inputs()[i], inputs[i]);
    const TimeLimit limit;
    for (const jit::Node *node : graph_.nodes()) {
      evaluate(*node);
      limit.check();
    }
    check_copies();
    if (below && !found_.written_by_blocks.empty())
      give_up("a loop or a branch of a training step writes to what lies outside");
    find_outputs();
    find_last_uses();
    find_versions(below);
    return std::move(found_);
  }

private:
  void add_input(const jit::Value &input, const c10::IValue &given) {
    if (!given.isTensor()) {
      found_.values[&input] = given;
      if (!given.isNone())
        found_.varying.insert(&input);
      return;
    }
    const at::Tensor copy = writes_ ? copy_of(given.toTensor()) : over_memory_of(given.toTensor());
    const std::size_t root = found_.claim(copy, Kind::input);
    if (writes_)
      found_.before[root] = copy_of(copy);
    found_.values[&input] = copy;
  }

  void evaluate(const jit::Node &node) {
    std::vector<c10::IValue> arguments;
    bool varies = false;
    for (const jit::Value *input : node.inputs()) {
      arguments.push_back(found_.values.at(input));
      varies |= found_.varies(*input);
    }
    switch (node.kind()) {
    case c10::prim::Constant:
      add_constant(*node.output());
      return;
    case c10::prim::ListConstruct:
      found_.values[node.output()] = construct_list(node, arguments);
      if (varies)
        found_.varying.insert(node.output());
      return;
    case c10::prim::ListUnpack:
      if (varies)
        give_up("a list of numbers is taken apart");
      for (std::size_t i = 0; i < node.outputs().size(); ++i)
        take_apart(*node.outputs()[i], arguments[0].toListRef()[i]);
      return;
    default:
      if (!does_nothing(node) || !node.outputs().empty())
        call(node, std::move(arguments), varies);
    }
  }

  void take_apart(const jit::Value &value, const c10::IValue &element) {
    found_.values[&value] = element;
    if (!element.isTensor() || !element.toTensor().defined())
      return;
    Memory &root = found_.roots[found_.root_of(element.toTensor())];
    if (root.kind == Kind::planned && !root.made)
      root.made = &value;
  }

  void add_constant(const jit::Value &constant) {
    c10::IValue value = *jit::toIValue(&constant);
    if (value.isTensor()) {
      if (value.toTensor().requires_grad())
        give_up("a constant requires gradients");
      found_.claim(value.toTensor(), Kind::constant);
    }
    found_.values[&constant] = std::move(value);
  }

  void call(const jit::Node &node, std::vector<c10::IValue> arguments, bool varies) {
    const std::string name = node.kind().toQualString();
    if (auto why = why_not(node); !why.empty())
      give_up(std::move(why));
    if (varies && resizes_by_number(node))
      give_up(name + " may change sizes by a number");
    check_offset(node, arguments);
    note_given_to_block(node, arguments);
    const std::vector<at::Tensor> written = written_by(node, arguments);
    const std::vector<Layout> before(written.begin(), written.end());
    std::map<std::size_t, std::pair<at::Tensor, std::int64_t>>
        counted; // by root: one for all views
    if (is_outlined(node))
      for (const at::Tensor &t : written)
        counted.try_emplace(found_.root_of(t), t, version_of(t));
    const bool by_value = moves_by_value(arguments, varies);
    operation_of(node)(arguments);
    if (!std::equal(written.begin(), written.end(), before.begin(),
                    [](const at::Tensor &t, const Layout &then) { return Layout(t) == then; }))
      give_up(name + " changes sizes");
    for (const auto &[root, one] : counted) {
      found_.written_by_blocks.insert(root);
      of_blocks_[root] += version_of(one.first) - one.second;
    }
    const std::size_t first = arguments.size() - node.outputs().size();
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      add_result(node, *node.outputs()[i], std::move(arguments[first + i]), varies, by_value);
      if (is_outlined(node))
        note_of_block(node, i);
    }
  }

  /// On a tape an input lies at the start of its memory, and a result that may be a view at the
  /// start of its own.
  void check_offset(const jit::Node &node, const std::vector<c10::IValue> &arguments) const {
    if (!reads_offset(node) || arguments.empty())
      return;
    each_tensor(arguments[0], [&](const at::Tensor &t) {
      if (!t.defined() || !found_.knows(t))
        return;
      const Memory &root = found_.roots[found_.root_of(t)];
      if (root.kind == Kind::input)
        give_up(std::string(node.kind().toQualString()) + " asks where an input lies");
      if (root.moves_in || root.of_block)
        give_up(std::string(node.kind().toQualString()) + " asks where a view lies");
    });
  }

  void note_given_to_block(const jit::Node &node, const std::vector<c10::IValue> &arguments) {
    if (!is_outlined(node))
      return;
    for (const c10::IValue &argument : arguments)
      each_tensor(argument, [&](const at::Tensor &t) {
        if (!t.defined() || !found_.knows(t))
          return;
        std::optional<std::size_t> root = found_.root_of(t);
        for (; root; root = found_.roots[*root].moves_in)
          given_to_blocks_.emplace_back(&node, *root);
      });
  }

  /// A block may give what it was given, of which the op makes a copy. Writes to the one are not
  /// seen in the other.
  void check_copies() {
    for (const auto &[node, root] : given_to_blocks_) {
      if (!written_.contains(root))
        continue;
      found_.given_written.insert(node);
      if (copies_.contains(node))
        give_up("it writes to what a loop or a branch gives as it was given");
    }
  }

  std::vector<at::Tensor> written_by(const jit::Node &node,
                                     const std::vector<c10::IValue> &arguments) {
    std::vector<at::Tensor> written;
    for (const std::size_t i : written_arguments(node))
      each_tensor(arguments[i], [&](const at::Tensor &t) {
        if (!t.defined())
          return;
        if (!found_.knows(t) || found_.roots[found_.root_of(t)].kind == Kind::constant)
          give_up(std::string(node.kind().toQualString()) + " writes to a constant");
        Memory &root = found_.roots[found_.root_of(t)];
        if (root.of_block || root.moves_in)
          give_up(root.of_block ? "it writes to what a loop or a branch gives"
                                : "it writes to a view whose place depends on a number");
        root.written |= root.kind == Kind::input;
        written_.insert(found_.root_of(t));
        written.push_back(t);
      });
    return written;
  }

  void note_of_block(const jit::Node &node, std::size_t output) {
    each_tensor(found_.values.at(node.outputs()[output]), [&](const at::Tensor &t) {
      if (!t.defined())
        return;
      Memory &root = found_.roots[found_.root_of(t)];
      root.of_block = true;
      if (was_copied(output) != Copied::no)
        copies_.insert(&node);
      if (was_copied(output) == Copied::with_other_strides)
        give_up("a loop or a branch gives a view as it was given");
      root.copied |= was_copied(output) == Copied::yes;
      if (root.copied && root.bytes > kMostCopied)
        give_up("a loop or a branch gives a large tensor as it was given");
      root.may_be_view |= may_be_view(node, output);
    });
  }

  /// `by_value`: a view lies elsewhere at other values.
  void add_result(const jit::Node &node, const jit::Value &output, c10::IValue value, bool varies,
                  bool by_value) {
    const std::string name = node.kind().toQualString();
    if (value.isTensor() && value.toTensor().defined()) { // else a gradient that nobody asks for
      const auto place =
          by_value && !writes(node) ? place_in_known(value.toTensor()) : std::nullopt;
      if (place) // below, it has memory of its own
        value = copy_of(value.toTensor());
      add_tensor(name, value.toTensor(), output);
      if (place)
        found_.roots[found_.root_of(value.toTensor())].moves_in = place;
    } else if (value.isTensorList())
      add_list(name, value.toTensorVector(), output, by_value);
    else if (!value.isTensor() && (varies || !is_fixed(node)))
      found_.varying.insert(&output);
    found_.values[&output] = std::move(value);
  }

  std::optional<std::size_t> place_in_known(const at::Tensor &t) const {
    if (!is_plain(t) || !found_.knows(t))
      return std::nullopt;
    if (at::has_internal_overlap(t) == at::MemOverlap::Yes)
      give_up("a view whose place depends on a number, and that overlaps itself");
    return found_.root_of(t);
  }

  void add_tensor(const std::string &name, const at::Tensor &t, const jit::Value &value) {
    if (!is_plain(t))
      give_up(name + " gives no plain tensor");
    const bool is_new = !found_.knows(t);
    if (t.requires_grad() && (is_new || c10::GradMode::is_enabled()))
      give_up("records gradients");
    const std::size_t root = found_.claim(t, Kind::planned);
    if (is_new)
      found_.roots[root].made = &value;
    if (writes_)
      found_.copies[&value] = t.clone();
  }
  /// A list of views is nothing to do; new tensors have a root each.
  void add_list(const std::string &name, const std::vector<at::Tensor> &tensors,
                const jit::Value &value, bool varies) {
    const auto is_known = [this](const at::Tensor &t) { return t.defined() && found_.knows(t); };
    if (!varies && std::all_of(tensors.begin(), tensors.end(), is_known))
      return;
    std::vector<at::Tensor> &kept = found_.lists[&value];
    for (const at::Tensor &t : tensors) {
      if (!t.defined() || !is_plain(t) || t.requires_grad() || found_.knows(t))
        give_up(name + " gives a list");
      found_.claim(t, Kind::planned);
      kept.push_back(writes_ ? t.clone() : t);
    }
  }

  void find_outputs() {
    for (const jit::Value *output : graph_.outputs()) {
      const c10::IValue &value = found_.values.at(output);
      if (!value.isTensor() && !value.isInt() && !value.isDouble() && !value.isBool() &&
          !value.isNone())
        give_up("an output that is no tensor");
      if (!value.isTensor())
        continue;
      if (!value.toTensor().defined())
        give_up("an output that is no tensor");
      Memory &root = found_.roots[found_.root_of(value.toTensor())];
      if (root.moves_in)
        give_up("an output that is a view whose place depends on a number");
      if (root.copied)
        give_up("an output that a loop or a branch gives as it was given");
      if (root.may_be_view)
        give_up("an output that a loop or a branch may give as a view");
      if (root.kind == Kind::planned)
        root.kind = Kind::fresh;
    }
  }

  void find_versions(const Versions *below) {
    if (below) {
      found_.versions.clear();
      for (const auto &[value, version] : *below)
        found_.versions[found_.root_of(found_.tensor(*value))] = version;
      return;
    }
    const auto add = [this](const jit::Value *value) {
      const c10::IValue &found = found_.values.at(value);
      if (found.isTensor() && (value->node() == graph_.param_node() || found_.made(*value)))
        found_.versions[found_.root_of(found.toTensor())] += version_of(found.toTensor());
    };
    for (const jit::Value *input : graph_.inputs())
      add(input);
    for (const jit::Node *node : graph_.nodes())
      for (const jit::Value *output : node->outputs())
        add(output);
    for (const auto &[root, count] : of_blocks_)
      found_.versions[root] -= count;
  }

  void find_last_uses() {
    for (const jit::Node *node : graph_.nodes())
      for (const jit::Value *input : node->inputs())
        each_tensor(found_.values.at(input), [&](const at::Tensor &t) {
          if (!t.defined())
            return;
          std::optional<std::size_t> root = found_.root_of(t);
          for (; root; root = found_.roots[*root].moves_in)
            found_.roots[*root].last = node;
        });
  }

  const jit::Graph &graph_;
  bool writes_ = false;                                                    ///< some op of the graph
  std::unordered_set<std::size_t> written_;                                ///< roots
  std::vector<std::pair<const jit::Node *, std::size_t>> given_to_blocks_; ///< roots
  std::unordered_set<const jit::Node *> copies_;  ///< loops and branches that gave a copy
  std::map<std::size_t, std::int64_t> of_blocks_; ///< versions by root
  Recorded found_;
};

} // namespace

Recorded evaluate(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs,
                  const Versions *below) {
  return Evaluation(graph).run(inputs, below);
}

} // namespace tracehost::tape
