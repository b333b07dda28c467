#include "region/assembler.h"

#include <utility>

/// The instructions of each op. A lane's result may be in the register of the lane's operand.

namespace tracehost::region {

using Xbyak::Opmask;

namespace {

/// Predicates of vcmpps that raise nothing for a quiet NaN.
int predicate(RegionCode compare) {
  switch (compare) {
  case RegionCode::lt:
    return 0x11;
  case RegionCode::le:
    return 0x12;
  case RegionCode::gt:
    return 0x1e;
  case RegionCode::ge:
    return 0x1d;
  case RegionCode::eq:
    return 0x00;
  default:
    return 0x04; // ne, which holds for a NaN
  }
}
constexpr int kUnordered = 0x03;

/// Of vroundps.
int rounding(RegionCode code) {
  constexpr int quiet = 8;
  switch (code) {
  case RegionCode::floor:
    return quiet | 1;
  case RegionCode::ceil:
    return quiet | 2;
  case RegionCode::trunc:
    return quiet | 3;
  default:
    return quiet;
  }
}

} // namespace

RegionAssembler::Source RegionAssembler::number(NumberBits bits) {
  if (const auto kept = kept_numbers_.find(bits); kept != kept_numbers_.end())
    return {vector(kept->second)};
  const int offset = numbers_.offset(bits);
  return {Vector(), wide_ ? ptr_b[r15 + offset] : ptr[r15 + offset]};
}

/// Operand k of lane j.
RegionAssembler::Source RegionAssembler::source(int k, int j) {
  if (is_number(k))
    return number(numbers_.of(op_->operands[k].value));
  return {lane(move_->sources[k], j)};
}

/// The same in a register. A number that has none is valid until the next such number.
RegionAssembler::Vector RegionAssembler::in_vector(int k, int j) {
  const Source found = source(k, j);
  if (!found.memory)
    return found.vector;
  const int offset = numbers_.offset(numbers_.of(op_->operands[k].value));
  broadcast(number_vector(), ptr[r15 + offset]);
  return number_vector();
}

void RegionAssembler::write_op(const PieceOp &op, const RegisterMove &move, Pass pass) {
  op_ = &op;
  move_ = &move;
  if (op.code == RegionCode::where)
    return write_where(pass.vectors);
  const bool commutes = op.code == RegionCode::add || op.code == RegionCode::mul;
  int a = 0, b = 1;
  if (commutes && is_number(a))
    std::swap(a, b);
  for (int j = 0; j < pass.vectors; ++j)
    switch (op.code) {
    case RegionCode::fmadd:
      write_fmadd(j);
      break;
    case RegionCode::maximum:
    case RegionCode::minimum: // in a tail, of two equal operands the other one
      pass.is_tail ? write_extremum(j, 1, 0) : write_extremum(j, 0, 1);
      break;
    default:
      op.operands_count == 1 ? write_unary(j) : write_binary(j, a, b);
    }
}

void RegionAssembler::write_unary(int j) {
  const Vector d = lane(move_->group, j), a = in_vector(0, j);
  const auto implied = numbers_.implied_by(op_->code);
  if (op_->code == RegionCode::neg)
    doubles_ ? vxorpd(d, a, number(*implied)) : vxorps(d, a, number(*implied));
  else if (op_->code == RegionCode::abs)
    doubles_ ? vandpd(d, a, number(*implied)) : vandps(d, a, number(*implied));
  else if (op_->code == RegionCode::root)
    doubles_ ? vsqrtpd(d, a) : vsqrtps(d, a);
  else if (wide_)
    doubles_ ? vrndscalepd(d, a, rounding(op_->code)) : vrndscaleps(d, a, rounding(op_->code));
  else
    doubles_ ? vroundpd(d, a, rounding(op_->code)) : vroundps(d, a, rounding(op_->code));
}

void RegionAssembler::write_binary(int j, int first, int second) {
  // vmaxps gives its second operand for a NaN, and where both are equal.
  if (op_->code == RegionCode::clamp_min || op_->code == RegionCode::clamp_max)
    std::swap(first, second);
  const Vector d = lane(move_->group, j), a = in_vector(first, j);
  const Source b = source(second, j);
  switch (op_->code) {
  case RegionCode::add:
    return doubles_ ? vaddpd(d, a, b) : vaddps(d, a, b);
  case RegionCode::sub:
    return doubles_ ? vsubpd(d, a, b) : vsubps(d, a, b);
  case RegionCode::mul:
    return doubles_ ? vmulpd(d, a, b) : vmulps(d, a, b);
  case RegionCode::div:
    return doubles_ ? vdivpd(d, a, b) : vdivps(d, a, b);
  case RegionCode::clamp_min:
    return doubles_ ? vmaxpd(d, a, b) : vmaxps(d, a, b);
  default: // clamp_max
    return doubles_ ? vminpd(d, a, b) : vminps(d, a, b);
  }
}

/// The result has a register of its own.
void RegionAssembler::write_fmadd(int j) {
  const Vector d = lane(move_->group, j);
  int first = 0, second = 1;
  if (is_number(first))
    std::swap(first, second);
  const Vector c = in_vector(2, j);
  doubles_ ? vmovapd(d, c) : vmovaps(d, c);
  const Vector a = in_vector(first, j);
  const Source b = source(second, j);
  doubles_ ? vfmadd231pd(d, a, b) : vfmadd231ps(d, a, b);
}

/// The larger or smaller of two, b where they are equal, a NaN if one is. The result has a register
/// of its own.
void RegionAssembler::write_extremum(int j, int first, int second) {
  const Vector d = lane(move_->group, j), a = in_vector(first, j);
  const Source b = source(second, j);
  if (op_->code == RegionCode::maximum)
    doubles_ ? vmaxpd(d, a, b) : vmaxps(d, a, b);
  else
    doubles_ ? vminpd(d, a, b) : vminps(d, a, b);
  const Opmask k(2 + j);
  const Vector mask = short_vector();
  if (wide_) {
    doubles_ ? vcmppd(k, a, a, kUnordered) : vcmpps(k, a, a, kUnordered);
    doubles_ ? vblendmpd(d | k, d, a) : vblendmps(d | k, d, a);
  } else {
    doubles_ ? vcmppd(mask, a, a, kUnordered) : vcmpps(mask, a, a, kUnordered);
    doubles_ ? vblendvpd(d, d, a, mask) : vblendvps(d, d, a, mask);
  }
}

void RegionAssembler::write_where(int vectors) {
  if (!wide_) { // one register has the comparison of a lane
    for (int j = 0; j < vectors; ++j) {
      write_compare(j);
      write_blend(j);
    }
    return;
  }
  for (int j = 0; j < vectors; ++j)
    write_compare(j);
  for (int j = 0; j < vectors; ++j)
    write_blend(j);
}

void RegionAssembler::write_compare(int j) {
  const Vector a = in_vector(0, j);
  const Source b = source(1, j);
  const auto how = static_cast<std::uint8_t>(predicate(op_->compare));
  const Opmask k(2 + j);
  if (wide_)
    doubles_ ? vcmppd(k, a, b, how) : vcmpps(k, a, b, how);
  else
    doubles_ ? vcmppd(short_vector(), a, b, how) : vcmpps(short_vector(), a, b, how);
}

void RegionAssembler::write_blend(int j) {
  const Vector d = lane(move_->group, j), otherwise = in_vector(3, j);
  const Source chosen = source(2, j);
  const Opmask k(2 + j);
  if (wide_)
    doubles_ ? vblendmpd(d | k, otherwise, chosen) : vblendmps(d | k, otherwise, chosen);
  else
    doubles_ ? vblendvpd(d, otherwise, chosen, short_vector())
             : vblendvps(d, otherwise, chosen, short_vector());
}

} // namespace tracehost::region
