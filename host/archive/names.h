#pragma once

#include <string>
#include <unordered_set>

namespace tracehost::archive {

/// Names of one TorchScript module, each given once.
class Names {
public:
  /// `wanted`, in the letters that a name has, with `f_` before what Python or a module has already
  /// and a number behind what is given.
  std::string take(const std::string &wanted);

private:
  std::unordered_set<std::string> taken_;
};

/// `weight (net.py)` and `tensor used at net.py:12` without the file.
std::string without_place(std::string path);

} // namespace tracehost::archive
