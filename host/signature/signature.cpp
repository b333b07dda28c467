#include "signature/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <string_view>
#include <unordered_map>

namespace tracehost {
namespace {

/// As Python's repr: the shortest digits that give the same double back.
std::string real_text(double value) {
  if (std::isnan(value)) // of either sign
    return "nan";
  const std::string shortest = fmt::format("{}", value);
  return shortest.find_first_not_of("-0123456789") == std::string::npos ? shortest + ".0"
                                                                        : shortest;
}

std::string device_text(std::int64_t device) {
  return c10::Device(static_cast<at::DeviceType>(device >> 8),
                     static_cast<c10::DeviceIndex>((device & 0xff) - 1))
      .str();
}

/// `Config` for a type whose atom says `<class Config>`.
std::string type_text(const Node &node) {
  std::string name = node.payload.atom ? node.payload.atom->text() : std::string();
  constexpr std::string_view open = "<class ";
  if (name.starts_with(open) && name.ends_with('>'))
    name = name.substr(open.size(), name.size() - open.size() - 1);
  if (!name.empty())
    return name;
  return node.kind == Kind::tuple     ? "tuple"
         : node.kind == Kind::list    ? "list"
         : node.kind == Kind::dict    ? "dict"
         : node.kind == Kind::further ? "further state"
                                      : "record";
}

std::string parameter(const Signature &signature, std::size_t index) {
  const auto *names = signature.parameters ? &signature.parameters->names : nullptr;
  if (!names || index >= names->size())
    return fmt::format("argument {}", index);
  const std::string &name = (*names)[index];
  return name.substr(std::min(name.find_first_not_of('*'), name.size()));
}

std::string unquoted(const std::string &name) {
  return name.size() > 2 && name.front() == '\'' ? name.substr(1, name.size() - 2) : name;
}

/// Writes a tree as a call would be written; a tensor seen before by the path of its first place.
class Writer {
public:
  explicit Writer(const Signature &signature) : signature_(signature) {}

  std::string subtree(std::size_t index) {
    const Node &node = signature_.nodes[index];
    if (node.kind == Kind::tensor)
      return tensor(index);
    return node.is_container() ? container(index) : text(signature_, node);
  }

private:
  std::string tensor(std::size_t index) {
    const Node &node = signature_.nodes[index];
    const auto [first, is_new] = first_.emplace(node.payload.slot, index);
    if (!is_new)
      return path(signature_, first->second);
    return text(signature_, node);
  }

  std::string container(std::size_t index) {
    const Node &node = signature_.nodes[index];
    const std::string type = type_text(node);
    std::string items;
    std::size_t count = 0;
    std::string more;
    for (std::size_t child = index + 1; child < node.end; ++count) {
      if (signature_.nodes[child].kind == Kind::further) {
        more = further(child);
        break;
      }
      if (node.kind == Kind::custom && child == index + 1) { // the context
        child = signature_.nodes[child].end;
        --count;
        continue;
      }
      if (count)
        items += ", ";
      items += item(node, child, count);
      child = signature_.nodes[child].end;
      if (node.kind == Kind::dict) {
        items += ": " + subtree(child);
        child = signature_.nodes[child].end;
      }
    }
    if (type == "list")
      return "[" + items + "]";
    if (type == "dict")
      return "{" + items + "}";
    if (type == "tuple")
      return "(" + items + (count == 1 ? ",)" : ")");
    if (node.kind == Kind::dict)
      items = "{" + items + "}";
    return type + "(" + items + (items.empty() && !more.empty() ? more.substr(2) : more) + ")";
  }

  /// `, maxlen=3`: names and values after what a container holds.
  std::string further(std::size_t index) {
    std::string result;
    for (std::size_t child = index + 1; child < signature_.nodes[index].end;) {
      const std::size_t value = signature_.nodes[child].end;
      result += ", " + unquoted(text(signature_, signature_.nodes[child])) + "=" + subtree(value);
      child = signature_.nodes[value].end;
    }
    return result;
  }

  std::string item(const Node &node, std::size_t child, std::size_t position) {
    const std::string field = node.kind == Kind::dict || !node.payload.atom
                                  ? std::string()
                                  : node.payload.atom->field(position);
    const std::string value = subtree(child);
    return field.empty() ? value : field.substr(1) + "=" + value;
  }

  const Signature &signature_;
  std::unordered_map<std::uint32_t, std::size_t> first_; ///< slot -> its first node
};

std::size_t children(const Signature &signature, std::size_t index) {
  std::size_t count = 0;
  for (std::size_t i = index + 1; i < signature.nodes[index].end; i = signature.nodes[i].end)
    count += signature.nodes[i].kind != Kind::further;
  return signature.nodes[index].kind == Kind::custom ? count - 1 : count; // without the context
}

/// How the child that holds node `index` is reached from container `at`; moves `at` there.
std::string step(const Signature &signature, std::size_t &at, std::size_t index) {
  const Node &node = signature.nodes[at];
  std::size_t child = at + 1, key = child, position = 0;
  for (; signature.nodes[child].end <= index; ++position) {
    key = child;
    child = signature.nodes[child].end;
  }
  at = child;
  if (signature.nodes[child].kind == Kind::further)
    return "";
  if (node.kind == Kind::further)
    return "." + unquoted(text(signature, signature.nodes[position % 2 ? key : child]));
  if (node.kind == Kind::custom && position-- == 0)
    return node.payload.atom->context();
  if (node.kind == Kind::dict) {
    const bool is_key = position % 2 == 0;
    return "[" + Writer(signature).subtree(is_key ? child : key) + "]";
  }
  std::string field = node.payload.atom ? node.payload.atom->field(position) : std::string();
  return field.empty() ? fmt::format("[{}]", position) : field;
}

} // namespace

std::size_t Signature::subtree(std::size_t index) const {
  std::size_t node = 0;
  while (index-- > 0)
    node = nodes[node].end;
  return node;
}

bool Signature::alive() const {
  return std::all_of(atoms.begin(), atoms.end(), [](const AtomRef &atom) { return atom->alive(); });
}

std::string Signature::input_path(std::uint32_t input) const {
  return input < slots.size() ? path(*this, first_node(input))
                              : captures[input - slots.size()].path;
}

bool is_on_device(const Signature &signature) {
  const auto is_elsewhere = [](const TensorMeta &meta) {
    return !meta.device.is_cpu() && !meta.device.is_meta();
  };
  return std::ranges::any_of(signature.slots, is_elsewhere) ||
         std::ranges::any_of(signature.captures, is_elsewhere, &CaptureSpec::meta);
}

bool Signature::is_dynamic() const {
  return std::any_of(slots.begin(), slots.end(), [](const TensorMeta &m) { return m.dynamic; });
}

std::size_t Signature::first_node(std::uint32_t slot) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const Node &node) {
    return node.kind == Kind::tensor && node.payload.slot == slot;
  });
  return static_cast<std::size_t>(found - nodes.begin());
}

bool same(const Node &a, const Node &b) {
  if (a.kind != b.kind || (a.is_container() && a.end != b.end))
    return false;
  if (a.has_atom())
    return a.payload.atom == b.payload.atom ||
           (a.payload.atom && b.payload.atom && a.payload.atom->same(*b.payload.atom));
  switch (a.kind) {
  case Kind::tensor:
    return a.payload.slot == b.payload.slot;
  case Kind::alias:
    return a.payload.alias.node == b.payload.alias.node;
  case Kind::boolean:
  case Kind::integer:
  case Kind::device:
    return a.payload.integer == b.payload.integer;
  case Kind::real:
    return std::bit_cast<std::uint64_t>(a.payload.real) ==
           std::bit_cast<std::uint64_t>(b.payload.real);
  default: // none, ellipsis, absent: the kind says all
    return true;
  }
}

std::string text(const Signature &signature) {
  Writer writer(signature);
  std::string result;
  std::size_t index = 0;
  for (std::size_t node = 0; node < signature.nodes.size(); node = signature.nodes[node].end) {
    const bool is_tensor = signature.nodes[node].kind == Kind::tensor;
    std::string value = writer.subtree(node);
    const bool is_meta = is_tensor && value.starts_with(text(signature, signature.nodes[node]));
    result += result.empty() ? "" : ", ";
    result += parameter(signature, index++) + (is_meta ? ": " : "=") + value;
  }
  result = "(" + result + ")";
  for (const CheckedNumber &checked : signature.checked)
    result += fmt::format(
        "{} {}{}{}", &checked == signature.checked.data() ? " with" : ",", checked.value,
        checked.where.empty() ? " as a number that it reads" : " at ", checked.where);
  return result;
}

std::string text(const Signature &signature, const Node &node) {
  switch (node.kind) {
  case Kind::tensor: // a result has no slots: a number of the graph is a key there
    return node.payload.slot < signature.slots.size() ? signature.slots[node.payload.slot].text()
                                                      : "a number";
  case Kind::none:
    return "None";
  case Kind::boolean:
    return node.payload.integer ? "True" : "False";
  case Kind::integer:
    return std::to_string(node.payload.integer);
  case Kind::real:
    return real_text(node.payload.real);
  case Kind::ellipsis:
    return "...";
  case Kind::device:
    return device_text(node.payload.integer);
  case Kind::atom:
    return node.payload.atom->text();
  case Kind::absent:
    return "nothing";
  case Kind::alias:
    return path(signature, node.payload.alias.node);
  default:
    break;
  }
  const Node *first = signature.nodes.data();
  const bool inside =
      !std::less<>()(&node, first) && std::less<>()(&node, first + signature.nodes.size());
  if (!inside) // a copy: its children are unknown
    return type_text(node);
  const std::size_t count = children(signature, static_cast<std::size_t>(&node - first));
  return fmt::format("{} of {}", type_text(node), node.kind == Kind::dict ? count / 2 : count);
}

std::string path(const Signature &signature, std::size_t index) {
  std::size_t at = 0, number = 0;
  for (; signature.nodes[at].end <= index; ++number)
    at = signature.nodes[at].end;
  std::string result = parameter(signature, number);
  while (at != index)
    result += step(signature, at, index);
  return result;
}

} // namespace tracehost
