#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace tracehost::capture {

/// Tensors with the addresses that one capture has for the graph's inputs.
///
/// A tensor that stays where it is, as a parameter does, is used in place. Another one is copied at
/// each call, and copied back if the graph writes to it. The warm runs show which ones stay. A
/// parameter may move once; a state that the body binds again moves at each call.
class StaticInputs {
public:
  /// `arguments`: so many inputs, the first, are arguments; the rest are tensors that the body
  /// reaches. `written`: inputs that an op writes to.
  StaticInputs(std::size_t count, std::size_t arguments, std::vector<bool> written);

  /// Before and after a warm run.
  void begin_warm_run(c10::ArrayRef<c10::IValue> given);
  void end_warm_run(c10::ArrayRef<c10::IValue> given);

  /// One more input, past the graph's own. `writes`: of a run, as its version counts them.
  void add(std::int64_t writes);
  /// An op writes to the input.
  void set_written(std::size_t input) { inputs_[input].written = true; }
  /// Makes the tensors for a capture. Allocates.
  void bind(c10::ArrayRef<c10::IValue> given);
  /// What the graph gets in the capture.
  torch::jit::Stack stack() const;
  void unbind();
  /// Of the tensors that are copied to.
  std::int64_t bytes() const;

  /// Hot. Whether all that is used in place lies where the capture has it.
  bool are_in_place(c10::ArrayRef<c10::IValue> given) const;
  /// Arguments that have moved are copied from now on. `all`: so are tensors that the body reaches.
  void copy_what_moved(c10::ArrayRef<c10::IValue> given, bool all);
  /// Hot. Whether no input shares memory with another one that the graph writes to, unless the
  /// capture has both in place.
  bool are_apart(c10::ArrayRef<c10::IValue> given) const;

  /// Hot. To the capture's tensors, before a replay.
  void copy_in(c10::ArrayRef<c10::IValue> given);
  /// Hot. What the graph has written, after a replay.
  void copy_back(c10::ArrayRef<c10::IValue> given) const;
  /// Hot. Counts a run's writes in the versions of the caller's tensors.
  void count_writes(c10::ArrayRef<c10::IValue> given) const;

  bool is_written(std::size_t input) const { return inputs_[input].written; }
  const at::Tensor &fixed(std::size_t input) const { return inputs_[input].fixed; }
  std::size_t size() const { return inputs_.size(); }

private:
  struct Input {
    enum class How : std::uint8_t { none, in_place, copied } how = How::none;
    bool is_argument = false;
    bool written = false;
    bool moved = false;       ///< between the warm runs
    std::int64_t version = 0; ///< before the warm run
    std::int64_t writes = 0;  ///< of a run, as the version counts them
    const void *address = nullptr;
    /// Of the last warm run, or of the capture. No later tensor has the same one.
    std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> seen;
    /// What the capture has, with its memory: that of the call, or a copy. Undefined: there is no
    /// capture.
    at::Tensor fixed;
  };
  static bool is_at(const Input &input, const at::Tensor &t);
  static void see(Input &input, const at::Tensor &t);

  std::vector<Input> inputs_;
  std::vector<at::Tensor> to_;   ///< of copy_in
  std::vector<at::Tensor> from_; ///< the same, of the call under way
};

/// Without the dimensions along which the tensor repeats itself.
at::Tensor without_repeats(const at::Tensor &t);

} // namespace tracehost::capture
