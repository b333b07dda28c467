#pragma once

#include "tape/recording.h"

#include <c10/core/Storage.h>

#include <map>
#include <unordered_set>
#include <utility>

/// The memory of a tape that is being made, and the tensors over it.
///
/// The memory of a result is planned: another result may have it behind the last op that reads it.
/// Memory that is another one at each call has other memory for the recording.

namespace tracehost::tape {

class Memories {
public:
  /// `found` lives as long, and knows how each root is had.
  Memories(const jit::Graph &graph, Recorded &found);

  /// The storage over the memory of a root; made if it has none. None: of a constant.
  const c10::Storage &place(std::size_t root);
  /// The same, for what an op gives: never planned memory, and not the one it had.
  const c10::Storage &place_again(std::size_t root);

  /// Makes the fixed tensor of a value, or the fixed tensors of a list. Requires: their memory has
  /// its place.
  void fix(const jit::Value &value);
  const c10::IValue &fixed(const jit::Value &value) const { return fixed_.at(&value); }

  /// From here to end_group() memory that is placed by now keeps its values: a region reads and
  /// writes where its last op stands.
  void begin_group() { group_since_ = ++placed_; }
  void end_group();

  /// What no op behind this one reads may be used again.
  void release(const jit::Node &node);

  std::size_t bytes() const { return bytes_; } ///< of planned memory
  /// Roots of ops' results that no op behind those released reads, and that are no outputs.
  std::vector<std::size_t> take_spent() { return std::exchange(spent_, {}); }
  /// What holds the planned memory.
  std::vector<at::Tensor> take_planned() { return std::move(planned_); }

private:
  c10::IValue fixed_of(const c10::IValue &value) const;
  at::Tensor memory_for(Memory &root);
  void give_back(std::size_t index);

  const jit::Graph &graph_;
  Recorded &found_;
  std::vector<c10::Storage> storages_; ///< by root
  std::unordered_map<const jit::Value *, c10::IValue> fixed_;
  std::unordered_map<const jit::Node *, std::vector<std::size_t>> last_uses_; ///< roots
  std::multimap<std::size_t, at::Tensor> pool_;                               ///< by bytes
  std::vector<at::Tensor> planned_, of_recording_;
  std::size_t bytes_ = 0;
  std::size_t placed_ = 0, group_since_ = 0; ///< count placements; 0: no group
  std::vector<std::size_t> placed_at_;       ///< by root
  std::vector<std::size_t> kept_for_group_;  ///< roots to give back behind it
  std::vector<std::size_t> spent_;
  std::unordered_set<std::size_t> of_outputs_; ///< roots
};

} // namespace tracehost::tape
