#pragma once

#include "observe/c_functions.h"

#include <span>
#include <string_view>

/// The table of C code: what each function, type and method reads and changes, and whether it is
/// pure. Nothing is imported for it: rows are found by the names that C code gives itself.

namespace tracehost::python {

struct Row {
  std::string_view of; ///< functions: a module; methods: a type
  Effect effect;
  std::string_view names; ///< with a space between; empty: all others of it
  Purity purity = Purity::by_effect;
};

/// Functions and types, by the module's own name.
std::span<const Row> rows_of_functions();
/// The same of a module and what is below it; the first that has the name counts. Methods of its
/// types have these rows, too.
std::span<const Row> rows_of_packages();
/// Methods, by the name of the type. `list` stands for dicts, lists, sets and deques; `object` for
/// what any other type has.
std::span<const Row> rows_of_methods();

} // namespace tracehost::python
