#pragma once

#include "base/object.h"

#include <Python.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <string>
#include <vector>

namespace tracehost::python {

/// One parameter of the user's function.
struct Parameter {
  enum class Kind : std::uint8_t {
    positional_only,
    positional,
    var_positional,
    keyword,
    var_keyword
  };
  Owned name;          ///< interned
  Owned default_value; ///< or null
  Kind kind;
};

/// A call's arguments in canonical order, borrowed: `f(1, x=2)` and `f(1, 2)` look alike.
struct Bound {
  PyObject *const *values = nullptr; ///< fixed parameters, in the order of declaration
  PyObject *const *extra = nullptr;  ///< those of *args
  std::size_t extra_count = 0;
  struct Keyword {
    PyObject *name, *value;
  };
  c10::SmallVector<Keyword, 8> keywords; ///< those of **kwargs, in the order of the call

  static constexpr std::size_t kInline = 16;
  PyObject *buffer[kInline];
  std::vector<PyObject *> overflow; ///< where there are more fixed parameters than kInline
};

/// Binds arguments to parameters as Python does, without making Python objects.
///
/// The names of a call's keywords are a constant tuple of the code that calls: a call written
/// `f(x, scale=2)` comes with the same tuple each time. So the way to bind it, the call form, is
/// learned at its first call and found again by that pointer.
///
/// Requires for every member: GIL held.
class Binder {
public:
  /// `parameters`: a list of (name, kind, default or `empty`), kinds as inspect.Parameter.kind.
  Binder(PyObject *parameters, PyObject *empty);
  Binder(const Binder &) = delete;
  Binder &operator=(const Binder &) = delete;

  /// Hot. False if Python would raise a TypeError; no error is set.
  bool bind(PyObject *const *args, std::size_t positional, PyObject *kwnames, Bound &bound);

  const std::vector<Parameter> &parameters() const { return parameters_; }
  std::size_t fixed() const { return fixed_; }
  int traverse(visitproc visit, void *arg) const;

private:
  /// Where each fixed parameter's value comes from: an index into the call's arguments, or its
  /// default. The rest goes to *args and **kwargs.
  struct Form {
    static constexpr std::int32_t kDefault = -1;
    std::size_t given;
    Owned kwnames; ///< or null
    std::vector<std::int32_t> sources;
    std::vector<std::int32_t> named; ///< those of **kwargs: indices into kwnames
  };
  static constexpr std::size_t kForms = 4;

  bool bind_new(PyObject *const *args, std::size_t given, PyObject *kwnames, Bound &bound);
  void bind_rest(const Form &form, PyObject *const *args, Bound &bound) const;
  void learn(std::size_t given, PyObject *kwnames);
  /// The fixed parameter that a keyword names, by place; fixed_ for none.
  std::size_t named(PyObject *name) const;
  bool bind_keyword(PyObject *name, PyObject *value, PyObject **values, Bound &bound) const;

  std::vector<Parameter> parameters_;
  std::vector<std::size_t> fixed_parameters_; ///< index into parameters_, by place in Bound::values
  std::size_t fixed_ = 0;                     ///< parameters that are neither * nor **
  std::size_t positional_ = 0;                ///< of these, those that take positional arguments
  bool takes_extra_ = false, takes_keywords_ = false;
  std::vector<PyObject *> defaults_; ///< of fixed parameters by place, or null; borrowed
  std::vector<Form> forms_;          ///< at most kForms
  std::size_t next_form_ = 0;        ///< the one to be replaced next
  std::size_t unlearned_ = 0;        ///< new forms that came while there was no room
};

} // namespace tracehost::python
