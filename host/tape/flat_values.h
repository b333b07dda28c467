#pragma once

#include "tape/recording.h"

#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

/// The tensors of a flat graph that is being made (training.h). A tensor is known by its place in
/// memory, its layout and its dtype: below autograd, two tensors that agree in them are one.

namespace tracehost::tape {

class FlatValues {
public:
  explicit FlatValues(jit::Graph &graph) : graph_(graph) {}

  /// From here on the tensor is that value. The first value over a memory made it.
  void know(const at::Tensor &t, jit::Value *value);
  /// The same of an op's result, a tensor or a list of tensors.
  void know_result(const c10::IValue &result, jit::Value *value);
  /// An input of the graph. The caller's tensor is this one, and not x.detach().
  void know_input(const at::Tensor &t, jit::Value *value);
  /// The tensor is a view, if it shares memory, whose place depends on a number of the call.
  void know_moved(const at::Tensor &t);

  /// Throws NoTape: no op has made the tensor.
  jit::Value *of(const at::Tensor &t);
  /// Of a tensor, a list or a constant.
  jit::Value *of(const c10::IValue &value, const c10::TypePtr &type);
  /// Of a tensor as autograd has it: a view of its base, or a tensor that is no other output.
  jit::Value *output_of(const at::Tensor &t);
  /// Whether an input has the tensor's memory.
  bool is_given(const at::Tensor &t) const;

private:
  using Place = std::tuple<const c10::StorageImpl *, std::int64_t, std::vector<std::int64_t>,
                           std::vector<std::int64_t>, c10::ScalarType>;
  static Place place_of(const at::Tensor &t);
  jit::Value *of_list(const c10::IValue &list);
  jit::Value *view_of_base(const at::Tensor &t);
  jit::Value *detached(const at::Tensor &t);
  jit::Value *insert(c10::Symbol op, c10::ArrayRef<jit::Value *> inputs);

  jit::Graph &graph_;
  std::map<Place, jit::Value *> known_;
  /// No later storage has the address of one that is known. Weakly: the engine adds to a gradient
  /// in place, and takes it as the .grad, where nobody else holds it.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> alive_;
  std::unordered_map<const c10::StorageImpl *, jit::Value *> first_;        ///< over a memory
  std::unordered_map<const jit::Value *, const c10::TensorImpl *> tensors_; ///< for the caller
  std::unordered_map<const c10::TensorImpl *, jit::Value *> outputs_;
  std::unordered_set<const c10::StorageImpl *> moved_in_; ///< memory with views that move
};

} // namespace tracehost::tape
