#include "archive/archive.h"
#include "signature/tensor_fit.h"

#include <fmt/ranges.h>

#include <set>
#include <string>
#include <utility>

/// Other tensors for the graphs of an archive.

namespace tracehost::archive {
namespace {

void check_fit(const std::string &name, const TensorMeta &meta, const Signature &signature,
               const at::Tensor &t) {
  if (!t.defined())
    throw Error(fmt::format("the tensor given for '{}' is undefined", name));
  if (fits(meta, t) && same_strides(signature, meta, t) && same_leaf(signature, meta, t))
    return;
  TensorMeta wanted = meta, given = TensorMeta::of(t);
  wanted.requires_grad = given.requires_grad = false;
  std::string expected = wanted.text(), got = given.text();
  if (expected == got) {
    expected += fmt::format(" with strides {}", fmt::join(meta.strides, ", "));
    got += fmt::format(" with strides {}", fmt::join(t.strides(), ", "));
  }
  throw Error(fmt::format("'{}' is {}, got {}", name, expected, got));
}

SpecializationRef with(const Specialization &one,
                       const std::map<std::string, at::Tensor> &tensors) {
  auto own = std::make_shared<State>(state(one));
  for (std::size_t i = 0; i < own->captures.size(); ++i)
    if (const auto given = tensors.find(own->attributes[i]); given != tensors.end()) {
      if (i < one.signature.captures.size())
        check_fit(given->first, one.signature.captures[i].meta, one.signature, given->second);
      own->captures[i] = given->second;
    }
  auto made = std::make_shared<Specialization>();
  made->signature = one.signature;
  made->program = one.program;
  made->outputs = one.outputs;
  made->front_end = std::move(own);
  made->raises_early = one.raises_early;
  made->number = one.number;
  made->bytes = one.bytes;
  return made;
}

} // namespace

void put_tensors(Contents &contents, const std::map<std::string, at::Tensor> &tensors) {
  std::set<std::string> known;
  for (const Entry &entry : contents.functions)
    for (const SpecializationRef &one : entry.specializations)
      known.insert(state(*one).attributes.begin(), state(*one).attributes.end());
  for (const auto &[name, tensor] : tensors)
    if (!known.contains(name))
      throw Error(fmt::format("it has no tensor '{}'; it has {}", name,
                              known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
  for (Entry &entry : contents.functions)
    for (SpecializationRef &one : entry.specializations)
      one = with(*one, tensors);
}

} // namespace tracehost::archive
