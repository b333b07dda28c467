#include "hooks/fake_tensors.h"

#include "base/errors.h"
#include "base/object.h"
#include "pytree/map.h"
#include "pytree/tensor_spec.h"
#include "shapes/fake_tensor.h"
#include "shapes/without_data.h"

#include <ATen/Context.h>
#include <c10/core/InferenceMode.h>
#include <pybind11/stl.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include <optional>

namespace tracehost::python {
namespace {

namespace py = pybind11;

const at::Tensor &tensor_of(PyObject *object) { return THPVariable_Unpack(object); }

/// What a tensor in its place would have.
TensorMeta meta_of(const at::Tensor &fake_tensor, const TensorSpec &spec) {
  TensorMeta meta = TensorMeta::of(fake_tensor, THPVariableClass,
                                   reinterpret_cast<PyTypeObject *>(THPVariableClass)->tp_name);
  for (std::size_t d = 0; spec.shape && d < spec.shape->size(); ++d)
    if ((*spec.shape)[d] == kAnySize)
      meta.make_dynamic(d);
  return meta;
}

/// A new contiguous one.
py::object make(const std::vector<std::int64_t> &sizes, py::handle dtype, py::handle device) {
  const c10::InferenceMode off(false);
  const at::Tensor made = shapes::contiguous_fake_tensor(
      sizes, reinterpret_cast<THPDtype *>(dtype.ptr())->scalar_type,
      device.is_none() ? at::Device(at::kCPU)
                       : reinterpret_cast<THPDevice *>(device.ptr())->device);
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(made));
}

/// A context manager: ops run without data.
class WithoutData {
public:
  void enter() { mode_.emplace(); }
  void exit(const py::args &) { mode_.reset(); }

private:
  std::optional<shapes::WithoutData> mode_;
};

} // namespace

FakeTensors::NoDeviceNeeded::NoDeviceNeeded() : is_missing_(!at::hasCUDA()) {
  if (is_missing_)
    torch::utils::set_requires_device_init(at::kCUDA, false);
}
FakeTensors::NoDeviceNeeded::~NoDeviceNeeded() {
  if (is_missing_)
    torch::utils::set_requires_device_init(at::kCUDA, true);
}

FakeTensors::FakeTensors(PyObject *maker) : maker_(Py_NewRef(maker)) {}
FakeTensors::~FakeTensors() { Py_DECREF(maker_); }

Owned FakeTensors::replace(PyObject *value) {
  Rebuild rebuild(
      [&](PyObject *leaf) -> PyObject * {
        const TensorSpec *spec = as_tensor_spec(leaf);
        if (!spec)
          return nullptr;
        Owned made(PyObject_CallMethod(maker_, "tensor", "O", leaf));
        if (!made)
          rethrow();
        const at::Tensor &t = tensor_of(made.get());
        TensorMeta meta = meta_of(t, *spec);
        open_ |= meta.dynamic;
        arguments_.emplace(t.unsafeGetTensorImpl(), Argument{t, std::move(meta), spec->name});
        return made.release();
      },
      /*each=*/true);
  return rebuild.value(value);
}

void FakeTensors::describe(Signature &signature, const std::vector<PyObject *> &tensors) const {
  for (std::size_t slot = 0; slot < tensors.size(); ++slot)
    if (const Argument *found = argument(tensors[slot]))
      signature.slots[slot] = found->meta;
}

std::vector<std::string> FakeTensors::names(const std::vector<PyObject *> &tensors) const {
  std::vector<std::string> result;
  for (PyObject *tensor : tensors) {
    const Argument *found = argument(tensor);
    result.push_back(found ? found->name : std::string());
  }
  return result;
}

const FakeTensors::Argument *FakeTensors::argument(PyObject *tensor) const {
  const auto found = arguments_.find(tensor_of(tensor).unsafeGetTensorImpl());
  return found == arguments_.end() ? nullptr : &found->second;
}

void add_fake_tensors(py::module_ &module) {
  module.def("fake_tensor", &make);
  module.def("twin", [](py::handle tensor) {
    return py::reinterpret_steal<py::object>(
        THPVariable_Wrap(shapes::Twins().of(tensor_of(tensor.ptr()))));
  });
  module.def("needs_data", &shapes::needs_data);
  py::class_<WithoutData>(module, "WithoutData")
      .def(py::init<>())
      .def("__enter__", &WithoutData::enter)
      .def("__exit__", &WithoutData::exit);
}

} // namespace tracehost::python
