#include "archive/stored_tensors.h"

#include "archive/graph_values.h"

#include <ATen/ops/_empty_affine_quantized.h>
#include <ATen/ops/_empty_per_channel_affine_quantized.h>
#include <ATen/ops/_validate_sparse_coo_tensor_args.h>
#include <ATen/ops/_validate_sparse_csr_tensor_args.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/sparse_csr_tensor.h>
#include <c10/core/ScalarType.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace tracehost::archive {
namespace {

/// Numbers of a file: each is kept by later versions.
enum class TensorForm : std::uint8_t { strided, per_tensor, per_channel, coo, csr, count };

// ---- writing ------------------------------------------------------------------------------------

/// Numbers the storages as TorchScript's pickle does.
class FormWriter {
public:
  explicit FormWriter(ByteWriter &to) : to_(to) {}

  /// False: there is no form for it.
  bool write(const at::Tensor &t) {
    if (t.is_quantized())
      return quantized(t);
    if (t.layout() == at::kSparse)
      return sparse(t, TensorForm::coo, {t._indices(), t._values()});
    if (t.layout() == at::kSparseCsr)
      return sparse(t, TensorForm::csr, {t.crow_indices(), t.col_indices(), t.values()});
    if (t.layout() != at::kStrided || !t.has_storage() || t.is_meta())
      return false;
    form(TensorForm::strided);
    strided(t);
    return true;
  }

private:
  void form(TensorForm form) { to_.number(static_cast<std::uint64_t>(form)); }
  void sizes(c10::IntArrayRef sizes) {
    to_.number(sizes.size());
    for (const std::int64_t size : sizes)
      to_.integer(size);
  }

  void strided(const at::Tensor &t) {
    const auto [found, is_new] =
        records_.emplace(t.storage().unsafeGetStorageImpl(), records_.size());
    if (is_new)
      alive_.push_back(t.storage());
    to_.number(found->second);
    to_.text(c10::toString(t.scalar_type()));
    to_.text(t.device().str());
    sizes(t.sizes());
    sizes(t.strides());
    to_.integer(t.storage_offset());
    to_.number(t.requires_grad() ? 1 : 0);
    to_.number(t.is_conj() ? 1 : 0);
    to_.number(t.is_neg() ? 1 : 0);
  }

  bool quantized(const at::Tensor &t) {
    if (t.qscheme() == at::kPerTensorAffine) {
      form(TensorForm::per_tensor);
      strided(t);
      to_.bits(t.q_scale());
      to_.integer(t.q_zero_point());
      return true;
    }
    if (t.qscheme() != at::kPerChannelAffine)
      return false;
    form(TensorForm::per_channel);
    strided(t);
    strided(t.q_per_channel_scales());
    strided(t.q_per_channel_zero_points());
    to_.integer(t.q_per_channel_axis());
    return true;
  }

  bool sparse(const at::Tensor &t, TensorForm of, const std::vector<at::Tensor> &parts) {
    form(of);
    sizes(t.sizes());
    to_.number(t.requires_grad() ? 1 : 0);
    if (of == TensorForm::coo)
      to_.number(t.is_coalesced() ? 1 : 0);
    for (const at::Tensor &part : parts)
      strided(part);
    return true;
  }

  ByteWriter &to_;
  std::unordered_map<const c10::StorageImpl *, std::uint64_t> records_;
  std::vector<at::Storage> alive_; ///< so that no other takes the place of one of a moment
};

// ---- reading ------------------------------------------------------------------------------------

std::optional<at::ScalarType> dtype_of(std::string_view name) {
  static const auto all = [] {
    std::unordered_map<std::string_view, at::ScalarType> made;
    for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i) {
      const auto type = static_cast<at::ScalarType>(i);
      if (type != at::ScalarType::Undefined)
        made.emplace(c10::toString(type), type);
    }
    return made;
  }();
  const auto found = all.find(name);
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

[[noreturn]] void too_large() { wrong_file("it has a tensor that is larger than its data"); }

/// How many elements a tensor of that form reaches over; nullopt: it is none, or too large to
/// count.
std::optional<std::int64_t> reach(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                                  std::int64_t offset) {
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

class FormReader {
public:
  FormReader(ByteReader &from, const RecordData &data, DeviceMove move)
      : from_(from), data_of_(data), move_(move) {}

  at::Tensor tensor() {
    const auto kind = static_cast<TensorForm>(
        from_.below(static_cast<std::size_t>(TensorForm::count), "a kind of tensor"));
    switch (kind) {
    case TensorForm::strided:
      return strided();
    case TensorForm::per_tensor:
      return per_tensor();
    case TensorForm::per_channel:
      return per_channel();
    default:
      return sparse(kind);
    }
  }

private:
  struct Form {
    at::Tensor data; ///< all of the record, in one dimension
    std::vector<std::int64_t> sizes, strides;
    std::int64_t offset = 0;
    bool requires_grad = false, conj = false, neg = false;

    at::Tensor set(at::Tensor made) const {
      return made.set_(data.storage(), offset, sizes, strides);
    }
  };

  std::vector<std::int64_t> sizes() {
    std::vector<std::int64_t> sizes(from_.count());
    for (std::int64_t &size : sizes)
      size = from_.integer();
    return sizes;
  }

  Form form() {
    Form form;
    form.data = data();
    form.sizes = sizes();
    form.strides = sizes();
    form.offset = from_.integer();
    form.requires_grad = from_.flag();
    form.conj = from_.flag();
    form.neg = from_.flag();
    const auto needed = reach(form.sizes, form.strides, form.offset);
    if (!needed || *needed > form.data.numel())
      too_large();
    return form;
  }

  const at::Tensor &data() {
    const std::uint64_t record = from_.number();
    const auto dtype = dtype_of(from_.text());
    const c10::Device where = read_device(from_);
    if (!dtype)
      wrong_file("it has a tensor of no known dtype");
    at::Tensor &known = records_[record];
    if (known.defined() && known.scalar_type() != *dtype)
      wrong_file("it has data of two dtypes");
    if (!known.defined())
      known = read(fmt::format("data/{}", record), *dtype, move_(where));
    return known;
  }

  at::Tensor read(const std::string &record, at::ScalarType dtype, c10::Device to) {
    const std::size_t item_size = c10::elementSize(dtype);
    auto [data, bytes] = data_of_(record);
    if (dtype == at::kBool) {
      const auto *truths = static_cast<const std::uint8_t *>(data.get());
      if (std::any_of(truths, truths + bytes, [](std::uint8_t b) { return b > 1; }))
        wrong_file("it has a bool that is neither true nor false");
    }
    const at::Storage storage(c10::Storage::use_byte_size_t(), bytes, std::move(data), nullptr,
                              false);
    at::Tensor made = c10::isQIntType(dtype)
                          ? at::_empty_affine_quantized({0}, at::TensorOptions(dtype), 1., 0)
                          : at::empty({0}, at::TensorOptions(dtype));
    made.set_(storage, 0, {static_cast<std::int64_t>(bytes / item_size)}, {1});
    return to.is_cpu() ? made : made.to(to);
  }

  at::Tensor strided() {
    const Form form = this->form();
    const at::ScalarType dtype = form.data.scalar_type();
    if (c10::isQIntType(dtype))
      wrong_file("it has a quantized tensor without a scale");
    if ((form.conj && !c10::isComplexType(dtype)) ||
        (form.neg && c10::isIntegralType(dtype, true)) ||
        (form.requires_grad && !c10::isFloatingType(dtype) && !c10::isComplexType(dtype)))
      wrong_file(fmt::format(
          "it has a {} tensor with a conj bit, a neg bit or a gradient, which its dtype "
          "can't have",
          c10::toString(dtype)));
    at::Tensor made = form.set(at::empty({0}, form.data.options()));
    made.set_requires_grad(form.requires_grad);
    made._set_conj(form.conj);
    made._set_neg(form.neg);
    return made;
  }

  Form quantized() {
    Form form = this->form();
    if (!c10::isQIntType(form.data.scalar_type()))
      wrong_file("it has a quantized tensor of another dtype");
    return form;
  }

  at::Tensor per_tensor() {
    const Form form = quantized();
    const double scale = from_.bits();
    return form.set(at::_empty_affine_quantized({0}, form.data.options(), scale, from_.integer()));
  }

  at::Tensor per_channel() {
    const Form form = quantized();
    const at::Tensor scales = strided(), zeros = strided();
    const std::int64_t axis = from_.integer();
    const auto rank = static_cast<std::int64_t>(form.sizes.size());
    if (axis < 0 || axis >= rank || scales.dim() != 1 || zeros.dim() != 1 ||
        scales.size(0) != form.sizes[static_cast<std::size_t>(axis)] ||
        zeros.size(0) != scales.size(0))
      wrong_file("it has a quantized tensor with other scales than channels");
    return form.set(at::_empty_per_channel_affine_quantized(
        std::vector<std::int64_t>(form.sizes.size(), 0), scales, zeros, axis, form.data.options()));
  }

  at::Tensor part() {
    at::Tensor part = strided();
    check_unexpanded(part);
    return part;
  }

  at::Tensor sparse(TensorForm kind) {
    const auto sizes = this->sizes();
    const bool requires_grad = from_.flag();
    const bool is_coalesced = kind == TensorForm::coo && from_.flag();
    if (!reach(sizes, std::vector<std::int64_t>(sizes.size(), 0), 0))
      wrong_file("it has a tensor whose elements can't be counted");
    const at::Tensor first = part(), second = part();
    at::Tensor made;
    if (kind == TensorForm::coo) {
      // Compares each index with the sizes, and with the one before where that is promised.
      at::_validate_sparse_coo_tensor_args(first, second, sizes, is_coalesced);
      made = at::sparse_coo_tensor(first, second, sizes, second.options().layout(at::kSparse),
                                   is_coalesced);
    } else {
      const at::Tensor values = part();
      at::_validate_sparse_csr_tensor_args(first, second, values, sizes);
      made = at::sparse_csr_tensor(first, second, values, sizes,
                                   values.options().layout(at::kSparseCsr));
    }
    return made.set_requires_grad(requires_grad);
  }

  ByteReader &from_;
  const RecordData &data_of_;
  const DeviceMove move_;
  std::unordered_map<std::uint64_t, at::Tensor> records_;
};

} // namespace

void check_unexpanded(const at::Tensor &tensor) {
  if (tensor.layout() == at::kStrided &&
      static_cast<std::size_t>(tensor.numel()) > tensor.storage().nbytes() / tensor.itemsize())
    too_large();
}

std::uint64_t TensorTable::add(const std::string &name, const at::Tensor &tensor) {
  tensors_.push_back({name, tensor});
  return tensors_.size() - 1;
}

void TensorTable::write(ByteWriter &to) const {
  FormWriter forms(to);
  to.number(tensors_.size());
  for (const auto &[name, tensor] : tensors_) {
    to.text(name);
    if (!forms.write(tensor))
      throw Error(
          fmt::format("tensor '{}' can't be saved: a file keeps strided, sparse_coo, sparse_csr "
                      "and affine quantized tensors only",
                      name));
  }
}

StoredTensors::StoredTensors(ByteReader &from, const RecordData &data, DeviceMove move) {
  FormReader reader(from, data, move);
  const std::size_t count = from.count();
  for (std::size_t i = 0; i < count; ++i) {
    std::string name(from.text());
    if (!names_.emplace(std::move(name), i).second)
      wrong_file("it has two tensors of one name");
    tensors_.push_back(reader.tensor());
  }
}

const at::Tensor &StoredTensors::at(std::uint64_t number) const {
  if (number >= tensors_.size())
    wrong_file("a graph names a tensor that is not there");
  return tensors_[number];
}

const at::Tensor &StoredTensors::of(const std::string &name) const {
  const auto found = names_.find(name);
  if (found == names_.end())
    wrong_file(fmt::format("it has no tensor '{}'", name));
  return tensors_[found->second];
}

} // namespace tracehost::archive
