#pragma once

#include "archive/container.h"
#include "archive/line_table.h"
#include "archive/stored_tensors.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

/// The TorchScript of an archive: tensors by attribute, graphs by method.
///
/// The records are read in this order, each only after the one before is found right; a file that
/// is not as save() writes them ends there with an Error:
///
///     container.h        which records there are, and where
///     manifest.h         which methods and attributes there should be
///     pickle.h           data.pkl, constants.pkl: a tree; nothing is called
///     stored_tensors.h   the tensors in it, none larger than its data
///     source_check.h     the source, by the grammar of what save() writes
///     PyTorch            compiles that source: the one part of a file that it reads itself
///     graph_check.h      the operators of the graphs
///
/// Records of debug information are for messages: line_table.h reads them, PyTorch never.

namespace tracehost::archive {

class Imported {
public:
  /// `methods`: that the manifest names; `libraries`: likewise. Throws Error, and c10::Error where
  /// PyTorch can't compile it.
  Imported(const Container &container, const std::set<std::string> &methods,
           const std::vector<std::string> &libraries, DeviceMove move);

  /// Throws Error if it has none of that name.
  at::Tensor tensor(const std::string &attribute) const;
  /// A copy; nodes have the user's lines where the file has them.
  std::shared_ptr<torch::jit::Graph> graph(const std::string &method) const;

private:
  void read_tensors(const Container &container, const Pickle &data, const Pickle &constants,
                    DeviceMove move);
  void compile(const std::string &text, std::size_t version);

  std::unordered_map<std::string, at::Tensor> tensors_;
  std::vector<c10::IValue> constants_; ///< outlives the importer
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  c10::ClassTypePtr type_;
  LineTable lines_;
};

/// The text of the manifest. Throws Error if there is none.
std::string manifest_text(const Container &container);

/// The source, once all but the tensors and PyTorch's part is checked: what a save does before a
/// file takes its name. Throws Error.
std::string checked_source(const Container &container);

} // namespace tracehost::archive
