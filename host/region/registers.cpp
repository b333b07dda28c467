#include "region/registers.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace tracehost::region {
namespace {

constexpr int kNever = std::numeric_limits<int>::max();

/// Whether the code writes the result before it has read all operands.
bool writes_early(RegionCode code) {
  return code == RegionCode::fmadd || code == RegionCode::maximum || code == RegionCode::minimum;
}

class Registers {
public:
  Registers(const Piece &piece, int groups)
      : piece_(piece), ops_(piece.ops.size()), holds_(groups, nullptr) {
    for (std::size_t i = 0; i < piece.ops.size(); ++i)
      for (int k = 0; k < piece.ops[i].operands_count; ++k)
        if (const PieceOperand &operand = piece.ops[i].operands[k];
            operand.from != PieceOperand::From::number)
          value_of(operand).reads.push_back(static_cast<int>(i));
  }

  RegisterPlan make() {
    for (std::size_t i = 0; i < piece_.ops.size(); ++i)
      add(static_cast<int>(i));
    return std::move(made_);
  }

private:
  using What = RegisterMove::What;
  struct Value {
    int array = -1; ///< that holds it
    int group = -1;
    int spilled = -1;       ///< a place on the stack
    std::vector<int> reads; ///< the ops that read it, in order
    std::size_t next = 0;   ///< in `reads`
    int next_read() const { return next < reads.size() ? reads[next] : kNever; }
  };

  Value &value_of(const PieceOperand &operand) {
    const bool is_array = operand.from == PieceOperand::From::array;
    Value &value = is_array ? arrays_[operand.index] : ops_[operand.index];
    if (is_array)
      value.array = operand.index;
    return value;
  }

  void add(int index) {
    const PieceOp &op = piece_.ops[index];
    RegisterMove compute{What::compute, -1, index};
    now_ = index;
    for (int k = 0; k < op.operands_count; ++k)
      if (op.operands[k].from != PieceOperand::From::number) {
        Value &value = value_of(op.operands[k]);
        bring(value);
        compute.sources[k] = value.group;
      }
    Value &result = ops_[index];
    if (writes_early(op.code))
      take_group(result);
    for (int k = 0; k < op.operands_count; ++k)
      if (op.operands[k].from != PieceOperand::From::number)
        note_read(value_of(op.operands[k]));
    if (result.group < 0)
      take_group(result);
    compute.group = result.group;
    made_.moves.push_back(compute);
    if (op.store >= 0)
      made_.moves.push_back({What::store, result.group, op.store});
    if (result.next_read() == kNever)
      release(result);
  }

  /// Requires: an operand of the op at `now_`.
  void bring(Value &value) {
    if (value.group >= 0)
      return;
    take_group(value);
    if (value.spilled >= 0)
      made_.moves.push_back({What::reload, value.group, value.spilled});
    else
      made_.moves.push_back({What::load, value.group, value.array});
  }

  void note_read(Value &value) {
    while (value.next_read() == now_)
      ++value.next;
    if (value.next_read() == kNever)
      release(value);
  }

  void release(Value &value) {
    if (value.spilled >= 0 && value.next_read() == kNever)
      free_places_.push_back(std::exchange(value.spilled, -1));
    if (value.group < 0)
      return;
    holds_[value.group] = nullptr;
    value.group = -1;
  }

  void take_group(Value &value) {
    auto found = std::find(holds_.begin(), holds_.end(), nullptr);
    if (found == holds_.end()) {
      found = std::max_element(holds_.begin(), holds_.end(), [](const Value *a, const Value *b) {
        return a->next_read() < b->next_read();
      });
      evict(**found);
    }
    value.group = static_cast<int>(found - holds_.begin());
    *found = &value;
    made_.groups = std::max(made_.groups, value.group + 1);
  }

  void evict(Value &value) {
    ++made_.losses;
    if (value.array < 0 && value.spilled < 0) {
      value.spilled = free_places_.empty() ? made_.places++ : free_places_.back();
      if (!free_places_.empty())
        free_places_.pop_back();
      made_.moves.push_back({What::spill, value.group, value.spilled});
    }
    release(value);
  }

  const Piece &piece_;
  std::map<int, Value> arrays_;
  std::vector<Value> ops_;
  std::vector<int> free_places_; ///< on the stack
  std::vector<Value *> holds_;   ///< by group
  int now_ = 0;
  RegisterPlan made_;
};

} // namespace

int groups_needed(const Piece &piece) {
  int most = 1;
  for (const PieceOp &op : piece.ops) {
    int count = writes_early(op.code) ? 1 : 0;
    for (int k = 0; k < op.operands_count; ++k)
      count += op.operands[k].from != PieceOperand::From::number ? 1 : 0;
    most = std::max(most, count);
  }
  return most;
}

RegisterPlan plan_registers(const Piece &piece, int groups) {
  return Registers(piece, groups).make();
}

} // namespace tracehost::region
