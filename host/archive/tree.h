#pragma once

#include "archive/error.h"
#include "signature/native_atoms.h"
#include "signature/node.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Trees of Nodes in a manifest.
///
///     {"tensor": 0}   null   true   2   0.5   "relu"   {"real": "nan"}   {"torch": "float32"}
///     {"tuple": [...]}   {"list": [...]}   {"dict": [[key, value], ...]}   {"device": "cuda:0"}
///     {"namedtuple": "net:Point", "fields": ["x", "y"], "items": [...]}   {"record": ...}

namespace tracehost::archive {

using Json = nlohmann::ordered_json;

/// The subtree at `at`; moves `at` behind it.
Json tree_json(const std::vector<Node> &nodes, std::size_t &at);

/// Appends the tree. Throws Error. `tensors`: how many there are; a leaf names one of them.
void add_tree(const Json &json, std::size_t tensors, std::vector<Node> &nodes,
              std::vector<AtomRef> &atoms);

/// `json[key]`, which must be there; throws Error.
const Json &member(const Json &json, const char *key);

/// `json[key]`, which must be a list. Throws Error.
const Json &list(const Json &json, const char *key);
/// An integer from `least` to `most`. Throws Error.
std::int64_t integer(const Json &json, std::int64_t least, std::int64_t most);
/// Whether it can be a name in Python: letters, digits, `_`, and what is not ASCII.
bool is_identifier(std::string_view name);

std::string hex(std::string_view bytes);
std::string from_hex(const std::string &digits); ///< throws Error

} // namespace tracehost::archive
