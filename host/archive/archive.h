#pragma once

#include "archive/error.h"
#include "cache/specialization.h"
#include "event/optimize.h"
#include "signature/signature.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Specializations on disk.
///
/// Problem: what a Function has learnt is to be called by a program that has neither its source nor
/// Python. Answer: one file, which plain PyTorch opens, too.
///
///     zip   extra/tracehost.json      the manifest: names, Signatures, results
///           extra/tracehost.graphs    the graphs, and the forms of the tensors (graph_record.h)
///           data/                     the bytes of the tensors, each storage once
///           data.pkl, code/, ...      the same as a TorchScript module over the same data, for
///                                     torch.jit.load alone (torchscript.h)
///     end   a comment with the hash of all before it
///
/// save() rejects a graph that needs this process, with the op's name and line (lower.h). A file's
/// hash is checked before anything else is read.
///
/// The hash finds damage. It does not protect against a malicious file. So each part is checked
/// before it is used (opened.h has the order). The amounts of its contents are bounded
/// (archive/limits.h), and anything that save() does not write is rejected.

namespace tracehost::archive {

/// A value without tensors: a parameter's default.
struct Value {
  std::vector<Node> nodes;
  std::vector<AtomRef> atoms; ///< owns what `nodes` points to
};

/// A function, and what `S` has of each of its specializations.
template <class S> struct FunctionOf {
  std::string name; ///< an identifier
  std::shared_ptr<const Parameters> parameters;
  std::vector<std::optional<Value>> defaults; ///< by parameter; nullopt: it must be given
  std::vector<S> specializations;             ///< most specific first, once they are written
};

/// One function of an archive. Its Signatures have no Python: their atoms are those of
/// signature/native_atoms.h, tensors have no class, captures and guarded slots are bound.
using Entry = FunctionOf<SpecializationRef>;

/// Node::reserved[1] of a tensor in an OutputSpec: a number that the graph computes, a bool, int or
/// float for the caller.
inline constexpr std::uint8_t kComputed = 1;

/// What a Specialization of an archive has besides: its `front_end`.
struct State final : FrontEndState {
  std::string method;                  ///< its name, and that of TorchScript's copy
  std::vector<at::Tensor> captures;    ///< the inputs of its Program behind the slots; shared
  std::vector<std::string> attributes; ///< of the captures: what the module calls them
  std::vector<TensorMeta> outputs;     ///< of the result's tensors at the trace
  bool sets_modes = false;             ///< its graph switches grad mode
  std::string no_torchscript; ///< why TorchScript's copy has no method for it; empty: it has one
};
const State &state(const Specialization &specialization);

struct Contents {
  std::string path;
  int version = 0;               ///< of the format
  std::string tracehost, torch;  ///< versions that wrote it
  std::string hash;              ///< `xxh3:0123...`, of the file
  std::string sha256;            ///< of the file, in hex, if ReadOptions asks for it
  c10::Device device = at::kCPU; ///< where it was loaded to
  std::vector<Entry> functions;
  std::map<std::string, std::string> metadata; ///< the writer's own

  /// Null: it has none of that name.
  const Entry *find(const std::string &name) const;
};

/// Where an archive is.
struct Input {
  std::string path;                      ///< of `bytes`, if there are any: what messages call them
  std::optional<std::string_view> bytes; ///< of a file; copied
};

struct ReadOptions {
  std::optional<c10::Device> device = std::nullopt; ///< for what was on the device of the trace
  std::vector<std::string> functions = {};          ///< these alone; empty: all
  std::optional<Optimize> optimize = std::nullopt;  ///< none: tape::by_default()
  /// The SHA-256 that the file must have, in hex. Empty: any, and it is computed.
  std::optional<std::string> sha256 = std::nullopt;
};

/// Throws Error, with a sentence that names the file, for anything that is wrong with it.
Contents read(const Input &input, const ReadOptions &options);
/// Reads all of a file.
Contents read(const std::string &path);

/// Makes functions read other tensors (State::captures), by the names of State::attributes: their
/// Specializations become new ones with the same Programs. Throws Error for a name that is not
/// there, and for a tensor that the graphs are not for.
void put_tensors(Contents &contents, const std::map<std::string, at::Tensor> &tensors);

/// The manifest of a file alone, as JSON. Throws Error.
std::string manifest(const std::string &path);

/// The graph of that number, in the order of the manifest, as PyTorch prints graphs. Throws Error.
std::string code(const std::string &path, std::size_t number);

} // namespace tracehost::archive
