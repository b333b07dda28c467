#include "cli/doctor.h"

#include <nlohmann/json.hpp>

#include <filesystem>

namespace tracehost::cli {

std::string checks_without_python(const interpreter::Environment &where, const std::string &why,
                                  bool json) {
  namespace in = interpreter;
  using Json = nlohmann::ordered_json;
  const auto loaded = in::loaded_python_version(), built = in::built_python_version();
  const std::string repair = "run scripts/setup or pip install again";
  auto checks = Json::array();
  const auto add = [&](const char *verdict, const std::string &what, const std::string &fix) {
    checks.push_back({{"verdict", verdict}, {"what", what}, {"fix", fix}});
  };
  if (where.prefix.empty())
    add("FAIL", "no virtual environment (" + where.chosen_by + ")",
        repair + ", or name one: --python <venv>");
  else
    add("OK", "environment " + where.prefix.string() + ", from " + where.chosen_by, "");
  std::error_code ignored;
  const auto site = where.prefix / "lib" / ("python" + in::minor_of(loaded)) / "site-packages";
  for (const auto &[name, what] : {std::pair("torch", "torch"), {"tracehost", "tracehost package"}})
    if (!where.prefix.empty() && !std::filesystem::exists(site / name, ignored))
      add("FAIL", "no " + std::string(what) + " in " + site.string(), repair);
  add("FAIL", "Python " + loaded + " (" + in::loaded_libpython() + ") runs no checks: " + why,
      in::minor_of(built) == in::minor_of(loaded)
          ? "repair this Python and its environment, or " + repair
          : "built for Python " + built + ": " + repair);
  const Json document{{"schema", "tracehost.doctor/1"},
                      {"tracehost", TRACEHOST_VERSION},
                      {"ok", false},
                      {"checks", checks},
                      {"settings", Json::array()}};
  if (json) // a path need not be UTF-8
    return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::string text = "tracehost " TRACEHOST_VERSION "\n";
  for (const auto &one : checks) {
    const std::string verdict = one["verdict"], what = one["what"], fix = one["fix"];
    text.append(verdict).append(6 - verdict.size(), ' ').append(what).append("\n");
    if (!fix.empty())
      text.append("      fix: ").append(fix).append("\n");
  }
  return text;
}

} // namespace tracehost::cli
