#include "numbers/numbers_left.h"

#include "base/forget_error.h"
#include "numbers/traced_number.h"
#include "trace/tracer.h"

#include <pybind11/pybind11.h>
#include <torch/csrc/autograd/python_variable.h>

namespace tracehost::python {

namespace py = pybind11;

constinit thread_local NumbersLeft *NumbersLeft::innermost = nullptr;

namespace {

/// Whether a Python object besides `number` refers to it. libtorch counts as one, however many
/// tensors it holds.
bool is_referred_to(const Owned &number) {
  const bool by_libtorch = THPVariable_Unpack(number.get()).use_count() > 1;
  return Py_REFCNT(number.get()) > (by_libtorch ? 2 : 1);
}

} // namespace

void NumbersLeft::made(PyObject *number) {
  if (!innermost)
    return;
  if (Owned reference(PyWeakref_NewRef(number, nullptr)); reference)
    innermost->made_.push_back(std::move(reference));
  else
    forget_error();
}

void NumbersLeft::replace() {
  const KeepError keep;
  const trace::PausedWithData paused;
  try {
    py::list numbers, values;
    for (const Owned &reference : std::exchange(made_, {})) {
      const Owned number(PyObject_CallNoArgs(reference.get()));
      if (!number || number.get() == Py_None || !is_referred_to(number) ||
          is_fake_tensor(number.get()))
        continue;
      const Owned value(number_of(THPVariable_Unpack(number.get())));
      numbers.append(py::handle(number.get()));
      values.append(py::handle(value.get()));
    }
    if (!numbers.empty())
      py::module_::import("tracehost._traced.numbers_left").attr("replace")(numbers, values);
  } catch (py::error_already_set &error) { // they stay what they are
    forget_error(error);
  }
  forget_error();
}

} // namespace tracehost::python
