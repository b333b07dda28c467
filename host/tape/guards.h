#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <vector>

/// What a tape was made for, and whether a call is like that.
///
/// The Signature has been compared before: dtypes, devices, grad mode. A tape needs more: it has
/// memory of exact sizes, and kernels that were chosen under the settings of its recording.

namespace tracehost::tape {

/// Settings of the thread and of the process that choose kernels, or change what they compute.
struct Settings {
  /// Those of now, on this thread.
  static Settings now();
  bool operator==(const Settings &) const = default;
  /// Whether a tape can be recorded: no autocast, functorch, dispatch mode of Python or profiler.
  bool are_plain() const;

  c10::DispatchKeySet included, excluded; ///< modes: autocast, functorch, inference, Python's
  bool grad = false;
  bool observed = false; ///< a profiler or RecordFunction callback
  bool deterministic = false, fills_memory = false, mkldnn = false, flush_denormals = false;
  std::int64_t kernels = 0; ///< mark_of_kernels()
};

/// Whether a profiler or a RecordFunction callback observes ops on this thread.
bool is_observed();

/// Whether products of float32 matrices are never rounded to fewer bits, by setting.
bool are_products_ieee();

/// Whether forward-mode AD has given it a tangent.
bool has_tangent(const at::TensorImpl &t);

/// A tensor that is nothing but values in memory of its device.
bool is_plain_on_its_device(const at::Tensor &t);
/// The same on the CPU.
bool is_plain(const at::Tensor &t);

/// Hot. Where the first value of a tensor with storage lies; 0 where its storage was freed. Memory
/// that is copied on write stays shared.
[[gnu::always_inline]] inline std::uintptr_t address_of(const c10::TensorImpl &t) {
  const auto start = reinterpret_cast<std::uintptr_t>(t.unsafe_storage().data());
  return start == 0 ? 0 : start + static_cast<std::size_t>(t.storage_offset()) * t.itemsize();
}

/// Where a tensor's values lie: the first byte, and the one behind the last.
struct MemoryRange {
  explicit MemoryRange(const at::Tensor &t);
  MemoryRange() = default;
  bool operator==(const MemoryRange &) const = default;
  bool overlaps(const MemoryRange &other) const { return begin < other.end && other.begin < end; }

  std::uintptr_t begin = 0, end = 0;
};

class Guards {
public:
  /// Of the inputs of a recording. Requires: can_be_recorded().
  explicit Guards(c10::ArrayRef<c10::IValue> inputs);

  /// A call holds only while are_products_ieee().
  void need_ieee_products() { needs_ieee_products_ = true; }

  /// Of a graph that writes to these inputs: no other input may share memory with one of them.
  void set_written(const std::vector<std::size_t> &inputs);

  /// Hot. Whether a tape that was recorded for these serves such inputs. Settings aside.
  bool hold(c10::ArrayRef<c10::IValue> inputs);
  const Settings &settings() const { return settings_; }

  /// Whether inputs are numbers, None and plain tensors.
  static bool can_be_recorded(c10::ArrayRef<c10::IValue> inputs);

private:
  enum class Kind : std::uint8_t { tensor, integer, real, boolean, none };
  static Kind kind_of(const c10::IValue &value);

  struct Input {
    Kind kind;
    c10::DispatchKeySet keys;
    c10::ScalarType dtype = c10::ScalarType::Undefined;
    std::vector<std::int64_t> sizes, strides;
    std::uintptr_t unaligned = 0; ///< bits of an address that is not aligned to an item
    bool requires_grad = false;   ///< ATen chooses kernels by it, in no_grad(), too
    bool written = false;
    MemoryRange range; ///< of the last call
  };
  static bool holds(const Input &then, const c10::TensorImpl &t);
  bool are_apart(c10::ArrayRef<c10::IValue> inputs);
  bool any_written_shares();

  std::vector<Input> inputs_;
  bool writes_ = false;
  std::vector<std::size_t> moved_; ///< of the call: inputs that lie elsewhere than before
  Settings settings_ = Settings::now();
  bool needs_ieee_products_ = false;
};

} // namespace tracehost::tape
