#include "numbers/instance_check.h"

#include "base/errors.h"
#include "base/forget_error.h"
#include "base/object.h"
#include "numbers/traced_number.h"

#include <torch/csrc/autograd/python_variable.h>

namespace tracehost::python {
namespace {

int alive = 0;                                     ///< under the GIL
constinit thread_local bool in_isinstance = false; ///< the builtin is called
constinit thread_local bool in_match = false;      ///< a class pattern is tried
PyObject *builtin = nullptr;                       ///< isinstance; lives as long as the process

constexpr const char *kName = "__instancecheck__";

PyObject *instance_check(PyObject *cls, PyObject *instance) {
  const bool is_it = cls == reinterpret_cast<PyObject *>(Py_TYPE(instance));
  if ((in_isinstance || in_match) && !is_it && is_traced_number(instance))
    Py_RETURN_FALSE;
  const Owned of_type(PyObject_GetAttrString(reinterpret_cast<PyObject *>(&PyType_Type), kName));
  if (!of_type)
    return nullptr;
  return PyObject_CallFunctionObjArgs(of_type.get(), cls, instance, nullptr);
}

PyMethodDef method{kName, instance_check, METH_O, nullptr};

PyTypeObject *tensor_meta() { return Py_TYPE(THPVariableClass); }

} // namespace

InstanceCheck::InstanceCheck() {
  if (alive++)
    return;
  if (!builtin)
    builtin = PyObject_GetAttrString(Owned(PyImport_ImportModule("builtins")).get(), "isinstance");
  const Owned check(PyDescr_NewMethod(tensor_meta(), &method));
  if (!builtin || !check || PyDict_SetItemString(tensor_meta()->tp_dict, kName, check.get()))
    rethrow();
  PyType_Modified(tensor_meta());
}

InstanceCheck::~InstanceCheck() {
  if (--alive)
    return;
  const KeepError keep;
  if (PyDict_DelItemString(tensor_meta()->tp_dict, kName))
    forget_error();
  PyType_Modified(tensor_meta());
}

void InstanceCheck::calls(PyObject *function) { in_isinstance = function == builtin; }
void InstanceCheck::returns() { in_isinstance = false; }
void InstanceCheck::comes(bool matches) { in_match = matches; }

} // namespace tracehost::python
