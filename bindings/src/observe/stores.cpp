#include "observe/stores.h"

#include "base/forget_error.h"
#include "base/kinds.h"
#include "base/known.h"
#include "base/user_line.h"
#include "guards/elements.h"
#include "observe/changes.h"
#include "trace/block.h"
#include "trace/tracer.h"

#include <algorithm>
#include <unordered_set>

namespace tracehost::python {

/// The name by which read_by_call() distinguishes slots.
static PyObject *name_of(PyObject *key, Place place) {
  return is_collection(place) ? nullptr : key;
}

void Stores::read_by_call(PyObject *name) {
  if (stored_.contains(name))
    stale_.insert(name);
}

bool Stores::is_read_by_call(PyObject *key, Place place) const {
  return stale_.contains(name_of(key, place));
}

void Stores::note(Paths::Position at, bool called) {
  if (at.container < 0)
    return;
  if (!called && trace::recording() && trace::in_block())
    note_in_block(at);
  if (paths_.in_state())
    return;
  Container &c = paths_.graph().containers[at.container];
  c.stored = true;
  if (at.slot >= 0) {
    c.slots[at.slot].stored = true;
    slots_.push_back(at);
  }
  if (!called)
    stored_.insert(at.slot < 0 ? nullptr : name_of(c.slots[at.slot].key, c.place));
  for (const int slot : {at.slot, -1}) {
    Storer &storer = seen(at.container, slot);
    if (called) {
      storer.called = true;
    } else if (!storer.body) {
      storer.body = true;
      storer.where = user_line();
    }
  }
}

void Stores::note_in_side(Paths::Position at) {
  for (const int slot : {at.slot, -1})
    seen(at.container, slot).side = true;
}

Storer &Stores::seen(int container, int slot) {
  const auto [found, fresh] = seen_.try_emplace(pair_of(container, slot));
  if (fresh)
    in_order_.push_back(found->first);
  return found->second;
}

void Stores::join(std::size_t noted) {
  for (std::size_t i = noted; i < slots_.size(); ++i)
    paths_.graph().containers[slots_[i].container].slots[slots_[i].slot].joined = true;
}

void Stores::leave_out(std::size_t count) {
  for (; in_order_.size() > count; in_order_.pop_back())
    seen_.erase(in_order_.back());
}

void Stores::note_unknown(int container) {
  if (seen_.contains(pair_of(container, -1)))
    return;
  Storer &storer = seen(container, -1);
  storer.body = true;
  storer.where = user_line();
  const Graph &graph = paths_.graph();
  for (const Slot &s : graph.containers[container].slots)
    if (s.expect == Expect::container && s.primary)
      if (const int inner = paths_.before_change(s.value); inner >= 0)
        note_unknown(inner);
}

/// A list, set, deque or dict, copied without its class's own code; null: none of these.
static Owned copy_of(PyObject *container) {
  Owned made(PyList_Check(container)     ? PyList_GetSlice(container, 0, PyList_GET_SIZE(container))
             : PyDict_Check(container)   ? PyDict_Copy(container)
             : PyAnySet_Check(container) ? PySet_New(container)
             : is_deque(container)       ? PySequence_List(container)
                                         : nullptr);
  forget_error();
  return made;
}

/// Whether it holds the same objects as its copy, in the same order.
static bool is_copy(PyObject *copy, PyObject *container) {
  if (PyDict_Check(container)) {
    Entries now(container), then(copy);
    bool same = PyDict_GET_SIZE(container) == PyDict_GET_SIZE(copy);
    while (same && then.next())
      same = now.next() && now.key() == then.key() && now.value() == then.value();
    return same;
  }
  if (PyAnySet_Check(container))
    return PySet_GET_SIZE(container) == PySet_GET_SIZE(copy) &&
           PyObject_RichCompareBool(container, copy, Py_EQ) == 1;
  const Owned list(PySequence_List(container));
  bool same = list && PyList_GET_SIZE(list.get()) == PyList_GET_SIZE(copy);
  for (Py_ssize_t i = 0; same && i < PyList_GET_SIZE(copy); ++i)
    same = PyList_GET_ITEM(list.get(), i) == PyList_GET_ITEM(copy, i);
  return same;
}

void Stores::note_in_block(Paths::Position at) {
  const Graph &graph = paths_.graph();
  const Container &c = graph.containers[at.container];
  const Object &o = graph.objects[c.object];
  if (o.library || c.place == Place::inner) // a library's own affair; a cache, see changes.h
    return;
  const auto same = [&](const InBlock &s) { return s.container == at.container && s.slot < 0; };
  if (at.slot < 0 &&
      std::any_of(in_blocks_.begin() + static_cast<std::ptrdiff_t>(begin_), in_blocks_.end(), same))
    return; // it was copied before
  Owned before =
      at.slot < 0 ? copy_of(o.object) : Owned(Py_XNewRef(read(c, c.slots[at.slot], o.object)));
  if (at.slot >= 0 || before)
    in_blocks_.push_back({at.container, at.slot, std::move(before), user_line()});
}

bool Stores::is_as_before(const InBlock &store) const {
  const Container &c = paths_.graph().containers[store.container];
  PyObject *owner = paths_.graph().objects[c.object].object;
  if (store.slot < 0)
    return is_copy(store.before.get(), owner);
  PyObject *now = read(c, c.slots[store.slot], owner), *before = store.before.get();
  if (now == before || !now || !before || Py_TYPE(now) != Py_TYPE(before) ||
      !is_plain(Py_TYPE(now), now))
    return now == before;
  const int same = PyObject_RichCompareBool(now, before, Py_EQ);
  forget_error();
  return same == 1;
}

void Stores::restore(const InBlock &store) {
  const Container &c = paths_.graph().containers[store.container];
  PyObject *owner = paths_.graph().objects[c.object].object, *before = store.before.get();
  if (store.slot >= 0)
    python::store(c, c.slots[store.slot], owner, before);
  else if (PyList_Check(owner) || !is_copy(before, owner))
    static_cast<void>(refill(owner, before));
}

std::vector<BlockStore> Stores::in_block(std::size_t begin) const {
  const KeepError keep;
  const Graph &graph = paths_.graph();
  std::vector<BlockStore> found;
  std::unordered_set<std::uint64_t> seen; // the first store to a slot knows what was there
  for (std::size_t i = begin; i < in_blocks_.size(); ++i) {
    const InBlock &store = in_blocks_[i];
    if (!seen.insert(pair_of(store.container, store.slot)).second || is_as_before(store))
      continue;
    const Container &c = graph.containers[store.container];
    BlockStore &made = found.emplace_back();
    made.container = store.container;
    made.slot = store.slot;
    made.where = store.where;
    made.path = store.slot < 0 ? graph.prefix(c.object) : graph.path(store.container, store.slot);
    if (store.slot < 0)
      continue;
    made.before = Owned(Py_XNewRef(store.before.get()));
    made.now = Owned(Py_XNewRef(read(c, c.slots[store.slot], graph.objects[c.object].object)));
  }
  return found;
}

void Stores::end_block(std::size_t begin, bool restores) {
  const KeepError keep;
  for (std::size_t i = in_blocks_.size(); restores && i-- > begin;) // the first one last
    restore(in_blocks_[i]);
  in_blocks_.erase(in_blocks_.begin() + static_cast<std::ptrdiff_t>(begin), in_blocks_.end());
  begin_ = 0;
}

void Stores::store(const BlockStore &store, PyObject *value) {
  paths_.read({store.container, store.slot}); // a branch may leave what was there
  note({store.container, store.slot}, false);
  const Container &c = paths_.graph().containers[store.container];
  python::store(c, c.slots[store.slot], paths_.graph().objects[c.object].object, value);
}

Storer Stores::of(int container, int slot) const {
  for (const int at : {slot, -1})
    if (const auto found = seen_.find(pair_of(container, at)); found != seen_.end())
      return found->second;
  return {};
}

} // namespace tracehost::python
