#include "interpreter/warning_options.h"

#include "interpreter/library.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace tracehost::interpreter {
namespace {

constexpr const char *variable = "PYTHONWARNINGS";

// warnings._setoption() parses each entry. It finds the classes by __import__, a name that it looks
// for among the globals of its module first. The entries behind the first such one are set
// once more, so that their filters lie before it; Python has already said which of them are wrong.
constexpr const char *source = R"(
def install(entries, variable, value):
    import sys, warnings

    class Deferred(type):
        def __subclasscheck__(cls, other):
            real = getattr(sys.modules.get(cls.__module__), cls.__name__, None)
            return isinstance(real, type) and issubclass(other, real)

    class Module:
        def __init__(self, name):
            self._name = name

        def __getattr__(self, name):
            return Deferred(name, (Warning,), {'__module__': self._name})

    def find(name, *_):
        if name == 'tracehost' or name.startswith('tracehost.'):
            return Module(name)
        if name in sys.modules:
            return sys.modules[name]
        raise ImportError(name)

    def set_again(entry):
        before = list(warnings.filters)
        try:
            warnings._setoption(entry)
        except warnings._OptionError:
            return
        if warnings.filters[0] not in before:
            del warnings.filters[0]

    sys.warnoptions[:] = entries
    if value is not None:
        import os, posix
        os.environb[variable] = posix.environ[variable] = value
    of_parser = warnings._getcategory.__globals__
    of_parser['__import__'] = find
    begun = False
    try:
        for entry in entries:
            if (entry.split(':') + ['', ''])[2].strip().startswith('tracehost.'):
                begun = True
                try:
                    warnings._setoption(entry)
                except warnings._OptionError as error:
                    print('Invalid -W option ignored:', error, file=sys.stderr)
            elif begun:
                set_again(entry)
    finally:
        del of_parser['__import__']
    with warnings.catch_warnings():  # its end makes known that the list has changed
        pass
)";

// action:message:category:module:line
bool is_tracehosts(std::wstring_view entry) {
  for (int field = 0; field < 2; ++field) {
    const auto colon = entry.find(L':');
    if (colon == std::wstring_view::npos)
      return false;
    entry.remove_prefix(colon + 1);
  }
  entry.remove_prefix(std::min(entry.find_first_not_of(L" \t"), entry.size()));
  return entry.starts_with(L"tracehost.");
}

// The same for an entry of the variable, which is ASCII as far as it matters.
bool is_tracehosts(const std::string &entry) {
  return is_tracehosts(std::wstring(entry.begin(), entry.end()));
}

std::string without_tracehosts(std::string_view entries) {
  std::string result;
  while (!entries.empty()) {
    const auto comma = std::min(entries.find(','), entries.size());
    const std::string entry(entries.substr(0, comma));
    if (!is_tracehosts(entry))
      result += (result.empty() ? "" : ",") + entry;
    entries.remove_prefix(std::min(comma + 1, entries.size()));
  }
  return result;
}

Owned list_of(const std::vector<std::wstring> &entries) {
  Owned list(PyList_New(0));
  for (const auto &entry : entries) {
    const Owned text(PyUnicode_FromWideChar(entry.c_str(), -1));
    if (list == nullptr || text == nullptr || PyList_Append(list.get(), text.get()) != 0)
      return nullptr;
  }
  return list;
}

// The function `install` of `source`.
Owned installer() {
  const Owned globals(PyDict_New());
  if (globals == nullptr ||
      PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins()) != 0)
    return nullptr;
  const Owned ran(PyRun_String(source, Py_file_input, globals.get(), globals.get()));
  PyObject *found = ran == nullptr ? nullptr : PyDict_GetItemString(globals.get(), "install");
  return Owned(Py_XNewRef(found));
}

} // namespace

bool WarningOptions::may_be_given(const std::vector<std::string> &args) {
  constexpr std::string_view name = "tracehost.";
  const char *value = std::getenv(variable);
  if (value != nullptr && std::string_view(value).find(name) != std::string_view::npos)
    return true;
  for (const auto &arg : args)
    if (arg.find(name) != std::string::npos && arg.find(':') != std::string::npos)
      return true;
  return false;
}

PyStatus WarningOptions::take(PyConfig &config) {
  std::vector<std::wstring> all, others;
  for (Py_ssize_t i = 0; i < config.warnoptions.length; ++i) {
    all.emplace_back(config.warnoptions.items[i]);
    if (!is_tracehosts(all.back()))
      others.push_back(all.back());
  }
  if (others.size() == all.size())
    return PyStatus_Ok();
  std::vector<wchar_t *> items;
  items.reserve(others.size());
  for (auto &entry : others)
    items.push_back(entry.data());
  const auto status = PyConfig_SetWideStringList(
      &config, &config.warnoptions, static_cast<Py_ssize_t>(items.size()), items.data());
  if (PyStatus_Exception(status))
    return status;
  all_ = std::move(all);
  // Py_InitializeFromConfig reads the variable again.
  const char *value = config.use_environment != 0 ? std::getenv(variable) : nullptr;
  if (value != nullptr) {
    variable_ = value;
    changed_variable_ = true;
    ::setenv(variable, without_tracehosts(variable_).c_str(), 1);
  }
  return PyStatus_Ok();
}

void WarningOptions::install() {
  if (all_.empty())
    return;
  if (changed_variable_)
    ::setenv(variable, variable_.c_str(), 1);
  const Owned function = installer(), entries = list_of(all_);
  const Owned value(changed_variable_ ? PyBytes_FromString(variable_.c_str()) : Py_NewRef(Py_None));
  const Owned done(
      function != nullptr && entries != nullptr && value != nullptr
          ? PyObject_CallFunction(function.get(), "OyO", entries.get(), variable, value.get())
          : nullptr);
  if (done == nullptr)
    std::fprintf(stderr, "tracehost: warning filters for tracehost's classes are not set: %s\n",
                 take_failure().c_str());
}

} // namespace tracehost::interpreter
