#include "archive/names.h"

#include "shapes/op_names.h"

#include <fmt/format.h>

#include <cctype>

namespace tracehost::archive {
namespace {

/// No names for what Python's parser is to read, besides its keywords.
const auto kReserved = op_names("training torch ops self print");

/// What a torch.nn.Module has by itself, which would hide a method of the same name.
const auto kOfModules =
    op_names("add_module apply bfloat16 buffers call_super_init children code compile copy cpu "
             "cuda define double dump_patches eval extra_repr float get_buffer get_extra_state "
             "get_parameter graph half ipu load_state_dict modules mtia named_buffers "
             "named_children named_modules named_parameters parameters requires_grad save "
             "share_memory state_dict to to_empty train type zero_grad");

const auto kKeywords =
    op_names("False None True and as assert async await break class continue def del elif else "
             "except finally for from global if import in is lambda nonlocal not or pass raise "
             "return try while with yield");

bool is_reserved(std::string_view name) {
  return kKeywords.contains(name) || kReserved.contains(name) || kOfModules.contains(name);
}

} // namespace

std::string Names::take(const std::string &wanted) {
  std::string base;
  for (const char c : wanted)
    if (std::isalnum(static_cast<unsigned char>(c)))
      base += c;
    else if (!base.empty() && base.back() != '_')
      base += '_';
  while (!base.empty() && base.back() == '_')
    base.pop_back();
  if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0])) || is_reserved(base))
    base = "f_" + base;
  std::string name = base;
  for (int i = 1; !taken_.insert(name).second; ++i)
    name = fmt::format("{}_{}", base, i);
  return name;
}

std::string without_place(std::string path) {
  if (const auto at = path.find(" used at "); at != std::string::npos)
    path.erase(at);
  if (const auto open = path.rfind(" ("); open != std::string::npos && path.ends_with(')'))
    path.erase(open);
  return path;
}

} // namespace tracehost::archive
