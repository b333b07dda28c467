#include "interpreter/environment.h"

#include <Python.h>
#include <dlfcn.h>

#include <cstdlib>
#include <fstream>

namespace fs = std::filesystem;

namespace tracehost::interpreter {
namespace {

std::string trimmed(const std::string &text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos)
    return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// `version = 3.11.7` (venv) or `version_info = 3.11.7.final.0` (virtualenv)
std::string venv_version(const fs::path &prefix) {
  std::ifstream file(prefix / "pyvenv.cfg");
  for (std::string line; std::getline(file, line);) {
    const auto equals = line.find('=');
    if (equals == std::string::npos)
      continue;
    const auto key = trimmed(line.substr(0, equals));
    if (key == "version" || key == "version_info")
      return trimmed(line.substr(equals + 1));
  }
  return {};
}

// The directory above or at `dir` that holds pyvenv.cfg, as CPython looks for it.
std::optional<fs::path> venv_at(const fs::path &dir) {
  std::error_code ignored;
  for (const auto &candidate : {dir, dir.parent_path()})
    if (!candidate.empty() && fs::exists(candidate / "pyvenv.cfg", ignored))
      return candidate;
  return std::nullopt;
}

fs::path own_directory() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

// Where the file lies that this code is in: the binary's, or that of libtracehost_embed.so.
fs::path library_directory() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void *>(&find_environment), &info) == 0 || info.dli_fname == nullptr)
    return {};
  return fs::path(info.dli_fname).parent_path();
}

// tracehost-python if it is installed there, so that children run in the host too; else a plain
// python.
fs::path executable_in(const fs::path &bin) {
  std::error_code ignored;
  for (const char *name : {"tracehost-python", "python3", "python"})
    if (fs::exists(bin / name, ignored))
      return bin / name;
  return bin / "tracehost-python";
}

Environment in_venv(const fs::path &prefix, std::string chosen_by) {
  return {prefix, executable_in(prefix / "bin"), std::move(chosen_by), venv_version(prefix)};
}

bool fits(const Environment &found) {
  return found.python_version.empty() ||
         minor_of(found.python_version) == minor_of(loaded_python_version());
}

// Nothing, and why not, if it is of another Python.
std::optional<Environment> checked(const Environment &found, std::string &error) {
  if (fits(found))
    return found;
  error = found.prefix.string() + " is of Python " + found.python_version +
          ", but this host embeds Python " + loaded_python_version() +
          "; use a virtual environment of Python " + minor_of(loaded_python_version()) +
          " or rebuild tracehost for this one";
  return std::nullopt;
}

// One of another Python that happens to be there is no error.
std::optional<Environment> if_it_fits(const std::optional<fs::path> &venv, const char *chosen_by) {
  auto found = venv ? std::optional(in_venv(*venv, chosen_by)) : std::nullopt;
  return found && fits(*found) ? found : std::nullopt;
}

std::string canonical(const char *file) {
  std::error_code ignored;
  const auto real = fs::canonical(file, ignored);
  return real.empty() ? file : real.string();
}

} // namespace

std::string built_python_version() { return TRACEHOST_BUILT_PYTHON; }

std::string loaded_python_version() {
  const std::string text =
      Py_GetVersion(); // "3.11.7 (main, ...) [GCC ...]"; may be asked before Python starts
  return text.substr(0, text.find(' '));
}

std::string loaded_libpython() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void *>(&Py_GetVersion), &info) == 0 || info.dli_fname == nullptr)
    return {};
  return canonical(info.dli_fname);
}

std::string minor_of(const std::string &version) {
  const auto first = version.find('.');
  if (first == std::string::npos)
    return version;
  return version.substr(0, version.find('.', first + 1));
}

std::optional<Environment> find_environment(const std::string &requested,
                                            const std::string &said_by, std::string &error) {
  std::error_code ignored;
  if (!requested.empty()) {
    const auto path = fs::absolute(requested, ignored).lexically_normal();
    if (!fs::exists(path, ignored)) {
      error = "no Python at '" + requested + "' (" + said_by +
              "); name an interpreter or the directory of a virtual environment";
      return std::nullopt;
    }
    // Not the symlink's target: <venv>/bin/python is a link out of the venv.
    const bool directory = fs::is_directory(path, ignored);
    const auto venv = venv_at(directory ? path : path.parent_path());
    if (!venv) {
      if (directory) {
        error = "'" + requested + "' (" + said_by +
                ") is a directory without pyvenv.cfg; "
                "name an interpreter or the directory of a virtual environment";
        return std::nullopt;
      }
      return Environment{{}, path, said_by, {}};
    }
    return checked(in_venv(*venv, said_by), error);
  }

  const auto own = own_directory();
  if (const auto venv = venv_at(own)) {
    auto found = in_venv(*venv, "the directory of the binary");
    found.executable = executable_in(own);
    return checked(found, error);
  }
  const char *active = std::getenv("VIRTUAL_ENV");
  if (active != nullptr && *active != '\0' && fs::exists(fs::path(active) / "pyvenv.cfg", ignored))
    if (auto found = if_it_fits(active, "VIRTUAL_ENV"))
      return found;
  if (auto found = if_it_fits(venv_at(library_directory()), "the directory of the library"))
    return found;
  if (auto found = if_it_fits(venv_at(fs::path(TRACEHOST_BAKED_PYTHON).parent_path()),
                              "the Python that this host was built for"))
    return found;
  return Environment{{}, executable_in(own), "no virtual environment found", {}};
}

} // namespace tracehost::interpreter
