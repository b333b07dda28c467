#pragma once

#include "archive/bytes.h"
#include "archive/stored_tensors.h"

#include <ATen/core/Generator.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The graphs of an archive: the record `extra/tracehost.graphs`, which is data and no code.
///
/// Problem: a file may come from a newer PyTorch, or from a stranger. A parser of TorchScript lets
/// the text decide how deep it recurses, how much it folds, and what it takes for each byte.
/// Answer: a list of nodes in the order in which they run, read without recursion. Time and memory
/// are linear in its bytes.
///
///     places        texts: the user's lines, `net.py:12`
///     ops           name, overload, and the names of the arguments given, each with whether the
///                   value is the default of the PyTorch that wrote it
///     tensors       stored_tensors.h
///     generators    number of the tensor that is the state
///     graphs        inputs, nodes, end
///
/// A node is a tag, what the tag needs, its inputs, and its place. An input is how many values
/// back it was made: inputs, outputs and parameters of blocks are counted through. Tags:
///
///     op         number of the op, inputs by argument name
///     constant   graph_values.h
///     branch     condition, types of the outputs, two blocks
///     loop       trips, condition, first values, types of the values, one block
///     list ...   of TorchScript's own constructors, which have no schema
///     end        of a block: its outputs
///
/// Example: `x * 2` of one input, in hex: `01` inputs; `01 09 03 04 00`: a constant (1), a tensor
/// that stands for a number (9), an integer (3), 2 in zigzag (4), no place; `00 00 02 01 00`: an op
/// (0), the first one (aten::mul with self and other), the values 2 and 1 back, no place; `0a 01
/// 01`: the end (10), one output, the value 1 back.
///
/// The types of an op's outputs follow from its schema: a file says none. An argument that the
/// file does not have takes its default; one that this PyTorch does not have must have had its
/// default when it was written. Anything else of an op that does not fit is an Error that names it.

namespace tracehost::archive {

inline constexpr const char *kGraphs = "extra/tracehost.graphs"; ///< the record

/// Numbers of a file: each is kept by later versions.
enum class Tag : std::uint8_t {
  op,
  constant,
  branch,
  loop,
  list,         ///< type of the list, inputs
  unpack_list,  ///< input, types of the outputs
  tuple,        ///< inputs
  unpack_tuple, ///< input, types of the outputs
  element,      ///< of a tuple: index, input
  nothing,      ///< of a type: what a side that raises gives
  end,
  count
};

/// The argument of an op that a file's node gives.
struct GivenArgument {
  std::string name; ///< empty: past the schema's, of an op that takes any number
  bool is_default;
  auto operator<=>(const GivenArgument &) const = default;
};

struct StoredOp {
  std::string name, overload; ///< `aten::add`, `Tensor`
  std::vector<GivenArgument> arguments;
  auto operator<=>(const StoredOp &) const = default;
};

/// Gives each output of an op the type that its schema gives it for its inputs: what a reader finds
/// out by itself. False: the inputs are not of the schema.
bool set_types(torch::jit::Node &node, const c10::FunctionSchema &schema);

/// Writes the record.
class GraphWriter {
public:
  /// The number of a tensor in the file's table; `what` it is: `constant`, `generator`.
  using NumberOf = std::function<std::uint64_t(const at::Tensor &tensor, const char *what)>;
  explicit GraphWriter(NumberOf number_of) : number_of_(std::move(number_of)) {}

  /// Appends a graph; its number. Changes the types of its values to those of set_types(). Throws
  /// Error, which says what of it has no form.
  std::size_t add(torch::jit::Graph &graph);

  std::string bytes(const TensorTable &tensors) const;

private:
  class Body;
  std::uint64_t generator(const at::Generator &generator);

  template <class T> using Numbers = std::map<T, std::uint64_t>;
  Numbers<std::string> places_{{"", 0}};
  Numbers<StoredOp> ops_;
  const NumberOf number_of_;
  std::vector<std::pair<at::Generator, std::uint64_t>> generators_; ///< and the state's number
  std::vector<ByteWriter> graphs_;
};

/// Reads the record.
class GraphReader {
public:
  /// Reads all but the graphs. Throws Error.
  GraphReader(std::string_view bytes, const RecordData &data, DeviceMove move);

  /// A new graph, which must have so many inputs. Throws Error.
  std::shared_ptr<torch::jit::Graph> graph(std::size_t number, std::size_t inputs) const;
  const StoredTensors &tensors() const { return *tensors_; }

private:
  class Body;
  void read_places(ByteReader &from);
  void read_ops(ByteReader &from);
  void read_generators(ByteReader &from);

  std::vector<std::string> places_;
  std::vector<StoredOp> ops_;
  std::vector<const torch::jit::Operator *> known_; ///< by op; null: not here
  std::optional<StoredTensors> tensors_;
  std::vector<at::Generator> generators_;
  std::vector<std::string_view> graphs_;
};

} // namespace tracehost::archive
