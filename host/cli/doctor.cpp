#include "cli/doctor.h"

#include <nlohmann/json.hpp>

#include <filesystem>

namespace fs = std::filesystem;

namespace tracehost::cli {
namespace {

namespace in = interpreter;
using Json = nlohmann::ordered_json;

const std::string repair = "run scripts/setup or pip install again";

Json finding(const std::string &what, const std::string &fix = repair) {
  return {{"verdict", fix.empty() ? "OK" : "FAIL"}, {"what", what}, {"fix", fix}};
}

Json check(const in::Environment &environment, const std::string &why) {
  const auto loaded = in::loaded_python_version(), place = environment.prefix.string();
  auto found = Json::array();
  found.push_back(place.empty()
                      ? finding("no virtual environment (" + environment.chosen_by + ")",
                                repair + ", or name one: --python <venv>")
                      : finding("environment " + place + ", from " + environment.chosen_by, ""));
  std::error_code ignored;
  const auto site =
      environment.prefix / "lib" / ("python" + in::minor_of(loaded)) / "site-packages";
  for (const auto &[name, what] : {std::pair("torch", "torch"), {"tracehost", "tracehost package"}})
    if (!place.empty() && !fs::exists(site / name, ignored))
      found.push_back(finding("no " + std::string(what) + " in " + site.string()));
  found.push_back(
      finding("Python " + loaded + " (" + in::loaded_libpython() + ") runs no checks: " + why,
              in::minor_of(in::built_python_version()) == in::minor_of(loaded)
                  ? "repair this Python and its environment, or " + repair
                  : "built for Python " + in::built_python_version() + ": " + repair));
  return found;
}

} // namespace

std::string checks_without_python(const in::Environment &environment, const std::string &why,
                                  bool json) {
  const Json document{{"schema", "tracehost.doctor/1"},
                      {"tracehost", TRACEHOST_VERSION},
                      {"ok", false},
                      {"checks", check(environment, why)},
                      {"settings", Json::array()}};
  if (json) // a path need not be UTF-8
    return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::string text = "tracehost " TRACEHOST_VERSION "\n";
  for (const auto &one : document["checks"]) {
    const std::string what = one["what"], fix = one["fix"];
    text += (fix.empty() ? "OK    " : "FAIL  ") + what + "\n";
    text += fix.empty() ? "" : "      fix: " + fix + "\n";
  }
  return text;
}

} // namespace tracehost::cli
