#include "concrete/input_names.h"

#include "base/object.h"

#include <cctype>
#include <unordered_set>

namespace tracehost::python {
namespace {

/// Letters, digits and single `_` of a path.
std::string identifier(const std::string &path) {
  std::string result;
  bool gap = false;
  for (const char c : path) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') {
      gap = true;
      continue;
    }
    if (std::exchange(gap, false) && !result.empty())
      result += '_';
    result += c;
  }
  if (result.empty() || std::isdigit(static_cast<unsigned char>(result[0])))
    result.insert(0, "arg_");
  return result;
}

/// The path of a node, without the name of **kwargs: `kw['a'][0]` as `['a'][0]`.
std::string name_path(const Signature &signature, const Binder &binder, std::size_t node) {
  std::string text = path(signature, node);
  for (std::size_t p = 0; p < binder.parameters().size(); ++p) {
    const python::Parameter &parameter = binder.parameters()[p];
    const std::size_t begin = signature.subtree(p);
    const bool inside = begin <= node && node < signature.nodes[begin].end;
    if (inside && parameter.kind == python::Parameter::Kind::var_keyword)
      return text.substr(std::string_view(utf8(parameter.name.get())).size());
  }
  return text;
}

} // namespace

std::vector<std::string> input_names(const Signature &signature, const Binder &binder,
                                     const std::vector<std::string> &given) {
  std::unordered_set<std::string> taken;
  std::vector<std::string> result;
  for (std::uint32_t slot = 0; slot < signature.slots.size(); ++slot) {
    const bool named = slot < given.size() && !given[slot].empty();
    const std::string base =
        identifier(named ? given[slot] : name_path(signature, binder, signature.first_node(slot)));
    std::string name = base;
    for (int i = 1; !taken.insert(name).second; ++i)
      name = base + "_" + std::to_string(i);
    result.push_back(std::move(name));
  }
  return result;
}

} // namespace tracehost::python
