#include "tape/flat_values.h"

#include "tape/guards.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

namespace tracehost::tape {
namespace {

const c10::Symbol kNumber = c10::Symbol::fromQualString("tracehost::number");
const c10::Symbol kViewOfBase = c10::Symbol::fromQualString("tracehost::view_of_base");

/// as_strided() from where the tensor lies, which may be elsewhere in its memory at each call.
/// `no_grad`: as a view that is made without gradients, on which autograd forbids some writes.
void run_view_of_base(jit::Stack &stack) {
  const bool no_grad = jit::pop(stack).toBool();
  const at::AutoGradMode mode(c10::GradMode::is_enabled() && !no_grad);
  const std::int64_t offset = jit::pop(stack).toInt();
  const auto strides = jit::pop(stack).toIntVector(), sizes = jit::pop(stack).toIntVector();
  const at::Tensor base = jit::pop(stack).toTensor();
  stack.emplace_back(base.as_strided(sizes, strides, base.storage_offset() + offset));
}

const jit::RegisterOperators registered_view({jit::Operator(
    "tracehost::view_of_base(Tensor(a) base, int[] sizes, int[] strides, int offset, "
    "bool no_grad) -> Tensor(a)",
    &run_view_of_base, c10::AliasAnalysisKind::FROM_SCHEMA)});

} // namespace

FlatValues::Place FlatValues::place_of(const at::Tensor &t) {
  return {t.storage().unsafeGetStorageImpl(), t.storage_offset(), t.sizes().vec(),
          t.strides().vec(), t.scalar_type()};
}

jit::Value *FlatValues::insert(c10::Symbol op, c10::ArrayRef<jit::Value *> inputs) {
  return graph_.insertNode(graph_.create(op, inputs))->output();
}

void FlatValues::know(const at::Tensor &t, jit::Value *value) {
  alive_.emplace_back(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(t.storage().unsafeGetStorageImpl()));
  first_.emplace(t.storage().unsafeGetStorageImpl(), value);
  known_.emplace(place_of(t), value);
}

void FlatValues::know_input(const at::Tensor &t, jit::Value *value) {
  know(t, value);
  tensors_.emplace(value, t.unsafeGetTensorImpl());
}

void FlatValues::know_result(const c10::IValue &result, jit::Value *value) {
  if (result.isTensor() && result.toTensor().defined())
    know(result.toTensor(), value);
  if (!result.isTensorList())
    return;
  const auto items = result.toListRef();
  jit::Node *unpack = graph_.insertNode(graph_.createListUnpack(value, items.size()));
  for (std::size_t i = 0; i < items.size(); ++i)
    know_result(items[i], unpack->outputs()[i]);
}

void FlatValues::know_moved(const at::Tensor &t) {
  if (t.has_storage() && first_.contains(t.storage().unsafeGetStorageImpl()))
    moved_in_.insert(t.storage().unsafeGetStorageImpl());
}

jit::Value *FlatValues::of(const at::Tensor &t) {
  if (!t.defined())
    return graph_.insertConstant(c10::IValue());
  if (!is_plain_on_its_device(t))
    give_up("it makes a tensor that is not plain");
  if (const auto known = known_.find(place_of(t)); known != known_.end())
    return known->second;
  if (!t.unsafeGetTensorImpl()->is_wrapped_number())
    give_up("it makes a tensor that no op makes");
  jit::Value *number = graph_.insertConstant(t); // an operator's number, as eager makes of it
  know(t, number);
  return number;
}

jit::Value *FlatValues::of(const c10::IValue &value, const c10::TypePtr &type) {
  if (value.isTensor())
    return of(value.toTensor());
  if (value.isBool() && type->kind() == c10::TypeKind::NumberType) {
    return insert(kNumber, {graph_.insertConstant(value)})->setType(type);
  }
  bool has_tensors = false;
  each_tensor(value, [&has_tensors](const at::Tensor &) { has_tensors = true; });
  if (has_tensors)
    return of_list(value);
  const auto *list = type->castRaw<c10::ListType>();
  if (list && value.isList() && value.toListRef().empty())
    return graph_.insertNode(graph_.createList(list->getElementType(), {}))->output();
  return graph_.insertConstant(value);
}

jit::Value *FlatValues::of_list(const c10::IValue &list) {
  std::vector<jit::Value *> items;
  for (const c10::IValue &item : list.toListRef())
    items.push_back(of(item, c10::TensorType::get()));
  const bool optional = list.type()->expectRef<c10::ListType>().getElementType()->kind() ==
                        c10::TypeKind::OptionalType;
  const c10::TypePtr element =
      optional ? c10::TypePtr(c10::OptionalType::ofTensor()) : c10::TensorType::get();
  return graph_.insertNode(graph_.createList(element, items))->output();
}

bool FlatValues::is_given(const at::Tensor &t) const {
  return first_.at(t.storage().unsafeGetStorageImpl())->node() == graph_.param_node();
}

jit::Value *FlatValues::output_of(const at::Tensor &t) {
  if (!t.defined())
    return of(t);
  jit::Value *&known = outputs_[t.unsafeGetTensorImpl()];
  if (!known)
    known = t.is_view() ? view_of_base(t) : detached(t);
  return known;
}

jit::Value *FlatValues::view_of_base(const at::Tensor &t) {
  if (moved_in_.contains(t.storage().unsafeGetStorageImpl()))
    give_up("an output that may be a view whose place depends on a number");
  const at::Tensor base(t._base());
  if (base.requires_grad()) // here it would be made with gradients on
    give_up("an output that is a view of a tensor that requires gradients");
  if (base.scalar_type() != t.scalar_type())
    give_up("an output that is a view in another dtype");
  using torch::autograd::CreationMeta;
  const auto made = torch::autograd::impl::get_view_autograd_meta(t)->get_creation_meta();
  if (made != CreationMeta::DEFAULT && made != CreationMeta::NO_GRAD_MODE)
    give_up("an output that is one of several views");
  return insert(kViewOfBase, {output_of(base), graph_.insertConstant(t.sizes().vec()),
                              graph_.insertConstant(t.strides().vec()),
                              graph_.insertConstant(t.storage_offset() - base.storage_offset()),
                              graph_.insertConstant(made == CreationMeta::NO_GRAD_MODE)});
}

/// Below autograd, x and x.detach() are one.
jit::Value *FlatValues::detached(const at::Tensor &t) {
  jit::Value *value = of(t);
  const auto [first, is_new] = tensors_.emplace(value, t.unsafeGetTensorImpl());
  const bool is_it = first->second == t.unsafeGetTensorImpl();
  if (is_it && first_.at(t.storage().unsafeGetStorageImpl()) == value)
    return value;
  return insert(c10::aten::detach, {value});
}

} // namespace tracehost::tape
