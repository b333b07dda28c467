#include "base/forget_error.h"
#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "base/origin.h"
#include "observe/reads.h"

#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

/// Reads: whether the instruction that comes may run in a side of an `if` that is staged, and in an
/// attempt to stage a loop.
///
/// Stores to what the body has made are pure. So is a tensor in place of a tensor of its dtype and
/// number of dimensions, and a number in a slot that is an input of the graph: a graph joins them.
/// Calls of C code are pure if their row in c_table.cpp says so.
///
/// In an attempt, stores to slots and to containers are undone (stores.h, snapshots.py). What C
/// code keeps for itself is not: how far an iterator is, the elements of an array, a dict of
/// attributes that is changed as a whole.

namespace tracehost::python {

namespace {

bool is_plain_tensor(PyObject *object) {
  return reinterpret_cast<PyObject *>(Py_TYPE(object)) == THPVariableClass;
}

bool is_counter(PyObject *value) {
  return value &&
         (PyFloat_CheckExact(value) || PyLong_CheckExact(value) || is_traced_number(value));
}

/// Requires: is_counter().
at::ScalarType type_of_counter(PyObject *value) {
  if (is_traced_number(value))
    return THPVariable_Unpack(value).scalar_type();
  return PyFloat_CheckExact(value) ? at::kDouble : at::kLong;
}

/// Whether a method of C code may change the object. Objects of C code that are not fixed may
/// change. So may those of a class that Python code derives from such a type (random.Random).
bool may_change(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  if (is_tensor(object))
    return false;
  if (is_opaque(object) || !foreign_generator(object).empty())
    return true;
  const auto is_of_c = [](const PyTypeObject *t) {
    return std::string_view(t->tp_name).find('.') != std::string_view::npos;
  };
  while (type->tp_base && !is_of_c(type))
    type = type->tp_base;
  return type != Py_TYPE(object) && is_of_c(type) && !is_fixed(type);
}

/// Whether it keeps what no slot and no snapshot shows: the memory and the state of C code.
bool keeps_own_state(PyObject *object) {
  if (is_collection(object) || PyFunction_Check(object) || PyType_Check(object) ||
      PyModule_Check(object) || PyCell_Check(object))
    return false;
  PyTypeObject *type = Py_TYPE(object);
  if (!has_user_attributes(type) || PyObject_CheckBuffer(object))
    return true;
  while (type && std::string_view(type->tp_name).find('.') == std::string_view::npos)
    type = type->tp_base;
  return type != nullptr;
}

/// The object whose memory it shows: `a[1:]` of numpy, a memoryview; else itself. A new reference.
Owned shown_by(PyObject *object) {
  Owned owner(Py_NewRef(object));
  for (int depth = 0; depth < 8; ++depth) {
    const std::string_view type = Py_TYPE(owner.get())->tp_name;
    const char *field = type == "numpy.ndarray" ? "base" : type == "memoryview" ? "obj" : nullptr;
    Owned next(field ? PyObject_GetAttrString(owner.get(), field) : nullptr);
    forget_error();
    if (!next || next.get() == Py_None)
      break;
    owner = std::move(next);
  }
  return owner;
}

/// Whether open() makes or writes a file: `"w"`, `"ab+"`.
bool is_writing_mode(PyObject *mode) {
  const std::string_view text = mode && PyUnicode_Check(mode) ? utf8(mode) : "";
  return text.size() <= 3 && text.find_first_not_of("rwaxbt+") == text.npos &&
         text.find_first_of("wax+") != text.npos;
}

/// What autograd keeps with a tensor: the trace records its stores.
bool is_of_autograd(PyObject *name) {
  constexpr std::array<std::string_view, 5> names{"grad", "data", "requires_grad",
                                                  "_backward_hooks", "retains_grad"};
  return std::find(names.begin(), names.end(), utf8(name)) != names.end();
}

} // namespace

/// What a STORE instruction stores, `from_top` values below the top; null for a DELETE.
PyObject *Reads::stored(int from_top) const {
  return opcodes().deletes[instruction_->opcode] ? nullptr : operand(from_top);
}

void Reads::note_impure(Sides::Kind kind, const std::string &what) {
  if (called_ || !sides_.under_way() || (is_ours(frame_->globals) && !calls_for_user()))
    return;
  sides_.note(kind, what);
}

void Reads::note_store(Paths::Position at, PyObject *value) {
  stores_.note(at, called_);
  if (at.container < 0 || called_ || !sides_.has_sides() || is_joined(at, value))
    return;
  const Graph &graph = paths_.graph();
  if (at.slot >= 0 && value && is_counter(value) &&
      is_counter(graph.containers[at.container].slots[at.slot].value))
    sides_.note_number(at.container, at.slot);
  note_impure(Sides::Kind::store,
              at.slot >= 0 ? "stores " + graph.path(at.container, at.slot)
                           : "changes " + graph.prefix(graph.containers[at.container].object));
  if (sides_.in_side())
    stores_.note_in_side(at);
}

/// Whether the values of both sides become one value of the graph. What the slot holds is stored
/// again on this path alone: that would be a graph for each value that a call finds.
bool Reads::is_joined(Paths::Position at, PyObject *value) const {
  const Graph &graph = paths_.graph();
  const Container &c = graph.containers[at.container];
  if (at.slot < 0 || !value)
    return false;
  const Slot &slot = c.slots[at.slot];
  PyObject *now = python::read(c, slot, graph.objects[c.object].object);
  if (!now)
    return false;
  if (slot.input) // a graph would make one type of an int and a float
    return is_counter(value) && is_counter(now) && type_of_counter(value) == type_of_counter(now);
  if (!is_plain_tensor(now) || !is_plain_tensor(value))
    return false;
  const at::Tensor &before = THPVariable_Unpack(now), &after = THPVariable_Unpack(value);
  return before.scalar_type() == after.scalar_type() && before.dim() == after.dim();
}

/// No graph joins attributes. What a block leaves is another tensor, without the attribute.
void Reads::note_tensor_store(PyObject *name) {
  if (called_ || is_ours(frame_->globals))
    return;
  note_impure(Sides::Kind::store, fmt::format("stores the attribute {} of a tensor", utf8(name)));
  if (!is_of_autograd(name))
    stores_.note_tensor();
}

/// An array, a bytearray: no slot shows its elements.
void Reads::note_opaque_store(PyObject *object) {
  if (!sides_.under_way() || is_tensor(object) || is_collection(object) ||
      !(is_opaque(object) || PyObject_CheckBuffer(object)))
    return;
  if (const auto kind = change_of(object))
    note_impure(*kind, fmt::format("changes an object of type {}", Py_TYPE(object)->tp_name));
}

/// Whether the object was there before the call, or before a side or an attempt.
bool Reads::was_there(PyObject *object) const {
  return paths_.knows(object) || sides_.holds(object);
}

/// What a change of such an object is, which nothing undoes.
Sides::Kind Reads::lost_of(PyObject *object) const {
  return paths_.knows(object) ? Sides::Kind::lost : Sides::Kind::own;
}

/// What a change of the object is; nothing if neither it nor what it shows was there before.
std::optional<Sides::Kind> Reads::change_of(PyObject *object) const {
  const Owned owner = shown_by(object);
  PyObject *changed = was_there(object) ? object : owner.get();
  if (!was_there(changed))
    return std::nullopt;
  return keeps_own_state(object) ? lost_of(changed) : Sides::Kind::once;
}

/// The body reads `owner.__dict__` or calls vars(). A snapshot has those of its own objects.
void Reads::note_attributes(PyObject *owner) {
  if (called_ || !sides_.under_way() || !paths_.knows(owner) || PyType_Check(owner))
    return;
  if (!sides_.has_attempts() && !PyModule_Check(owner) && !PyFunction_Check(owner))
    return; // the slots of other objects show a store in a side
  PyObject *of_module = PyModule_Check(owner) ? PyModule_GetDict(owner) : nullptr; // borrowed
  const Owned dict(of_module ? Py_NewRef(of_module) : PyObject_GenericGetDict(owner, nullptr));
  forget_error();
  if (dict)
    attributes_.insert(dict.get());
}

/// A dict of attributes changes as a whole, or gets a name that it had not. No slot shows it.
void Reads::note_unrestored(Paths::Position at, PyObject *dict) {
  if (!sides_.under_way() || at.slot >= 0 || !PyDict_Check(dict))
    return;
  const Place place =
      at.container >= 0 ? paths_.graph().containers[at.container].place : Place::entries;
  const bool of_object =
      place == Place::instance || place == Place::names || place == Place::globals;
  if (of_object || (at.container < 0 && attributes_.contains(dict)))
    note_impure(Sides::Kind::lost, "changes a dict of attributes");
}

/// An iterator from outside is further behind the instruction.
void Reads::note_taken(PyObject *iterator) {
  // Operators of tracehost take from what the user's loop goes over.
  if (!called_ && sides_.under_way() && PyIter_Check(iterator) && was_there(iterator))
    sides_.note(lost_of(iterator),
                fmt::format("takes from an iterator of type {}", Py_TYPE(iterator)->tp_name));
}

/// A module that is not loaded runs its code.
void Reads::note_import(PyObject *name) {
  if (!sides_.has_sides())
    return;
  PyObject *modules = PyImport_GetModuleDict(); // borrowed
  if (PyDict_Contains(modules, name) == 0)
    note_impure(Sides::Kind::call, fmt::format("imports {}", utf8(name)));
  forget_error();
}

/// What a call is that may change its arguments; nothing if none was there before.
std::optional<Sides::Kind> Reads::change_of(Arguments arguments) const {
  std::optional<Sides::Kind> kind;
  for (PyObject *argument : arguments) {
    const auto found = argument && may_change(argument) ? change_of(argument) : std::nullopt;
    if (found == Sides::Kind::lost)
      return found;
    if (found && kind != Sides::Kind::own)
      kind = found;
  }
  return kind;
}

/// Functions of run/calls.py and run/shown.py that call what the user's code names.
bool Reads::calls_for_user() const {
  return std::string_view(utf8(frame_->code->co_name)).starts_with("call_with_");
}

/// A function of numpy that may write to one of its arguments: `np.add(a, 1, out=a)`.
bool Reads::has_output(const Called &called, Arguments arguments) const {
  if (!called.of.starts_with("numpy"))
    return false;
  if (called.method) { // a.sum(0, out=b), a.dot(b, c), np.add.reduce(a, axis, dtype, out)
    const std::size_t inputs = called.of == "numpy.ufunc" ? 3 : out_ ? 1 : 2;
    return arguments.size() > inputs &&
           std::ranges::any_of(arguments.subspan(inputs), [](PyObject *argument) {
             return argument && PyObject_CheckBuffer(argument);
           });
  }
  if (out_)
    return true;
  const Owned inputs(called.callable ? PyObject_GetAttrString(called.callable, "nin") : nullptr);
  forget_error();
  return inputs && PyLong_Check(inputs.get()) && PyLong_AsSize_t(inputs.get()) < arguments.size();
}

/// What a call is that prints or works with a file. A print and a library's log are written at the
/// trace, but not to a text that the program looks at.
Sides::Kind Reads::output_of(Rule rule, const Called &called, Arguments arguments) const {
  const bool of_library = is_library(origin_of(frame_->code));
  if (called.method) {
    const bool writes = called.name == "write" || called.name == "writelines" ||
                        called.name == "flush" || called.name == "close";
    return called.of.starts_with("_io.") && !(of_library && writes) ? Sides::Kind::lost
                                                                    : Sides::Kind::once;
  }
  const auto is_text = [this](PyObject *file) {
    return file && PyObject_TypeCheck(file, known().string_io) && was_there(file);
  };
  bool lost = std::ranges::any_of(arguments, is_text);
  if (rule.effect == Effect::shows)
    lost |= is_text(PySys_GetObject("stdout"));
  else if (called.name == "open")
    lost |= !of_library && std::ranges::any_of(arguments, is_writing_mode);
  else if (rule.effect != Effect::unknown) // pickle.dump
    lost |= change_of(arguments) == Sides::Kind::lost;
  return lost ? Sides::Kind::lost : Sides::Kind::once;
}

void Reads::note_call(Rule rule, const Called &called, Arguments arguments) {
  if (called_ || !sides_.under_way())
    return;
  note_callables(arguments);
  const auto note = [&](Sides::Kind kind) { sides_.note(kind, "calls " + called.shown()); };
  if (rule.purity == Purity::takes)
    for (PyObject *argument : arguments)
      if (argument)
        note_taken(argument);
  if (is_ours(frame_->globals) && !calls_for_user())
    return;
  for (PyObject *argument : arguments)
    if (argument && !foreign_generator(argument).empty())
      return sides_.note(Sides::Kind::lost, "draws by " + called.shown());
  switch (rule.purity) {
  case Purity::by_effect:
  case Purity::pure:
    if (!has_output(called, arguments))
      break;
    [[fallthrough]];
  case Purity::of_objects:
    if (const auto kind = change_of(arguments))
      note(*kind);
    break;
  case Purity::takes:
    break;
  case Purity::repeated: {
    const bool sets = rule.effect == Effect::context && !is_library(origin_of(frame_->code));
    note(sets && sides_.has_attempts() ? Sides::Kind::lost : Sides::Kind::call);
    break;
  }
  case Purity::once:
    // torch calls its own operators by functions without a module.
    if (rule.effect != Effect::unknown || origin_of(frame_->code) != Origin::torch)
      note(output_of(rule, called, arguments));
    break;
  case Purity::lost:
    note(Sides::Kind::lost);
    break;
  }
}

/// C code that C code may call: `map(print, rows)`. Code of Python is seen where it runs.
void Reads::note_callables(Arguments arguments) {
  for (PyObject *callable : arguments)
    if (callable && PyCFunction_Check(callable))
      note_callable(callable);
}

/// A function of C code, or a method that is kept with its object.
void Reads::note_callable(PyObject *callable) {
  if (called_ || !sides_.under_way())
    return;
  const auto *function = reinterpret_cast<PyCFunctionObject *>(callable);
  const std::string_view name = function->m_ml->ml_name;
  PyObject *self = PyCFunction_GET_SELF(callable), *module = function->m_module;
  Purity purity = Purity::pure;
  Sides::Kind kind = Sides::Kind::once;
  if (self && !PyModule_Check(self)) {
    const auto [effect, of_method] = rule_of_method(self, name);
    if (effect == Effect::unknown && origin_of(frame_->code) == Origin::torch)
      return; // an operator of torch.ops, whose hash torch asks for
    purity = of_method;
    const bool stores = effect >= Effect::store_attribute && effect < Effect::changes;
    const bool changes = purity == Purity::of_objects && may_change(self);
    if ((stores || changes) && (was_there(self) || paths_.knows(callable)))
      purity = Purity::once;
    const bool draws = !foreign_generator(self).empty();
    if (draws)
      purity = Purity::once;
    if (draws || purity == Purity::lost || PyIter_Check(self) || (changes && keeps_own_state(self)))
      kind = Sides::Kind::lost;
  } else {
    const std::string_view of = module && PyUnicode_Check(module) ? utf8(module) : "";
    purity = rule_of(of, name).purity;
  }
  if (purity >= Purity::repeated)
    sides_.note(kind, fmt::format("calls {}()", name));
}

} // namespace tracehost::python
