#include "guards/stores.h"

#include "frames.h"
#include "guards/known.h"
#include "trace/block.h"
#include "trace/tracer.h"
#include "traced_number.h"

#include <unordered_set>

namespace tracehost::python {

std::uint64_t Stores::key(int container, int slot) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(container)) << 32 |
         static_cast<std::uint32_t>(slot);
}

void Stores::note(Paths::Position at, bool called) {
  if (at.container < 0)
    return;
  if (!called && trace::recording() && trace::in_block())
    note_in_block(at);
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

void Stores::note_in_block(Paths::Position at) {
  const Graph &graph = paths_.graph();
  const Container &c = graph.containers[at.container];
  const Object &o = graph.objects[c.object];
  if (o.library || c.place == Place::inner) // a library's own affair; a cache, see changes.h
    return;
  PyObject *dict = has_dict(c.place) ? dict_of(c.place, o.object) : nullptr;
  PyObject *before = at.slot < 0 ? nullptr : read(c, c.slots[at.slot], o.object, dict);
  in_blocks_.push_back({at.container, at.slot, Owned(Py_XNewRef(before)),
                        length_of(c.place, o.object), user_line()});
}

bool Stores::is_as_before(const InBlock &store) const {
  const Container &c = paths_.graph().containers[store.container];
  PyObject *owner = paths_.graph().objects[c.object].object;
  if (store.slot >= 0) {
    PyObject *dict = has_dict(c.place) ? dict_of(c.place, owner) : nullptr;
    PyObject *now = read(c, c.slots[store.slot], owner, dict), *before = store.before.get();
    if (now == before || !now || !before || Py_TYPE(now) != Py_TYPE(before) ||
        !is_plain(Py_TYPE(now), now))
      return now == before;
    const int same = PyObject_RichCompareBool(now, before, Py_EQ);
    PyErr_Clear();
    return same == 1;
  }
  if (c.place == Place::entries)
    return length_of(c.place, owner) == store.length;
  if (c.place != Place::items || !PyList_Check(owner))
    return true; // elements of a set or deque are no outputs of the graph: see finish.h
  for (Py_ssize_t i = store.length; i < PyList_GET_SIZE(owner); ++i)
    if (is_tensor(PyList_GET_ITEM(owner, i))) // a traced number is one, too
      return false;
  return true;
}

void Stores::put_back(const InBlock &store) {
  const Container &c = paths_.graph().containers[store.container];
  PyObject *owner = paths_.graph().objects[c.object].object;
  const Slot *slot = store.slot < 0 ? nullptr : &c.slots[store.slot];
  if (slot)
    write(c.place, slot->key, slot->index, owner, store.before.get());
  else if (c.place == Place::items && PyList_Check(owner))
    PyList_SetSlice(owner, store.length, PyList_GET_SIZE(owner), nullptr);
  PyErr_Clear();
}

std::vector<BlockStore> Stores::in_block(std::size_t begin) const {
  const KeepError keep;
  const Graph &graph = paths_.graph();
  std::vector<BlockStore> found;
  std::unordered_set<std::uint64_t> seen; // the first store to a slot knows what was there
  for (std::size_t i = begin; i < in_blocks_.size(); ++i) {
    const InBlock &store = in_blocks_[i];
    if (!seen.insert(key(store.container, store.slot)).second || is_as_before(store))
      continue;
    const Container &c = graph.containers[store.container];
    BlockStore &made = found.emplace_back();
    made.container = store.container;
    made.slot = store.slot;
    made.where = store.where;
    made.path = store.slot < 0 ? graph.prefix(c.object) : graph.path(store.container, store.slot);
    if (store.slot < 0)
      continue;
    PyObject *owner = graph.objects[c.object].object;
    PyObject *dict = has_dict(c.place) ? dict_of(c.place, owner) : nullptr;
    made.before = Owned(Py_XNewRef(store.before.get()));
    made.now = Owned(Py_XNewRef(read(c, c.slots[store.slot], owner, dict)));
  }
  return found;
}

void Stores::end_block(std::size_t begin, bool puts_back) {
  const KeepError keep;
  for (std::size_t i = in_blocks_.size(); puts_back && i-- > begin;) // the first one last
    put_back(in_blocks_[i]);
  in_blocks_.resize(begin);
}

void Stores::store(const BlockStore &store, PyObject *value) {
  paths_.read({store.container, store.slot}); // a branch may leave what was there
  note({store.container, store.slot}, false);
  const Container &c = paths_.graph().containers[store.container];
  const Slot &slot = c.slots[store.slot];
  if (!write(c.place, slot.key, slot.index, paths_.graph().objects[c.object].object, value))
    PyErr_Clear();
}

Storer Stores::of(int container, int slot) const {
  for (const int at : {slot, -1})
    if (const auto found = seen_.find(key(container, at)); found != seen_.end())
      return found->second;
  return {};
}

} // namespace tracehost::python
