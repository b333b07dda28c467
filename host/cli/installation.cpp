#include "cli/installation.h"

#include <fstream>
#include <vector>

namespace fs = std::filesystem;

namespace tracehost::cli {
namespace {

// __version__ = '2.15.0+cu132'
std::string torch_version(const fs::path &site_packages) {
  std::ifstream file(site_packages / "torch" / "version.py");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("__version__"))
      continue;
    const auto open = line.find_first_of("'\"");
    if (open != std::string::npos)
      return line.substr(open + 1, line.find_first_of("'\"", open + 1) - open - 1);
  }
  return {};
}

std::map<std::string, std::string> build_info(const fs::path &package) {
  std::map<std::string, std::string> facts;
  std::ifstream file(package / "build_info.txt");
  for (std::string line; std::getline(file, line);)
    if (const auto equals = line.find('='); equals != std::string::npos)
      facts[line.substr(0, equals)] = line.substr(equals + 1);
  return facts;
}

bool has_module(const fs::path &package) {
  std::error_code ignored;
  for (const auto &file : fs::directory_iterator(package, ignored))
    if (file.path().filename().string().starts_with("_tracehost.") &&
        file.path().extension() == ".so")
      return true;
  return false;
}

// The folder itself, and those that its .pth files add to the path.
std::vector<fs::path> import_folders(const fs::path &site_packages) {
  std::vector<fs::path> folders{site_packages};
  std::error_code ignored;
  for (const auto &file : fs::directory_iterator(site_packages, ignored)) {
    if (file.path().extension() != ".pth")
      continue;
    std::ifstream lines(file.path());
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with('/'))
        folders.emplace_back(line);
  }
  return folders;
}

} // namespace

Installation inspect(const interpreter::Environment &environment) {
  Installation found;
  if (environment.prefix.empty())
    return found;
  const auto minor = interpreter::minor_of(interpreter::loaded_python_version());
  found.site_packages = environment.prefix / "lib" / ("python" + minor) / "site-packages";
  for (const auto &folder : import_folders(found.site_packages))
    if (found.torch.empty())
      found.torch = torch_version(folder);
  found.built = build_info(found.site_packages / "tracehost");
  found.module = has_module(found.site_packages / "tracehost");
  return found;
}

} // namespace tracehost::cli
