#include "runtime/fields.h"

#include "signature/native_atoms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tracehost::runtime {
namespace {

class FieldWalk {
public:
  explicit FieldWalk(const Signature &signature) : signature_(signature) {}

  std::optional<FieldMisfit> value(const Value &value, std::size_t at) const {
    const Node &node = signature_.nodes[at];
    if (value.kind() == Value::Kind::map)
      return map(value.map(), at);
    const bool sequence = (value.kind() == Value::Kind::list && node.kind == Kind::list) ||
                          (value.kind() == Value::Kind::tuple && node.kind == Kind::tuple);
    std::size_t child = at + 1;
    for (std::size_t i = 0; sequence && i < value.size() && child < node.end; ++i) {
      if (auto found = this->value(value[i], child))
        return found;
      child = signature_.nodes[child].end;
    }
    return std::nullopt;
  }

private:
  /// Names and the nodes of their values; nullopt: no Map can be that.
  std::optional<std::vector<std::pair<std::string, std::size_t>>> fields(std::size_t at) const {
    const Node &node = signature_.nodes[at];
    const auto *type =
        node.is_container() ? dynamic_cast<const ContainerClass *>(node.payload.atom) : nullptr;
    if (!type)
      return std::nullopt;
    std::vector<std::pair<std::string, std::size_t>> result;
    std::size_t child = at + 1;
    if (node.kind == Kind::dict) {
      while (child < node.end) {
        const Node &key = signature_.nodes[child];
        const auto *name =
            key.kind == Kind::atom ? dynamic_cast<const Literal *>(key.payload.atom) : nullptr;
        if (!name || name->type() != Literal::Type::string)
          return std::nullopt;
        result.emplace_back(name->value(), key.end);
        child = signature_.nodes[key.end].end;
      }
      return result;
    }
    for (const std::string &field : type->fields()) {
      if (child >= node.end)
        return std::nullopt;
      result.emplace_back(field, child);
      child = signature_.nodes[child].end;
    }
    if (type->fields().empty())
      return std::nullopt;
    return result;
  }

  std::optional<FieldMisfit> map(const Map &map, std::size_t at) const {
    const auto wanted = fields(at);
    if (!wanted)
      return std::nullopt;
    const std::string own = path(signature_, at);
    for (const auto &[name, child] : *wanted)
      if (!map.find(name))
        return FieldMisfit{own, fmt::format("the field '{}'", name), "no such field",
                           fmt::format("argument '{}' lacks the field '{}'", own, name)};
    for (const auto &[name, item] : map.items)
      if (std::none_of(wanted->begin(), wanted->end(),
                       [&](const auto &field) { return field.first == name; }))
        return FieldMisfit{own, fmt::format("no field '{}'", name), text(item),
                           fmt::format("argument '{}' has the field '{}', which the graph does not "
                                       "take",
                                       own, name)};
    for (const auto &[name, child] : *wanted)
      if (auto found = value(*map.find(name), child))
        return found;
    return std::nullopt;
  }

  const Signature &signature_;
};

} // namespace

std::optional<FieldMisfit> misfit_of_fields(const Signature &signature, const Binder &binder,
                                            const Bound &bound) {
  const FieldWalk walk(signature);
  for (std::size_t i = 0; i < binder.size(); ++i)
    if (bound.values[i])
      if (auto found = walk.value(*bound.values[i], signature.subtree(i)))
        return found;
  return std::nullopt;
}

} // namespace tracehost::runtime
