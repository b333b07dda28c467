// Which Python environment the host runs in: found once, before Python starts.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tracehost::interpreter {

struct Environment {
  std::filesystem::path prefix;     // the directory with pyvenv.cfg; empty: no virtual environment
  std::filesystem::path executable; // becomes sys.executable
  std::string chosen_by;            // for `doctor`: what decided
  std::string python_version;       // of pyvenv.cfg; empty where it does not say
};

// "3.11.7": what the host was built for, and what the loaded libpython says it is.
std::string built_python_version();
std::string loaded_python_version();
std::string loaded_libpython();

// "3.11" of "3.11.7"
std::string minor_of(const std::string &version);

// `requested` is what --python or TRACEHOST_PYTHON says: an interpreter or the directory of a venv;
// `said_by` names what it was. The order is: requested, the program's directory, VIRTUAL_ENV, the
// directory of libtracehost_embed.so, the one built for. On failure `error` is a sentence for the
// user.
std::optional<Environment> find_environment(const std::string &requested,
                                            const std::string &said_by, std::string &error);

} // namespace tracehost::interpreter
