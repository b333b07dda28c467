#include "cli/doctor.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>

namespace tracehost::cli {
namespace {

namespace in = interpreter;
namespace fs = std::filesystem;

const std::string repair = "run scripts/setup again";

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

std::string shell_quoted(const std::string &text) {
  std::string quoted = "'";
  for (const char c : text)
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// The proof: a child process imports it. Its last line is the trouble, if there is any.
Finding check_import(const in::Environment &environment) {
  const auto command = shell_quoted(environment.executable.string()) +
                       " -I -c 'import tracehost; print(tracehost.__version__)' 2>&1 </dev/null";
  FILE *child = ::popen(command.c_str(), "r");
  if (child == nullptr)
    return {Verdict::fail, "no child process can be started", "free memory or processes"};
  std::string last;
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), line.size(), child) != nullptr)
    if (line[0] != '\n')
      last = line.data();
  const int status = ::pclose(child);
  if (!last.empty() && last.back() == '\n')
    last.pop_back();
  if (status == 0)
    return {Verdict::ok, "a child process imports tracehost " + last, ""};
  return {Verdict::fail, "a child process cannot import tracehost: " + last, repair};
}

void print(const Finding &finding) {
  constexpr const char *words[] = {"OK  ", "WARN", "FAIL"};
  std::cout << words[static_cast<int>(finding.verdict)] << "  " << finding.what << '\n';
  if (!finding.fix.empty())
    std::cout << "      fix: " << finding.fix << '\n';
  std::cout.flush();
}

// `notebook.timeout = 60 (./tracehost.toml:3)`
void print(const std::vector<Given> &settings) {
  std::cout << (settings.empty() ? "all settings are the defaults\n" : "settings:\n");
  for (const auto &given : settings) {
    std::cout << "  " << key(*given.option, given.command) << " = ";
    if (given.values.empty())
      std::cout << "false";
    for (const auto &value : given.values)
      std::cout << (&value == given.values.data() ? "" : ", ") << value;
    std::cout << " (" << given.origin << ")\n";
  }
}

} // namespace

std::vector<Finding> check(const in::Environment &environment, const Installation &found) {
  return {check_environment(environment), check_python(environment), check_executable(environment),
          check_torch(found), check_package(found)};
}

int doctor(const in::Environment &environment, const std::vector<Given> &settings,
           const Configuration &configuration) {
  std::cout << "tracehost " TRACEHOST_VERSION "\n";
  auto findings = check(environment, inspect(environment));
  for (const auto &problem : configuration.problems)
    findings.push_back({problem.fatal ? Verdict::fail : Verdict::warn, problem.text,
                        "correct it, or start with --no-config"});
  for (const auto &finding : findings)
    print(finding);
  const auto failed = [](const Finding &finding) { return finding.verdict == Verdict::fail; };
  // With something broken already, the import says the same once more, less clearly.
  if (std::ranges::none_of(findings, failed)) {
    findings.push_back(check_import(environment));
    print(findings.back());
  }
  print(settings);
  return std::ranges::any_of(findings, failed) ? 1 : 0;
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
