#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/ir/ir.h>

#include <time.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

/// What the first pass over a graph finds (evaluate()): each op has run on copies of the inputs.

namespace tracehost::tape {

namespace jit = torch::jit;

/// The graph can't have a tape. Autograd's engine passes on what is a std::exception.
struct NoTape : std::exception {
  explicit NoTape(std::string why) : why(std::move(why)) {}
  std::string why;
};
[[noreturn]] inline void give_up(std::string why) { throw NoTape(std::move(why)); }

/// A recording takes some times as long as a call: of a long one it ends. Not for what a call does
/// besides its kernels, which is a tape's gain, the time goes.
class TimeLimit {
public:
  TimeLimit() = default;
  TimeLimit(const TimeLimit &) = delete;
  TimeLimit &operator=(const TimeLimit &) = delete;
  ~TimeLimit() { current = outer_; }

  /// Of what the thread records now; null: it records nothing.
  static thread_local const TimeLimit *current;

  static constexpr const char *kWhy = "a call takes over 50 ms, and its time goes into kernels";
  bool is_over() const { return now() - start_ > std::chrono::milliseconds(50); }
  /// Throws NoTape.
  void check() const {
    if (is_over())
      give_up(kWhy);
  }

private:
  /// Of this thread alone: other programs on the machine do not count.
  static std::chrono::nanoseconds now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }

  const std::chrono::nanoseconds start_ = now();
  const TimeLimit *const outer_ = std::exchange(current, this);
};

/// Memory that one or more values are views of.
struct Memory {
  enum class Kind : std::uint8_t { input, constant, planned, fresh, called };
  Kind kind; ///< how the tape has it: `fresh` is an output's, `called` what an op gives
  std::size_t bytes;
  const jit::Value *made = nullptr; ///< the op's result that it came with
  const jit::Node *last = nullptr;  ///< the last to read it
  at::Tensor planned;               ///< what holds it, for the second pass
  bool written = false;             ///< an input's, by the graph
  /// A view at a place that depends on a number: it moves within the memory of another root.
  std::optional<std::size_t> moves_in = {};
  bool of_block = false;    ///< a loop or a branch gives it,
  bool copied = false;      ///< and has copied what it was given,
  bool may_be_view = false; ///< or gives a view at some outcome

  /// Whether it is another one at each call.
  bool is_external() const {
    return kind == Kind::input || kind == Kind::fresh || kind == Kind::called;
  }
};

constexpr std::size_t kMostMadeBytes = std::size_t{256} << 20;

struct Recorded {
  /// Tensors: their sizes, strides and storages, and the values that they have at the end.
  std::unordered_map<const jit::Value *, c10::IValue> values;
  /// The values of each op's results, copied where the graph writes to tensors.
  std::unordered_map<const jit::Value *, at::Tensor> copies;
  /// The same of lists of tensors that an op made.
  std::unordered_map<const jit::Value *, std::vector<at::Tensor>> lists;
  /// What each call computes, besides tensors: numbers that depend on data or on numbers given.
  std::unordered_set<const jit::Value *> varying;
  std::vector<Memory> roots;
  std::size_t made_bytes = 0; ///< that ops made; a recording has all of them at once
  /// Of a graph that writes: the values of inputs before the run, by root.
  std::unordered_map<std::size_t, at::Tensor> before;
  /// Loops and branches that were given what the graph writes to: a copy of that would be seen.
  std::unordered_set<const jit::Node *> given_written;
  /// How often autograd sees a write to the memory, by root; none: never.
  /// Without those of loops and branches, which `written_by_blocks` has.
  std::unordered_map<std::size_t, std::int64_t> versions;
  std::unordered_set<std::size_t> written_by_blocks;

  /// The input that a root is of.
  const at::Tensor &input(std::size_t root, const jit::Graph &graph) const {
    for (const jit::Value *value : graph.inputs())
      if (const c10::IValue &found = values.at(value);
          found.isTensor() && root_of(found.toTensor()) == root)
        return found.toTensor();
    throw std::logic_error("a root of no input");
  }

  std::size_t root_of(const at::Tensor &t) const {
    return by_storage.at(t.storage().unsafeGetStorageImpl());
  }
  bool knows(const at::Tensor &t) const {
    return by_storage.contains(t.storage().unsafeGetStorageImpl());
  }
  const at::Tensor &tensor(const jit::Value &value) const { return values.at(&value).toTensor(); }
  /// The values that the op gave.
  const at::Tensor &result(const jit::Value &value) const {
    const auto copy = copies.find(&value);
    return copy == copies.end() ? tensor(value) : copy->second;
  }
  /// Whether the op of a value made its memory.
  bool made(const jit::Value &value) const {
    const c10::IValue &found = values.at(&value);
    return found.isTensor() && found.toTensor().defined() &&
           roots[root_of(found.toTensor())].made == &value;
  }
  bool varies(const jit::Value &value) const { return varying.contains(&value); }
  /// The root of a tensor, which is new unless its storage is known.
  std::size_t claim(const at::Tensor &t, Memory::Kind kind);

  std::unordered_map<const c10::StorageImpl *, std::size_t> by_storage;
};

/// How often a graph writes to its inputs and outputs, as autograd counts.
using Versions = std::unordered_map<const jit::Value *, std::int64_t>;

/// The first pass. `below`: of a graph that runs below autograd; null: autograd counts. Throws
/// NoTape.
Recorded evaluate(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs,
                  const Versions *below);

/// The version of a tensor that has one.
inline std::int64_t version_of(const at::Tensor &t) { return t.is_inference() ? 0 : t._version(); }

/// A tensor of its own with the values, sizes and strides of `t`, which requires no gradient.
at::Tensor copy_of(const at::Tensor &t);
/// The same over the memory of `t`, for what is only read.
at::Tensor over_memory_of(const at::Tensor &t);
/// Throws NoTape: the inputs are too large to be copied.
void check_size_of_copies(c10::ArrayRef<c10::IValue> inputs);

/// The tensors of integers among values, or in lists among them: indexes, lengths. Bools, if
/// `bools`: masks.
std::vector<at::Tensor> integers_of(c10::ArrayRef<c10::IValue> values, bool bools);

/// Whether a view that an op gives may lie elsewhere at other values: a number says where
/// (`varies`), or a second tensor, as in `x.narrow(0, start, 1)`.
bool moves_by_value(c10::ArrayRef<c10::IValue> arguments, bool varies);

/// Memory that someone else owns.
c10::Storage borrowed(const void *data, std::size_t bytes);
/// A tensor over a storage, with the layout of `like` but its place.
at::Tensor over(const c10::Storage &storage, const at::Tensor &like, std::int64_t offset);

/// Where a tensor's first value lies, from its storage's start.
inline std::ptrdiff_t bytes_before(const at::Tensor &t) {
  return static_cast<std::ptrdiff_t>(t.storage_offset() * static_cast<std::int64_t>(t.itemsize()));
}

/// `prim::ListConstruct` of such items.
c10::IValue construct_list(const jit::Node &node, c10::ArrayRef<c10::IValue> items);

/// Calls f(const at::Tensor &) for each tensor in a value, an undefined one as well.
template <class F> void each_tensor(const c10::IValue &value, F f) {
  if (value.isTensor())
    f(value.toTensor());
  else if (value.isList())
    for (const c10::IValue &item : value.toListRef())
      each_tensor(item, f);
}

} // namespace tracehost::tape
