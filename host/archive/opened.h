#pragma once

#include "archive/container.h"
#include "archive/error.h"
#include "archive/graph_record.h"
#include "archive/manifest.h"
#include "archive/open_file.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <string>
#include <vector>

/// An archive as its parts. A reader takes them in this order, each only after the one before is
/// found right; a file that is not as save() writes them ends there with an Error:
///
///     open_file.h        the bytes, and their hash
///     container.h        which records there are, and where
///     manifest.h         names, signatures, results, and which graphs there should be
///     stored_tensors.h   the tensors, none larger than its data
///     graph_record.h     the graphs: ops that this PyTorch has, with inputs of their types
///     graph_check.h      which ops a file may have
///
/// The TorchScript beside them is for torch.jit.load: nothing here reads it.

namespace tracehost::archive {

class Opened {
public:
  explicit Opened(std::shared_ptr<const OpenFile> file);

  const std::string &manifest_text() const { return text_; }
  const Manifest &manifest() const { return manifest_; }
  /// Throws Error where a library is not loaded, too.
  GraphReader graphs(DeviceMove move) const;

private:
  const Container container_;
  const std::string text_;
  const Manifest manifest_;
};

/// The graph of a Record: its inputs are the slots and the captures, its outputs the result's
/// tensors. `libraries`: of the manifest. Throws Error.
std::shared_ptr<torch::jit::Graph> checked_graph(const GraphReader &graphs, const Record &record,
                                                 const std::vector<std::string> &libraries);

/// Throws Error where a load would: what a save does before a file takes its name.
void check_file(const std::shared_ptr<const OpenFile> &file);

/// Calls `f`; what goes wrong becomes an Error that names the file.
template <class F> auto with_path(const std::string &path, const F &f) {
  const std::string shown = path.substr(0, path.find('\0')); // an exception's text ends there
  const auto named = [&](const std::string &text) {
    return Error(text.starts_with(shown) ? text : fmt::format("{}: {}", shown, text));
  };
  try {
    return f();
  } catch (const Error &e) {
    throw named(e.what());
  } catch (const c10::Error &e) {
    throw named(first_line(e.what_without_backtrace()));
  } catch (const std::exception &e) {
    throw named(first_line(e.what()));
  }
}

} // namespace tracehost::archive
