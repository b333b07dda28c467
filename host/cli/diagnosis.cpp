// Makes all checks of `tracehost doctor`, and shows what they found.
#include "cli/completion.h"
#include "cli/doctor.h"

#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>

namespace tracehost::cli {
namespace {

namespace in = interpreter;

constexpr const char *verdicts[] = {"OK", "WARN", "FAIL"};

const char *word(Verdict verdict) { return verdicts[static_cast<int>(verdict)]; }

// Shows findings as they come, or keeps them for the document.
class Diagnosis {
public:
  explicit Diagnosis(bool json) : json_(json) {}

  void add(Finding finding) {
    if (!json_) {
      std::cout << word(finding.verdict) << (finding.verdict == Verdict::ok ? "    " : "  ")
                << finding.what << '\n';
      if (!finding.fix.empty())
        std::cout << "      fix: " << finding.fix << '\n';
      std::cout.flush();
    }
    findings_.push_back(std::move(finding));
  }
  void add(const std::vector<Finding> &findings) {
    for (const auto &finding : findings)
      add(finding);
  }
  bool failed() const {
    return std::ranges::any_of(
        findings_, [](const Finding &finding) { return finding.verdict == Verdict::fail; });
  }
  const std::vector<Finding> &findings() const { return findings_; }

private:
  bool json_;
  std::vector<Finding> findings_;
};

// What the child process finds. Its last other line is the trouble, if it ends badly.
void check_in_python(const in::Environment &environment, Diagnosis &diagnosis) {
  const auto command = "exec " + shell_quoted(environment.executable.string()) +
                       " -P -m tracehost_commands doctor -- 2>&1 </dev/null";
  FILE *child = ::popen(command.c_str(), "r");
  if (child == nullptr) {
    diagnosis.add({Verdict::fail, "no child process can be started", "free memory or processes"});
    return;
  }
  std::string line, last;
  for (int c = std::fgetc(child); c != EOF; c = std::fgetc(child)) {
    if (c != '\n') {
      line += static_cast<char>(c);
      continue;
    }
    if (const auto finding = finding_of(line))
      diagnosis.add(*finding);
    else if (!line.empty())
      last = line;
    line.clear();
  }
  const int status = ::pclose(child);
  if (status == 0)
    return;
  const auto how = WIFEXITED(status) ? "exit code " + std::to_string(WEXITSTATUS(status))
                                     : "signal " + std::to_string(WTERMSIG(status));
  diagnosis.add(
      {Verdict::fail,
       "the child process that checks ended with " + how + (last.empty() ? "" : ": ") + last,
       "run scripts/setup or pip install again"});
}

std::string joined(const Given &given) {
  std::string text;
  for (const auto &value : given.values)
    text += (text.empty() ? "" : ", ") + value;
  return given.values.empty() ? "false" : text;
}

// `notebook.timeout = 60 (TRACEHOST_NOTEBOOK_TIMEOUT)`
void print(const std::vector<Given> &settings) {
  std::cout << (settings.empty() ? "all settings are the defaults\n" : "settings:\n");
  for (const auto &given : settings)
    std::cout << "  " << full_name(*given.option, given.command) << " = " << joined(given) << " ("
              << given.origin << ")\n";
}

void print_json(const Diagnosis &diagnosis, const std::vector<Given> &settings) {
  nlohmann::ordered_json document{{"schema", "tracehost.doctor/1"},
                                  {"tracehost", TRACEHOST_VERSION},
                                  {"ok", !diagnosis.failed()},
                                  {"checks", nlohmann::ordered_json::array()},
                                  {"settings", nlohmann::ordered_json::array()}};
  for (const auto &finding : diagnosis.findings())
    document["checks"].push_back(
        {{"verdict", word(finding.verdict)}, {"what", finding.what}, {"fix", finding.fix}});
  for (const auto &given : settings)
    document["settings"].push_back({{"name", full_name(*given.option, given.command)},
                                    {"values", given.values},
                                    {"origin", given.origin}});
  // A path need not be UTF-8.
  std::cout << document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

} // namespace

std::optional<Finding> finding_of(const std::string &line) {
  const auto first = line.find('\t');
  const auto second = first == std::string::npos ? first : line.find('\t', first + 1);
  const auto *found = std::ranges::find(verdicts, line.substr(0, first));
  if (second == std::string::npos || found == std::end(verdicts))
    return std::nullopt;
  return Finding{static_cast<Verdict>(found - std::begin(verdicts)),
                 line.substr(first + 1, second - first - 1), line.substr(second + 1)};
}

int doctor(const in::Environment &environment, const std::vector<Given> &settings, bool json) {
  if (!json)
    std::cout << "tracehost " TRACEHOST_VERSION "\n";
  Diagnosis diagnosis(json);
  diagnosis.add(check(environment, inspect(environment)));
  // With something broken already, Python says the same once more, less clearly.
  if (!diagnosis.failed())
    check_in_python(environment, diagnosis);
  diagnosis.add(check_variables(environ));
  if (json)
    print_json(diagnosis, settings);
  else
    print(settings);
  return diagnosis.failed() ? 1 : 0;
}

} // namespace tracehost::cli
