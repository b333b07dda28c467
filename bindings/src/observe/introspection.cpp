#include "observe/introspection.h"

#include "base/dict_watch.h"
#include "base/instructions.h"
#include "base/opcodes.h"
#include "base/reads_only.h"
#include "observe/c_functions.h"
#include "observe/reads.h"

#include <pybind11/stl.h>

#include <vector>

namespace tracehost::python {

namespace py = pybind11;

namespace {

/// By code unit: how many values lie on the stack before the instruction runs; None where there is
/// none, or it is never reached.
py::list stack_depths(const py::object &code) {
  if (!PyCode_Check(code.ptr()))
    throw py::type_error("a code object is expected");
  py::list depths;
  const Instructions *found = instructions_of(reinterpret_cast<PyCodeObject *>(code.ptr()));
  if (!found)
    throw py::value_error("its bytecode could not be read");
  for (const Instruction &i : *found)
    depths.append(i.depth < 0 ? py::object(py::none()) : py::object(py::int_(i.depth)));
  return depths;
}

/// The settings of the thread's context of decimal, which its arithmetic reads; without its flags.
std::string decimal_context() {
  const py::object context = py::module_::import("decimal").attr("getcontext")();
  std::string text;
  for (const char *name : {"prec", "rounding", "Emin", "Emax", "capitals", "clamp", "traps"})
    text += py::str(context.attr(name)).cast<std::string>() + " ";
  return text;
}

} // namespace

void add_guards(py::module_ &module) {
  module.def("_is_printing", &Reads::printing);
  module.def("add_reads_only", &add_reads_only, py::arg("of"), py::arg("name"),
             "C code of a module or type, by the names that it gives itself, only reads.");
  module.def("decimal_context", &decimal_context,
             "The settings that arithmetic of decimal reads, as a text.");
  module.def("unknown_opcodes", &opcodes_unknown,
             "Opcodes of this Python that the table of what they read lacks; empty: none.");
  module.def("observed_opcodes", &observed_opcodes, "Opcodes of this Python that are observed.");
  module.def("switch_opcode", &switch_opcode, py::arg("name"), py::arg("on"),
             "For tests: whether code that is decoded from now on is observed there.");
  module.def("effects_of_c_code", &effects, "Kinds of what calls of C code read and store.");
  module.def("switch_effect", &switch_effect, py::arg("name"), py::arg("on"),
             "For tests: whether such calls of C code are observed.");
  module.def(
      "follows_dict", [](const py::dict &dict) { return DictWatch::is_followed(dict.ptr()); },
      py::arg("dict"), "For tests: whether changes of the dict are reported.");
  module.def("stack_depths", &stack_depths, py::arg("code"),
             "By code unit: the values on the stack before the instruction runs, or None.");
}

} // namespace tracehost::python
