#include "capture/results.h"

#include "tape/guards.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>

namespace tracehost::capture {

namespace jit = torch::jit;

namespace {

const c10::StorageImpl *storage_of(const at::Tensor &t) {
  return t.storage().unsafeGetStorageImpl();
}

/// A tensor over existing memory.
at::Tensor over(const c10::Storage &storage, const at::TensorOptions &options, std::int64_t offset,
                at::IntArrayRef sizes, at::IntArrayRef strides) {
  return at::empty({0}, options).set_(storage, offset, sizes, strides);
}

bool fills_its_storage(const at::Tensor &t) {
  return t.storage_offset() == 0 && t.is_non_overlapping_and_dense() &&
         t.storage().nbytes() ==
             at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize());
}

} // namespace

std::optional<std::string> Results::bind(const jit::Stack &outputs, const StaticInputs &inputs,
                                         const Storages &constants) {
  const at::AutoDispatchBelowADInplaceOrView plain;
  unbind();
  for (const c10::IValue &output : outputs) {
    if (output.isTensor() && output.toTensor().defined()) {
      if (auto why = add(output.toTensor(), inputs, constants))
        return c10::str("output ", results_.size(), " ", *why);
      if (results_.back().from == Result::From::memory)
        add_memory(outputs, output.toTensor());
    } else if (output.isTensor() || output.isNone() || output.isInt() || output.isDouble() ||
               output.isBool()) {
      results_.push_back({Result::From::value, 0, output});
    } else {
      return c10::str("output ", results_.size(), " is no tensor");
    }
  }
  return std::nullopt;
}

std::optional<std::string> Results::add(const at::Tensor &output, const StaticInputs &inputs,
                                        const Storages &constants) {
  if (!tape::is_plain_on_its_device(output))
    return "is no plain tensor";
  if (output.requires_grad())
    return "needs gradients";
  for (std::size_t i = 0; i < results_.size(); ++i)
    if (results_[i].from != Result::From::earlier && results_[i].value.isTensor() &&
        results_[i].value.toTensor().is_same(output)) {
      results_.push_back({Result::From::earlier, i, {}});
      return std::nullopt;
    }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor &input = inputs.fixed(i);
    if (!input.defined() || storage_of(input) != storage_of(output))
      continue;
    if (output.is_same(input)) {
      results_.push_back({Result::From::input, i, output});
      return std::nullopt;
    }
    if (output.scalar_type() != input.scalar_type())
      return "reinterprets an input's memory";
    results_.push_back(
        {Result::From::input_view, i, output, output.storage_offset() - input.storage_offset()});
    return std::nullopt;
  }
  const bool is_constant = constants.contains(storage_of(output));
  results_.push_back({is_constant ? Result::From::value : Result::From::memory, 0, output});
  return std::nullopt;
}

std::size_t Results::add_source(const at::Tensor &source) {
  const auto found = std::find_if(sources_.begin(), sources_.end(),
                                  [&source](const at::Tensor &t) { return t.is_same(source); });
  if (found != sources_.end())
    return static_cast<std::size_t>(found - sources_.begin());
  sources_.push_back(source);
  return sources_.size() - 1;
}

/// A view gets a copy of its base. If outputs share memory in another way, they are parts of a copy
/// of all of it.
void Results::add_memory(const jit::Stack &outputs, const at::Tensor &output) {
  Result &result = results_.back();
  const at::Tensor base = output.is_view() ? at::Tensor(output._base()) : output;
  const bool shares = std::any_of(outputs.begin(), outputs.end(), [&](const c10::IValue &value) {
    if (!value.isTensor() || !value.toTensor().defined())
      return false;
    const at::Tensor &other = value.toTensor();
    return other.has_storage() && storage_of(other) == storage_of(base) && !other.is_same(base) &&
           !(other.is_view() && other._base().is_same(base));
  });
  if (fills_its_storage(base) && !shares) {
    result.from = output.is_view() ? Result::From::view : Result::From::memory;
    result.index = add_source(base);
    result.offset = output.storage_offset() - base.storage_offset();
    return;
  }
  result.from = Result::From::part;
  result.offset = output.storage_offset();
  const auto found = std::find_if(sources_.begin(), sources_.end(), [&](const at::Tensor &source) {
    return storage_of(source) == storage_of(output);
  });
  const auto bytes = static_cast<std::int64_t>(output.storage().nbytes());
  result.index =
      found != sources_.end()
          ? static_cast<std::size_t>(found - sources_.begin())
          : add_source(over(output.storage(), output.options().dtype(at::kByte), 0, {bytes}, {1}));
}

Results::Storages Results::storages_of_constants(const jit::Block &block) {
  Storages storages;
  for (const jit::Node *node : block.nodes()) {
    for (const jit::Block *inner : node->blocks())
      storages.merge(storages_of_constants(*inner));
    if (node->kind() != c10::prim::Constant)
      continue;
    const auto value = jit::toIValue(node->output());
    if (value && value->isTensor() && value->toTensor().defined() &&
        value->toTensor().has_storage())
      storages.insert(storage_of(value->toTensor()));
  }
  return storages;
}

void Results::unbind() {
  results_.clear();
  sources_.clear();
}

std::vector<at::Tensor> Results::allocate() const {
  const at::AutoDispatchBelowADInplaceOrView plain;
  std::vector<at::Tensor> memory;
  memory.reserve(sources_.size());
  for (const at::Tensor &source : sources_)
    memory.push_back(at::empty_strided(source.sizes(), source.strides(), source.options()));
  return memory;
}

void Results::append(jit::Stack &stack, const std::vector<at::Tensor> &memory,
                     c10::ArrayRef<c10::IValue> given) const {
  if (!memory.empty()) {
    const at::AutoDispatchBelowADInplaceOrView plain;
    at::_foreach_copy_(memory, sources_, /*non_blocking=*/true);
  }
  const std::size_t first = stack.size();
  for (const Result &result : results_)
    switch (result.from) {
    case Result::From::value:
      stack.push_back(result.value);
      break;
    case Result::From::input:
      stack.push_back(given[result.index]);
      break;
    case Result::From::earlier:
      stack.push_back(stack[first + result.index]);
      break;
    default:
      stack.emplace_back(make(result, memory, given));
    }
}

at::Tensor Results::make(const Result &result, const std::vector<at::Tensor> &memory,
                         c10::ArrayRef<c10::IValue> given) const {
  const at::Tensor &captured = result.value.toTensor();
  if (result.from == Result::From::part) {
    const at::AutoDispatchBelowADInplaceOrView plain;
    return over(memory[result.index].storage(), captured.options(), result.offset, captured.sizes(),
                captured.strides());
  }
  if (result.from == Result::From::input_view) {
    const at::Tensor &t = given[result.index].toTensor();
    if (!captured.is_view() && captured.sizes() == t.sizes() && captured.strides() == t.strides() &&
        result.offset == 0)
      return t.detach();
    const at::Tensor base = t.requires_grad() ? t.detach() : t;
    return base.as_strided(captured.sizes(), captured.strides(),
                           t.storage_offset() + result.offset);
  }
  const at::Tensor &base = memory[result.index];
  at::Tensor made = result.from == Result::From::memory
                        ? base
                        : base.as_strided(captured.sizes(), captured.strides(), result.offset);
  if (!made.is_inference())
    while (made._version() < captured._version())
      made.unsafeGetTensorImpl()->bump_version();
  return made;
}

} // namespace tracehost::capture
