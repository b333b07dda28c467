#pragma once

#include "call/python_function.h"
#include "report/warning.h"

#include <pybind11/pybind11.h>

#include <string>

/// The facts of retraces, as tracehost/_reports/words takes them, and the warnings that it makes
/// of them. Requires for all: GIL held.

namespace tracehost::python {

/// A name of a file may be no text: as os.fsdecode() has it.
pybind11::str text_of(const std::string &bytes);
/// {"file", "line", "text"}; None where it is not known.
pybind11::object place(const Site &site);

/// {"name", "definition", "records" ...}: the fields of words.records.Account. `requests`: with the
/// arguments of the calls, which replays need and which may be many.
pybind11::dict facts_of(const report::Account &account, bool requests);

/// The retrace warnings that are due for the Function. False with the error set: a filter made one
/// an exception.
[[gnu::cold]] bool warn_retraces(const PythonFunction &f);

} // namespace tracehost::python
