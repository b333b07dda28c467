#pragma once

#include "tape/group.h"
#include "tape/memories.h"
#include "tape/recording.h"
#include "tape/steps.h"
#include "tape/tape.h"

#include <cstdint>
#include <memory>
#include <optional>

/// The second pass: each op becomes nothing (a view), a kernel, or a call. It runs at once, and its
/// result must have the bits of the first pass.

namespace tracehost::tape {

bool same_bits(const at::Tensor &a, const at::Tensor &b);

class Recording {
public:
  Recording(const jit::Graph &graph, Recorded found, std::unique_ptr<Tape> tape);
  /// `given`: the inputs. Throws NoTape.
  std::unique_ptr<Tape> make(c10::ArrayRef<c10::IValue> given);

private:
  using From = Tape::Output::From;

  void add_input(const jit::Value &input, const c10::IValue &given);
  std::size_t add_slot(const jit::Value &value);
  void place(std::size_t root);

  // build.cpp
  void build(const jit::Node &node);
  void fix_all(const jit::Node &node);
  void note_effects(const jit::Node &node);
  bool has_plain_result(const jit::Node &node) const;

  // kernel_steps.cpp
  bool build_kernel(const jit::Node &node);
  bool build_out_kernel(const jit::Node &node);
  bool has_only_floats(const jit::Node &node) const;
  at::Tensor operand(const jit::Value &value) const;
  std::optional<c10::Scalar> number(const jit::Value &value) const;
  void patch(at::TensorIteratorBase &iterator, int operand, const at::Tensor &t, std::size_t root);

  // call_steps.cpp
  void build_list(const jit::Node &node);
  void build_call(const jit::Node &node);
  bool has_integers(const jit::Node &node) const;
  void note_reads(const jit::Node &node);
  void add_arguments(const jit::Node &node, std::vector<c10::IValue> &arguments,
                     std::vector<SlotArgument> &slots);
  bool is_exposed(const jit::Value &value) const;
  void place_result(const at::Tensor &t);
  Tape::CallStep::Result add_list(const jit::Value &output);
  Tape::CallStep::Result add_result(const jit::Node &node, const jit::Value &output);

  // regions.cpp
  void join_group(const jit::Node &node, bool can_be_kernel);
  void leave_group();
  void close_group();
  bool leaves_group(const jit::Value &result) const;
  void make_region();
  void bind_pointer(const void **pointer, const jit::Value &value);
  void drop_steps_of_group();

  // outputs.cpp
  void add_outputs();
  void note_last_uses();
  Tape::Output output_of(const jit::Value &output);
  std::size_t add_detached(const jit::Value &value);
  void add_view(Tape::View view, std::vector<Tape::View> &views);
  bool is_base(const jit::Value &value) const;
  const jit::Value *base_of(const jit::Value &value, std::vector<Tape::View> &views);
  std::size_t add_fresh(const jit::Value &value);
  void note_writes();
  std::ptrdiff_t first_write_of_input(std::size_t input) const;
  at::Tensor room_for(std::size_t root);

  std::size_t root_of(const jit::Value &value) const {
    return found_.root_of(found_.tensor(value));
  }

  const jit::Graph &graph_;
  Recorded found_;
  std::unique_ptr<Tape> tape_;
  Memories memories_;
  std::unordered_map<const jit::Value *, std::size_t> slot_of_;
  Group group_;
  std::size_t first_of_group_ = 0; ///< step
  bool joined_ = false;            ///< the op that is built is the group's last
  // Indexes of steps; the run may end early up to the first.
  std::ptrdiff_t last_to_end_ = -1, first_draw_ = PTRDIFF_MAX;
  std::unordered_map<std::size_t, std::ptrdiff_t> first_write_;  ///< by root of an input
  std::size_t saved_ = 0;                                        ///< bytes
  std::unordered_map<const jit::Node *, std::size_t> of_lists_;  ///< outputs of a `ListUnpack`
  std::unordered_map<const jit::Value *, std::size_t> detached_; ///< place in detaches_
};

} // namespace tracehost::tape
