#include "shapes/without_data.h"

#include "shapes/fake_tensor.h"
#include "shapes/kernels.h"
#include "shapes/op_arguments.h"
#include "shapes/rules.h"

#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <fmt/format.h>

#include <string_view>
#include <unordered_map>

namespace tracehost::shapes {
namespace {

constexpr std::string_view kNeedsData = " does not run without data";

thread_local bool running_python = false;

[[noreturn]] void reject(const c10::OperatorHandle &op, const std::string &why) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.schema().name(), kNeedsData, why);
}

// ---- The ways

enum class Way { rule, meta, composite, in_place, fake, data, none };

struct Plan {
  Way way = Way::none;
  Rule rule = nullptr;
  std::optional<c10::KernelFunction> kernel; ///< meta, composite
};

bool is_view(const c10::FunctionSchema &schema) {
  for (const auto &result : schema.returns())
    if (const auto *alias = result.alias_info(); alias && !alias->isWrite())
      return true;
  return false;
}

/// Whether the op's own code works on the tensor itself, not by other ops, and knows "meta".
bool is_for_meta(const c10::OperatorHandle &op) {
  return is_view(op.schema()) || op.hasTag(at::Tag::inplace_view) ||
         op.schema().name() == "aten::copy_";
}

/// Whether the op does nothing but write to its arguments, whose sizes stay.
bool is_in_place(const c10::OperatorHandle &op) {
  const auto &schema = op.schema();
  if (op.hasTag(at::Tag::inplace_view) || !schema.is_mutable())
    return false;
  for (const auto &argument : schema.arguments())
    if (argument.is_out())
      return false;
  for (const auto &result : schema.returns())
    if (!result.alias_info() || !result.alias_info()->isWrite())
      return false;
  return true;
}

bool returns_tensors(const c10::FunctionSchema &schema) {
  for (const auto &result : schema.returns())
    if (result.type()->isSubtypeOf(*c10::TensorType::get()) ||
        result.type()->kind() == c10::TypeKind::ListType)
      return true;
  return schema.returns().empty();
}

bool of_torch(std::string_view name) {
  return name.starts_with("aten::") || name.starts_with("prims::") ||
         name.starts_with("quantized::") || name.starts_with("mkldnn::");
}

/// A library's own, in C++ or Python: torch's fallback for "meta" says that there is none.
bool has_meta_kernel(const c10::OperatorHandle &op) {
  using enum c10::DispatchKey;
  for (const auto key : {Meta, CompositeExplicitAutograd, CompositeExplicitAutogradNonFunctional,
                         CompositeImplicitAutograd})
    if (op.hasKernelForDispatchKey(key))
      return true;
  return false;
}

Plan make_plan(const c10::OperatorHandle &op, c10::DispatchKey backend) {
  const auto &schema = op.schema();
  std::string name = schema.name();
  if (!schema.overload_name().empty())
    name += "." + schema.overload_name();
  if (const Rule rule = rule_for(name))
    return {Way::rule, rule, {}};
  if (op.hasTag(at::Tag::dynamic_output_shape))
    return {};
  if (name == "aten::_fused_sdp_choice") // by the device, of sizes alone
    if (auto kernel = cpp_kernel(op, backend))
      return {Way::composite, nullptr, std::move(kernel)};
  if (auto kernel = cpp_kernel(op, c10::DispatchKey::Meta))
    return {Way::meta, nullptr, std::move(kernel)};
  const bool own = op.hasKernelForDispatchKey(backend);
  if (auto kernel = composite_kernel(op); kernel && !own)
    return {is_for_meta(op) ? Way::meta : Way::composite, nullptr, std::move(kernel)};
  if (is_in_place(op))
    return {Way::in_place, nullptr, {}};
  if (!of_torch(schema.name()))
    return {has_meta_kernel(op) ? Way::fake : Way::none, nullptr, {}};
  const bool by_data = own && !draws(op) && !is_view(schema) && returns_tensors(schema);
  return {by_data ? Way::data : Way::none, nullptr, {}};
}

const Plan &plan_for(const c10::OperatorHandle &op, c10::Device device) {
  thread_local std::unordered_map<const c10::FunctionSchema *, Plan> known[2];
  auto &plans = known[device.is_cpu() || device.is_meta() ? 0 : 1];
  const auto *schema = &op.schema();
  if (const auto found = plans.find(schema); found != plans.end())
    return found->second;
  const auto backend = device.is_meta()
                           ? c10::DispatchKey::CPU
                           : c10::computeDispatchKey(std::nullopt, std::nullopt, device);
  return plans.emplace(schema, make_plan(op, backend)).first->second;
}

/// The results of a kernel, as fake tensors: arguments where they are some, or share memory with
/// some.
void collect(const Arguments &arguments, c10::Device device, Stack &results) {
  arguments.take_over_sizes();
  for (c10::IValue &result : results)
    result = replaced(result, [&](const at::Tensor &t) {
      if (const at::Tensor argument = arguments.same(t); argument.defined())
        return argument;
      const at::Tensor base = arguments.base(t);
      return from_meta(t, base.defined() ? base.device() : device, base);
    });
}

Stack on_meta(const c10::OperatorHandle &op, const Plan &plan, Arguments &arguments) {
  const c10::Device device = arguments.device();
  Stack stack = arguments.with(as_meta, true);
  plan.kernel->callBoxed(op, c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  collect(arguments, device, stack);
  return stack;
}

/// A library's own meta kernel, which may be in Python.
Stack by_fake(const c10::OperatorHandle &op, Arguments &arguments) {
  const c10::Device device = arguments.device();
  Stack stack = arguments.with(as_meta, true);
  struct Python {
    bool before = std::exchange(running_python, true);
    ~Python() { running_python = before; }
  } python;
  try {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  } catch (const std::exception &error) { // torch.library.custom_op registers one that says so
    if (std::string_view(error.what()).find("There was no fake impl registered") ==
        std::string_view::npos)
      throw;
    reject(op, ": it has no fake kernel");
  }
  collect(arguments, device, stack);
  return stack;
}

/// The kernel itself on zeros.
Stack with_data(const c10::OperatorHandle &op, Arguments &arguments) {
  std::int64_t elements = 0;
  for (const at::Tensor &t : arguments.tensors())
    elements += t.numel();
  if (elements > kMostElements)
    reject(op, fmt::format(" of more than {} elements (it has {})", kMostElements, elements));
  const c10::Device device = arguments.device();
  const WithData for_real;
  Stack stack = arguments.with(
      [](const at::Tensor &t) {
        if (is_sparse(t))
          return t;
        if (!is_fake_tensor(t) && !t.is_meta())
          return t.clone();
        return at::empty_strided(t.sizes(), t.strides(),
                                 t.options().device(t.is_meta() ? at::kCPU : t.device()))
            .zero_();
      },
      false);
  try {
    op.callBoxed(stack);
  } catch (
      const c10::Error &error) { // of the zeros, or of the sizes: the caller's values may be fine
    const std::string what = error.what_without_backtrace();
    reject(op, fmt::format(" (on zeros: {})", what.substr(0, what.find('\n'))));
  }
  for (c10::IValue &result : stack)
    result = replaced(result, [&](const at::Tensor &t) {
      if (const at::Tensor argument = arguments.same(t); argument.defined()) {
        if (!is_sparse(argument))
          take_over(argument, as_meta(t));
        return argument;
      }
      if (is_sparse(t))
        return t;
      if (!can_fake_tensor(t))
        reject(op, " where it gives a tensor that is not strided");
      return alike(t, device);
    });
  return stack;
}

/// A fake tensor's values can't go into a tensor that has some.
void check_written(const c10::OperatorHandle &op, const Arguments &arguments) {
  for (std::size_t i = 0; i < arguments.values().size(); ++i) {
    const auto *alias = op.schema().arguments()[i].alias_info();
    const c10::IValue &value = arguments.values()[i];
    if (alias && alias->isWrite() && value.isTensor() && value.toTensor().defined() &&
        !is_fake_tensor(value.toTensor()) && !value.toTensor().is_meta())
      reject(op, " into a tensor that has some");
  }
}

Stack in_place(const c10::OperatorHandle &op, const Arguments &arguments) {
  Stack results;
  for (const auto &result : op.schema().returns())
    for (std::size_t i = 0; i < arguments.values().size(); ++i)
      if (const auto *alias = op.schema().arguments()[i].alias_info();
          alias && alias->isWrite() && *alias == *result.alias_info())
        results.push_back(arguments.values()[i]);
  return results;
}

Stack own_code(const c10::OperatorHandle &op, const Plan &plan, c10::Device device,
               const Arguments &arguments) {
  Stack stack = arguments.values();
  const c10::DispatchKeySet keys(c10::computeDispatchKey(std::nullopt, std::nullopt, device));
  try {
    plan.kernel->callBoxed(op, keys, &stack);
  } catch (const c10::Error &error) {
    check_memory_read(op, error);
    throw;
  }
  return stack;
}

thread_local const WatchedOps *watching = nullptr;

void dispatch(const c10::OperatorHandle &op, c10::DispatchKeySet keys, Stack *stack) {
  if (watching)
    return watching->see(op, keys, *stack);
  Arguments arguments(op, *stack);
  torch::jit::drop(*stack, op.schema().arguments().size());
  Stack results;
  if (arguments.is_constant()) {
    const WithData for_real;
    results = arguments.values();
    op.callBoxed(results);
  } else if (arguments.any_sparse()) {
    results = with_data(op, arguments);
  } else {
    const c10::Device device =
        arguments.tensors().empty() ? arguments.device() : arguments.device_of_tensors();
    const Plan &plan = plan_for(op, device);
    if (op.schema().is_mutable())
      check_written(op, arguments);
    switch (plan.way) {
    case Way::rule:
      results = plan.rule(arguments.values());
      break;
    case Way::meta:
      results = on_meta(op, plan, arguments);
      break;
    case Way::composite:
      results = own_code(op, plan, device, arguments);
      break;
    case Way::in_place:
      results = in_place(op, arguments);
      break;
    case Way::fake:
      results = by_fake(op, arguments);
      break;
    case Way::data:
      results = with_data(op, arguments);
      break;
    case Way::none:
      reject(op, "");
    }
  }
  for (c10::IValue &result : results)
    stack->push_back(std::move(result));
}

TORCH_LIBRARY_IMPL(_, Fake, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&dispatch>());
}

c10::impl::LocalDispatchKeySet keys_of_thread(bool with_data) {
  auto keys = c10::impl::tls_local_dispatch_key_set();
  keys.included_ = with_data ? keys.included_.remove(kKey) : keys.included_.add(kKey);
  keys.excluded_ = with_data ? keys.excluded_.add(kKey) : keys.excluded_.remove(kKey);
  return keys;
}

} // namespace

WatchedOps::WatchedOps(Watch watch)
    : watch_(std::move(watch)), around_(std::exchange(watching, this)) {}
WatchedOps::~WatchedOps() { watching = around_; }

void WatchedOps::see(const c10::OperatorHandle &op, c10::DispatchKeySet keys, Stack &stack) const {
  const c10::DispatchKeySet below(c10::DispatchKeySet::FULL_AFTER, kKey);
  std::optional<WithData> for_real;
  if (!around_)
    for_real.emplace();
  const struct Around {
    explicit Around(const WatchedOps *around) : seen_by(std::exchange(watching, around)) {}
    Around(const Around &) = delete;
    Around &operator=(const Around &) = delete;
    ~Around() { watching = seen_by; }
    const WatchedOps *seen_by;
  } around(around_);
  watch_(op, keys & below, stack);
}

WithoutData::WithoutData() : ForceDispatchKeyGuard(keys_of_thread(false)) {}
WithData::WithData() : ForceDispatchKeyGuard(keys_of_thread(true)) {}

bool in_python_kernel() { return running_python; }

Values by_meta(const char *name, const char *overload, Values values) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  Arguments arguments(op, values);
  return on_meta(op, {Way::meta, nullptr, cpp_kernel(op, c10::DispatchKey::Meta)}, arguments);
}

Values by_composite(const char *name, const char *overload, Values values) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  const Arguments arguments(op, values);
  return own_code(op, {Way::composite, nullptr, composite_kernel(op)},
                  arguments.device_of_tensors(), arguments);
}

bool runs_above(const c10::OperatorHandle &op) {
  const std::string &name = op.schema().name();
  return name == "aten::max_pool1d" || name == "aten::one_hot";
}

void run_above(const c10::OperatorHandle &op, Stack &stack) {
  const Values values = torch::jit::pop(stack, op.schema().arguments().size());
  stack.push_back(rule_for(op.schema().name())(values).front());
}

void check_memory_read(const c10::OperatorHandle &op, const c10::Error &error) {
  if (std::string_view(error.msg()).find(kNoMemory) != std::string_view::npos)
    reject(op, "");
}

std::string needs_data(const std::string &text) {
  if (text.find(kNoMemory) != std::string::npos)
    return "torch's own code for this line";
  const auto found = text.find(kNeedsData);
  return found == std::string::npos ? std::string() : text.substr(0, found);
}

} // namespace tracehost::shapes
