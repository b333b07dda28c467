#include "region/assembler.h"
#include "region/machine.h"

#include <stdexcept>

namespace tracehost::region {
namespace {

/// Room for the code of most regions; it grows for others.
constexpr std::size_t kBytesOfOp = 7 * 12, kBytesOfPiece = 1024;

class XbyakCode final : public RegionMachineCode {
public:
  XbyakCode(const RegionSchedule &schedule, c10::ScalarType dtype, RegionIsa isa)
      : numbers_(schedule, dtype, isa),
        assembler_(dtype, isa, schedule.is_one, numbers_, bytes_for(schedule)) {
    std::vector<std::optional<std::size_t>> starts;
    for (const RegionStage &stage : schedule.stages)
      starts.push_back(stage.piece.ops.empty() ? std::nullopt
                                               : std::optional(assembler_.write(stage.piece)));
    assembler_.readyRE();
    auto *code = const_cast<std::uint8_t *>(assembler_.getCode());
    for (const auto &start : starts)
      entries_.push_back(start ? reinterpret_cast<Entry>(code + *start) : nullptr);
  }

private:
  static std::size_t bytes_for(const RegionSchedule &schedule) {
    std::size_t bytes = 0;
    for (const RegionStage &stage : schedule.stages)
      bytes += kBytesOfPiece + stage.piece.ops.size() * kBytesOfOp;
    return bytes;
  }

  RegionNumbers numbers_;
  RegionAssembler assembler_;
};

} // namespace

std::unique_ptr<RegionMachineCode> RegionMachineCode::make(const RegionSchedule &schedule,
                                                           c10::ScalarType dtype, RegionIsa isa,
                                                           std::string &why) {
  try {
    return std::make_unique<XbyakCode>(schedule, dtype, isa);
  } catch (const std::exception &error) {
    why = std::string("no machine code: ") + error.what();
    return nullptr;
  }
}

} // namespace tracehost::region
