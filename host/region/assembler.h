#pragma once

#include "region/numbers.h"
#include "region/registers.h"

#include <xbyak/xbyak.h>

/// Writes a piece as a function of machine code: void (const void *const *arrays, std::int64_t n).
///
/// Registers:
///
///     rdi, r15   the arrays' addresses; the table of numbers
///     rsi, rcx   values to do; bytes done
///     rax        short-lived
///     others     addresses of the arrays that are read first
///     vectors    groups, then the numbers that are read most, then one or two short-lived ones
///     k1; k2-k5  the lanes below n (AVX512); comparisons of up to four vectors

namespace tracehost::region {

class RegionAssembler final : public Xbyak::CodeGenerator {
public:
  /// `is_one`: by array. `numbers` outlives the code.
  RegionAssembler(c10::ScalarType dtype, RegionIsa isa, const std::vector<bool> &is_one,
                  const RegionNumbers &numbers, std::size_t bytes);
  /// Writes a function behind those before. Gives its offset in the code.
  std::size_t write(const Piece &piece);

private:
  using Vector = Xbyak::Xmm; ///< of 32 or 64 bytes: the kind is a value

  /// One pass of the code over the ops.
  struct Pass {
    int vectors;  ///< at a time
    bool is_tail; ///< a vector with masked lanes; `maximum` and `minimum` as in eager's tail
  };
  /// What an instruction reads: a register or memory.
  struct Source {
    Vector vector;
    std::optional<Xbyak::Address> memory = {};
    operator const Xbyak::Operand &() const {
      if (memory)
        return *memory;
      return vector;
    }
  };

  Vector vector(int index) const {
    return wide_ ? Vector(Xbyak::Zmm(index)) : Vector(Xbyak::Ymm(index));
  }
  Vector lane(int group, int j) const { return vector(group * most_vectors_ + j); }
  Vector number_vector() const { return vector(last_vector_); }
  Vector short_vector() const { return vector(last_vector_ - 1); } ///< AVX2 alone has it
  Vector mask_vector() const { return vector(most_vectors_ - 1); } ///< AVX2: free in a tail

  void choose_registers();
  bool fits_eight() const;
  void keep_numbers();
  void enter();
  void leave();
  void write_loops();
  void write_loop(int vectors);
  void write_tail();
  void write_mask();
  void write_pass(Pass pass);

  Xbyak::RegExp address(int array);
  void broadcast(const Vector &to, const Xbyak::Address &from);
  void load(const RegisterMove &move, Pass pass);
  void store(const RegisterMove &move, Pass pass);
  void move_stack(const RegisterMove &move, Pass pass);

  // Operands of the op that is written (instructions.cpp).
  Source number(NumberBits bits);
  Source source(int k, int j);
  Vector in_vector(int k, int j);
  bool is_number(int k) const { return move_->sources[k] < 0; }
  void write_op(const PieceOp &op, const RegisterMove &move, Pass pass);
  void write_unary(int j);
  void write_binary(int j, int a, int b);
  void write_fmadd(int j);
  void write_extremum(int j, int a, int b);
  void write_where(int vectors);
  void write_compare(int j);
  void write_blend(int j);

  const bool wide_, doubles_;
  const int itemsize_, vector_bytes_, lanes_, last_vector_;
  const std::vector<bool> &is_one_;
  const RegionNumbers &numbers_;

  // Of the piece.
  const Piece *piece_ = nullptr;
  RegisterPlan plan_;
  int most_vectors_ = 0;
  std::unordered_map<NumberBits, int> kept_numbers_;        ///< by vector
  std::unordered_map<int, Xbyak::Reg64> address_registers_; ///< by array
  // Of the op.
  const PieceOp *op_ = nullptr;
  const RegisterMove *move_ = nullptr;
};

} // namespace tracehost::region
