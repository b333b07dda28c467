#include "observe/finish.h"

#include "base/kinds.h"
#include "base/object.h"
#include "observe/fate.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

namespace tracehost::python {

namespace {

std::string at(const Site &where) { return where.line ? " at " + text(where) : ""; }

/// The sentence of a row that says `once`.
template <class Facts>
std::string why(const FateRow<Facts> &row, const std::string &path, const Site &where = {}) {
  return fmt::format(fmt::runtime(row.why), fmt::arg("path", path), fmt::arg("where", at(where)));
}

} // namespace

Finish::Finish(Paths &paths, const Stores &stores, bool calls, std::span<PyObject *const> captured,
               std::span<PyObject *const> handed_out)
    : paths_(paths), graph_(paths.graph()), stores_(stores), calls_(calls), captured_(captured),
      held_(captured.size()) {
  mark_handed_out(handed_out);
}

std::shared_ptr<GraphGuards> Finish::run(bool watch_values, const std::vector<Change> &changes,
                                         std::vector<Rebound> &rebound,
                                         std::vector<SideEffect> &side_effects) {
  watch_values_ = watch_values;
  has_parts_.assign(graph_.objects.size(), false);
  for (const Container &c : graph_.containers)
    has_parts_[c.object] =
        has_parts_[c.object] || c.read || c.read_later ||
        std::any_of(c.slots.begin(), c.slots.end(), [](const Slot &slot) { return slot.read; });
  if (calls_ || !watch_values) // code that is called holds the same objects
    for (Object &o : graph_.objects)
      o.alike = false;
  for (const Change &change : changes) // what is kept is that very object
    visit_stored(change, [this](PyObject *object) { paths_.identified(object); });
  mark_captures();
  mark_ways_of_aside();
  std::vector<const Change *> others;
  for (const Change &change : changes)
    if (change.rebound < 0 || !repeat(change, rebound[change.rebound]))
      others.push_back(&change);
  for (const Change *change : others)
    changed(*change);
  drop_aside();
  for (std::size_t c = 0; c < graph_.containers.size(); ++c)
    drop_unread(static_cast<int>(c));
  drop_below();
  // `self.weight`, an attribute, may have become a parameter of the module: one change in two
  // dicts.
  if (eager_ && !gone_.empty())
    once_ = why(*fate_of(kChanges, ChangeFacts{.eager = true}), gone_.front().path);
  else if (once_.empty())
    std::move(gone_.begin(), gone_.end(), std::back_inserter(effects_));
  side_effects = std::move(effects_);
  return guards();
}

/// Marks each capture's slot and those on the way to it.
void Finish::mark_captures() {
  std::unordered_map<PyObject *, std::int32_t> captures;
  for (std::size_t i = 0; i < captured_.size(); ++i) {
    captures.emplace(captured_[i], static_cast<std::int32_t>(i));
    const Paths::Position *at = paths_.tensor(captured_[i]);
    if (!at) {
      held_[i] = captured_[i];
      continue;
    }
    Slot *slot = &graph_.containers[at->container].slots[at->slot];
    const bool number = paths_.numbers().gives(captured_[i]);
    slot->expect = number ? Expect::number : Expect::capture;
    if (number)
      slot->type = Py_TYPE(slot->value);
    slot->capture = static_cast<std::int32_t>(i);
    slot->needed = true;
    mark_way(graph_.containers[at->container].object);
  }
  // A second path to the same tensor must still lead there at later calls.
  for (Container &c : graph_.containers)
    for (Slot &s : c.slots)
      if (s.expect == Expect::tensor)
        if (const auto found = captures.find(s.value);
            found != captures.end() && !held_[found->second]) {
          s.expect = Expect::same;
          s.capture = found->second;
        }
}

/// The slots by which an object is reached.
void Finish::mark_way(int object) {
  for (const Object *o = &graph_.objects[object]; o->container >= 0;
       o = &graph_.objects[graph_.containers[o->container].object])
    graph_.containers[o->container].slots[o->slot].needed = true;
}

/// A later call finds them by the same paths.
void Finish::mark_handed_out(std::span<PyObject *const> objects) {
  for (PyObject *object : objects)
    mark_way(handed_out_.emplace_back(paths_.number_of(object)));
}

// ---- what changed -------------------------------------------------------------------------------

bool Finish::is_guarded(int container) const {
  return watch_values_ && !graph_.objects[graph_.containers[container].object].typed;
}

/// The slot stays guarded as it was before the trace; what it holds now is stored by each run.
/// False: it is a change as any other.
bool Finish::repeat(const Change &change, Rebound &rebound) {
  Container &c = graph_.containers[change.container];
  Slot *slot = change.slot < 0 ? nullptr : &c.slots[change.slot];
  const bool held_tensor =
      slot && (slot->expect == Expect::tensor || slot->expect == Expect::capture ||
               slot->expect == Expect::same || slot->expect == Expect::number);
  PyObject *key = change.key.get(); // one that may hold other things is not kept alive
  const bool can_be_told =
      (is_guarded(change.container) || held_tensor) && (!key || !may_hold(key));
  const bool none = change.now.get() == Py_None;
  const bool value = change.now && !change.has_tensor && !none;
  const bool moves = change.moved && slot && slot->value == change.now.get();
  const auto *row = fate_of(
      kRebound, ReboundFacts{
                    .is_value = value,
                    .has_tensors = change.has_tensor || change.has_number || change.rewrites,
                    .can_be_told = can_be_told,
                    .repeatable = rebound.repeated,
                    .by_call = stores_.is_read_by_call(slot ? slot->key : key, c.place) ||
                               stores_.of(change.container, change.slot).called,
                    .unchanged = change.same,
                    .grows_read = change.appended && was_read(change),
                    .number_moved = moves && slot->restored,
                });
  if (row->fate == Fate::once)
    once_ = why(*row, rebound.path, rebound.where);
  if (row->fate != Fate::repeated)
    return row->fate != Fate::change;
  if (slot && !slot->needed && !slot->read && !moves && !leads_on(*slot) &&
      (value || slot->expect == Expect::object || (none && slot->expect == Expect::leaf)))
    slot->expect = Expect::any; // each run stores over any value
  if (slot)
    slot->needed = true;
  else if (!change.appended)
    must_lack_.insert(change.container);
  if (change.rewrites)
    compare_kept(c, change.added.get());
  mark_way(c.object);
  rebindings_.push_back({change.container, Owned(Py_XNewRef(key)), slot ? slot->index : -1,
                         change.appended, change.moved, rebound.tree, change.rewrites, change.from,
                         rebound.path + at(rebound.where)});
  return true;
}

/// Whether the path of something that was read goes through the slot: another slot may hold the
/// object, too.
bool Finish::leads_on(const Slot &slot) const { return slot.primary && has_parts_[slot.object]; }

/// What a rewritten list holds again, and is no element found by its place, must be in these slots
/// at a later call, too.
void Finish::compare_kept(Container &c, PyObject *again) {
  const std::span<PyObject *> kept(PySequence_Fast_ITEMS(again),
                                   static_cast<std::size_t>(PyTuple_GET_SIZE(again)));
  for (Slot &slot : c.slots)
    slot.needed |= std::find(kept.begin(), kept.end(), slot.value) != kept.end();
}

/// Whether the body has read what it then changed, so that a later call would go another way: a
/// cache, a list that is used up. Numbers may be counters.
bool Finish::was_read(const Change &change) const {
  const Container &c = graph_.containers[change.container];
  if (!is_guarded(change.container))
    return false;
  if (change.slot < 0)
    return c.read ||
           std::any_of(c.slots.begin(), c.slots.end(), [](const Slot &s) { return s.read; });
  const auto is_number = [](PyObject *value) {
    return value && (PyBool_Check(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value));
  };
  const Slot &slot = c.slots[change.slot];
  return slot.read && !(is_number(change.now.get()) && is_number(slot.value));
}

/// `log.append("x")`, and then `len(log)`: what was there before has a part in it.
bool Finish::is_read_later(const Change &change) const {
  const Container &c = graph_.containers[change.container];
  return change.slot < 0 && is_guarded(change.container) && is_collection(c.place) && c.read_later;
}

/// A list that is sorted, emptied or filled again: what it becomes depends on what it was.
bool Finish::is_rewritten(const Change &change) const {
  return is_guarded(change.container) && graph_.containers[change.container].rewritten;
}

/// A later call does not do to another object what this one did to the trace's.
void Finish::tie_to_object(int object) {
  graph_.objects[object].alike = false;
  if (const Object &o = graph_.objects[object]; o.container >= 0)
    tie_to_object(graph_.containers[o.container].object);
}

void Finish::changed(const Change &change) {
  const Container &c = graph_.containers[change.container];
  const Storer storer = stores_.of(change.container, change.slot);
  const ChangeFacts facts{
      .unchanged = change.same,
      .eager = is_made_eagerly(change.now.get()),
      .of_library = graph_.objects[c.object].library,
      .needed = change.slot >= 0 && c.slots[change.slot].needed,
      .of_facts = c.place == Place::asked || c.place == Place::kind,
      .by_body = storer.body,
      .by_call = storer.called || (calls_ && !storer.body),
      .was_read = was_read(change) || is_read_later(change) || is_rewritten(change),
      .has_tensor = change.has_tensor || change.has_number,
      .in_side = storer.side,
  };
  const auto *row = fate_of(kChanges, facts);
  if (!facts.unchanged)
    tie_to_object(c.object);
  switch (row->fate) {
  case Fate::once:
    once_ = why(*row, path_of(change, graph_), storer.where);
    eager_ |= facts.eager;
    break;
  case Fate::warned: {
    const bool grew = change.slot < 0 && is_collection(c.place);
    side_effect(change,
                {grew ? graph_.prefix(c.object) + graph_.suffix(c.object) : path_of(change, graph_),
                 storer.where});
    [[fallthrough]];
  }
  case Fate::given_up:
    give_up(change);
    break;
  case Fate::guarded: // as it was before: a later call finds it different
  case Fate::repeated:
  case Fate::change:
    break;
  }
}

void Finish::side_effect(const Change &change, SideEffect effect) {
  if (is_check_of_optimizer(change.key.get()))
    return;
  const bool attribute = !is_collection(graph_.containers[change.container].place);
  auto &list = change.now || !attribute ? effects_ : gone_;
  if (list.empty() || list.back().path != effect.path)
    list.push_back(std::move(effect));
}

/// From now on the slot may hold anything.
void Finish::give_up(const Change &change) {
  Container &c = graph_.containers[change.container];
  PyObject *owner = graph_.objects[c.object].object;
  if (change.slot >= 0) {
    c.slots[change.slot].expect = Expect::any;
  } else if (!is_collection(c.place)) {
    Slot slot; // the names of this container are all known
    slot.key = Py_NewRef(change.key.get());
    slot.expect = Expect::any;
    c.slots.push_back(std::move(slot));
  } else {
    c.open = true;
    c.counted = false;
    if (c.place == Place::entries)
      for (Slot &slot : c.slots)
        if (!slot.needed && !read(c, slot, owner, owner))
          slot.expect = Expect::any;
  }
}

/// What the body did not read of a list, dict or set was recorded in case it is changed. What it
/// stored, and is as it was before, stays guarded: another value would be stored over.
void Finish::drop_unread(int container) {
  Container &c = graph_.containers[container];
  if (!is_collection(c.place))
    return;
  for (Slot &s : c.slots)
    if (!s.read && !s.needed && !s.stored && !leads_on(s))
      s.expect = Expect::any;
  if (must_lack_.contains(container)) {
    c.open = false;
  } else if (!c.read && !c.read_later) {
    c.open = true;
    c.counted = false;
  }
}

/// The way to a slot that stays may lead through slots that only a side which is left out has met.
void Finish::mark_ways_of_aside() {
  const auto stays = [](const Slot &s) { return !s.aside || s.needed || s.stored; };
  for (const Container &c : graph_.containers) {
    if (!c.stored && !c.read && !c.read_later &&
        std::none_of(c.slots.begin(), c.slots.end(), stays))
      continue;
    for (int o = c.object; o >= 0 && graph_.objects[o].container >= 0;) {
      Container &around = graph_.containers[graph_.objects[o].container];
      around.slots[graph_.objects[o].slot].aside = false;
      o = around.object;
    }
  }
}

/// Gives up what only a side of an `if`, or an attempt to stage a loop, has met that is left out.
/// Requires: changes have marked the slots that they need.
void Finish::drop_aside() {
  for (Container &c : graph_.containers)
    for (Slot &s : c.slots)
      if (s.aside && !s.needed && !s.stored)
        s.expect = Expect::any;
}

/// What was reached only through a slot that is given up is not guarded either.
void Finish::drop_below() {
  dropped_.assign(graph_.objects.size(), false);
  for (std::size_t i = 0; i < graph_.objects.size(); ++i) {
    const Object &o = graph_.objects[i];
    if (o.container < 0)
      continue;
    const Container &c = graph_.containers[o.container];
    dropped_[i] = dropped_[c.object] || c.slots[o.slot].expect == Expect::any;
  }
}

// ---- the Guards ----------------------------------------------------------------------------

std::shared_ptr<GraphGuards> Finish::guards() {
  Graph graph;
  std::unordered_map<std::int32_t, std::int32_t> kept;  ///< containers by their number before
  std::vector<std::vector<std::int32_t>> slots;         ///< by their numbers before; -1: left out
  std::vector<bool> used(graph_.objects.size(), false); // else nothing is read through it

  for (const std::int32_t object : handed_out_) {
    used[object] = true;
    if (dropped_[object])
      once_ = "the body changes the way to what it returns";
  }
  for (std::size_t i = 0; i < graph_.objects.size(); ++i)
    used[i] = used[i] || graph_.objects[i].by_class || (graph_.objects[i].alike && !dropped_[i]);
  for (std::size_t i = 0; i < graph_.containers.size(); ++i) {
    const Container &from = graph_.containers[i];
    if (dropped_[from.object]) {
      slots.emplace_back(from.slots.size(), -1);
      continue;
    }
    const bool typed = graph_.objects[from.object].typed;
    const bool watch = is_guarded(static_cast<int>(i));
    Container c;
    c.place = from.place;
    c.open = from.open || !watch;
    c.counted = from.counted && watch;
    c.module = from.module;
    c.object = from.object;
    c.length = from.length;
    auto &places = slots.emplace_back(from.slots.size(), -1);
    for (const Slot &s : from.slots) {
      if (!watch && !s.needed)
        continue;
      if (s.expect == Expect::any && (c.open || c.place == Place::globals || !has_dict(c.place)))
        continue;
      Slot slot = s;
      slot.value = nullptr;
      slot.keep = nullptr;
      slot.answer = nullptr;
      const bool alike = slot.object >= 0 && graph_.objects[slot.object].alike;
      if ((typed || alike) && slot.expect == Expect::object)
        slot.expect = Expect::container; // any of its class
      if (slot.expect != Expect::container && slot.expect != Expect::number && !slot.opaque)
        slot.type = nullptr;
      if (slot.object >= 0 && (slot.expect == Expect::any || dropped_[slot.object])) {
        slot.object = -1;
        slot.primary = false;
        if (slot.expect == Expect::object)
          slot.expect = Expect::leaf;
      }
      if (slot.primary) {
        graph_.objects[slot.object].container = static_cast<std::int32_t>(graph.containers.size());
        graph_.objects[slot.object].slot = static_cast<std::int32_t>(c.slots.size());
      }
      Py_XINCREF(slot.key);
      Py_XINCREF(reinterpret_cast<PyObject *>(slot.type));
      places[&s - from.slots.data()] = static_cast<std::int32_t>(c.slots.size());
      c.slots.push_back(std::move(slot));
    }
    const bool counts = watch && (c.counted || !c.open);
    const bool stores =
        std::any_of(rebindings_.begin(), rebindings_.end(), [&](const Rebinding &r) {
          return r.container == static_cast<std::int32_t>(i);
        });
    c.pinned = from.pinned && watch;
    if (c.slots.empty() && !counts && !stores && !c.pinned)
      continue;
    used[c.object] = true;
    kept.emplace(static_cast<std::int32_t>(i), static_cast<std::int32_t>(graph.containers.size()));
    graph.containers.push_back(std::move(c));
  }

  graph.unknown_calls = std::move(graph_.unknown_calls);
  for (const Graph::Unlike &u : graph_.unlike) {
    const std::int32_t slot = slots[u.container][u.slot],
                       other = slots[u.other_container][u.other_slot];
    if (slot >= 0 && other >= 0)
      graph.unlike.push_back({kept.at(u.container), slot, kept.at(u.other_container), other});
  }

  // Renumber the objects that are left.
  std::vector<std::int32_t> numbers(graph_.objects.size(), -1);
  for (std::size_t i = 0; i < graph_.objects.size(); ++i) {
    if (!used[i])
      continue;
    numbers[i] = static_cast<std::int32_t>(graph.objects.size());
    Object o = graph_.objects[i];
    Py_INCREF(reinterpret_cast<PyObject *>(o.type));
    if (o.container < 0 && o.argument < 0) {
      if (o.weak)
        o.object = PyWeakref_NewRef(o.object, nullptr);
      else
        Py_INCREF(o.object);
    } else if (o.container >= 0) {
      o.object = nullptr;
    }
    graph.objects.push_back(std::move(o));
  }
  for (Container &c : graph.containers) {
    c.object = numbers[c.object];
    for (Slot &s : c.slots)
      if (s.object >= 0 && (s.object = numbers[s.object]) < 0) {
        s.primary = false; // nothing is read below it
        if (s.expect == Expect::object)
          s.expect = Expect::leaf;
      }
  }
  for (PyObject *tensor : held_)
    Py_XINCREF(tensor);
  for (Rebinding &r : rebindings_)
    r.container = kept.at(r.container);
  for (std::int32_t &object : handed_out_)
    object = numbers[object];
  return std::make_shared<GraphGuards>(std::move(graph), watch_values_, std::move(held_),
                                       std::move(rebindings_), std::move(handed_out_));
}

} // namespace tracehost::python
