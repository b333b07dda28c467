#include "cli/config.h"

#include "cli/nearest.h"

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace fs = std::filesystem;

namespace tracehost::cli {
namespace {

constexpr const char *own_name = "tracehost.toml", *shared_name = "pyproject.toml";

std::optional<std::string> content(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code ignored;
  if (!file || fs::is_directory(path, ignored))
    return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string why_not(const fs::path &path) {
  const int error = errno;
  std::error_code ignored;
  return std::strerror(fs::is_directory(path, ignored) ? EISDIR : error);
}

// In /tmp anybody can put a file where others start programs.
bool is_strangers(const fs::path &path) {
  struct stat file {
  }, folder{};
  if (::stat(path.c_str(), &file) != 0 || ::stat(path.parent_path().c_str(), &folder) != 0)
    return false;
  return (folder.st_mode & S_IWOTH) != 0 && file.st_uid != ::geteuid() && file.st_uid != 0;
}

std::string not_read(const std::string &shown) {
  return shown + " belongs to another user, and is not read (--config " + shown + " reads it)";
}

fs::path user_file() {
  const auto variable = [](const char *name) {
    const char *value = std::getenv(name);
    return fs::path(value == nullptr ? "" : value);
  };
  const auto base = variable("XDG_CONFIG_HOME");
  const auto home = variable("HOME");
  if (base.is_absolute())
    return base / "tracehost" / "config.toml";
  return home.empty() ? fs::path() : home / ".config" / "tracehost" / "config.toml";
}

// One file, while it is read.
class Reader {
public:
  Reader(const fs::path &path, std::string shown, Configuration &configuration)
      : folder_(path.parent_path().string()), shown_(std::move(shown)),
        configuration_(configuration), given_(configuration.given.emplace_back()) {
    configuration.files.push_back(path);
  }

  void read(const std::string &text, bool is_pyproject) {
    try {
      auto root = toml::parse(text);
      const auto *table = is_pyproject ? root["tool"]["tracehost"].as_table() : &root;
      if (table != nullptr)
        read_table(*table, nullptr);
    } catch (const toml::parse_error &error) {
      problem(error.source().begin.line, std::string(error.description()), true);
    }
  }

private:
  // `command`: whose table it is; none: the top.
  void read_table(const toml::table &table, const CommandEntry *command) {
    for (const auto &[name, node] : table) {
      const auto *inner = command == nullptr ? find_command(name.str()) : nullptr;
      if (inner != nullptr && inner->command != Command::run && node.is_table()) {
        read_table(*node.as_table(), inner);
        continue;
      }
      const auto owner = command == nullptr ? Command::run : command->command;
      const auto *option = find_option(name.str(), owner);
      const bool known = option != nullptr && applies(*option, owner) && has_key(*option) &&
                         is_shared(*option) == (command == nullptr);
      if (known)
        read_value(*option, owner, node);
      else
        problem(name.source().begin.line, unknown(std::string(name.str()), command), false);
    }
  }

  void read_value(const OptionEntry &option, Command owner, const toml::node &node) {
    const auto line = node.source().begin.line;
    Given given{&option, owner, {}, shown_ + ":" + std::to_string(line)};
    if (!convert(option, node, given.values)) {
      problem(line, key(option, owner) + " takes " + what_it_takes(option) + ", got " + shown(node),
              true);
      return;
    }
    try {
      check_values(given, given.origin + ": " + key(option, owner));
      make_absolute(given, folder_);
      given_.push_back(std::move(given));
    } catch (const UsageError &error) {
      configuration_.problems.push_back({error.what(), true});
    }
  }

  static bool convert(const OptionEntry &option, const toml::node &node,
                      std::vector<std::string> &values) {
    if (option.takes == Takes::values && node.is_array()) {
      for (const auto &element : *node.as_array())
        if (!convert_one(option, element, values))
          return false;
      return true;
    }
    return convert_one(option, node, values);
  }

  static bool convert_one(const OptionEntry &option, const toml::node &node,
                          std::vector<std::string> &values) {
    if (const auto *flag = node.as_boolean()) {
      if (option.takes == Takes::nothing)
        values.emplace_back(flag->get() ? "true" : "false");
      else if (option.takes == Takes::optional_value && flag->get())
        values.emplace_back("-");
      return option.takes == Takes::nothing || option.takes == Takes::optional_value;
    }
    if (option.takes == Takes::nothing)
      return false;
    const bool is_number = option.kind == Kind::whole || option.kind == Kind::number;
    if (const auto *text = node.as_string()) {
      values.push_back(text->get());
      return !is_number;
    }
    if (const auto *whole = node.as_integer()) {
      values.push_back(std::to_string(whole->get()));
      return is_number || option.kind == Kind::text || option.kind == Kind::limit;
    }
    if (node.is_floating_point() && option.kind == Kind::number) {
      values.push_back(shown(node));
      return true;
    }
    return false;
  }

  static std::string shown(const toml::node &node) {
    if (node.is_table() || node.is_array())
      return node.is_table() ? "a table" : "a list";
    std::ostringstream text;
    node.visit([&](const auto &value) { text << toml::default_formatter(value); });
    return text.str();
  }

  static std::string unknown(const std::string &name, const CommandEntry *command) {
    const auto path = (command == nullptr ? "" : std::string(command->name) + ".") + name;
    Nearest nearest(path);
    for (const auto &known : commands())
      for (const auto &option : options()) {
        if (!applies(option, known.command) || !has_key(option))
          continue;
        nearest.offer(key(option, known.command));
        if (!is_shared(option))
          nearest.offer(known.name);
      }
    std::string message = "unknown key '" + path + "'";
    if (nearest.name())
      message += "; did you mean '" + *nearest.name() + "'?";
    return message;
  }

  void problem(std::size_t line, const std::string &text, bool fatal) {
    configuration_.problems.push_back({shown_ + ":" + std::to_string(line) + ": " + text, fatal});
  }

  std::string folder_, shown_;
  Configuration &configuration_;
  std::vector<Given> &given_;
};

void read_text(const fs::path &path, const std::string &shown, const std::string &text,
               Configuration &configuration) {
  // Most of these are of other projects: they are not parsed.
  const bool is_pyproject = path.filename() == shared_name;
  if (is_pyproject && text.find("tracehost") == std::string::npos)
    return;
  Reader(path, shown, configuration).read(text, is_pyproject);
}

} // namespace

bool has_key(const OptionEntry &option) {
  return is_setting(option) && option.name != "config" && option.name != "no-config";
}

std::string key(const OptionEntry &option, Command command) {
  return (is_shared(option) ? "" : std::string(entry(command).name) + ".") +
         std::string(option.name);
}

void read_file(const fs::path &path, const std::string &shown, Configuration &configuration) {
  if (const auto text = content(path))
    read_text(path, shown, *text, configuration);
  else
    configuration.problems.push_back({"cannot read " + shown + ": " + why_not(path), false});
}

Configuration read_configuration(const std::string &file, bool none) {
  Configuration configuration;
  if (none)
    return configuration;
  std::error_code ignored;
  if (!file.empty()) {
    const auto path = fs::absolute(file, ignored);
    const auto text = content(path);
    if (!text)
      throw UsageError("cannot read '" + file + "' (--config): " + why_not(path));
    read_text(path, file, *text, configuration);
    return configuration;
  }
  for (const char *name : {own_name, shared_name}) {
    const auto path = fs::current_path(ignored) / name;
    const auto shown = std::string("./") + name;
    if (::access(path.c_str(), F_OK) != 0)
      continue;
    if (is_strangers(path))
      configuration.problems.push_back({not_read(shown), false});
    else
      read_file(path, shown, configuration);
    break; // tracehost.toml stands for the other
  }
  if (const auto path = user_file(); !path.empty() && ::access(path.c_str(), F_OK) == 0)
    read_file(path, path.string(), configuration);
  return configuration;
}

} // namespace tracehost::cli
