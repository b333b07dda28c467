#include "observe/reads.h"

#include "base/forget_error.h"
#include "base/kinds.h"
#include "base/known.h"
#include "base/lazy.h"
#include "base/object.h"
#include "base/origin.h"
#include "base/user_line.h"

#include <algorithm>
#include <array>

namespace tracehost::python {

namespace {

/// The function that says what arithmetic of decimal reads (introspection.cpp); borrowed.
PyObject *decimal_context() {
  static constinit Lazy<PyObject *> function;
  return function([] {
    const Owned name(PyUnicode_InternFromString("tracehost._tracehost"));
    const Owned module(PyImport_GetModule(name.get()));
    return PyObject_GetAttrString(module.get(), "decimal_context");
  });
}

/// From here on BINARY_OP's argument stands for `+=` and its like.
constexpr int kInPlace = 13;

} // namespace

thread_local const Frame *Reads::prints_ = nullptr;
thread_local const std::uint16_t *Reads::prints_at_ = nullptr;

/// A frame ends without another instruction where it returns what print() gives.
bool Reads::printing() {
  const Frame *frame = prints_ ? innermost_frame() : nullptr;
  while (frame && (frame != prints_ || frame->before != prints_at_))
    frame = frame->previous;
  return frame != nullptr;
}

void Reads::observe(const Frame &frame, const Instruction &instruction, bool called) {
  frame_ = &frame;
  instruction_ = &instruction;
  top_ = stack_of(frame) + instruction.depth;
  out_ = named_ = instruction.named;
  called_ = called;
  if (prints_ == &frame)
    prints_ = nullptr;
  if (!takers_.empty() && takers_.back().frame == &frame)
    takers_.pop_back();
  if (!called)
    read();
  else
    read_in_call();
  store();
}

void Reads::read_in_call() {
  switch (instruction_->action) {
  case Action::load_attribute:
    stores_.read_by_call(name(kAttributeShift));
    break;
  case Action::load_global:
    stores_.read_by_call(name(1));
    break;
  case Action::load_name:
    stores_.read_by_call(name());
    break;
  case Action::load_cell:
    stores_.read_by_call(
        PyTuple_GET_ITEM(frame_->code->co_localsplusnames, instruction_->argument));
    break;
  case Action::load_item:
  case Action::load_slice:
  case Action::iterate:
  case Action::take:
  case Action::call: // C code may read elements
  case Action::call_names:
  case Action::call_unpacked:
    stores_.read_by_call(nullptr);
    break;
  default:
    break;
  }
}

void Reads::read() {
  switch (instruction_->action) {
  case Action::load_attribute:
    load_attribute(operand(1), name(kAttributeShift));
    break;
  case Action::load_super: // two bits lie below the index of the name
    paths_.super_attribute(operand(2), operand(1), name(2));
    break;
  case Action::load_global:
    load_global(name(1));
    break;
  case Action::load_name:
    load_local_name();
    break;
  case Action::load_cell:
    load_cell();
    break;
  case Action::load_item:
    load_item(operand(2), operand(1));
    break;
  case Action::load_slice:
    paths_.whole(operand(3), false);
    break;
  case Action::take:
    note_taken(operand(1));
    [[fallthrough]];
  case Action::iterate:
    asks_class(operand(1), {"__iter__"});
    paths_.whole(operand(1), false);
    takes_from(operand(1));
    break;
  case Action::next:
    takes_from(operand(1));
    note_taken(operand(1));
    break;
  case Action::contains:
    note_taken(operand(1));
    contains(operand(2), operand(1));
    break;
  case Action::identify:
    check_identity(operand(2), operand(1));
    paths_.identify(operand(2), operand(1));
    break;
  case Action::compare:
    check_types(operand(2), operand(1));
    for (const int i : {1, 2})
      asks_class(operand(i), {"__eq__", "__ne__"});
    [[fallthrough]];
  case Action::operate:
    for (const int i : {1, 2})
      if (std::string_view(Py_TYPE(operand(i))->tp_name) == "decimal.Decimal" &&
          instruction_->action == Action::operate)
        paths_.ask(decimal_context(), nullptr, Asked::function);
    paths_.whole(operand(2), true);
    paths_.whole(operand(1), true);
    break;
  case Action::truth:
    truth(operand(1));
    break;
  case Action::length:
    paths_.length(operand(1));
    break;
  case Action::format:
    shown(operand(instruction_->argument & 4 && kFormatsWithArgument ? 2 : 1));
    paths_.whole(operand(instruction_->argument & 4 && kFormatsWithArgument ? 2 : 1), true);
    break;
  case Action::format_second:
    shown(operand(2));
    paths_.whole(operand(2), true);
    break;
  case Action::match_keys:
    paths_.whole(operand(2), false);
    break;
  case Action::match_class:
    match_class();
    break;
  case Action::import_name:
    paths_.imported(name(), !is_library(origin_of(frame_->code)));
    note_import(name());
    break;
  case Action::import_from:
    paths_.read(paths_.attribute(operand(1), name()));
    break;
  case Action::hash:
    hashed(operand(1));
    break;
  case Action::hash_second:
    hashed(operand(2));
    break;
  case Action::hash_all:
    for (int i = 1; i <= instruction_->argument; ++i)
      hashed(operand(i));
    break;
  case Action::hash_keys:
    for (int i = 1; i <= instruction_->argument; ++i)
      hashed(operand(2 * i));
    break;
  case Action::give:
    give(operand(1));
    break;
  default:
    break;
  }
}

void Reads::store() {
  switch (instruction_->action) {
  case Action::store_attribute:
    store_attribute(operand(1), name(), stored(2));
    break;
  case Action::store_global:
    if (!is_ours(frame_->globals))
      note_store(paths_.global(frame_->globals, frame_->code->co_filename, name()), stored(1));
    break;
  case Action::store_name:
    if (frame_->locals == frame_->globals && !is_ours(frame_->globals))
      note_store(paths_.global(frame_->globals, frame_->code->co_filename, name()), stored(1));
    break;
  case Action::store_cell:
    if (PyObject *cell = variable(); cell && PyCell_Check(cell))
      note_store(paths_.cell(cell), stored(1));
    break;
  case Action::store_item:
    store_item(operand(2), operand(1), operand(3));
    break;
  case Action::store_slice:
    store_slice(operand(3));
    break;
  case Action::delete_item:
    delete_item(operand(2), operand(1));
    break;
  case Action::operate:
    if (instruction_->argument >= kInPlace)
      change(operand(2), false);
    break;
  case Action::call:
    calls(0);
    break;
  case Action::call_names:
    calls(1);
    break;
  case Action::call_unpacked:
    calls_unpacked();
    break;
  case Action::enter:
    enter(operand(1));
    break;
  default:
    break;
  }
}

PyObject *Reads::name(int shift) const {
  return PyTuple_GET_ITEM(frame_->code->co_names, instruction_->argument >> shift);
}

/// A local variable, cell or free variable by number.
PyObject *Reads::variable() const { return frame_->variables[instruction_->argument]; }

/// What tracehost notes of objects shows in no result.
void Reads::identified(PyObject *object) {
  if (!is_ours(frame_->globals))
    paths_.identified(object);
}

bool Reads::is_ours(PyObject *globals) {
  const auto [found, fresh] = ours_.try_emplace(globals, false);
  if (fresh)
    found->second = origin_of(frame_->code) == Origin::tracehost;
  return found->second;
}

// ---- reads --------------------------------------------------------------------------------------

void Reads::load_attribute(PyObject *owner, PyObject *name) {
  if (Py_IS_TYPE(owner, &PySuper_Type))
    return load_super(owner, name);
  check_use_of_type(owner);
  if (is_tensor(owner)) {
    paths_.read_metadata(owner);
    check_of_autograd(owner, name);
  }
  if ((is_own_type(Py_TYPE(owner)) || (PyModule_Check(owner) && !paths_.knows(owner))) &&
      is_ours(frame_->globals))
    return; // what tracehost notes of a Function, or asks a module
  paths_.read(paths_.attribute(owner, name));
  if (sides_.under_way() && PyUnicode_Compare(name, known().dict) == 0)
    note_attributes(owner);
  load_property(owner, name);
  if (paths_.knows(owner))
    call_special(owner, "__getattr__", std::array{owner, name});
}

/// What torch keeps with a tensor, and no signature has. Its own code asks for hooks at each step.
void Reads::check_of_autograd(PyObject *tensor, PyObject *name) {
  constexpr std::array<std::string_view, 4> kKept{"output_nr", "_backward_hooks",
                                                  "_post_accumulate_grad_hooks", "name"};
  const std::string_view text = utf8(name);
  if (std::ranges::find(kKept, text) != kKept.end() && !is_library(origin_of(frame_->code)) &&
      (paths_.tensor(tensor) || paths_.is_from_outside(tensor)))
    paths_.unguarded("the attribute '" + std::string(text) + "' of a tensor");
}

/// A property of which C code gets the value: `property(operator.attrgetter("scale"))`.
void Reads::load_property(PyObject *owner, PyObject *name) {
  PyObject *found = PyType_Check(owner) ? nullptr : _PyType_Lookup(Py_TYPE(owner), name);
  if (!found || !Py_IS_TYPE(found, &PyProperty_Type))
    return;
  const Owned getter(PyObject_GetAttrString(found, "fget"));
  forget_error();
  if (getter && !PyFunction_Check(getter.get()) && getter.get() != Py_None)
    call(getter.get(), std::array{owner});
}

/// An attribute of a `super` object.
void Reads::load_super(PyObject *super, PyObject *name) {
  const Owned type(PyObject_GetAttrString(super, "__thisclass__"));
  const Owned self(PyObject_GetAttrString(super, "__self__"));
  forget_error();
  if (type && self)
    paths_.super_attribute(type.get(), self.get(), name);
}

/// A copy of a context holds what its variables held.
void Reads::of_context(PyObject *container) {
  if (Py_IS_TYPE(container, &PyContext_Type))
    paths_.unguarded("a contextvars.Context");
}

/// A dict of a subclass may store what is missing: defaultdict.
void Reads::load_item(PyObject *container, PyObject *key) {
  if (PyList_CheckExact(key) && is_tensor(container))
    check_index(key);
  if (is_tensor(container))
    check_bounds(container, key);
  check_lookup(key, container);
  identified(key);
  hashed(key);
  of_context(container);
  const Paths::Position at = paths_.item(container, key);
  paths_.read_item(at);
  if (at.container >= 0 && PyDict_Check(container) && !PyDict_CheckExact(container) &&
      PyDict_Contains(container, key) == 0) {
    stores_.note(at, called_);
    if (PyObject_TypeCheck(container, known().defaultdict) && !called_)
      sides_.note(Sides::Kind::store, "adds a key to a defaultdict");
  }
  forget_error();
}

/// tracehost's own code keeps nothing of the user's in its globals.
void Reads::load_global(PyObject *name) {
  if (is_ours(frame_->globals))
    return;
  PyObject *file = frame_->code->co_filename;
  const Paths::Position at = paths_.global(frame_->globals, file, name);
  paths_.read(at);
  if (at.slot < 0 || paths_.is_there(at))
    return;
  if (frame_->builtins && frame_->builtins != frame_->globals && PyDict_Check(frame_->builtins)) {
    const Owned builtins(PyUnicode_InternFromString("builtins"));
    paths_.read(paths_.global(frame_->builtins, builtins.get(), name));
  }
}

/// Of code that runs with a namespace of its own: a class's body, exec.
void Reads::load_local_name() {
  PyObject *locals = frame_->locals;
  if (locals && locals != frame_->globals && PyDict_Check(locals)) {
    if (paths_.knows(locals))
      load_item(locals, name());
    if (PyDict_GetItemWithError(locals, name()))
      return;
  }
  forget_error();
  load_global(name());
}

/// What the class of an object gives for such names, which it may lack.
void Reads::asks_class(PyObject *object, std::initializer_list<const char *> names) {
  if (paths_.knows(object) && has_user_attributes(Py_TYPE(object)))
    for (const char *name : names)
      paths_.class_attribute(Py_TYPE(object), name);
}

/// The text of an object, or of those in a container.
void Reads::shown(PyObject *object) {
  if (!object || is_plain(Py_TYPE(object), object) || is_tensor(object))
    return;
  for (PyObject *part : parts_of(object, /*all=*/true))
    asks_class(part, {"__str__", "__repr__", "__format__"});
}

void Reads::load_cell() {
  if (PyObject *cell = variable(); cell && PyCell_Check(cell))
    paths_.read(paths_.cell(cell));
}

void Reads::contains(PyObject *element, PyObject *container) {
  check_lookup(element, container);
  identified(element);
  asks_class(container, {"__contains__", "__iter__"});
  of_context(container);
  paths_.whole(element, true);
  if (PyDict_Check(container)) {
    const Paths::Position at = paths_.item(container, element);
    paths_.read_item(at);
    return;
  }
  if (PyAnySet_CheckExact(container) && is_plain(Py_TYPE(element), element))
    return load_item(container, element);
  paths_.whole(container, true);
}

/// A key or an element of a set that the body makes. A tuple's hash is that of its elements.
void Reads::hashed(PyObject *key) {
  check_hash(key);
  if (!PyTuple_Check(key))
    return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
    check_hash(PyTuple_GET_ITEM(key, i));
  paths_.whole(key, true);
}

void Reads::truth(PyObject *value) {
  if (PyBool_Check(value) || paths_.length(value) >= 0 || !has_user_attributes(Py_TYPE(value)))
    return;
  for (const char *asked : {"__bool__", "__len__"})
    paths_.class_attribute(Py_TYPE(value), asked);
}

/// `case Point(0, y=1)`: `__match_args__` names the first ones.
void Reads::match_class() {
  PyObject *subject = operand(3), *type = operand(2), *names = operand(1);
  const Owned match_args(PyUnicode_InternFromString("__match_args__"));
  if (PyType_Check(type)) {
    paths_.read(paths_.attribute(type, match_args.get()));
    const Owned positional(PyObject_GetAttr(type, match_args.get()));
    forget_error();
    for (Py_ssize_t i = 0; positional && PyTuple_Check(positional.get()) &&
                           i < instruction_->argument && i < PyTuple_GET_SIZE(positional.get());
         ++i)
      paths_.read(paths_.attribute(subject, PyTuple_GET_ITEM(positional.get(), i)));
  }
  for (Py_ssize_t i = 0; PyTuple_Check(names) && i < PyTuple_GET_SIZE(names); ++i)
    paths_.read(paths_.attribute(subject, PyTuple_GET_ITEM(names, i)));
}

// ---- stores -------------------------------------------------------------------------------------

/// What a store replaces that no slot holds, if the owner was there before; else empty.
std::string_view Reads::replaces(PyObject *owner, std::string_view name) const {
  if (name == "__class__")
    return paths_.knows(owner) ? "the class of an object" : "";
  if (PyType_Check(owner) || PyFunction_Check(owner)) {
    const bool known = PyType_Check(owner) ? paths_.reaches(reinterpret_cast<PyTypeObject *>(owner))
                                           : paths_.knows(owner);
    const bool kept = name == "__name__" || name == "__qualname__" || name == "__annotations__" ||
                      name == "__bases__" || name == "__abstractmethods__";
    return known && kept ? "what Python keeps of a class or function" : "";
  }
  return name == "__dict__" && paths_.knows(owner) ? "all attributes of an object" : "";
}

void Reads::store_attribute(PyObject *owner, PyObject *name, PyObject *value) {
  owner = paths_.behind(owner);
  if (const std::string_view what = replaces(owner, utf8(name)); !called_ && !what.empty())
    paths_.serves_once("replaces " + std::string(what) + " from outside at " + text(user_line()));
  const Paths::Position at = paths_.stored_attribute(owner, name);
  note_store(at, value);
  if (is_tensor(owner))
    note_tensor_store(name);
  else if (at.container < 0 && paths_.knows(owner)) // what a thread or C code has for itself
    note_impure(Sides::Kind::lost,
                "stores an attribute of type " + std::string(Py_TYPE(owner)->tp_name));
  if (paths_.knows(owner))
    call_special(owner, "__setattr__", std::array{owner, name});
}

void Reads::store_item(PyObject *container, PyObject *key, PyObject *value) {
  if (PySlice_Check(key))
    return store_slice(container);
  if (is_tensor(container))
    check_bounds(container, key);
  identified(key);
  if (!called_)
    hashed(key);
  const Paths::Position at = paths_.item(container, key);
  note_store(at, value);
  note_unrestored(at, container);
  note_opaque_store(container);
}

void Reads::store_slice(PyObject *container) {
  if (!called_)
    paths_.whole(container, true);
  change(container, true);
}

/// What follows in a list moves up; what is iterated later lacks a key.
void Reads::delete_item(PyObject *container, PyObject *key) {
  identified(key);
  const int c = paths_.before_change(container);
  const Paths::Position at = paths_.item(container, key);
  note_store(at, nullptr);
  note_unrestored(at, container);
  note_opaque_store(container);
  if (c >= 0 && !PyDict_Check(container) && !called_) {
    stores_.note({c, -1}, false);
    paths_.graph().containers[c].rewritten = true;
  }
}

/// The container may get elements; `rewrites`: lose and move them as well.
void Reads::change(PyObject *container, bool rewrites) {
  if (PyTuple_Check(container))
    return;
  const int c = paths_.before_change(container);
  note_store({c, -1}, nullptr);
  note_unrestored({c, -1}, container);
  note_opaque_store(container);
  if (c >= 0 && rewrites && !called_)
    paths_.graph().containers[c].rewritten = true;
}

} // namespace tracehost::python
