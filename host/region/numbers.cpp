#include "region/numbers.h"

#include <bit>
#include <cstring>

namespace tracehost::region {

RegionNumbers::RegionNumbers(const RegionSchedule &schedule, c10::ScalarType dtype, RegionIsa isa)
    : doubles_(dtype == c10::ScalarType::Double), wide_(isa == RegionIsa::avx512), lines_(1) {
  std::memset(lines_.data(), 0xff, sizeof(Line) / 2);
  std::memset(lines_[0].bytes + sizeof(Line) / 2, 0, sizeof(Line) / 2);
  for (const RegionStage &stage : schedule.stages)
    for (const PieceOp &op : stage.piece.ops) {
      if (const auto implied = implied_by(op.code))
        add(*implied);
      for (int k = 0; k < op.operands_count; ++k)
        if (op.operands[k].from == PieceOperand::From::number)
          add(of(op.operands[k].value));
    }
}

NumberBits RegionNumbers::of(double value) const {
  return doubles_ ? std::bit_cast<std::uint64_t>(value)
                  : std::bit_cast<std::uint32_t>(static_cast<float>(value));
}

std::optional<NumberBits> RegionNumbers::implied_by(RegionCode code) const {
  const NumberBits sign = of(-0.0);
  if (code == RegionCode::neg)
    return sign;
  if (code == RegionCode::abs)
    return sign - 1;
  return std::nullopt;
}

void RegionNumbers::add(NumberBits bits) {
  if (!offsets_.emplace(bits, static_cast<int>(used_)).second)
    return;
  const std::size_t size = doubles_ ? 8 : 4, all = wide_ ? size : 32;
  lines_.resize((used_ + all + sizeof(Line) - 1) / sizeof(Line));
  auto *start = reinterpret_cast<std::byte *>(lines_.data()) + used_;
  for (std::size_t done = 0; done < all; done += size)
    std::memcpy(start + done, &bits, size);
  used_ += all;
}

} // namespace tracehost::region
