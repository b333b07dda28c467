#include "base/reads_only.h"

#include "base/lazy.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tracehost::python {

namespace {

struct Said {
  std::string of, name;
};

std::vector<Said> &all() {
  static constinit Lazy<std::vector<Said>> made;
  return made([] { return std::vector<Said>(); });
}

} // namespace

void add_reads_only(std::string of, std::string name) {
  all().push_back({std::move(of), std::move(name)});
}

bool is_reads_only(std::string_view of, std::string_view name) {
  return std::ranges::any_of(all(), [&](const Said &said) {
    return said.name.empty() ? is_part_of(of, said.of) : of == said.of && name == said.name;
  });
}

bool is_reads_only(const PyTypeObject *type) {
  const std::string_view name = type->tp_name;
  return std::ranges::any_of(
      all(), [&](const Said &said) { return said.name.empty() && is_part_of(name, said.of); });
}

} // namespace tracehost::python
