#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

/// TorchScript as save() writes it, and no other.
///
/// Problem: PyTorch's frontend compiles what a file holds before anybody can look at it. It
/// recurses over the text, folds what is constant (`9**9` strings, divisions that trap), and binds
/// classes and methods of its own meaning (`__setstate__`). Answer: each line is read here first,
/// by the grammar of what PyTorch prints for tracehost's graphs:
///
///     class Archive(Module):                one class, its attributes, its methods
///       def f(self: ..., x_: Tensor) -> Tensor:
///         _0 = torch.mul(x_, self.w)        calls of operators, by full name
///         if bool(torch.gt(_0, 0)):         if, while, for i in range(n); to a bounded depth
///
/// What is constant is followed: only plain arithmetic may be folded, text is never put together
/// but for a message that is raised, and lists nest to a bounded depth.
///
/// Operators themselves are looked at when there is a graph: graph_check.h.

namespace tracehost::archive {

struct CheckedSource {
  std::string text;                 ///< what the frontend is to read: without `forward`
  std::set<std::string> attributes; ///< tensors
  std::set<std::string> methods;    ///< without `forward`, which calls another one
};

/// `methods`: that the manifest names. `constants`: of each, whether it is text. Throws Error.
CheckedSource check_source(std::string_view text, const std::set<std::string> &methods,
                           const std::vector<bool> &constants);

} // namespace tracehost::archive
