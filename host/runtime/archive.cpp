#include "tracehost/archive.h"

#include "archive/archive.h"
#include "report/ledger.h"
#include "runtime/loaded.h"
#include "runtime/log.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <fmt/ranges.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace tracehost {
inline namespace TRACEHOST_ABI {

struct Archive::State {
  explicit State(archive::Contents contents);

  archive::Contents contents;
  std::vector<std::pair<std::string, Function>> functions; ///< in the order of the file
  std::map<std::string, at::Tensor> tensors;
};

Archive::State::State(archive::Contents from) : contents(std::move(from)) {
  for (const archive::Entry &entry : contents.functions) {
    functions.emplace_back(entry.name, Function(std::make_shared<runtime::Loaded>(
                                           entry, contents.path, report::ledger(), contents.hash)));
    for (const SpecializationRef &specialization : entry.specializations) {
      const archive::State &own = archive::state(*specialization);
      for (std::size_t i = 0; i < own.captures.size(); ++i)
        tensors.emplace(own.attributes[i], own.captures[i]);
    }
  }
}

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
    if (!at::CUDAHooksRegistry()->Has("CUDAHooks"))
      throw DeviceError(
          fmt::format("there is no device '{}': this program has no CUDA libraries of "
                      "PyTorch. Link tracehost::cuda (pkg-config: tracehost-cuda).",
                      text));
    const auto count = at::detail::getCUDAHooks().deviceCount();
    if (std::max<int>(device->index(), 0) >= count)
      throw DeviceError(fmt::format("there is no device '{}': {} CUDA device{} can be used", text,
                                    static_cast<int>(count), count == 1 ? "" : "s"));
  }
  return device;
}

std::optional<Optimize> optimize_of(const std::string &text) {
  if (text.empty())
    return std::nullopt;
  if (text == "fast")
    throw Error("LoadOptions::optimize is 'fast', which is reserved; write 'exact' or 'off'");
  if (text != "exact" && text != "off")
    throw Error(fmt::format("LoadOptions::optimize must be 'exact' or 'off', got '{}'", text));
  return text == "exact" ? Optimize::exact : Optimize::off;
}

archive::Contents read(const archive::Input &input, const LoadOptions &options) {
  archive::ReadOptions how{device_of(options.device), options.functions,
                           optimize_of(options.optimize)};
  if (!options.sha256.empty())
    how.sha256 = options.sha256;
  try {
    return archive::read(input, how);
  } catch (const archive::Error &e) {
    throw ArchiveError(e.what());
  }
}

void log_load(const Archive &archive) {
  if (runtime::logs())
    runtime::log(LogLevel::info, archive.path(),
                 fmt::format("{}: loaded, functions {}, {}", archive.path(),
                             fmt::join(archive.names(), ", "), archive.hash()));
}

} // namespace

Archive Archive::load(const std::string &path, const LoadOptions &options, int torch_major,
                      int torch_minor) {
  check_torch(torch_major, torch_minor);
  Archive result;
  result.state_ = std::make_shared<State>(read({path, std::nullopt}, options));
  log_load(result);
  return result;
}

Archive Archive::load_from_memory(std::span<const char> bytes, const LoadOptions &options,
                                  const std::string &name, int torch_major, int torch_minor) {
  check_torch(torch_major, torch_minor);
  Archive result;
  result.state_ =
      std::make_shared<State>(read({name, std::string_view(bytes.data(), bytes.size())}, options));
  log_load(result);
  return result;
}

Archive Archive::with_tensors(const std::map<std::string, at::Tensor> &tensors) const {
  archive::Contents contents = state().contents;
  try {
    archive::put_tensors(contents, tensors);
  } catch (const archive::Error &e) {
    throw Error(fmt::format("{}: {}", path(), e.what()));
  }
  Archive result;
  result.state_ = std::make_shared<State>(std::move(contents));
  return result;
}

const Archive::State &Archive::state() const {
  if (!state_)
    throw Error("this tracehost::Archive is empty. Assign it the result of "
                "tracehost::Archive::load.");
  return *state_;
}

const Function &Archive::operator[](const std::string &name) const {
  for (const auto &[own, function] : state().functions)
    if (own == name)
      return function;
  throw ArchiveError(
      fmt::format("{} has no function '{}'; it has {}", path(), name, fmt::join(names(), ", ")));
}

bool Archive::contains(const std::string &name) const {
  return std::any_of(state().functions.begin(), state().functions.end(),
                     [&](const auto &function) { return function.first == name; });
}

std::vector<std::string> Archive::names() const {
  std::vector<std::string> result;
  for (const auto &[name, function] : state().functions)
    result.push_back(name);
  return result;
}

const std::string &Archive::path() const { return state().contents.path; }
const std::string &Archive::hash() const { return state().contents.hash; }

const std::string &Archive::sha256() const { return state().contents.sha256; }
const std::map<std::string, std::string> &Archive::metadata() const {
  return state().contents.metadata;
}
const std::map<std::string, at::Tensor> &Archive::tensors() const { return state().tensors; }

} // namespace TRACEHOST_ABI
} // namespace tracehost
