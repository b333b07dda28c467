#include "shapes/kernels.h"

#include <ATen/core/dispatch/OperatorEntry.h>

namespace tracehost::shapes {
namespace {

// The dispatcher keeps every kernel that was registered, and shows the newest alone. torch has no
// other way to the kernels below than these two private members, which an explicit instantiation
// may name.
template <class Tag, auto Member> struct Reveal {
  friend constexpr auto member(Tag) { return Member; }
};
struct Definition {
  friend constexpr auto member(Definition);
};
struct Kernels {
  friend constexpr auto member(Kernels);
};
template struct Reveal<Definition, &c10::OperatorHandle::operatorDef_>;
template struct Reveal<Kernels, &c10::impl::OperatorEntry::kernels_>;

} // namespace

std::optional<c10::OperatorHandle> op_of(const c10::FunctionSchema &schema) {
  return c10::Dispatcher::singleton().findSchema(schema.operator_name());
}

std::optional<c10::KernelFunction> cpp_kernel(const c10::OperatorHandle &op, c10::DispatchKey key) {
  const auto &kernels = (op.*member(Definition{}))->op.*member(Kernels{});
  const auto found = kernels.find(key);
  if (found == kernels.end())
    return std::nullopt;
  for (const auto &registered : found->second)
    if (const auto &kernel = registered.kernel; // one in Python is boxed alone
        kernel.isValidUnboxed() || kernel.isValidSymUnboxed())
      return kernel;
  return std::nullopt;
}

std::optional<c10::KernelFunction> composite_kernel(const c10::OperatorHandle &op) {
  for (const auto key : {c10::DispatchKey::CompositeExplicitAutograd,
                         c10::DispatchKey::CompositeExplicitAutogradNonFunctional,
                         c10::DispatchKey::CompositeImplicitAutograd})
    if (auto kernel = cpp_kernel(op, key))
      return kernel;
  return std::nullopt;
}

bool is_statistic(const c10::Argument &argument) {
  return argument.name() == "running_mean" || argument.name() == "running_var";
}

bool is_written(const c10::Argument &argument) {
  return (argument.alias_info() && argument.alias_info()->isWrite()) || is_statistic(argument);
}

bool draws(const c10::OperatorHandle &op) {
  if (op.hasTag(at::Tag::nondeterministic_seeded))
    return true;
  for (const auto &argument : op.schema().arguments())
    if (argument.name() == "generator")
      return true;
  return false;
}

bool stops_draws(std::string_view op, std::string_view argument, const c10::IValue &value) {
  if (argument == "train" || argument == "training")
    return value.isBool() && !value.toBool();
  const bool is_rate = argument == "dropout_p" || argument == "dropout" ||
                       (argument == "p" && op.find("dropout") != std::string_view::npos &&
                        op != "aten::native_dropout" && op != "aten::_fused_dropout");
  return is_rate && value.isDouble() && value.toDouble() == 0;
}

} // namespace tracehost::shapes
