#include "guards/stores.h"

#include "frames.h"

namespace tracehost::python {

std::uint64_t Stores::key(int container, int slot) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(container)) << 32 |
         static_cast<std::uint32_t>(slot);
}

void Stores::note(Paths::Position at, bool called) {
  if (at.container < 0)
    return;
  Container &c = paths_.graph().containers[at.container];
  c.stored = true;
  if (at.slot >= 0)
    c.slots[at.slot].stored = true;
  for (const int slot : {at.slot, -1}) {
    Storer &storer = seen_[key(at.container, slot)];
    if (called) {
      storer.called = true;
    } else if (!storer.body) {
      storer.body = true;
      storer.where = user_line();
    }
  }
}

void Stores::note_unknown(int container) {
  const auto [found, fresh] = seen_.try_emplace(key(container, -1));
  if (!fresh)
    return;
  found->second.body = true;
  found->second.where = user_line();
  const Graph &graph = paths_.graph();
  for (const Slot &s : graph.containers[container].slots)
    if (s.expect == Expect::container && s.primary)
      if (const int inner = paths_.before_change(s.value); inner >= 0)
        note_unknown(inner);
}

Storer Stores::of(int container, int slot) const {
  for (const int at : {slot, -1})
    if (const auto found = seen_.find(key(container, at)); found != seen_.end())
      return found->second;
  return {};
}

} // namespace tracehost::python
