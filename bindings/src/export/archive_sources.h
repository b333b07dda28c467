#pragma once

#include "archive/write.h"

#include <pybind11/pybind11.h>

#include <string>

/// Specializations of Python's without Python, as archives and C++ callers take them.

namespace tracehost::python {

/// What is done with a specialization that can't be had without Python.
enum class Unstored { reject, skip };

/// `entry`: (name, defaults by parameter, [(Concrete, its results' shapes), ...]). Of its
/// specializations there may be none with Unstored::skip; `parameters` is null then. Throws an
/// ArchiveError of Python's. Requires: GIL held.
archive::SourceFunction source_function(const pybind11::handle &entry, Unstored unstored);

/// ArchiveError.
[[noreturn]] void raise_archive(const std::string &message);

} // namespace tracehost::python
