#include "archive/stored_tensors.h"

#include "archive/archive.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/_empty_affine_quantized.h>
#include <ATen/ops/_empty_per_channel_affine_quantized.h>
#include <ATen/ops/_validate_sparse_coo_tensor_args.h>
#include <ATen/ops/_validate_sparse_csr_tensor_args.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/sparse_csr_tensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/ScalarType.h>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tracehost::archive {
namespace {

/// `torch FloatStorage`
std::optional<at::ScalarType> dtype_of_storage(const std::string &global) {
  static const auto all = [] {
    std::unordered_map<std::string, at::ScalarType> made;
    for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i) {
      const auto type = static_cast<at::ScalarType>(i);
      if (type != at::ScalarType::Undefined)
        made.emplace(fmt::format("torch {}Storage", c10::toString(type)), type);
    }
    return made;
  }();
  const auto found = all.find(global);
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

/// How many elements a tensor of that form reaches over; nullopt: it is none, or too large to
/// count.
std::optional<std::int64_t> reach(const std::vector<std::int64_t> &sizes,
                                  const std::vector<std::int64_t> &strides, std::int64_t offset) {
  if (sizes.size() != strides.size() || sizes.size() > 64 || offset < 0)
    return std::nullopt;
  bool empty = false;
  std::int64_t last = offset, count = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::int64_t step = 0;
    if (sizes[i] < 0 || strides[i] < 0)
      return std::nullopt;
    empty |= sizes[i] == 0;
    if (__builtin_mul_overflow(std::max<std::int64_t>(sizes[i], 1), count, &count) ||
        __builtin_mul_overflow(std::max<std::int64_t>(sizes[i] - 1, 0), strides[i], &step) ||
        __builtin_add_overflow(last, step, &last))
      return std::nullopt;
  }
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(count, std::int64_t{16}, &bytes) ||
      __builtin_add_overflow(last, std::int64_t{1}, &last))
    return std::nullopt;
  return empty ? offset : last;
}

void check_bools(const Pickle &pickle, const std::uint8_t *bytes, std::size_t count) {
  if (std::any_of(bytes, bytes + count, [](std::uint8_t b) { return b > 1; }))
    pickle.wrong("has a bool that is neither true nor false");
}

struct Form {
  std::int64_t offset;
  std::vector<std::int64_t> sizes, strides;
};

Form form_of(const Pickle &pickle, const PickleItem &arguments, const at::Tensor &data) {
  Form form{pickle.item(arguments, 1, PickleKind::integer).integer,
            pickle.integers(pickle.item(arguments, 2, PickleKind::tuple)),
            pickle.integers(pickle.item(arguments, 3, PickleKind::tuple))};
  const auto needed = reach(form.sizes, form.strides, form.offset);
  if (!needed || *needed > data.numel())
    pickle.wrong("has a tensor that is larger than its data");
  return form;
}

/// No more elements than there is data: what goes through them ends.
void check_unexpanded(const Pickle &pickle, const at::Tensor &t) {
  if (t.layout() == at::kStrided &&
      static_cast<std::size_t>(t.numel()) > t.storage().nbytes() / t.itemsize())
    pickle.wrong("has a tensor that is larger than its data");
}

c10::Device device_of(const Pickle &pickle, const std::string &text) {
  try {
    return c10::Device(text);
  } catch (const c10::Error &) {
    pickle.wrong(fmt::format("has a tensor on '{}', which is no device", text));
  }
}

} // namespace

at::Tensor StoredTensors::make_constant(const Pickle &pickle, const PickleItem &item) {
  at::Tensor made = make(pickle, item);
  check_unexpanded(pickle, made);
  return made;
}

at::Tensor StoredTensors::make(const Pickle &pickle, const PickleItem &item) {
  if (const auto *arguments = pickle.arguments(item, "torch._utils _rebuild_tensor_v2"))
    return strided(pickle, *arguments);
  if (const auto *arguments = pickle.arguments(item, "torch._utils _rebuild_qtensor"))
    return quantized(pickle, *arguments);
  if (const auto *arguments = pickle.arguments(item, "torch._utils _rebuild_sparse_tensor"))
    return sparse(pickle, *arguments);
  pickle.wrong("has something else in place of a tensor");
}

const at::Tensor &StoredTensors::storage(const Pickle &pickle, const PickleItem &id) {
  const PickleItem &parts = pickle.item(id, 0, PickleKind::tuple);
  const auto dtype = dtype_of_storage(pickle.item(parts, 1, PickleKind::global).text);
  if (pickle.item(parts, 0, PickleKind::text).text != "storage" || !dtype)
    pickle.wrong("has a tensor of no known dtype");
  const std::string &key = pickle.item(parts, 2, PickleKind::text).text;
  const auto where = device_of(pickle, pickle.item(parts, 3, PickleKind::text).text);
  const std::int64_t count = pickle.item(parts, 4, PickleKind::integer).integer;
  at::Tensor &known = storages_[key];
  if (known.defined()) {
    if (known.scalar_type() != *dtype)
      pickle.wrong("has data of two dtypes");
    return known;
  }
  const std::string name = folder_ + key;
  const std::size_t bytes = container_.size(name), item_size = c10::elementSize(*dtype);
  if (count < 0 || static_cast<std::size_t>(count) > bytes / item_size)
    pickle.wrong("has a tensor that is larger than its data");
  at::DataPtr data = c10::GetCPUAllocator()->allocate(bytes);
  if (bytes > 0)
    container_.read(name, data.get());
  if (*dtype == at::kBool)
    check_bools(pickle, static_cast<const std::uint8_t *>(data.get()), bytes);
  const at::Storage storage(c10::Storage::use_byte_size_t(), bytes, std::move(data), nullptr,
                            false);
  at::Tensor made = c10::isQIntType(*dtype)
                        ? at::_empty_affine_quantized({0}, at::TensorOptions(*dtype), 1., 0)
                        : at::empty({0}, at::TensorOptions(*dtype));
  made.set_(storage, 0, {static_cast<std::int64_t>(bytes / item_size)}, {1});
  const c10::Device to = move_(where);
  known = to.is_cpu() ? made : made.to(to);
  return known;
}

at::Tensor StoredTensors::strided(const Pickle &pickle, const PickleItem &arguments) {
  const at::Tensor &data = storage(pickle, pickle.item(arguments, 0, PickleKind::persistent));
  const Form form = form_of(pickle, arguments, data);
  if (c10::isQIntType(data.scalar_type()))
    pickle.wrong("has a quantized tensor without a scale");
  at::Tensor made = at::empty({0}, data.options());
  made.set_(data.storage(), form.offset, form.sizes, form.strides);
  made.set_requires_grad(pickle.item(arguments, 4, PickleKind::boolean).integer != 0);
  if (arguments.items.size() < 7)
    return made;
  // What a view has beside its data: `conj` and `neg`.
  const auto *tagged = pickle.arguments(pickle.item(arguments, 6, PickleKind::call),
                                        "torch.jit._pickle restore_type_tag");
  if (!tagged)
    pickle.wrong("has another form");
  const PickleItem &bits = pickle.item(*tagged, 0, PickleKind::dict);
  for (std::size_t i = 0; i < bits.items.size(); i += 2) {
    const std::string &name = pickle.item(bits, i, PickleKind::text).text;
    const bool set = pickle.item(bits, i + 1, PickleKind::boolean).integer != 0;
    if (name == "conj" && (made.is_complex() || !set))
      made._set_conj(set);
    else if (name == "neg" && !c10::isIntegralType(made.scalar_type(), true))
      made._set_neg(set);
    else
      pickle.wrong("has a tensor with something unknown");
  }
  return made;
}

at::Tensor StoredTensors::quantized(const Pickle &pickle, const PickleItem &arguments) {
  const at::Tensor &data = storage(pickle, pickle.item(arguments, 0, PickleKind::persistent));
  const Form form = form_of(pickle, arguments, data);
  if (!c10::isQIntType(data.scalar_type()))
    pickle.wrong("has a quantized tensor of another dtype");
  const PickleItem &how = pickle.item(arguments, 4, PickleKind::tuple);
  const std::string &scheme = pickle.item(how, 0, PickleKind::global).text;
  const auto options = at::TensorOptions(data.scalar_type()).device(data.device());
  at::Tensor made;
  if (scheme == "torch per_tensor_affine") {
    made = at::_empty_affine_quantized({0}, options, pickle.item(how, 1, PickleKind::real).real,
                                       pickle.item(how, 2, PickleKind::integer).integer);
  } else if (scheme == "torch per_channel_affine") {
    const at::Tensor scales = make(pickle, pickle.item(how, 1, PickleKind::call));
    const at::Tensor zeros = make(pickle, pickle.item(how, 2, PickleKind::call));
    const std::int64_t axis = pickle.item(how, 3, PickleKind::integer).integer;
    const auto rank = static_cast<std::int64_t>(form.sizes.size());
    if (axis < 0 || axis >= rank || scales.layout() != at::kStrided ||
        zeros.layout() != at::kStrided || scales.dim() != 1 || zeros.dim() != 1 ||
        scales.size(0) != form.sizes[static_cast<std::size_t>(axis)] ||
        zeros.size(0) != scales.size(0))
      pickle.wrong("has a quantized tensor with other scales than channels");
    made = at::_empty_per_channel_affine_quantized(std::vector<std::int64_t>(form.sizes.size(), 0),
                                                   scales, zeros, axis, options);
  } else {
    pickle.wrong("has a quantized tensor of another kind");
  }
  made.set_(data.storage(), form.offset, form.sizes, form.strides);
  return made;
}

at::Tensor StoredTensors::sparse(const Pickle &pickle, const PickleItem &arguments) {
  const std::int64_t layout = pickle.item(arguments, 0, PickleKind::integer).integer;
  const auto sizes = pickle.integers(pickle.item(arguments, 1, PickleKind::tuple));
  const bool requires_grad = pickle.item(arguments, 2, PickleKind::boolean).integer != 0;
  const bool coo = layout == static_cast<std::int64_t>(at::kSparse);
  if (!coo && layout != static_cast<std::int64_t>(at::kSparseCsr))
    pickle.wrong("has a tensor of another layout");
  if (!reach(sizes, std::vector<std::int64_t>(sizes.size(), 0), 0))
    pickle.wrong("has a tensor whose elements can't be counted");
  std::vector<at::Tensor> parts;
  for (std::size_t i = 3; i < (coo ? 5U : 6U); ++i) {
    const auto *part = pickle.arguments(pickle.item(arguments, i, PickleKind::call),
                                        "torch._utils _rebuild_tensor_v2");
    if (!part)
      pickle.wrong("has another form");
    parts.push_back(strided(pickle, *part));
    check_unexpanded(pickle, parts.back());
  }
  if (coo) // each index is compared with the sizes
    at::_validate_sparse_coo_tensor_args(parts[0], parts[1], sizes);
  else
    at::_validate_sparse_csr_tensor_args(parts[0], parts[1], parts[2], sizes);
  at::Tensor made =
      coo ? at::sparse_coo_tensor(parts[0], parts[1], sizes, parts[1].options().layout(at::kSparse))
          : at::sparse_csr_tensor(parts[0], parts[1], parts[2], sizes,
                                  parts[2].options().layout(at::kSparseCsr));
  return made.set_requires_grad(requires_grad);
}

} // namespace tracehost::archive
