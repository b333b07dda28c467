#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// Regions: consecutive pointwise ops of a tape as one function of machine code.
///
/// Problem. A kernel reads its operands from memory and writes its result to memory, so a chain of
/// 150 additions on a megabyte moves 300 megabytes. On nine values the calls cost more than the
/// sums.
///
/// What a region is. Ops of one dtype, float32 or float64, over arrays of n values: op k of value i
/// reads values i. An array is contiguous. Results stay in registers, and only outputs are written.
/// Each result has eager's bits; a NaN is a NaN, but not always with eager's sign and payload.
///
/// Data layout. pieces.h cuts the ops into stages. A stage is a piece of machine code, then
/// calls of eager's kernels for functions such as sin(), whose bits no instruction has. What a
/// later stage reads is in a slot: scratch memory for one tile, which is at most 2,048 values.
///
///     y = sin(x * 2) + x       stage 0: piece  slot 0 = x * 2
///     return y                          call   slot 0 = sin(slot 0)
///                              stage 1: piece  output 0 = slot 0 + x
///
/// Fast path. The stages run for each tile; without functions and rows all values are one tile. The
/// code takes four vectors at a time: an instruction on one does not wait for the one before on it.
///
/// Slow path. The last values of the range take one vector at a time, and lanes beyond n are
/// masked. Registers that run short are spilled to the stack (registers.h).
///
/// The instructions follow at::get_cpu_capability(), as eager's kernels do, and not the CPU alone.

namespace tracehost::region {

struct RegionOperand {
  enum class From : std::uint8_t { input, number, result } from = From::number;
  int index = 0;    ///< of an input, of an op
  double value = 0; ///< of a number, which the region rounds to its dtype

  static RegionOperand input(int index) { return {From::input, index, 0}; }
  static RegionOperand result(int op) { return {From::result, op, 0}; }
  static RegionOperand number(double value) { return {From::number, 0, value}; }
  bool operator==(const RegionOperand &) const = default;
};

enum class RegionCode : std::uint8_t {
  // Instructions. `fmadd` is a * b + c, rounded once. `maximum` and `minimum` give a NaN for a NaN;
  // clamp_min(a, b) and clamp_max(a, b) give a where b is a NaN or equal.
  add,
  sub,
  mul,
  div,
  fmadd,
  maximum,
  minimum,
  clamp_min,
  clamp_max,
  neg,
  abs,
  root, ///< the square root of IEEE 754; eager's sqrt() has other bits
  floor,
  ceil,
  trunc,
  round, ///< half to even
  // Comparisons, whose result only `where` may read, as its first operand.
  lt,
  le,
  gt,
  ge,
  eq,
  ne,
  where,
  // Functions: calls of eager's kernels (functions.h).
  sin,
  cos,
  tan,
  tanh,
  exp,
  log,
  sqrt,
  erf,
  sigmoid,
  silu,
  log1p,
  expm1,
  atan,
  gelu,
  gelu_tanh,
};

struct RegionOp {
  RegionCode code;
  RegionOperand a = {}, b = {}, c = {}; ///< as many as the code has
};

struct RegionInput {
  enum class Kind : std::uint8_t { values, one, row } kind = Kind::values;
  std::int64_t period = 0; ///< of a row: value i of the region reads value i % period
};

struct RegionPlan {
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<RegionInput> inputs = {};
  std::vector<RegionOp> ops = {}; ///< an op reads results of earlier ops
  std::vector<int> outputs = {};  ///< the ops whose results are written
};

/// Which instructions a region has.
enum class RegionIsa : std::uint8_t { avx2, avx512 };
/// Those of eager's kernels in this process. None: eager has neither, or the CPU lacks them.
std::optional<RegionIsa> region_isa();

struct RegionSchedule;
class RegionMachineCode;

class Region {
public:
  /// Null, and `why`: the plan has no region on this machine.
  static std::unique_ptr<Region> compile(const RegionPlan &plan, std::string &why);
  /// The same for given instructions. Requires: the CPU has them.
  static std::unique_ptr<Region> compile(const RegionPlan &plan, RegionIsa isa, std::string &why);
  ~Region();

  /// Hot. Computes n values. `inputs` and `outputs` are those of the plan, in its order; each has
  /// the alignment of its dtype. Requires: an output overlaps neither an input nor another output.
  /// Any number of threads may run one region.
  void run(const void *const *inputs, void *const *outputs, std::int64_t n) const;

  std::size_t stages() const;

private:
  Region() = default;
  struct Scratch;
  void plan_scratch();
  void run_range(const void *const *inputs, void *const *outputs, std::int64_t begin,
                 std::int64_t end) const;
  void run_tile(const void *const *arrays, std::int64_t n) const;
  void repeat_rows(const void *const *inputs, std::byte *memory, std::int64_t n) const;
  void place_rows(Scratch &scratch, const void *const *inputs, std::byte *memory, std::int64_t at,
                  std::int64_t n) const;

  std::vector<RegionInput> inputs_;
  std::vector<std::size_t> rows_; ///< inputs that are rows
  std::size_t outputs_ = 0, itemsize_ = 0, scratch_bytes_ = 0;
  c10::ScalarType dtype_ = c10::ScalarType::Float;
  std::int64_t tile_ = 0; ///< values
  bool is_tiled_ = false; ///< else all values are one tile
  std::unique_ptr<RegionSchedule> schedule_;
  std::unique_ptr<RegionMachineCode> code_;
};

} // namespace tracehost::region
