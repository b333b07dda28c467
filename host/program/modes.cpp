#include "program/modes.h"

#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace tracehost {

namespace jit = torch::jit;

namespace {

const auto &kDevices = at::autocast::_AUTOCAST_SUPPORTED_DEVICES;
static_assert(std::tuple_size_v<Autocasts> ==
              std::tuple_size_v<std::remove_cvref_t<decltype(kDevices)>>);

const auto kInference = c10::Symbol::fromQualString("tracehost::set_inference_mode");
const auto kAutocast = c10::Symbol::fromQualString("tracehost::set_autocast");
const auto kRegions = c10::Symbol::fromQualString("tracehost::set_autocast_regions");

/// As c10::InferenceMode does, without its end.
void set_inference_mode(bool on) {
  c10::AutogradState::set_tls_state(c10::AutogradState(!on, on, !on, !on));
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  c10::impl::PODLocalDispatchKeySet now{};
  now.set_included(on ? keys.included_.remove(c10::DispatchKey::ADInplaceOrView)
                      : keys.included_.add(c10::DispatchKey::ADInplaceOrView));
  now.set_excluded(on ? keys.excluded_ | c10::autograd_dispatch_keyset
                      : keys.excluded_ - c10::autograd_dispatch_keyset);
  c10::impl::_force_tls_local_dispatch_key_set(now);
}

void set_autocast(const std::string &device, bool on, std::int64_t dtype) {
  const auto type = c10::Device(device).type();
  at::autocast::set_autocast_enabled(type, on);
  at::autocast::set_autocast_dtype(type, static_cast<at::ScalarType>(dtype));
}

void change_autocast_regions(std::int64_t change, bool cache) {
  set_autocast_regions(autocast_regions() + static_cast<int>(change));
  at::autocast::set_autocast_cache_enabled(cache);
}

// Conservative: never removed, moved or merged.
TORCH_LIBRARY_FRAGMENT(tracehost, m) {
  const auto conservative = c10::AliasAnalysisKind::CONSERVATIVE;
  const auto define = [&](const char *schema, auto function) {
    m.def(torch::schema(schema, conservative), function);
  };
  define("set_inference_mode(bool on) -> ()", &set_inference_mode);
  define("set_autocast(str device, bool on, int dtype) -> ()", &set_autocast);
  define("set_autocast_regions(int change, bool cache) -> ()", &change_autocast_regions);
}

void insert(jit::Graph &graph, c10::Symbol op, std::initializer_list<c10::IValue> arguments) {
  std::vector<jit::Value *> values;
  for (const c10::IValue &argument : arguments)
    values.push_back(graph.insertConstant(argument));
  graph.insertNode(graph.create(op, values, 0));
}

} // namespace

Autocasts autocasts_now() {
  Autocasts result;
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = {at::autocast::is_autocast_enabled(kDevices[i]),
                 at::autocast::get_autocast_dtype(kDevices[i])};
  return result;
}

void set_autocasts(const Autocasts &autocasts) {
  for (std::size_t i = 0; i < autocasts.size(); ++i) {
    at::autocast::set_autocast_enabled(kDevices[i], autocasts[i].on);
    at::autocast::set_autocast_dtype(kDevices[i], autocasts[i].dtype);
  }
}

int autocast_regions() {
  at::autocast::increment_nesting();
  return at::autocast::decrement_nesting();
}

void set_autocast_regions(int regions) {
  int now = autocast_regions();
  if (now > regions && regions <= 0)
    at::autocast::clear_cache();
  for (; now < regions; ++now)
    at::autocast::increment_nesting();
  for (; now > regions; --now)
    at::autocast::decrement_nesting();
}

void insert_inference_mode(jit::Graph &graph, bool on) { insert(graph, kInference, {on}); }

void insert_autocasts(jit::Graph &graph, const Autocasts &before, const Autocasts &after) {
  for (std::size_t i = 0; i < after.size(); ++i)
    if (before[i] != after[i])
      insert(graph, kAutocast,
             {c10::DeviceTypeName(kDevices[i], true), after[i].on,
              static_cast<std::int64_t>(after[i].dtype)});
}

void insert_autocast_regions(jit::Graph &graph, int change, bool cache) {
  insert(graph, kRegions, {static_cast<std::int64_t>(change), cache});
}

bool is_mode(const jit::Node &node) {
  return node.kind() == kInference || node.kind() == kAutocast || node.kind() == kRegions;
}

ModesKept::ModesKept() : cache_(at::autocast::is_autocast_cache_enabled()) {}

ModesKept::~ModesKept() {
  set_autocast_regions(regions_);
  at::autocast::set_autocast_cache_enabled(cache_);
  set_autocasts(autocasts_);
  c10::AutogradState::set_tls_state(autograd_);
  c10::impl::_force_tls_local_dispatch_key_set(keys_);
}

} // namespace tracehost
