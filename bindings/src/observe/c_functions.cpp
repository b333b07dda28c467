#include "observe/c_functions.h"

#include "base/kinds.h"
#include "base/known.h"
#include "base/lazy.h"
#include "base/object.h"
#include "base/reads_only.h"
#include "observe/c_table.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <ranges>
#include <unordered_map>
#include <utility>

namespace tracehost::python {

namespace {

/// Of calls whose row says no more than what they read and store.
Purity purity_of(Effect effect) {
  switch (effect) {
  case Effect::unknown:
  case Effect::shows:
  case Effect::outside:
  case Effect::device:
  case Effect::threads:
    return Purity::once;
  case Effect::context:
    return Purity::repeated;
  case Effect::elements:
    return Purity::takes;
  case Effect::changes:
    return Purity::of_objects;
  default:
    return Purity::pure;
  }
}

using Switch = std::pair<std::string_view, Effect>;
constexpr Switch kSwitches[] = {{"unknown", Effect::unknown},
                                {"length", Effect::length},
                                {"elements", Effect::elements},
                                {"contents", Effect::contents},
                                {"attribute", Effect::attribute},
                                {"attributes", Effect::attributes},
                                {"item", Effect::item},
                                {"pieces", Effect::pieces},
                                {"pickled", Effect::pickled},
                                {"globals", Effect::globals},
                                {"classes", Effect::classes},
                                {"instance_of", Effect::instance_of},
                                {"subclass_of", Effect::subclass_of},
                                {"subclasses", Effect::subclasses},
                                {"process_state", Effect::process_state},
                                {"setting", Effect::setting},
                                {"context", Effect::context},
                                {"changing", Effect::changing},
                                {"device", Effect::device},
                                {"threads", Effect::threads},
                                {"store_attribute", Effect::store_attribute},
                                {"store_item", Effect::store_item},
                                {"adds", Effect::adds},
                                {"removes", Effect::removes},
                                {"moves", Effect::moves},
                                {"changes", Effect::changes}};

std::uint32_t off = 0; ///< a bit for each Effect that is switched off

Rule resolved(Rule rule) {
  if (off >> static_cast<unsigned>(rule.effect) & 1)
    rule.effect = Effect::nothing;
  if (rule.purity == Purity::by_effect)
    rule.purity = purity_of(rule.effect);
  return rule;
}

/// Rows by what they are of, then by name.
class Table {
public:
  explicit Table(std::span<const Row> rows) {
    for (const Row &row : rows) {
      Of &of = all_[row.of];
      if (row.names.empty())
        of.others = Rule{row.effect, row.purity};
      for (const auto name : std::views::split(row.names, ' '))
        of.names.emplace(std::string_view(name.begin(), name.end()), Rule{row.effect, row.purity});
    }
  }

  /// Of that very name; nothing where a row would be for all others.
  std::optional<Rule> named(std::string_view of, std::string_view name) const {
    const auto found = all_.find(of);
    if (found == all_.end())
      return {};
    const auto rule = found->second.names.find(name);
    return rule == found->second.names.end() ? std::nullopt : std::optional(rule->second);
  }
  std::optional<Rule> others(std::string_view of) const {
    const auto found = all_.find(of);
    return found == all_.end() ? std::nullopt : found->second.others;
  }
  std::optional<Rule> find(std::string_view of, std::string_view name) const {
    const auto found = named(of, name);
    return found ? found : others(of);
  }

private:
  struct Of {
    std::unordered_map<std::string_view, Rule> names;
    std::optional<Rule> others;
  };
  std::unordered_map<std::string_view, Of> all_;
};

const Table &functions() {
  static constinit Lazy<Table> made;
  return made([] { return Table(rows_of_functions()); });
}

const Table &methods() {
  static constinit Lazy<Table> made;
  return made([] { return Table(rows_of_methods()); });
}

/// `torch._C` of `torch._C._nn`; empty behind the first part.
std::string_view above(std::string_view module) {
  const auto dot = module.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : module.substr(0, dot);
}

std::optional<Rule> rule_of_package(std::string_view module, std::string_view name) {
  static constinit Lazy<Table> made;
  const Table &rows = made([] { return Table(rows_of_packages()); });
  for (std::string_view of = module; !of.empty(); of = above(of))
    if (const auto found = rows.named(of, name))
      return found;
  for (std::string_view of = module; !of.empty(); of = above(of))
    if (const auto found = rows.others(of))
      return found;
  return {};
}

constexpr Rule kSaid{Effect::contents, Purity::pure};

Rule found_of(std::string_view module, std::string_view name) {
  if (is_reads_only(module, name))
    return kSaid;
  if (const auto found = functions().find(module, name))
    return *found;
  return rule_of_package(module, name).value_or(Rule{});
}

/// The C type from which a class has its methods of C code.
std::string_view c_type_of(PyTypeObject *type) {
  while (type->tp_base && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
         std::string_view(type->tp_name).find('.') == std::string_view::npos)
    type = type->tp_base;
  const std::string_view name = type->tp_name;
  return type == &PyContextVar_Type ? "ContextVar" : type == &PyContext_Type ? "Context" : name;
}

/// A method of a package's own type: it may change what it is called on.
Rule as_method(Rule rule, PyObject *self) {
  if (rule.effect == Effect::contents && !is_tensor(self))
    rule.effect = Effect::changes;
  return rule;
}

/// Of the type, or of a module that it is in.
std::optional<Rule> rule_of_type(std::string_view type, std::string_view name) {
  for (; !type.empty(); type = above(type))
    if (const auto found = methods().find(type, name))
      return found;
  return {};
}

Rule found_of_method(PyObject *self, std::string_view name) {
  const Table &rows = methods();
  const auto of_object = rows.named("object", name);
  const bool of_attributes = of_object && (of_object->effect == Effect::store_attribute ||
                                           of_object->effect == Effect::attribute);
  if (of_attributes)
    return *of_object;
  if (is_tensor(self) && !of_object)
    return *rule_of_package("torch", name);
  if (PyDict_Check(self) || PyList_Check(self) || PyAnySet_CheckExact(self) || is_deque(self))
    return rows.find("list", name).value_or(Rule{});
  const bool of_class = PyType_Check(self);
  if (const auto found = of_class ? rows.named("type", name) : std::nullopt)
    return *found;
  const std::string_view type =
      c_type_of(of_class ? reinterpret_cast<PyTypeObject *>(self) : Py_TYPE(self));
  if (const auto found = rows.named(type, name))
    return *found;
  if (of_object)
    return *of_object;
  if (is_reads_only(type, name) || is_reads_only(type, ""))
    return kSaid;
  if (const auto found = rule_of_type(type, name))
    return *found;
  if (type.find('.') == std::string_view::npos) // of builtins
    return {Effect::changes, Purity::by_effect};
  const auto of_package = rule_of_package(type, name);
  return of_package ? as_method(*of_package, self) : Rule{};
}

} // namespace

Rule rule_of(std::string_view module, std::string_view name) {
  return resolved(found_of(module, name));
}

Rule rule_of_object(std::string_view module, std::string_view name) {
  Rule rule = found_of(module, name);
  if (rule.effect == Effect::contents && !is_reads_only(module, name))
    rule.effect = Effect::changes;
  return resolved(rule);
}

Rule rule_of_method(PyObject *self, std::string_view name) {
  return resolved(found_of_method(self, name));
}

std::vector<std::string> effects() {
  const auto names = std::views::keys(kSwitches);
  return {names.begin(), names.end()};
}

bool switch_effect(std::string_view name, bool on) {
  const auto *found = std::ranges::find(kSwitches, name, &Switch::first);
  if (found == std::end(kSwitches))
    return false;
  const auto bit = 1U << static_cast<unsigned>(found->second);
  off = on ? off & ~bit : off | bit;
  return true;
}

} // namespace tracehost::python
