#include "cli/options.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tracehost::cli {
namespace {

constexpr Option option_table[] = {
    {"report", Takes::optional_value, Kind::output, "FILE",
     "at exit, write a table of traces and hits (default: stderr); "
     "FILE.html: a page, FILE.json: all as data"},
    {"metrics-file", Takes::value, Kind::output, "FILE",
     "at exit, write counters in Prometheus' text format"},
    {"events", Takes::value, Kind::output, "FILE",
     "write each trace, fall-back and eviction as it comes, a line of JSON each"},
    {"retrace-warn", Takes::value, Kind::limit, "LIMIT",
     "N: warn when N of 10 calls are traces (default: 5); off: never; error: end the call that "
     "would warn"},
    {"max-retraces", Takes::value, Kind::whole, "N",
     "exit code 3 if calls cause more than N retraces"},
    {"frozen", Takes::optional_value, Kind::file, "FILE",
     "calls may trace what this lock has, and nothing else (default: tracehost.lock)"},
    {"stance", Takes::value, Kind::choice,
     "default|eager|eager_on_miss|eager_on_error|fail_on_miss", "what calls of Functions do", "s"},
    {"eager", Takes::nothing, Kind::none, "", "run Functions as plain Python", "s"},
    {"optimize", Takes::value, Kind::choice, "exact|off",
     "run settled calls on kernel tapes, with the\ninterpreter's bits (default: exact on the CPU)"},
    {"trace", Takes::values, Kind::text, "TARGET",
     "MODULE:FUNCTION[,OPTION...]: trace it, the program unchanged"},
    {"intercept", Takes::values, Kind::text, "DECORATOR",
     "torch.compile, torch.jit.trace, torch.jit.script or\n"
     "PACKAGE:NAME: trace what it decorates"},
    {"python", Takes::value, Kind::file, "PATH",
     "use this virtual environment, or that of this interpreter"},
    {"version", Takes::nothing, Kind::none, "", "show the versions of tracehost, Python and torch"},
    {"help", Takes::nothing, Kind::none, "", "show help"},
};

constexpr std::string_view command_names[] = {
    "run",     "lock",  "fix",    "notebook", "kernel",     "repl", "export",
    "inspect", "bench", "report", "doctor",   "completion", "help"};

// By Kind: its name, and what a value of it is.
constexpr struct {
  const char *name, *takes;
} kinds[] = {{"none", "true or false"},
             {"text", "a text"},
             {"whole", "a non-negative integer"},
             {"choice", ""},
             {"limit", "off, error or a whole number from 1 on"},
             {"file", "a path"},
             {"output", "a path"}};
constexpr const char *takings[] = {"nothing", "value", "values", "optional value"};

} // namespace

std::span<const Option> options() { return option_table; }

const Option *find_option(std::string_view name) {
  const auto found = std::ranges::find(options(), name, &Option::name);
  return found == options().end() ? nullptr : &*found;
}

bool is_setting(const Option &option) { return option.name != "help" && option.name != "version"; }

std::string variable(const Option &option) {
  std::string name = "TRACEHOST_" + std::string(option.name);
  std::ranges::transform(name, name.begin(), [](char c) {
    return c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return name;
}

std::vector<std::string_view> choices(const Option &option) {
  std::vector<std::string_view> words;
  auto text = option.kind == Kind::choice ? option.placeholder : "";
  while (!text.empty()) {
    const auto bar = std::min(text.find('|'), text.size());
    words.push_back(text.substr(0, bar));
    text.remove_prefix(std::min(bar + 1, text.size()));
  }
  return words;
}

std::string what_it_takes(const Option &option) {
  std::string text = kinds[static_cast<int>(option.kind)].takes;
  const auto words = choices(option);
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + std::string(words[i]);
  return text;
}

std::string options_as_json() {
  nlohmann::ordered_json document{{"schema", "tracehost.options/1"},
                                  {"commands", command_names},
                                  {"options", nlohmann::ordered_json::array()}};
  for (const auto &option : options())
    document["options"].push_back({{"name", option.name},
                                   {"takes", takings[static_cast<int>(option.takes)]},
                                   {"kind", kinds[static_cast<int>(option.kind)].name},
                                   {"placeholder", option.placeholder},
                                   {"choices", choices(option)},
                                   {"what", what_it_takes(option)},
                                   {"summary", option.summary},
                                   {"group", option.group},
                                   {"variable", is_setting(option) ? variable(option) : ""}});
  return document.dump(1) + "\n";
}

std::span<const std::string_view> commands() { return command_names; }

bool is_command(std::string_view word) {
  return std::ranges::find(commands(), word) != commands().end();
}

} // namespace tracehost::cli
