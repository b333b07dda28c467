#include "region/pieces.h"

#include "region/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tracehost::region {

namespace {

using From = RegionOperand::From;

std::array<RegionOperand, 3> operands(const RegionOp &op) { return {op.a, op.b, op.c}; }

/// What eager computes from single values, or from rows, has no tail at the region's end.
bool depends_on_place(RegionCode code) {
  return code == RegionCode::maximum || code == RegionCode::minimum || is_function(code);
}

} // namespace

bool is_comparison(RegionCode code) { return code >= RegionCode::lt && code <= RegionCode::ne; }
bool is_function(RegionCode code) { return code >= RegionCode::sin; }

int operands_of(RegionCode code) {
  if (code == RegionCode::fmadd || code == RegionCode::where)
    return 3;
  if (is_function(code) || (code >= RegionCode::neg && code <= RegionCode::round))
    return 1;
  return 2;
}

std::string find_op_fault(const RegionPlan &plan, std::size_t index) {
  const RegionOp &op = plan.ops[index];
  const auto all = operands(op);
  bool has_values = false;
  for (int i = 0; i < operands_of(op.code); ++i) {
    const RegionOperand &operand = all[i];
    const auto at = static_cast<std::size_t>(operand.index);
    if (operand.from == From::number) {
      if (plan.dtype == c10::ScalarType::Float && std::isfinite(operand.value) &&
          !std::isfinite(static_cast<float>(operand.value)))
        return fmt::format("op {}: {} is beyond float32", index, operand.value);
      continue;
    }
    if (operand.index < 0 || at >= (operand.from == From::input ? plan.inputs.size() : index))
      return fmt::format("op {}: operand {} does not exist", index, i);
    has_values |= operand.from == From::result || plan.inputs[at].kind == RegionInput::Kind::values;
    if (operand.from == From::input && plan.inputs[at].kind == RegionInput::Kind::row &&
        depends_on_place(op.code))
      return fmt::format("op {}: eager's bits on a row depend on its length", index);
    if (operand.from == From::result && i > 0 && is_comparison(plan.ops[at].code))
      return fmt::format("op {}: operand {} is a comparison", index, i);
  }
  const bool has_mask = op.a.from == From::result &&
                        is_comparison(plan.ops[static_cast<std::size_t>(op.a.index)].code);
  if (has_mask != (op.code == RegionCode::where))
    return fmt::format("op {}: 'where' reads a comparison first, and no other op does", index);
  if (depends_on_place(op.code) && !has_values)
    return fmt::format("op {}: no operand has a value for each of the region", index);
  if (is_function(op.code) && !has_function(op.code, plan.dtype))
    return fmt::format("op {}: eager's function is not available", index);
  return {};
}

std::string find_fault(const RegionPlan &plan) {
  if (plan.dtype != c10::ScalarType::Float && plan.dtype != c10::ScalarType::Double)
    return fmt::format("the dtype {}", c10::toString(plan.dtype));
  for (const RegionInput &input : plan.inputs)
    if (input.kind == RegionInput::Kind::row && input.period < 1)
      return "a row without values";
  for (std::size_t i = 0; i < plan.ops.size(); ++i)
    if (std::string fault = find_op_fault(plan, i); !fault.empty())
      return fault;
  std::vector<bool> seen(plan.ops.size());
  for (const int output : plan.outputs) {
    const auto at = static_cast<std::size_t>(output);
    if (output < 0 || at >= plan.ops.size() || is_comparison(plan.ops[at].code) || seen[at])
      return fmt::format("output {} is no op, a comparison, or there twice", output);
    seen[at] = true;
  }
  return plan.outputs.empty() ? "no outputs" : "";
}

namespace {

/// One pass over a plan gives each op its stage, one its array, one its place in a piece.
class Scheduling {
public:
  explicit Scheduling(const RegionPlan &plan) : plan_(plan), values_(plan.ops.size()) {}

  RegionSchedule make() {
    find_operands();
    find_live();
    find_stages();
    made_.first_slot = static_cast<int>(plan_.inputs.size() + plan_.outputs.size());
    for (const RegionInput &input : plan_.inputs)
      made_.is_one.push_back(input.kind == RegionInput::Kind::one);
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i)
      values_[plan_.outputs[i]].array = static_cast<int>(plan_.inputs.size() + i);
    for (std::size_t stage = 0; stage < made_.stages.size(); ++stage) {
      add_piece(static_cast<int>(stage));
      add_calls(static_cast<int>(stage));
    }
    made_.is_one.resize(static_cast<std::size_t>(made_.first_slot) +
                        static_cast<std::size_t>(made_.slots));
    return std::move(made_);
  }

private:
  struct Value {
    std::vector<RegionOperand> operands; ///< those of a comparison stand in its `where`
    bool live = false;
    int stage = 0;     ///< that computes it
    int ready = 0;     ///< the first stage whose piece can read it
    int last_read = 0; ///< a time: see time_of_piece()
    int array = -1;
    int in_piece = -1; ///< its index in its piece
    bool in_memory = false;
  };

  /// A stage has two times: its piece reads and writes at the first, its calls at the second.
  static int time_of_piece(int stage) { return 2 * stage; }
  static int time_of_calls(int stage) { return 2 * stage + 1; }

  void find_operands() {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const RegionOp &op = plan_.ops[i];
      auto &all = values_[i].operands;
      if (op.code == RegionCode::where) {
        const RegionOp &compare = plan_.ops[static_cast<std::size_t>(op.a.index)];
        all = {compare.a, compare.b, op.b, op.c};
      } else {
        const auto found = operands(op);
        all.assign(found.begin(), found.begin() + operands_of(op.code));
      }
    }
  }

  void find_live() {
    for (const int output : plan_.outputs) {
      values_[output].live = true;
      values_[output].in_memory = true;
    }
    for (std::size_t i = values_.size(); i-- > 0;)
      if (values_[i].live)
        for (const RegionOperand &operand : values_[i].operands)
          if (operand.from == From::result)
            values_[operand.index].live = true;
  }

  void find_stages() {
    int count = 1;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      Value &value = values_[i];
      if (!value.live)
        continue;
      const bool called = is_function(plan_.ops[i].code);
      for (const RegionOperand &operand : value.operands)
        if (operand.from == From::result)
          value.stage = std::max(value.stage, values_[operand.index].ready);
      value.ready = value.stage + (called ? 1 : 0);
      count = std::max(count, value.ready + 1);
      for (const RegionOperand &operand : value.operands) {
        if (operand.from != From::result)
          continue;
        Value &read = values_[operand.index];
        read.in_memory |= called || read.stage != value.stage;
        read.last_read = std::max(read.last_read,
                                  called ? time_of_calls(value.stage) : time_of_piece(value.stage));
      }
      value.in_memory |= called;
    }
    made_.stages.resize(static_cast<std::size_t>(count));
  }

  /// A slot that no value has that is read at `now` or later.
  int slot(int now) {
    for (std::size_t i = 0; i < slot_free_at_.size(); ++i)
      if (slot_free_at_[i] < now)
        return static_cast<int>(i);
    slot_free_at_.push_back(0);
    made_.slots = static_cast<int>(slot_free_at_.size());
    return made_.slots - 1;
  }

  void place(Value &value, int now) {
    if (!value.in_memory || value.array >= 0)
      return;
    const int taken = slot(now);
    slot_free_at_[static_cast<std::size_t>(taken)] = std::max(value.last_read, now);
    value.array = made_.first_slot + taken;
  }

  PieceOperand in_piece(const RegionOperand &operand, int stage) const {
    if (operand.from == From::number)
      return {PieceOperand::From::number, 0, operand.value};
    if (operand.from == From::input)
      return {PieceOperand::From::array, operand.index, 0};
    const Value &value = values_[operand.index];
    return value.in_piece >= 0 && value.stage == stage
               ? PieceOperand{PieceOperand::From::op, value.in_piece, 0}
               : PieceOperand{PieceOperand::From::array, value.array, 0};
  }

  void add_piece(int stage) {
    Piece &piece = made_.stages[stage].piece;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      Value &value = values_[i];
      const RegionOp &op = plan_.ops[i];
      if (!value.live || value.stage != stage || is_function(op.code) || is_comparison(op.code))
        continue;
      PieceOp made{.code = op.code};
      if (op.code == RegionCode::where)
        made.compare = plan_.ops[static_cast<std::size_t>(op.a.index)].code;
      for (const RegionOperand &operand : value.operands)
        made.operands[made.operands_count++] = in_piece(operand, stage);
      value.in_piece = static_cast<int>(piece.ops.size());
      place(value, time_of_piece(stage));
      made.store = value.array;
      piece.ops.push_back(made);
    }
  }

  /// In time the calls of a stage are one: a result may not have the slot of another's operand.
  void add_calls(int stage) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      Value &value = values_[i];
      const RegionOp &op = plan_.ops[i];
      if (!value.live || value.stage != stage || !is_function(op.code))
        continue;
      take_over(value, op.a, time_of_calls(stage));
      place(value, time_of_calls(stage));
      const int in = op.a.from == From::input ? op.a.index : values_[op.a.index].array;
      made_.stages[stage].calls.push_back({op.code, in, value.array});
      made_.has_calls = true;
    }
  }

  /// In place, where the function is the last to read its operand: fewer slots stay in the cache.
  void take_over(Value &value, const RegionOperand &operand, int now) {
    if (value.array >= 0 || operand.from != From::result)
      return;
    const Value &read = values_[operand.index];
    int readers = 0;
    for (std::size_t i = 0; i < values_.size(); ++i)
      readers += static_cast<int>(values_[i].live && is_function(plan_.ops[i].code) &&
                                  values_[i].stage == value.stage && plan_.ops[i].a == operand);
    if (read.array < made_.first_slot || read.last_read != now || readers != 1)
      return;
    value.array = read.array;
    slot_free_at_[static_cast<std::size_t>(read.array - made_.first_slot)] =
        std::max(value.last_read, now);
  }

  const RegionPlan &plan_;
  std::vector<Value> values_;
  std::vector<int> slot_free_at_; ///< the time of the last read
  RegionSchedule made_;
};

} // namespace

RegionSchedule make_schedule(const RegionPlan &plan) { return Scheduling(plan).make(); }

} // namespace tracehost::region
