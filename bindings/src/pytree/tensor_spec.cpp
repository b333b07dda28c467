#include "pytree/tensor_spec.h"

#include "base/forget_error.h"
#include "base/object.h"
#include "signature/native_atoms.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>

namespace tracehost::python {
namespace {

namespace py = pybind11;

/// `[2, 'a'] (list)`, for messages; a repr that fails or is long is cut.
std::string shown(py::handle value) {
  const char *type = Py_TYPE(value.ptr())->tp_name;
  const Owned text(PyObject_Repr(value.ptr()));
  if (!text.get()) {
    forget_error();
    return fmt::format("a {}", type);
  }
  std::string repr = shortened(utf8(text.get()), 80);
  return value.is_none() ? repr : fmt::format("{} ({})", repr, type);
}

std::int64_t parse_size(py::handle size, py::handle shape) {
  if (size.is_none())
    return kAnySize;
  const auto index = py::reinterpret_steal<py::object>(
      PyBool_Check(size.ptr()) ? nullptr : PyNumber_Index(size.ptr()));
  if (!index) {
    forget_error();
    throw py::type_error(
        fmt::format("TensorSpec: a size is an int, or None for any; shape has {}", shown(size)));
  }
  const long long value = PyLong_AsLongLong(index.ptr());
  if (value < 0) { // also where it is too large
    forget_error();
    throw py::value_error(fmt::format(
        "TensorSpec: sizes are from 0 to 2**63 - 1, or None for any; got shape {}", shown(shape)));
  }
  return value;
}

std::optional<TensorSpec::Shape> parse_shape(py::handle shape) {
  if (shape.is_none())
    return std::nullopt;
  if (!PySequence_Check(shape.ptr()) || PyUnicode_Check(shape.ptr()) ||
      PyBytes_Check(shape.ptr()) || THPVariable_Check(shape.ptr()))
    throw py::type_error(fmt::format("TensorSpec: shape is a sequence of sizes (None: dynamic), "
                                     "or None for any rank; got {}",
                                     shown(shape)));
  TensorSpec::Shape result;
  for (const py::handle size : py::tuple(py::reinterpret_borrow<py::object>(shape)))
    result.push_back(parse_size(size, shape));
  return result;
}

at::ScalarType parse_dtype(py::handle dtype) {
  if (!THPDtype_Check(dtype.ptr()))
    throw py::type_error(fmt::format("TensorSpec: dtype is a torch.dtype, got {}", shown(dtype)));
  return reinterpret_cast<THPDtype *>(dtype.ptr())->scalar_type;
}

std::optional<c10::Device> parse_device(py::handle device) {
  if (device.is_none())
    return std::nullopt;
  if (THPDevice_Check(device.ptr()))
    return reinterpret_cast<THPDevice *>(device.ptr())->device;
  if (!PyUnicode_Check(device.ptr()))
    throw py::type_error(fmt::format(
        "TensorSpec: device is a torch.device, its name, or None for any; got {}", shown(device)));
  try {
    return c10::Device(utf8(device.ptr()));
  } catch (const c10::Error &) {
    throw py::value_error(
        fmt::format("TensorSpec: {0} is not a device; if it is the name, as in tf's "
                    "third place, write name={1}",
                    shown(device), utf8(Owned(PyObject_Repr(device.ptr())).get())));
  }
}

std::string parse_name(py::handle name) {
  if (name.is_none())
    return {};
  if (!PyUnicode_Check(name.ptr()))
    throw py::type_error(fmt::format("TensorSpec: name is a str or None, got {}", shown(name)));
  std::string result = utf8(name.ptr());
  if (result.empty())
    throw py::value_error("TensorSpec: name is empty; leave it out, or give None");
  return result;
}

TensorSpec make_spec(py::handle shape, py::handle dtype, py::handle device, py::handle name) {
  return {parse_shape(shape), parse_dtype(dtype), parse_device(device), parse_name(name)};
}

const at::Tensor &tensor_of(py::handle value, const char *method) {
  if (!THPVariable_Check(value.ptr()))
    throw py::type_error(
        fmt::format("TensorSpec.{}: takes a torch.Tensor, got {}", method, shown(value)));
  return THPVariable_Unpack(value.ptr());
}

const TensorSpec &spec_of(py::handle value, const char *method) {
  const TensorSpec *spec = as_tensor_spec(value.ptr());
  if (!spec)
    throw py::type_error(
        fmt::format("TensorSpec.{}: takes a TensorSpec, got {}", method, shown(value)));
  return *spec;
}

TensorSpec renamed(TensorSpec spec, py::handle name) {
  if (!name.is_none())
    spec.name = parse_name(name);
  return spec;
}

bool compatible(const TensorSpec &self, py::handle other) {
  if (const TensorSpec *spec = as_tensor_spec(other.ptr()))
    return is_compatible_with(self, *spec);
  if (THPVariable_Check(other.ptr()))
    return is_compatible_with(self, THPVariable_Unpack(other.ptr()));
  py::object tensor;
  try {
    tensor = py::module_::import("torch").attr("as_tensor")(other);
  } catch (py::error_already_set &e) {
    if (!e.matches(PyExc_Exception))
      throw;
    throw py::type_error(fmt::format(
        "TensorSpec.is_compatible_with: takes a TensorSpec, a tensor, or what torch.as_tensor "
        "takes; got {}",
        shown(other)));
  }
  return is_compatible_with(self, tensor_of(tensor, "is_compatible_with"));
}

std::optional<TensorSpec> common_spec(const TensorSpec &self, py::handle others) {
  constexpr const char *kMethod = "most_specific_common_supertype";
  if (as_tensor_spec(others.ptr()) || !PySequence_Check(others.ptr()))
    throw py::type_error(
        fmt::format("TensorSpec.{}: takes a list of TensorSpecs, got {}", kMethod, shown(others)));
  std::vector<TensorSpec> specs = {self};
  for (const py::handle other : py::tuple(py::reinterpret_borrow<py::object>(others)))
    specs.push_back(spec_of(other, kMethod));
  return most_specific_common_supertype(specs);
}

py::object shape_of(const TensorSpec &spec) {
  if (!spec.shape)
    return py::none();
  py::tuple result(spec.shape->size());
  for (std::size_t i = 0; i < spec.shape->size(); ++i) {
    const std::int64_t size = (*spec.shape)[i];
    result[i] = size == kAnySize ? py::object(py::none()) : py::object(py::int_(size));
  }
  return result;
}

py::object dtype_of(const TensorSpec &spec) {
  return py::reinterpret_borrow<py::object>(
      reinterpret_cast<PyObject *>(torch::getTHPDtype(spec.dtype)));
}

py::object device_of(const TensorSpec &spec) {
  return spec.device ? py::reinterpret_steal<py::object>(THPDevice_New(*spec.device))
                     : py::object(py::none());
}

py::object name_of(const TensorSpec &spec) {
  return spec.name.empty() ? py::object(py::none()) : py::object(py::str(spec.name));
}

constexpr const char *kDoc =
    "TensorSpec(shape, dtype=torch.float32, device=None, name=None)\n\n"
    "What tensors a declared parameter takes.\n\n"
    "Args:\n"
    "    shape: a sequence of sizes, None for a dynamic one; or None for any rank.\n"
    "    dtype: a torch.dtype.\n"
    "    device: a torch.device or its name; None: any. `cuda` is any CUDA device.\n"
    "    name: for messages and archives.";

} // namespace

const TensorSpec *as_tensor_spec(PyObject *object) {
  return py::isinstance<TensorSpec>(object) ? py::cast<const TensorSpec *>(py::handle(object))
                                            : nullptr;
}

void add_tensor_spec(py::module_ &module) {
  module.def("tensor_text", [](py::handle tensor) {
    PyTypeObject *type = Py_TYPE(tensor.ptr());
    if (py::hasattr(tensor, "_tracehost_spec")) // it stands for one
      return py::cast<std::string>(py::repr(tensor.attr("_tracehost_spec")));
    return TensorMeta::of(tensor_of(tensor, "text"), type, type->tp_name).text();
  });
  const py::object float32 = dtype_of(TensorSpec());
  py::class_<TensorSpec> type(module, "TensorSpec", py::is_final(), kDoc);
  type.attr("__module__") = "tracehost";
  type.def(py::init(&make_spec), py::arg("shape"), py::arg("dtype") = float32,
           py::arg("device") = py::none(), py::arg("name") = py::none())
      .def_property_readonly("shape", &shape_of,
                             "A tuple, None for a dynamic size; None: any rank.")
      .def_property_readonly("dtype", &dtype_of)
      .def_property_readonly("device", &device_of, "None: any.")
      .def_property_readonly("name", &name_of)
      .def_static(
          "from_tensor",
          [](py::handle tensor, py::handle name) {
            return TensorSpec::of(tensor_of(tensor, "from_tensor"), parse_name(name));
          },
          py::arg("tensor"), py::arg("name") = py::none(), "The spec that only such tensors fit.")
      .def_static(
          "from_spec",
          [](py::handle spec, py::handle name) {
            return renamed(spec_of(spec, "from_spec"), name);
          },
          py::arg("spec"), py::arg("name") = py::none(), "A copy, with another name if given.")
      .def("is_compatible_with", &compatible, py::arg("spec_or_tensor"),
           "Whether a tensor fits, or some tensor fits both specs. Names take no part.")
      .def(
          "is_subtype_of",
          [](const TensorSpec &self, py::handle other) {
            return is_subtype_of(self, spec_of(other, "is_subtype_of"));
          },
          py::arg("other"), "Whether each tensor that fits this spec fits `other`.")
      .def(
          "most_specific_common_supertype", &common_spec, py::arg("others"),
          "The least general spec that takes what this one and `others` take; None: there is none.")
      .def(
          "most_specific_compatible_type",
          [](const TensorSpec &self, py::handle other) {
            return most_specific_compatible_type(self,
                                                 spec_of(other, "most_specific_compatible_type"));
          },
          py::arg("other"), "most_specific_common_supertype of two; ValueError: there is none.")
      .def("__eq__",
           [](const TensorSpec &self, py::handle other) -> py::object {
             const TensorSpec *spec = as_tensor_spec(other.ptr());
             return spec ? py::object(py::bool_(self == *spec))
                         : py::reinterpret_borrow<py::object>(Py_NotImplemented);
           })
      .def("__hash__", [](const TensorSpec &self) { return std::hash<TensorSpec>()(self); })
      .def("__repr__", &TensorSpec::text)
      .def("__copy__", [](py::object self) { return self; })
      .def("__deepcopy__", [](py::object self, py::handle) { return self; })
      .def("__reduce__", [](const py::object &self) {
        return py::make_tuple(py::type::of(self),
                              py::make_tuple(self.attr("shape"), self.attr("dtype"),
                                             self.attr("device"), self.attr("name")));
      });
}

} // namespace tracehost::python
