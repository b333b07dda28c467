#pragma once

#include "program/interruption.h"
#include "program/merge.h"
#include "program/modes.h"
#include "program/pieces.h"
#include "program/places.h"
#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <torch/csrc/jit/ir/node_hashing.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <unordered_map>

/// How graphs are cut (pieces.h).
///
/// A piece is drafted from the graph that was made last; the others are compared with the draft, op
/// by op. Each graph has only the ops that its own end needs. So an op that only computes may be
/// missing in the draft, where it is then inserted, or in the graph.
///
///     last:  %a = sin(%x)               check(%n, 1)  return %a
///     other:               %b = cos(%x) check(%n, 2)  return %b
///     draft: %a = sin(%x)  %b = cos(%x)

namespace tracehost::cutting {

namespace jit = torch::jit;

struct Draft;

/// Where a value of a graph comes from, in terms that all graphs of the tree share.
struct Origin {
  Draft *piece = nullptr; ///< null: an input of the graph
  jit::Value *value = nullptr;
  std::size_t input = 0; ///< its place among the tree's

  friend bool operator==(const Origin &, const Origin &) = default;
};

struct OriginHash {
  std::size_t operator()(const Origin &origin) const {
    return std::hash<const void *>()(origin.value) ^ origin.input;
  }
};

/// A Piece in the making.
struct Draft {
  std::shared_ptr<jit::Graph> graph = std::make_shared<jit::Graph>();
  std::vector<Origin> taken; ///< in the order of the graph's inputs
  std::unordered_map<Origin, jit::Value *, OriginHash> inputs;
  std::vector<jit::Value *> given;
  jit::Value *number = nullptr; ///< null: a leaf
  std::vector<Draft *> behind;
  std::shared_ptr<const Piece> piece;
};

/// A graph on its way into the tree.
struct Member {
  struct CheckNode {
    const jit::Node *node;
    Check check;
  };
  const Beginning *start = nullptr;
  std::size_t index = 0;
  std::vector<CheckNode> checks;   ///< of the outermost block
  const jit::Node *next = nullptr; ///< the first node that is in no draft
  std::unordered_map<const jit::Value *, Origin> origins;
  std::unordered_map<std::size_t, std::int32_t> inputs; ///< by their place among the tree's
  std::vector<std::pair<Draft *, Check>> links;
};

/// The graph of this Member is not as the others are.
struct Unlike {
  std::size_t index;
  bool at_root = true;
  std::size_t last = 0; ///< the check up to which it is; not at the root
};

bool is_constant(const jit::Value *value);

/// The tree of pieces of some graphs.
class Tree {
public:
  using Ends = std::set<std::pair<std::size_t, std::size_t>>;

  /// Null graphs are left out. `ends`: the members, with the check behind which they share nothing.
  Tree(const std::vector<Beginning> &graphs, const Ends &ends) : ends_(ends) {
    for (std::size_t i = 0; i < graphs.size(); ++i)
      if (graphs[i].graph)
        add(graphs[i], i);
  }

  /// Throws Unlike.
  void draft() {
    std::vector<Member *> all;
    for (Member &member : members_)
      all.insert(all.begin(), &member); // the last graph is the pattern
    split(std::move(all), nullptr, 0);
  }
  void compile(const std::string &name);
  std::unique_ptr<Chain> chain(std::size_t index) const;

private:
  void add(const Beginning &start, std::size_t index);
  static bool agree(const std::vector<Member *> &members, std::size_t k);
  void split(std::vector<Member *> members, Draft *before, std::size_t last);
  std::vector<std::vector<Member *>> by_number(const std::vector<Member *> &members, Draft &draft,
                                               std::size_t check);
  void begin(Draft &draft, Member &member, const jit::Node *end);
  void begin_alike(Draft &draft, Member &member, const jit::Node *end);
  void finish(Member &member, Draft *before);

  jit::Value *value_in(Draft &draft, const Member &member, const jit::Value *value);
  jit::Node *copy(Draft &draft, Member &member, const jit::Node *node);
  static void note(Draft &draft, Member &member, const jit::Node *node, jit::Node *in_draft);
  bool same_value(Draft &draft, const Member &member, jit::Value *drafted,
                  const jit::Value *value) const;
  bool same_node(Draft &draft, Member &member, jit::Node *drafted, const jit::Node *node) const;
  bool same_block(Draft &draft, Member &member, jit::Block *drafted, const jit::Block *block) const;

  const Ends &ends_;
  std::deque<Draft> drafts_;
  std::deque<Member> members_;
  std::unordered_map<const jit::Value *, Origin> of_inputs_; ///< of drafts' graphs
  std::unordered_map<const jit::Value *, std::uint32_t> ids_;
  std::unordered_map<std::string, std::size_t> inputs_; ///< of all graphs
};

} // namespace tracehost::cutting
