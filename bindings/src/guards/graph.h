#pragma once

#include "base/dict_watch.h"
#include "base/object.h"
#include "pytree/leaf.h"
#include "signature/signature.h"

#include <Python.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

/// Objects that code can reach by a path, the containers in which they keep what paths go through,
/// and the slots of those. The Recorder builds one (strong references, values from before the
/// trace); Guards keep what is to be guarded of it (borrowed references, values as of
/// now).

namespace tracehost::python {

/// An object that paths may start from: `self`, an argument that is no tensor, list ... : its name
/// as a user writes it, and its place among the bound arguments.
struct Root {
  std::string name;
  PyObject *object = nullptr; ///< borrowed
  int argument = -1;  ///< index into the bound arguments; -1: belongs to the function itself
  bool typed = false; ///< its class says what it is compared by: only tensors in it are read again
  bool alike = false; ///< another of its class may come in its place
  bool instance = false; ///< a method's, compared by identity for any class
};

/// What kind of container, hence how a slot is read.
enum class Place : std::uint8_t {
  instance, ///< attributes in an object's `__dict__`
  members,  ///< attributes in an object's `__slots__`
  names,    ///< some names of a class or module
  globals,  ///< some names of a function's globals; a name that is absent is a slot, too
  entries,  ///< a dict's items, in order
  items,    ///< a list's or tuple's
  set,      ///< whether each element is still in a set; they are their own keys
  deque,    ///< a deque's items
  function, ///< a function's closure cells and defaults
  fields,   ///< of a bound method or a functools.partial, which keep them: `__self__`, `func`
  referent, ///< what a weak reference refers to
  keys,     ///< a dict's keys that hold other objects, by their place in the order
  inner,    ///< the dict of a dict's view, a mappingproxy, a function with lru_cache
  asked,    ///< what C code says when it is asked again: see Asked
  kind,     ///< what the object is, beside its attributes: see Kept
};

/// Slot::index in Place::asked: how.
enum Asked : std::int32_t {
  attribute_of, ///< the attribute that the key names
  method_of,    ///< the method that the key names, called with nothing
  function,     ///< the object itself, called with nothing, or with the key: a tuple of values
  context,      ///< what a ContextVar was set to; nothing where it was not
  subclass,     ///< whether the key, a class, is a subclass of it
  contents,     ///< what is in its memory: see memory.h
};

/// Slot::index in Place::kind.
enum Kept : std::int32_t {
  its_class,          ///< the object's class, to which a program may assign
  its_bases,          ///< of a class: it and all its bases, in their order
  its_name,           ///< of a class
  its_qualified_name, ///< of a class
};

/// What a slot must hold.
enum class Expect : std::uint8_t {
  any,       ///< nothing in particular: the body changes it, or it is only on the way to others
  leaf,      ///< what `node` says
  object,    ///< as leaf, and paths lead on from it
  container, ///< a list, tuple or dict of exactly `type`; its elements have slots of their own.
             ///< Below a typed root any object of `type`
  tensor,    ///< some tensor
  capture,   ///< some tensor, which becomes captures()[index]
  same,      ///< the same tensor that is captures()[index], reached here by a second path
  number,    ///< an int or float of exactly `type`: captures()[index] is a tensor of it
};

struct Slot {
  PyObject *key = nullptr;      ///< name, or a dict's key; strong in both owners; null for items
  PyObject *value = nullptr;    ///< Recorder: from before, strong. Guards: as of now, borrowed
  PyObject *keep = nullptr;     ///< Guards, where no dict vouches for `value`: see GraphGuards
  PyTypeObject *type = nullptr; ///< container, opaque, number: the exact type
  mutable PyObject *answer = nullptr; ///< asked: what was said last; strong
  Node node;                          ///< leaf, object
  AtomRef atom;                       ///< owner of node's
  std::int32_t index = -1; ///< position, cell number; see Function slots below. Of a dict that
                           ///< is read whole: its place in the order, -1 for one that was not there
  mutable std::int32_t place = kNoPlace; ///< of a key: value_of()'s
  std::int32_t object = -1;              ///< object, container: index of the Object it leads to
  std::int32_t capture = -1;             ///< index among the captures
  Expect expect = Expect::leaf;
  bool primary = false;  ///< the Object's path goes through this slot
  bool needed = false;   ///< a capture is reached through it
  bool opaque = false;   ///< what it holds may change unseen: `Guards::unguarded`
  bool read = false;     ///< the body has read what was there before the trace
  bool stored = false;   ///< the body has stored to it
  bool joined = false;   ///< a block of the graph has stored to it, in some calls
  bool aside = false;    ///< only a side of an `if` that is left out of the graph has met it
  bool input = false;    ///< its number is an input of the graph: it may hold any at a later call.
                         ///< False again where the body has ended with that very number in it
  bool restored = false; ///< that number was an input, and is in its place again
};

/// Slot::index in Place::function that is no cell.
inline constexpr std::int32_t kDefaults = -1, kKeywordDefaults = -2, kCode = -3, kName = -4,
                              kQualifiedName = -5, kAnnotations = -6;

struct Container {
  Place place;
  bool open = false;        ///< only its slots count: what else is in it, or is added, does not
  bool counted = false;     ///< items, set: its length counts
  bool read = false;        ///< the body has read its length or order
  bool read_later = false;  ///< the same, after a store: what was there before has a part in it
  bool stored = false;      ///< the body has stored to it, as a whole or to a slot
  bool rewritten = false;   ///< the body has moved or removed elements
  bool pinned = false;      ///< instance: the class of the object counts, whatever is read of it
  bool module = false;      ///< entries: an nn.Module's parameters, buffers or children
  std::int32_t object;      ///< whose it is
  PyObject *dict = nullptr; ///< the dict, where it has one
  DictWatch watch;          ///< Recorder: from the first look on. Guards: from the last pass on
  DictSeen seen;            ///< the dict at that time
  bool by_name = false;     ///< Guards: nothing reports changes of the dict
  Py_ssize_t length = 0;    ///< entries, items: before
  std::vector<Slot> slots;

  /// The state of the dict that is followed; where none is, one that stays the same.
  DictSeen now() const { return by_name ? DictSeen() : watch.now(); }
};

/// Something paths go through, found once however many slots hold it.
struct Object {
  PyObject *object = nullptr;   ///< Recorder: strong. Guards: what the path leads to, borrowed
  PyTypeObject *type = nullptr; ///< its type, strong in both
  std::int32_t container = -1;  ///< the slot that holds it, if it is no root
  std::int32_t slot = -1;
  std::int32_t argument = -1; ///< root: among the arguments
  bool weak = false;          ///< root: held weakly (a function found running)
  bool typed = false;         ///< root, and what is reached first through one: only captures count
  bool alike = false;         ///< root, and what is reached through one: another of its class may
                              ///< come in its place, of which all that was read is the same
  bool identified = false;    ///< the body has used which one it is: as a key, or given to C code
  bool replaced = false;      ///< the body has put a new one of its class in its place
  bool by_class = false;      ///< root: the arguments were compared by its class alone
  bool instance = false;      ///< root: a method's, compared by identity
  bool library = false; ///< of a library, by its path: what the trace changes is its own affair
  std::string name;     ///< root: how paths start
  std::string suffix;   ///< root: what is appended to them: ` (train.py)`
};

struct Graph {
  std::deque<Container> containers; ///< an object's come after the slot that holds it
  std::vector<Object> objects;
  /// Two slots, by container and slot, that the body found to hold different objects.
  struct Unlike {
    std::int32_t container, slot, other_container, other_slot;
  };
  std::vector<Unlike> unlike;
  /// Calls of C code that read what no slot shows: `time.time() at train.py:9`.
  std::vector<std::string> unknown_calls;

  /// `self.fc.weight`, `cfg['a'][0]`, `nonlocal k`, `SCALE (train.py)`.
  std::string path(int container, int slot) const;
  /// The same, given prefix() of the container's object.
  std::string path(int container, int slot, const std::string &prefix) const;
  /// The same for a key that has no slot.
  std::string path(int container, PyObject *key) const;
  std::string prefix(int object) const;
  const std::string &suffix(int object) const;
};

/// The dict that a container is about, or null. `owner`: the object as of now.
PyObject *dict_of(Place place, PyObject *owner);
/// Number of elements; -1 where it does not count.
Py_ssize_t length_of(Place place, PyObject *owner);
/// What the slot holds now, borrowed; null for nothing. No error is left set. `dict`: dict_of().
PyObject *read(const Container &container, const Slot &slot, PyObject *owner, PyObject *dict);
inline PyObject *read(const Container &container, const Slot &slot, PyObject *owner) {
  return read(container, slot, owner, dict_of(container.place, owner));
}
/// Puts `value` (null: nothing) where read() finds it: in the place itself, without a class's own
/// `__setattr__`. False with an error set. `key`, `index`: the Slot's.
bool write(Place place, PyObject *key, std::int32_t index, PyObject *owner, PyObject *value);
/// write() for a slot that is there; no error is left set.
void store(const Container &container, const Slot &slot, PyObject *owner, PyObject *value);
/// The slot as a leaf of a Signature: what it must hold.
Node leaf_of(PyObject *value, std::vector<AtomRef> &atoms);
/// As leaf(), but compared by identity, and held weakly, regardless of its class.
Node weak_leaf(PyObject *object, std::vector<AtomRef> &atoms);

/// Two numbers as the key of a table: an object and a place, a container and a slot.
inline std::uint64_t pair_of(int high, int low) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32 |
         static_cast<std::uint32_t>(low);
}

/// A list, tuple, dict or set: its length counts.
inline bool is_collection(Place place) {
  return place == Place::entries || place == Place::items || place == Place::set ||
         place == Place::deque;
}
inline bool has_dict(Place place) { return place <= Place::entries && place != Place::members; }

/// The entries of a dict in its own order, which an OrderedDict keeps apart from the dict's. Runs
/// no user code but the `==` of keys.
class Entries {
public:
  explicit Entries(PyObject *dict);
  ~Entries();
  Entries(const Entries &) = delete;
  Entries &operator=(const Entries &) = delete;
  /// False at the end; no error is left set.
  bool next();
  PyObject *key() const { return key_; }     ///< borrowed from the dict
  PyObject *value() const { return value_; } ///< borrowed from the dict

private:
  PyObject *dict_, *order_; ///< order_: an iterator over an OrderedDict's keys; strong
  Py_ssize_t at_ = 0;
  PyObject *key_ = nullptr, *value_ = nullptr;
};

/// The object as of the last pass, or null if it is gone.
inline PyObject *present(const Object &o) {
  return o.container < 0 && o.weak ? referent(o.object) : o.object;
}

} // namespace tracehost::python
