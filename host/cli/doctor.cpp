#include "cli/doctor.h"

#include "cli/nearest.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <sstream>

namespace tracehost::cli {
namespace {

namespace in = interpreter;
namespace fs = std::filesystem;

const std::string repair = "run scripts/setup or pip install again";

// "2.11" against "2.9" as numbers, not as text
std::pair<int, int> as_numbers(const std::string &version) {
  int major = 0, minor = 0;
  std::sscanf(version.c_str(), "%d.%d", &major, &minor);
  return {major, minor};
}

Finding check_python(const in::Environment &environment) {
  const auto built = in::built_python_version(), loaded = in::loaded_python_version();
  const auto what = "Python " + loaded + ", libpython " + in::loaded_libpython();
  if (in::minor_of(built) != in::minor_of(loaded))
    return {Verdict::fail, what + ": built for Python " + built, "rebuild: " + repair};
  if (!environment.python_version.empty() &&
      in::minor_of(environment.python_version) != in::minor_of(loaded))
    return {Verdict::fail, what + ": the environment is of Python " + environment.python_version,
            "use an environment of Python " + in::minor_of(loaded)};
  if (built != loaded)
    return {Verdict::warn, what + ": built for Python " + built, "rebuild: " + repair};
  if (in::loaded_libpython() != in::built_libpython())
    return {Verdict::warn, what + ": built for " + in::built_libpython(),
            "unset LD_LIBRARY_PATH, or rebuild: " + repair};
  return {Verdict::ok, what, ""};
}

Finding check_environment(const in::Environment &environment) {
  if (environment.prefix.empty())
    return {Verdict::fail, "no virtual environment (" + environment.chosen_by + ")",
            repair + ", or name one: --python <venv>"};
  return {Verdict::ok,
          "environment " + environment.prefix.string() + ", from " + environment.chosen_by, ""};
}

Finding check_executable(const in::Environment &environment) {
  const auto what = "sys.executable " + environment.executable.string();
  std::error_code ignored;
  if (!fs::exists(environment.executable, ignored))
    return {Verdict::fail, what + " does not exist: no child process can start", repair};
  if (environment.executable.filename() != "tracehost-python")
    return {Verdict::warn, what + ": child processes run in plain Python, outside the host",
            "install tracehost into that environment: cmake --install <build> --prefix " +
                environment.prefix.string()};
  return {Verdict::ok, what, ""};
}

Finding check_torch(const Installation &found) {
  const std::string oldest = TRACEHOST_TORCH_OLDEST, newest = TRACEHOST_TORCH_NEWEST;
  const auto built = found.built.count("torch") ? found.built.at("torch") : std::string();
  if (found.torch.empty())
    return {Verdict::fail, "no torch in " + found.site_packages.string(),
            built.empty() ? repair : "pip install torch==" + built};
  const auto what = "torch " + found.torch;
  if (as_numbers(found.torch) < as_numbers(oldest) || as_numbers(found.torch) > as_numbers(newest))
    return {Verdict::fail, what + " is outside the supported " + oldest + " to " + newest,
            "pip install torch==" + (built.empty() ? newest + ".*" : built) + ", or " + repair};
  if (!built.empty() && as_numbers(found.torch) != as_numbers(built))
    return {Verdict::fail, what + ", but tracehost was built for torch " + built,
            "pip install torch==" + built + ", or rebuild: " + repair};
  return {Verdict::ok, what + " (supported: " + oldest + " to " + newest + ")", ""};
}

Finding check_package(const Installation &found) {
  const auto version = found.built.find("version");
  if (version == found.built.end())
    return {Verdict::fail, "no tracehost package in " + found.site_packages.string(), repair};
  const auto what = "tracehost package " + version->second;
  if (version->second != TRACEHOST_VERSION)
    return {Verdict::fail, what + ", but this binary is " TRACEHOST_VERSION, repair};
  if (!found.module)
    return {Verdict::fail, what + " has no extension module", repair};
  const auto python = found.built.find("python");
  if (python != found.built.end() &&
      in::minor_of(python->second) != in::minor_of(in::loaded_python_version()))
    return {Verdict::fail, what + " was built for Python " + python->second, repair};
  return {Verdict::ok, what, ""};
}

} // namespace

std::vector<Finding> check(const in::Environment &environment, const Installation &found) {
  return {check_environment(environment), check_python(environment), check_executable(environment),
          check_torch(found), check_package(found)};
}

std::vector<Finding> check_variables(const char *const *environment) {
  // Said by the host to itself.
  std::set<std::string> known{"TRACEHOST_REPORT_PID", "TRACEHOST_METRICS_FILE_PID",
                              "TRACEHOST_NOTEBOOK_LINES"};
  for (const auto &command : commands())
    for (const OptionEntry &option : options_of(command.command))
      if (is_setting(option))
        known.insert(variable(option, command.command));
  std::vector<Finding> findings;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const auto name = std::string(entry.substr(0, entry.find('=')));
    constexpr std::string_view prefix = "TRACEHOST_";
    if (!name.starts_with(prefix) || known.contains(name))
      continue;
    std::vector<std::string_view> names;
    names.reserve(known.size());
    for (const auto &candidate : known)
      names.push_back(std::string_view(candidate).substr(prefix.size()));
    if (const auto meant = nearest(name.substr(prefix.size()),
                                   names)) // others may mean something to other programs
      findings.push_back({Verdict::warn, name + " is not a tracehost variable",
                          "did you mean " + std::string(prefix) + *meant + "?"});
  }
  return findings;
}

std::string version_lines(const in::Environment &environment) {
  const auto found = inspect(environment);
  std::ostringstream out;
  out << "tracehost " TRACEHOST_VERSION "\n"
      << "Python " << in::loaded_python_version() << '\n'
      << "torch " << (found.torch.empty() ? "not installed" : found.torch) << '\n';
  return out.str();
}

} // namespace tracehost::cli
