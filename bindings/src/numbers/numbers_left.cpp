#include "numbers/numbers_left.h"

#include "base/lazy.h"
#include "numbers/traced_number.h"
#include "shapes/fake_tensor.h"
#include "trace/tracer.h"

#include <torch/csrc/autograd/python_variable.h>

namespace tracehost::python {

constinit thread_local NumbersLeft *NumbersLeft::innermost = nullptr;

namespace {

/// Whether a Python object besides `number` refers to it. libtorch counts as one, however many
/// tensors it holds.
bool is_referred_to(const Owned &number) {
  const bool by_libtorch = THPVariable_Unpack(number.get()).use_count() > 1;
  return Py_REFCNT(number.get()) > (by_libtorch ? 2 : 1);
}

PyObject *replacer() {
  static constinit Lazy<PyObject *> made;
  return made([] {
    const Owned module(PyImport_ImportModule("tracehost._traced.numbers_left"));
    return module ? PyObject_GetAttrString(module.get(), "replace") : nullptr;
  });
}

} // namespace

void NumbersLeft::made(PyObject *number) {
  if (!innermost)
    return;
  if (Owned reference(PyWeakref_NewRef(number, nullptr)); reference)
    innermost->made_.push_back(std::move(reference));
  else
    PyErr_Clear();
}

void NumbersLeft::replace() {
  const KeepError keep;
  const trace::PausedWithData paused;
  const Owned numbers(PyList_New(0)), values(PyList_New(0));
  for (const Owned &reference : std::exchange(made_, {})) {
    const Owned number(PyObject_CallNoArgs(reference.get()));
    if (!number || number.get() == Py_None || !is_referred_to(number) ||
        shapes::is_fake_tensor(THPVariable_Unpack(number.get())))
      continue;
    const Owned value(number_of(THPVariable_Unpack(number.get())));
    if (!numbers || !values || !value || PyList_Append(numbers.get(), number.get()) ||
        PyList_Append(values.get(), value.get()))
      break;
  }
  if (numbers && values && PyList_GET_SIZE(numbers.get()) > 0 && replacer())
    Owned(PyObject_CallFunctionObjArgs(replacer(), numbers.get(), values.get(), nullptr));
  PyErr_Clear();
}

} // namespace tracehost::python
