#pragma once

#include "signature/signature.h"

#include <ATen/ops/empty.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

/// Signatures written down as a call would be.

namespace tracehost::test {

/// Compares by text, as a string would, or by identity (`<Config object>`); may name fields.
class TextAtom final : public Atom {
public:
  explicit TextAtom(std::string text, std::vector<std::string> fields = {}, bool alive = true)
      : text_(std::move(text)), fields_(std::move(fields)), alive_(alive) {}
  bool same(const Atom &other) const override {
    const auto *atom = dynamic_cast<const TextAtom *>(&other);
    return atom == this || (atom && atom->text_ == text_ && text_.front() != '<');
  }
  std::string text() const override { return text_; }
  std::string field(std::size_t index) const override {
    return index < fields_.size() ? fields_[index] : std::string();
  }
  bool alive() const override { return alive_; }

private:
  std::string text_;
  std::vector<std::string> fields_;
  bool alive_;
};

inline TensorMeta meta(std::vector<std::int64_t> sizes, at::ScalarType dtype = at::kFloat) {
  return TensorMeta::of(at::empty(sizes, at::TensorOptions().dtype(dtype)));
}

/// A value in a call: a leaf, or a container with its children.
struct Value {
  Node node;
  AtomRef atom;
  std::vector<Value> children;
  TensorMeta meta;
};

inline Value tensor(std::uint32_t slot, TensorMeta meta) {
  Value value;
  value.node.kind = Kind::tensor;
  value.node.payload.slot = slot;
  value.meta = std::move(meta);
  return value;
}
inline Value leaf(Kind kind, std::int64_t payload = 0) {
  Value value;
  value.node.kind = kind;
  value.node.payload.integer = payload;
  return value;
}
inline Value none() { return leaf(Kind::none); }
inline Value boolean(bool b) { return leaf(Kind::boolean, b); }
inline Value integer(std::int64_t i) { return leaf(Kind::integer, i); }
inline Value real(double r) {
  Value value = leaf(Kind::real);
  value.node.payload.real = r;
  return value;
}
inline Value atom(AtomRef atom) {
  Value value = leaf(Kind::atom);
  value.atom = std::move(atom);
  return value;
}
inline Value string(std::string s) { return atom(std::make_shared<TextAtom>("'" + s + "'")); }
inline Value object(std::string s) {
  return atom(std::make_shared<TextAtom>("<" + s + " object>"));
}
inline Value container(Kind kind, std::string type, std::vector<Value> children,
                       std::vector<std::string> fields = {}) {
  Value value = leaf(kind);
  value.atom = std::make_shared<TextAtom>(std::move(type), std::move(fields));
  value.children = std::move(children);
  return value;
}
inline Value tuple(std::vector<Value> items) {
  return container(Kind::tuple, "tuple", std::move(items));
}
inline Value list(std::vector<Value> items) {
  return container(Kind::list, "list", std::move(items));
}
inline Value dict(std::vector<std::pair<std::string, Value>> items) {
  std::vector<Value> children;
  for (auto &[key, value] : items) {
    children.push_back(string(key));
    children.push_back(std::move(value));
  }
  return container(Kind::dict, "dict", std::move(children));
}

inline void append(Signature &signature, const Value &value) {
  const std::size_t index = signature.nodes.size();
  signature.nodes.push_back(value.node);
  if (value.atom) {
    signature.nodes[index].payload.atom = value.atom.get();
    signature.atoms.push_back(value.atom);
  }
  if (value.node.kind == Kind::tensor && value.node.payload.slot >= signature.slots.size()) {
    signature.slots.resize(value.node.payload.slot + 1);
    signature.slots[value.node.payload.slot] = value.meta;
  }
  for (const Value &child : value.children)
    append(signature, child);
  signature.nodes[index].end = static_cast<std::uint32_t>(signature.nodes.size());
}

/// `call({{"x", tensor(0, meta({8, 3}))}, {"n", integer(2)}})`.
inline Signature call(const std::vector<std::pair<std::string, Value>> &arguments) {
  Signature signature;
  Parameters parameters;
  for (const auto &[name, value] : arguments) {
    parameters.names.push_back(name);
    append(signature, value);
  }
  signature.parameters = std::make_shared<const Parameters>(std::move(parameters));
  return signature;
}

inline void watch(Signature &signature, std::string path, const Value &value) {
  GuardedSlot slot{std::move(path), value.node};
  if (value.atom) {
    slot.node.payload.atom = value.atom.get();
    signature.atoms.push_back(value.atom);
  }
  signature.guarded.push_back(std::move(slot));
}

} // namespace tracehost::test
