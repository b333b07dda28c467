#include "region/assembler.h"

#include <algorithm>
#include <stdexcept>

namespace tracehost::region {

using Xbyak::Address, Xbyak::Label, Xbyak::Ymm, Xbyak::Zmm;

namespace {

using What = RegisterMove::What;

/// The code touches its stack in any order, so that all of it must be within the guard pages'
/// reach.
constexpr int kMostStack = 32 << 10;

bool is_extreme(const PieceOp &op) {
  return op.code == RegionCode::maximum || op.code == RegionCode::minimum;
}
bool compares(const PieceOp &op) { return op.code == RegionCode::where || is_extreme(op); }

bool depends_on_tail(const Piece &piece) {
  return std::any_of(piece.ops.begin(), piece.ops.end(), is_extreme);
}

} // namespace

RegionAssembler::RegionAssembler(c10::ScalarType dtype, RegionIsa isa,
                                 const std::vector<bool> &is_one, const RegionNumbers &numbers,
                                 std::size_t bytes)
    : CodeGenerator(bytes, Xbyak::AutoGrow), wide_(isa == RegionIsa::avx512),
      doubles_(dtype == c10::ScalarType::Double), itemsize_(doubles_ ? 8 : 4),
      vector_bytes_(wide_ ? 64 : 32), lanes_(vector_bytes_ / itemsize_),
      last_vector_(wide_ ? 31 : 15), is_one_(is_one), numbers_(numbers) {}

std::size_t RegionAssembler::write(const Piece &piece) {
  piece_ = &piece;
  choose_registers();
  align(64);
  const std::size_t start = getSize();
  enter();
  write_loops();
  leave();
  return start;
}

/// As many vectors at a time as the processor can have under way, but that no value loses its
/// register. Instructions of a chain wait for each other, those on other vectors do not.
void RegionAssembler::choose_registers() {
  const int available = wide_ ? 31 : 14, needed = groups_needed(*piece_);
  for (most_vectors_ = fits_eight() ? 8 : 4; most_vectors_ > 2; most_vectors_ /= 2) {
    if (available / most_vectors_ < needed)
      continue;
    plan_ = plan_registers(*piece_, available / most_vectors_);
    if (plan_.losses == 0)
      break;
  }
  if (most_vectors_ == 2)
    plan_ = plan_registers(*piece_, available / most_vectors_);
  keep_numbers();
}

/// There are masks for four vectors, and the code should fit into 32 KB with the loops for fewer.
bool RegionAssembler::fits_eight() const {
  constexpr std::size_t kMostOps = 200;
  return piece_->ops.size() <= kMostOps &&
         std::none_of(piece_->ops.begin(), piece_->ops.end(), compares);
}

/// The numbers that are read most have a register each, as far as there are any.
void RegionAssembler::keep_numbers() {
  kept_numbers_.clear();
  std::unordered_map<NumberBits, int> reads;
  for (const PieceOp &op : piece_->ops) {
    if (const auto implied = numbers_.implied_by(op.code))
      ++reads[*implied];
    for (int k = 0; k < op.operands_count; ++k)
      if (op.operands[k].from == PieceOperand::From::number)
        ++reads[numbers_.of(op.operands[k].value)];
  }
  std::vector<std::pair<NumberBits, int>> sorted(reads.begin(), reads.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  const int end = last_vector_ - (wide_ ? 0 : 1);
  int next = plan_.groups * most_vectors_;
  for (const auto &[bits, count] : sorted)
    if (next < end)
      kept_numbers_.emplace(bits, next++);
}

void RegionAssembler::enter() {
  push(rbp);
  mov(rbp, rsp);
  for (const auto &saved : {rbx, r12, r13, r14, r15})
    push(saved);
  if (const int bytes = plan_.places * most_vectors_ * vector_bytes_; bytes > 0) {
    if (bytes > kMostStack)
      throw std::length_error("its values in between need too much of the stack");
    and_(rsp, -64);
    sub(rsp, bytes);
  }
  address_registers_.clear();
  const std::initializer_list<Xbyak::Reg64> registers = {r8, r9, r10, r11, rdx, rbx, r12, r13, r14};
  const auto *next = registers.begin();
  for (const RegisterMove &move : plan_.moves)
    if ((move.what == What::load || move.what == What::store) && next != registers.end() &&
        address_registers_.emplace(move.index, *next).second)
      mov(*next++, ptr[rdi + 8 * move.index]);
  mov(r15, reinterpret_cast<std::size_t>(numbers_.table()));
  for (const auto &[bits, index] : kept_numbers_)
    broadcast(vector(index), ptr[r15 + numbers_.offset(bits)]);
  xor_(ecx, ecx);
}

void RegionAssembler::leave() {
  if (plan_.places > 0)
    lea(rsp, ptr[rbp - 5 * 8]);
  for (const auto &saved : {r15, r14, r13, r12, rbx, rbp})
    pop(saved);
  vzeroupper();
  ret();
}

void RegionAssembler::write_loops() {
  write_loop(most_vectors_);
  if (most_vectors_ == 8)
    write_loop(4);
  // Eager's maximum_stub takes 64 bytes at a time at either capability, and the rest is its tail.
  const int next = depends_on_tail(*piece_) ? 64 / vector_bytes_ : 2;
  if (next < most_vectors_)
    write_loop(next);
  write_tail();
}

/// As long as there are values for this many vectors.
void RegionAssembler::write_loop(int vectors) {
  Label again, done;
  cmp(rsi, vectors * lanes_);
  jl(done, T_NEAR);
  align(32);
  L(again);
  write_pass({vectors, false});
  add(rcx, vectors * vector_bytes_);
  sub(rsi, vectors * lanes_);
  cmp(rsi, vectors * lanes_);
  jge(again, T_NEAR);
  L(done);
}

void RegionAssembler::write_tail() {
  Label again, done;
  test(rsi, rsi);
  jle(done, T_NEAR);
  L(again);
  write_mask();
  write_pass({1, true});
  add(rcx, vector_bytes_);
  sub(rsi, lanes_);
  jg(again, T_NEAR);
  L(done);
}

/// The lanes of the next vector that are below n.
void RegionAssembler::write_mask() {
  if (wide_) {
    mov(eax, -1);
    bzhi(eax, eax, esi);
    kmovw(k1, eax);
    return;
  }
  // The table has lanes_ ones, then zeros: min(rsi, lanes_) values before the zeros.
  mov(eax, lanes_);
  cmp(rsi, rax);
  cmovl(rax, rsi);
  neg(rax);
  vmovups(mask_vector(), ptr[r15 + rax * itemsize_ + vector_bytes_]);
}

void RegionAssembler::write_pass(Pass pass) {
  for (const RegisterMove &move : plan_.moves)
    switch (move.what) {
    case What::load:
      load(move, pass);
      break;
    case What::store:
      store(move, pass);
      break;
    case What::spill:
    case What::reload:
      move_stack(move, pass);
      break;
    case What::compute:
      write_op(piece_->ops[move.index], move, pass);
    }
}

/// Where an array starts. An array without a register of its own has rax until the next one.
Xbyak::RegExp RegionAssembler::address(int array) {
  if (const auto found = address_registers_.find(array); found != address_registers_.end())
    return Xbyak::RegExp(found->second);
  mov(rax, ptr[rdi + 8 * array]);
  return Xbyak::RegExp(rax);
}

void RegionAssembler::broadcast(const Vector &to, const Address &from) {
  if (wide_)
    doubles_ ? vbroadcastsd(Zmm(to.getIdx()), from) : vbroadcastss(Zmm(to.getIdx()), from);
  else
    doubles_ ? vbroadcastsd(Ymm(to.getIdx()), from) : vbroadcastss(Ymm(to.getIdx()), from);
}

void RegionAssembler::load(const RegisterMove &move, Pass pass) {
  const Xbyak::RegExp start = address(move.index);
  for (int j = 0; j < pass.vectors; ++j) {
    const Vector to = lane(move.group, j);
    const Address from = ptr[start + rcx + j * vector_bytes_];
    if (is_one_[move.index])
      broadcast(to, ptr[start]);
    else if (!pass.is_tail)
      doubles_ ? vmovupd(to, from) : vmovups(to, from);
    else if (wide_)
      doubles_ ? vmovupd(to | k1 | T_z, from) : vmovups(to | k1 | T_z, from);
    else
      doubles_ ? vmaskmovpd(to, mask_vector(), from) : vmaskmovps(to, mask_vector(), from);
  }
}

void RegionAssembler::store(const RegisterMove &move, Pass pass) {
  const Xbyak::RegExp start = address(move.index);
  for (int j = 0; j < pass.vectors; ++j) {
    const Vector from = lane(move.group, j);
    const Address to = ptr[start + rcx + j * vector_bytes_];
    if (!pass.is_tail)
      doubles_ ? vmovupd(to, from) : vmovups(to, from);
    else if (wide_)
      doubles_ ? vmovupd(to | k1, from) : vmovups(to | k1, from);
    else
      doubles_ ? vmaskmovpd(to, mask_vector(), from) : vmaskmovps(to, mask_vector(), from);
  }
}

void RegionAssembler::move_stack(const RegisterMove &move, Pass pass) {
  for (int j = 0; j < pass.vectors; ++j) {
    const Address place = ptr[rsp + (move.index * most_vectors_ + j) * vector_bytes_];
    if (move.what == What::spill)
      vmovups(place, lane(move.group, j));
    else
      vmovups(lane(move.group, j), place);
  }
}

} // namespace tracehost::region
