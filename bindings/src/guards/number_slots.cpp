#include "guards/number_slots.h"

#include "base/errors.h"
#include "base/forget_error.h"
#include "numbers/traced_number.h"
#include "trace/eager_region.h"
#include "trace/numbers.h"
#include "trace/tracer.h"

#include <ATen/EmptyTensor.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tracehost::python {

at::Tensor tensor_of_python_number(PyObject *value) {
  const bool real = PyFloat_CheckExact(value);
  if (!real && !PyLong_CheckExact(value))
    return {};
  int overflow = 0;
  const std::int64_t integer = real ? 0 : PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow)
    return {};
  at::Tensor t = at::detail::empty_cpu({}, real ? at::kDouble : at::kLong);
  if (real)
    *t.mutable_data_ptr<double>() = PyFloat_AS_DOUBLE(value);
  else
    *t.mutable_data_ptr<std::int64_t>() = integer;
  return t;
}

/// Whether write() can put a value there, and every read of it sees that.
static bool is_writable(const Container &c, const Slot &slot, PyObject *owner) {
  switch (c.place) {
  case Place::instance:
  case Place::globals:
  case Place::entries:
  case Place::members:
  case Place::deque:
    return true;
  case Place::names: // a class's attribute, not a module's of C code
    return PyType_Check(owner);
  case Place::items:
    return PyList_CheckExact(owner);
  case Place::function:
    return slot.index >= 0;
  default:
    return false;
  }
}

bool NumberSlots::takes(int container) const {
  const Object &o = graph_.objects[graph_.containers[container].object];
  return history_ && history_->has_numbers() && !o.typed && !o.library && trace::recording() &&
         !trace::in_eager_region();
}

PyObject *NumberSlots::take(int container, int slot) {
  const Container &c = graph_.containers[container];
  PyObject *value = c.slots[slot].value;
  if (!value || !(PyLong_CheckExact(value) || PyFloat_CheckExact(value)) || !takes(container) ||
      !history_->varies(graph_.path(container, slot), value))
    return nullptr;
  PyObject *owner = graph_.objects[c.object].object;
  if (owner != tuple_ && !is_writable(c, c.slots[slot], owner))
    return nullptr;
  at::Tensor number = tensor_of_python_number(value);
  if (!number.defined())
    return nullptr;
  Taken taken{container, slot, Owned(THPVariable_Wrap(std::move(number))), Owned()};
  if (!taken.tensor)
    return nullptr;
  taken_.push_back(std::move(taken));
  return taken_.back().tensor.get();
}

bool NumberSlots::begin_tuple(int container, int slot) {
  const Container &c = graph_.containers[container];
  PyObject *value = c.slots[slot].value;
  if (!value || !PyTuple_CheckExact(value) || !takes(container) || tuple_ ||
      !is_writable(c, c.slots[slot], graph_.objects[c.object].object))
    return false;
  const std::string path = graph_.path(container, slot);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
    if (history_->varies(path + "[" + std::to_string(i) + "]", PyTuple_GET_ITEM(value, i)))
      tuple_ = value;
  return tuple_;
}

void NumberSlots::end_tuple(int container, int slot) {
  PyObject *before = std::exchange(tuple_, nullptr);
  Owned made(PyTuple_New(PyTuple_GET_SIZE(before)));
  for (Py_ssize_t i = 0; made && i < PyTuple_GET_SIZE(before); ++i)
    PyTuple_SET_ITEM(made.get(), i, Py_NewRef(PyTuple_GET_ITEM(before, i)));
  bool any = false;
  for (const Taken &taken : taken_) {
    const Container &c = graph_.containers[taken.container];
    if (!made || !taken.number || graph_.objects[c.object].object != before)
      continue;
    any = true;
    PyTuple_SetItem(made.get(), c.slots[taken.slot].index, Py_NewRef(taken.number.get()));
  }
  if (!any) // it stays the tuple that a path leads to
    return;
  taken_.push_back({container, slot, Owned(), std::move(made)});
  write_number(taken_.back());
}

void NumberSlots::put() {
  Taken &taken = taken_.back();
  try { // CPython calls this between two instructions, and knows no exception of C++
    taken.number =
        Owned(make_traced_number(trace::number_of_slot(THPVariable_Unpack(taken.tensor.get()))));
    trace::keep_known(THPVariable_Unpack(taken.number.get()));
  } catch (const std::exception &) { // the error is repeated at the body's end
    forget_exception();
    return;
  }
  if (!tuple_)
    write_number(taken);
}

void NumberSlots::write_number(const Taken &taken) {
  const Container &c = graph_.containers[taken.container];
  if (taken.number)
    store(c, c.slots[taken.slot], graph_.objects[c.object].object, taken.number.get());
  else
    forget_error();
}

bool NumberSlots::gives(PyObject *tensor) const {
  return std::any_of(taken_.begin(), taken_.end(),
                     [&](const Taken &t) { return t.tensor.get() == tensor; });
}

void NumberSlots::put_again(std::size_t since) {
  const KeepError keep;
  for (std::size_t i = since; i < taken_.size(); ++i) {
    const Container &c = graph_.containers[taken_[i].container];
    const Slot &slot = c.slots[taken_[i].slot];
    PyObject *owner = graph_.objects[c.object].object;
    if (!PyTuple_Check(owner) && read(c, slot, owner) == slot.value)
      write_number(taken_[i]);
  }
}

void NumberSlots::restore() {
  const KeepError keep;
  for (const Taken &taken : taken_) {
    Container &c = graph_.containers[taken.container];
    Slot &slot = c.slots[taken.slot];
    PyObject *owner = graph_.objects[c.object].object;
    if (PyTuple_Check(owner))
      continue;
    PyObject *now = read(c, slot, owner);
    if (!now || now != taken.number.get())
      continue;
    slot.input = false;
    slot.restored = true;
    store(c, slot, owner, slot.value);
  }
  for (Taken &taken : taken_)
    taken.number = Owned();
}

} // namespace tracehost::python
