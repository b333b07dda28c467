#include "interpreter/interception.h"

#include "interpreter/library.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

namespace tracehost::interpreter {
namespace {

constexpr const char *variables[] = {"TRACEHOST_TRACE", "TRACEHOST_INTERCEPT"};
constexpr int exit_failure = 1, exit_usage = 2;

std::string_view get(const char *name) {
  const char *value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// `__main__:step`
bool main_is_asked() {
  for (const char *name : variables)
    if (get(name).find("__main__:") != std::string_view::npos)
      return true;
  return false;
}

// Whether this is a child of the process that got the option. A missing package is no error in a
// child.
bool is_child() {
  const auto first = get("TRACEHOST_INTERCEPTION_PID");
  return !first.empty() && first != std::to_string(::getpid());
}

// A Python literal of any text.
std::wstring literal(const std::wstring &text) {
  std::wstring result = L"'";
  for (const wchar_t c : text) {
    const bool plain = (c >= L'a' && c <= L'z') || (c >= L'A' && c <= L'Z') || c == L' ';
    wchar_t escaped[11];
    std::swprintf(escaped, std::size(escaped), L"\\U%08x", static_cast<unsigned>(c));
    result += plain ? std::wstring(1, c) : std::wstring(escaped);
  }
  return result + L"'";
}

std::wstring text_of(const wchar_t *text) { return text == nullptr ? L"" : text; }

// Before Python starts: from 3.13 on PyMem_Malloc, of which Py_EncodeLocale takes its memory, asks
// for the running interpreter. The raw allocator asks for none.
class WithoutInterpreter {
public:
  WithoutInterpreter() {
    PyMemAllocatorEx raw;
    PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &raw);
    PyMem_GetAllocator(PYMEM_DOMAIN_MEM, &before_);
    PyMem_SetAllocator(PYMEM_DOMAIN_MEM, &raw);
  }
  ~WithoutInterpreter() { PyMem_SetAllocator(PYMEM_DOMAIN_MEM, &before_); }
  WithoutInterpreter(const WithoutInterpreter &) = delete;
  WithoutInterpreter &operator=(const WithoutInterpreter &) = delete;

private:
  PyMemAllocatorEx before_;
};

bool is_source(const std::wstring &file) {
  const WithoutInterpreter memory;
  char *name = file.ends_with(L".py") ? Py_EncodeLocale(file.c_str(), nullptr) : nullptr;
  std::error_code ignored;
  const bool found = name != nullptr && std::filesystem::is_regular_file(name, ignored);
  PyMem_Free(name);
  return found;
}

// A line on stderr for what install() could not do; clears the error.
int complain(const char *what) {
  std::fprintf(stderr, "tracehost: %s%s\n", what, take_failure().c_str());
  return exit_failure;
}

// What install() returns: None, or a sentence about what the user typed.
int read_answer(PyObject *answer) {
  const char *trouble = answer == Py_None ? nullptr : PyUnicode_AsUTF8(answer);
  if (trouble == nullptr)
    return 0;
  std::fprintf(stderr, "tracehost: %s\n", trouble);
  return exit_usage;
}

} // namespace

bool interception_asked() { return !get(variables[0]).empty() || !get(variables[1]).empty(); }

PyStatus direct_main(PyConfig &config, std::wstring &module) {
  module = text_of(config.run_module);
  const std::wstring file = text_of(config.run_filename), code = text_of(config.run_command);
  std::wstring way;
  if (module.empty() && code.empty() && !file.empty() && !is_source(file))
    module = L"__main__"; // a folder or a zip
  else if (!main_is_asked() || !module.empty())
    return PyStatus_Ok();
  else if (!code.empty() && !code.starts_with(L"from multiprocessing."))
    way = L"command_code(" + literal(code);
  else if (code.empty() && !file.empty() && !config.skip_source_first_line)
    way = L"script_code(" + literal(file);
  if (way.empty())
    return PyStatus_Ok();
  way = L"exec(__import__('tracehost_interception')." + way + L"))\n";
  PyMem_RawFree(std::exchange(config.run_filename, nullptr));
  return PyConfig_SetString(&config, &config.run_command, way.c_str());
}

int install_interception(const std::wstring &module) {
  const Owned package(PyImport_ImportModule("tracehost_interception"));
  if (package == nullptr && is_child())
    return PyErr_Clear(), 0;
  if (package == nullptr)
    return complain("--trace and --intercept need the tracehost package in the environment (try "
                    "'tracehost doctor'): ");
  const Owned answer(PyObject_CallMethod(package.get(), "install", "u", module.c_str()));
  return answer == nullptr ? complain("--trace, --intercept: ") : read_answer(answer.get());
}

} // namespace tracehost::interpreter
