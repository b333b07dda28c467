#include "stand_ins.h"

#include "errors.h"
#include "guards/gil.h"
#include "origin.h"
#include "rebuild.h"
#include "tensor_spec.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <string_view>

namespace tracehost::python {
namespace {

thread_local bool at_work = false;

const at::Tensor &tensor_of(PyObject *object) { return THPVariable_Unpack(object); }

/// What a plain tensor in its place would have.
TensorMeta meta_of(const at::Tensor &fake, const TensorSpec &spec) {
  TensorMeta meta = TensorMeta::of(fake, THPVariableClass,
                                   reinterpret_cast<PyTypeObject *>(THPVariableClass)->tp_name);
  meta.keys =
      meta.keys.remove(c10::DispatchKey::Python).remove(c10::DispatchKey::PythonTLSSnapshot);
  for (std::size_t d = 0; spec.shape && d < spec.shape->size(); ++d)
    if ((*spec.shape)[d] == kAnySize)
      meta.relax(d);
  return meta;
}

} // namespace

StandIns::StandIns(PyObject *maker) : maker_(Py_NewRef(maker)) {}
StandIns::~StandIns() {
  Py_DECREF(maker_);
  Py_XDECREF(mode_);
}

PyObject *StandIns::mode() {
  if (!mode_ && !(mode_ = PyObject_CallMethod(maker_, "mode", nullptr)))
    rethrow();
  return mode_;
}

Owned StandIns::replace(PyObject *value) {
  Rebuild rebuild(
      [&](PyObject *leaf) -> PyObject * {
        const TensorSpec *spec = as_tensor_spec(leaf);
        if (!spec)
          return nullptr;
        Owned fake(PyObject_CallMethod(maker_, "tensor", "O", leaf));
        if (!fake)
          rethrow();
        const at::Tensor &t = tensor_of(fake.get());
        TensorMeta meta = meta_of(t, *spec);
        open_ |= meta.relaxed;
        arguments_.emplace(t.unsafeGetTensorImpl(), Argument{t, std::move(meta), spec->name});
        return fake.release();
      },
      /*each=*/true);
  return rebuild.value(value);
}

void StandIns::describe(Signature &signature, const std::vector<PyObject *> &tensors) const {
  for (std::size_t slot = 0; slot < tensors.size(); ++slot)
    if (const Argument *found = argument(tensors[slot]))
      signature.slots[slot] = found->meta;
}

std::vector<std::string> StandIns::names(const std::vector<PyObject *> &tensors) const {
  std::vector<std::string> result;
  for (PyObject *tensor : tensors) {
    const Argument *found = argument(tensor);
    result.push_back(found ? found->name : std::string());
  }
  return result;
}

const StandIns::Argument *StandIns::argument(PyObject *tensor) const {
  const auto found = arguments_.find(tensor_of(tensor).unsafeGetTensorImpl());
  return found == arguments_.end() ? nullptr : &found->second;
}

StandIns::AtWork::AtWork() : before_(std::exchange(at_work, true)) {}
StandIns::AtWork::~AtWork() { at_work = before_; }
bool StandIns::AtWork::any() { return at_work; }

at::Tensor StandIns::twin(const at::Tensor &tensor) {
  const AtWork mark;
  const auto *impl = tensor.unsafeGetTensorImpl();
  if (const auto found = twins_.find(impl); found != twins_.end())
    return found->second.second;
  const Owned object(THPVariable_Wrap(tensor));
  const Owned made(object ? PyObject_CallMethod(mode(), "from_tensor", "O", object.get())
                          : nullptr);
  if (!made)
    rethrow();
  return twins_.emplace(impl, std::pair{tensor, tensor_of(made.get())}).first->second.second;
}

bool StandIns::is_class(PyTypeObject *type) {
  return std::string_view(type->tp_name) == "FakeTensor" &&
         PyType_IsSubtype(type, reinterpret_cast<PyTypeObject *>(THPVariableClass));
}

bool StandIns::is_code_of_ops(PyFrameObject *frame) {
  PyCodeObject *code = PyFrame_GetCode(frame);
  const std::string_view file = utf8(code->co_filename);
  const bool found = origin_of(code) == Origin::torch &&
                     (file.find("/torch/_subclasses/") != std::string_view::npos ||
                      file.ends_with("/torch/utils/_python_dispatch.py"));
  Py_DECREF(code);
  return found;
}

StandIns::Entered::Entered(StandIns *stand_ins) {
  if (!stand_ins)
    return;
  const AtWork mark;
  PyObject *mode = stand_ins->mode();
  const Owned done(PyObject_CallMethod(mode, "__enter__", nullptr));
  if (!done)
    rethrow();
  mode_ = mode;
}

StandIns::Entered::~Entered() {
  if (!mode_)
    return;
  const AtWork mark;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  const Owned done(PyObject_CallMethod(mode_, "__exit__", "OOO", Py_None, Py_None, Py_None));
  PyErr_Restore(type, value, traceback);
}

} // namespace tracehost::python
