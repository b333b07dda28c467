#include "base/kernel_registry.h"

#include "base/errors.h"
#include "base/object.h"
#include "tape/replaced_kernels.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>

namespace tracehost::python {

namespace py = pybind11;

namespace {

/// `torch.library._impls`: a set of `aten/add.Tensor/CPU`, which is there as long as torch is.
PyObject *impls = nullptr;

constexpr std::array<std::string_view, 6> kKeysOfTheCpu{"CPU",
                                                        "Autograd",
                                                        "AutogradCPU",
                                                        "ADInplaceOrView",
                                                        "CompositeImplicitAutograd",
                                                        "CompositeExplicitAutograd"};

bool is_on_the_cpu(std::string_view registration) {
  const std::string_view key = registration.substr(registration.rfind('/') + 1);
  return registration.starts_with("aten/") &&
         std::find(kKeysOfTheCpu.begin(), kKeysOfTheCpu.end(), key) != kKeysOfTheCpu.end();
}

/// What a look at the set has found, by a thread that had the GIL.
std::atomic<Py_ssize_t> looked_at{-1}; ///< how many elements there were
std::atomic<bool> found_one{true};

bool replaces_cpu() {
  if (!python_alive())
    return false;
  if (looked_at == tape::count_registered_kernels())
    return found_one;
  if (!PyGILState_Check())
    return true; // not known: a graph runs without the GIL, which another thread may hold for long
  const py::list all(py::reinterpret_borrow<py::set>(impls)); // no code runs between two elements
  found_one = std::any_of(all.begin(), all.end(), [](py::handle one) {
    return PyUnicode_Check(one.ptr()) && is_on_the_cpu(PyUnicode_AsUTF8(one.ptr()));
  });
  looked_at = static_cast<Py_ssize_t>(all.size());
  return found_one;
}

} // namespace

void watch_kernel_registry() {
  const py::object found = py::getattr(py::module_::import("torch.library"), "_impls", py::none());
  if (!PySet_CheckExact(found.ptr())) // a torch that keeps no such set
    return;
  impls = found.inc_ref().ptr();
  tape::set_kernel_registry({&reinterpret_cast<PySetObject *>(impls)->used, &replaces_cpu});
  replaces_cpu();
}

} // namespace tracehost::python
