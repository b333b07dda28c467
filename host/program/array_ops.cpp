#include "program/array_ops.h"

#include <ATen/ops/unbind.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

namespace tracehost {

TensorArrayList array_new(std::int64_t size) {
  TORCH_CHECK_VALUE(size >= 0, "TensorArray's size must be at least 0, not ", size);
  TensorArrayList list;
  list.resize(static_cast<std::size_t>(size));
  return list;
}

void array_write(TensorArrayList list, std::int64_t index, const at::Tensor &value, bool fixed) {
  const auto size = static_cast<std::int64_t>(list.size());
  const std::int64_t at = index < 0 ? index + size : index;
  TORCH_CHECK_INDEX(at >= 0 && (at < size || !fixed), "element ", index,
                    " is written to a TensorArray of size ", size,
                    ". Give it a larger size, or none (TensorArray(dtype)): then it grows.");
  if (at >= size)
    list.resize(static_cast<std::size_t>(at) + 1);
  list.set(static_cast<std::size_t>(at), value);
}

at::Tensor array_read(const TensorArrayList &list, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(list.size());
  const std::int64_t at = index < 0 ? index + size : index;
  TORCH_CHECK_INDEX(at >= 0 && at < size, "element ", index, " is read of a TensorArray that has ",
                    size);
  at::Tensor value = list.get(static_cast<std::size_t>(at));
  TORCH_CHECK_INDEX(value.defined(), "element ", index,
                    " of a TensorArray is read before it is written");
  return value;
}

TensorArrayList array_written(const TensorArrayList &list) {
  TORCH_CHECK(!list.empty(), "stack() of a TensorArray without elements: there is no shape to give "
                             "the result. Ask size() first, or write an element before.");
  for (std::size_t i = 0; i < list.size(); ++i)
    TORCH_CHECK(list.get(i).defined(), "stack() of a TensorArray whose element ", i, " of ",
                list.size(), " is not written");
  return list;
}

void array_unstack(TensorArrayList list, const at::Tensor &t, bool fixed) {
  TORCH_CHECK(t.dim() > 0, "unstack() of a tensor without dimensions");
  const std::vector<at::Tensor> rows = at::unbind(t, 0);
  TORCH_CHECK(!fixed || rows.size() == list.size(), "unstack() of ", rows.size(),
              " rows into a TensorArray of size ", list.size());
  list.clear();
  for (const at::Tensor &row : rows)
    list.push_back(row);
}

namespace {

// Conservative: never removed, moved or merged.
TORCH_LIBRARY_FRAGMENT(tracehost, m) {
  const auto conservative = c10::AliasAnalysisKind::CONSERVATIVE;
  const auto define = [&](const char *schema, auto function) {
    m.def(torch::schema(schema, conservative), function);
  };
  define("array_new(int size) -> Tensor[]", &array_new);
  define("array_write(Tensor[] list, int index, Tensor value, bool fixed) -> ()", &array_write);
  define("array_read(Tensor[] list, int index) -> Tensor", &array_read);
  define("array_written(Tensor[] list) -> Tensor[]", &array_written);
  define("array_unstack(Tensor[] list, Tensor t, bool fixed) -> ()", &array_unstack);
}

} // namespace
} // namespace tracehost
