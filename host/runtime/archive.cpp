#include "tracehost/archive.h"

#include "archive/archive.h"
#include "report/ledger.h"
#include "runtime/loaded.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace tracehost {
inline namespace TRACEHOST_ABI {

struct Archive::State {
  std::string path, hash;
  std::vector<std::pair<std::string, Function>> functions; ///< in the order of the file
};

namespace {

/// The PyTorch that is loaded, by the version of its interface for compiled code: 2.15 is
/// 2 << 56 | 15 << 48.
std::pair<int, int> loaded_torch() {
  const std::uint64_t version = aoti_torch_abi_version();
  return {static_cast<int>(version >> 56), static_cast<int>(version >> 48 & 0xff)};
}

/// Tensors are of one type with those of the program only where all three were made of one minor
/// version.
void check_torch(int major, int minor) {
  const std::pair<int, int> built{TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR}, program{major, minor};
  const auto name = [](std::pair<int, int> v) { return fmt::format("{}.{}", v.first, v.second); };
  if (program != built)
    throw Error(fmt::format("this program was compiled with PyTorch {}, but tracehost {} for {}. "
                            "Build both with one, or install the tracehost made for {}.",
                            name(program), TRACEHOST_VERSION, name(built), name(program)));
  if (const auto loaded = loaded_torch(); loaded != built)
    throw Error(fmt::format("tracehost {} was built for PyTorch {}, but {} is loaded. Put the lib "
                            "folder of PyTorch {} on the program's library path.",
                            TRACEHOST_VERSION, name(built), name(loaded), name(built)));
}

std::optional<at::Device> device_of(const std::string &text) {
  if (text.empty())
    return std::nullopt;
  std::optional<at::Device> device;
  try {
    device = at::Device(text);
  } catch (const c10::Error &e) {
    throw DeviceError(fmt::format("'{}' is no device: {}", text, e.what_without_backtrace()));
  }
  if (device->is_cuda()) {
    const auto count = at::detail::getCUDAHooks().deviceCount();
    if (std::max<int>(device->index(), 0) >= count)
      throw DeviceError(fmt::format("there is no device '{}': {} CUDA device{} can be used", text,
                                    static_cast<int>(count), count == 1 ? "" : "s"));
  }
  return device;
}

} // namespace

Archive Archive::load(const std::string &path, const LoadOptions &options, int torch_major,
                      int torch_minor) {
  check_torch(torch_major, torch_minor);
  const auto device = device_of(options.device);
  auto state = std::make_shared<State>();
  try {
    const archive::Contents contents = archive::read(path, device);
    state->path = contents.path;
    state->hash = contents.hash;
    for (const archive::Entry &entry : contents.functions)
      state->functions.emplace_back(
          entry.name, Function(std::make_shared<runtime::Loaded>(entry, path, report::ledger())));
  } catch (const archive::Error &e) {
    throw ArchiveError(e.what());
  }
  Archive result;
  result.state_ = std::move(state);
  return result;
}

const Function &Archive::operator[](const std::string &name) const {
  for (const auto &[own, function] : state_->functions)
    if (own == name)
      return function;
  std::string known;
  for (const std::string &own : names())
    known += (known.empty() ? "" : ", ") + own;
  throw ArchiveError(fmt::format("{} has no function '{}'; it has {}", path(), name, known));
}

bool Archive::contains(const std::string &name) const {
  return std::any_of(state_->functions.begin(), state_->functions.end(),
                     [&](const auto &function) { return function.first == name; });
}

std::vector<std::string> Archive::names() const {
  std::vector<std::string> result;
  for (const auto &[name, function] : state_->functions)
    result.push_back(name);
  return result;
}

const std::string &Archive::path() const { return state_->path; }
const std::string &Archive::hash() const { return state_->hash; }

} // namespace TRACEHOST_ABI
} // namespace tracehost
