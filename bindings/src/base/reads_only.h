#pragma once

#include <Python.h>

#include <string>
#include <string_view>

/// C code of which the user has said that it only reads what it is given
/// (tracehost.autograph.reads_only). Names are those that C code gives: of a module or a type, and
/// of what is in it.
///
/// Requires for all: GIL held.

namespace tracehost::python {

/// `name` empty: all of the module or type, and of what is below the module.
void add_reads_only(std::string of, std::string name);
/// Whether `of.name` was said to.
bool is_reads_only(std::string_view of, std::string_view name);
/// Whether all of a type's methods were.
bool is_reads_only(const PyTypeObject *type);

/// `numpy.linalg` is a part of `numpy`.
inline bool is_part_of(std::string_view module, std::string_view whole) {
  return module.starts_with(whole) &&
         (module.size() == whole.size() || module[whole.size()] == '.');
}

} // namespace tracehost::python
