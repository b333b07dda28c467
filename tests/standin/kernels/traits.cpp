#include "traits.h"

#include "tensors.h"

#include <ATen/core/enum_tag.h>

#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace standin {

namespace {

const std::unordered_set<std::string_view> kWaiting = {
    "aten::_local_scalar_dense",
    "aten::_unique",
    "aten::_unique2",
    "aten::bincount",
    "aten::equal",
    "aten::histc",
    "aten::masked_select",
    "aten::nonzero",
    "aten::unique_consecutive",
    "aten::unique_dim",
    "aten::unique_dim_consecutive",
};
const std::unordered_set<std::string_view> kIndexing = {
    "aten::index", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index",
    "aten::_unsafe_index_put"};

Traits find(const c10::OperatorHandle &op) {
  Traits traits;
  const auto &schema = op.schema();
  traits.is_random = op.hasTag(at::Tag::nondeterministic_seeded);
  traits.takes_host_index = kIndexing.count(schema.name()) > 0;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument &argument = schema.arguments()[i];
    traits.is_out.push_back(argument.is_out());
    traits.is_written.push_back(argument.alias_info() && argument.alias_info()->isWrite());
    if (argument.type()->str().find("Generator") != std::string::npos)
      traits.generator = i;
  }
  traits.is_random |= traits.generator.has_value();
  return traits;
}

bool is_mask(const at::Tensor &index) {
  return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
}

/// Masks become numbers, and indices of the host are copied to the device: both wait. A mask with
/// one value of the host is a fill, which does not.
bool indexing_waits(const torch::jit::Stack &arguments) {
  bool some_mask = false;
  bool all_masks = true;
  bool on_host = false;
  each_tensor(arguments[1], [&](const at::Tensor &index) {
    some_mask |= is_mask(index);
    all_masks &= is_mask(index);
    on_host |= index.is_cpu();
  });
  const bool fills = all_masks && arguments.size() > 2 && arguments[2].isTensor() &&
                     arguments[2].toTensor().is_cpu() && arguments[2].toTensor().numel() == 1;
  return on_host || (some_mask && !fills);
}

} // namespace

const Traits &traits_of(const c10::OperatorHandle &op) {
  static std::mutex mutex;
  static std::unordered_map<const c10::FunctionSchema *, Traits> known;
  std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace(&op.schema());
  if (is_new)
    found->second = find(op);
  return found->second; // elements of the map stay where they are
}

bool waits(const c10::OperatorHandle &op, const torch::jit::Stack &arguments) {
  const std::string &name = op.schema().name();
  if (kIndexing.count(name))
    return indexing_waits(arguments);
  if (name == "aten::repeat_interleave") // the last argument is the size of the result, if known
    return arguments.back().isNone();
  return kWaiting.count(name) > 0;
}

} // namespace standin
