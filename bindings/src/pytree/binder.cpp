#include "pytree/binder.h"

#include <algorithm>

namespace tracehost::python {

Binder::Binder(PyObject *parameters, PyObject *empty) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(parameters); ++i) {
    PyObject *entry = PyList_GET_ITEM(parameters, i);
    PyObject *name = Py_NewRef(PyTuple_GET_ITEM(entry, 0));
    PyUnicode_InternInPlace(&name);
    PyObject *value = PyTuple_GET_ITEM(entry, 2);
    const auto kind = static_cast<Parameter::Kind>(PyLong_AsLong(PyTuple_GET_ITEM(entry, 1)));
    parameters_.push_back({Owned(name), Owned(value == empty ? nullptr : Py_NewRef(value)), kind});
    takes_extra_ |= kind == Parameter::Kind::var_positional;
    takes_keywords_ |= kind == Parameter::Kind::var_keyword;
    if (kind != Parameter::Kind::var_positional && kind != Parameter::Kind::var_keyword) {
      fixed_parameters_.push_back(parameters_.size() - 1);
      defaults_.push_back(parameters_.back().default_value.get());
      positional_ += kind != Parameter::Kind::keyword;
    }
  }
  fixed_ = fixed_parameters_.size();
}

int Binder::traverse(visitproc visit, void *arg) const {
  for (const Parameter &p : parameters_)
    Py_VISIT(p.default_value.get());
  return 0;
}

bool Binder::bind(PyObject *const *args, std::size_t given, PyObject *kwnames, Bound &bound) {
  if (given == fixed_ && positional_ == fixed_ && !kwnames) [[likely]] {
    bound.values = args;
    return true;
  }
  for (const Form &form : forms_)
    if (form.kwnames.get() == kwnames && form.given == given) {
      for (std::size_t i = 0; i < fixed_; ++i) {
        const std::int32_t source = form.sources[i];
        bound.buffer[i] = source == Form::kDefault ? defaults_[i] : args[source];
      }
      bound.values = bound.buffer;
      if (takes_extra_ || takes_keywords_)
        bind_rest(form, args, bound);
      return true;
    }
  return bind_new(args, given, kwnames, bound);
}

void Binder::bind_rest(const Form &form, PyObject *const *args, Bound &bound) const {
  const std::size_t direct = std::min(form.given, positional_);
  bound.extra = args + direct;
  bound.extra_count = form.given - direct;
  for (const std::int32_t i : form.named)
    bound.keywords.push_back(
        {PyTuple_GET_ITEM(form.kwnames.get(), i), args[form.given + static_cast<std::size_t>(i)]});
}

bool Binder::bind_new(PyObject *const *args, std::size_t given, PyObject *kwnames, Bound &bound) {
  if (given > positional_ && !takes_extra_)
    return false;
  PyObject **values = bound.buffer;
  if (fixed_ > Bound::kInline) {
    bound.overflow.resize(fixed_);
    values = bound.overflow.data();
  }
  const std::size_t direct = std::min(given, positional_);
  std::copy_n(args, direct, values);
  std::fill(values + direct, values + fixed_, nullptr);
  bound.extra = args + direct;
  bound.extra_count = given - direct;
  const Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t i = 0; i < named; ++i)
    if (!bind_keyword(PyTuple_GET_ITEM(kwnames, i), args[given + static_cast<std::size_t>(i)],
                      values, bound))
      return false;
  for (std::size_t i = direct; i < fixed_; ++i)
    if (!values[i] && !(values[i] = defaults_[i]))
      return false;
  bound.values = values;
  if (fixed_ <= Bound::kInline)
    learn(given, kwnames);
  return true;
}

void Binder::learn(std::size_t given, PyObject *kwnames) {
  // `f(**options)` comes with new names each time: it must not drive out those that come again.
  if (forms_.size() == kForms && ++unlearned_ % 64 != 0)
    return;
  Form form{given, Owned(Py_XNewRef(kwnames)), {}, {}};
  for (std::size_t i = 0; i < fixed_; ++i)
    form.sources.push_back(i < std::min(given, positional_) ? static_cast<std::int32_t>(i)
                                                            : Form::kDefault);
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k) {
    const std::size_t place = named(PyTuple_GET_ITEM(kwnames, k));
    if (place == fixed_)
      form.named.push_back(static_cast<std::int32_t>(k));
    else
      form.sources[place] = static_cast<std::int32_t>(given + static_cast<std::size_t>(k));
  }
  if (forms_.size() < kForms)
    return forms_.push_back(std::move(form));
  std::swap(forms_[next_form_], form);
  next_form_ = (next_form_ + 1) % kForms;
}

std::size_t Binder::named(PyObject *name) const {
  for (const bool by_pointer : {true, false})
    for (std::size_t i = 0; i < fixed_; ++i) {
      const Parameter &p = parameters_[fixed_parameters_[i]];
      if (p.kind != Parameter::Kind::positional_only &&
          (by_pointer ? p.name.get() == name : PyUnicode_Compare(p.name.get(), name) == 0))
        return i;
    }
  return fixed_;
}

bool Binder::bind_keyword(PyObject *name, PyObject *value, PyObject **values, Bound &bound) const {
  const std::size_t place = named(name);
  if (place < fixed_) {
    if (values[place])
      return false;
    values[place] = value;
    return true;
  }
  if (!takes_keywords_)
    return false;
  bound.keywords.push_back({name, value});
  return true;
}

} // namespace tracehost::python
