#pragma once

#include <pybind11/pybind11.h>

namespace tracehost::python {

/// Python's arithmetic on numbers as graphs have it (host/program/numbers.h). number_op() and
/// kind_of_number() are for the tests that compare it with Python's.
///
///     number_ops() -> dict            name -> arity
///     number_op(name, *numbers)       the result, or what Python raises; NotImplemented where the
///                                     result is no int64, float or bool
///     _number_op(name, *numbers)      the traced number, where one of `numbers` is traced
///     kind_of_number(name, *types)    the result's type; None where the values tell
void add_numbers(pybind11::module_ &m);

} // namespace tracehost::python
