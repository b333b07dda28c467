#include "base/opcodes.h"

#include "base/lazy.h"
#include "base/object.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

namespace tracehost::python {

namespace {

struct Row {
  std::string_view name;
  Action action;
};

/// Every opcode of Python 3.11, 3.12 and 3.13.
constexpr Row kRows[] = {
    {"LOAD_ATTR", Action::load_attribute},
    {"LOAD_METHOD", Action::load_attribute},
    {"STORE_ATTR", Action::store_attribute},
    {"DELETE_ATTR", Action::delete_attribute},
    {"LOAD_SUPER_ATTR", Action::load_super},
    {"LOAD_GLOBAL", Action::load_global},
    {"STORE_GLOBAL", Action::store_global},
    {"DELETE_GLOBAL", Action::store_global},
    {"LOAD_NAME", Action::load_name},
    {"LOAD_FROM_DICT_OR_GLOBALS", Action::load_name},
    {"STORE_NAME", Action::store_name},
    {"DELETE_NAME", Action::store_name},
    {"LOAD_DEREF", Action::load_cell},
    {"LOAD_CLASSDEREF", Action::load_class_cell},
    {"LOAD_FROM_DICT_OR_DEREF", Action::load_class_cell},
    {"STORE_DEREF", Action::store_cell},
    {"DELETE_DEREF", Action::store_cell},
    {"BINARY_SUBSCR", Action::load_item},
    {"BINARY_SLICE", Action::load_slice},
    {"STORE_SUBSCR", Action::store_item},
    {"STORE_SLICE", Action::store_slice},
    {"DELETE_SUBSCR", Action::delete_item},
    {"GET_ITER", Action::iterate},
    {"GET_YIELD_FROM_ITER", Action::iterate},
    {"UNPACK_SEQUENCE", Action::iterate},
    {"UNPACK_EX", Action::iterate},
    {"LIST_EXTEND", Action::iterate},
    {"SET_UPDATE", Action::iterate},
    {"DICT_UPDATE", Action::iterate},
    {"DICT_MERGE", Action::iterate},
    {"FOR_ITER", Action::next},
    {"LIST_TO_TUPLE", Action::none},
    {"CONTAINS_OP", Action::contains},
    {"COMPARE_OP", Action::compare},
    {"BINARY_OP", Action::operate},
    {"TO_BOOL", Action::truth},
    {"UNARY_NOT", Action::truth},
    {"POP_JUMP_IF_TRUE", Action::truth},
    {"POP_JUMP_IF_FALSE", Action::truth},
    {"POP_JUMP_FORWARD_IF_TRUE", Action::truth},
    {"POP_JUMP_FORWARD_IF_FALSE", Action::truth},
    {"POP_JUMP_BACKWARD_IF_TRUE", Action::truth},
    {"POP_JUMP_BACKWARD_IF_FALSE", Action::truth},
    {"JUMP_IF_TRUE_OR_POP", Action::truth},
    {"JUMP_IF_FALSE_OR_POP", Action::truth},
    {"GET_LEN", Action::length},
    {"FORMAT_VALUE", Action::format},
    {"FORMAT_SIMPLE", Action::format},
    {"FORMAT_WITH_SPEC", Action::format_second},
    {"CONVERT_VALUE", Action::format},
    {"SET_ADD", Action::hash},
    {"MAP_ADD", Action::hash_second},
    {"BUILD_SET", Action::hash_all},
    {"BUILD_MAP", Action::hash_keys},
    {"MATCH_KEYS", Action::match_keys},
    {"MATCH_CLASS", Action::match_class},
    {"PRECALL", Action::call}, // 3.11: at CALL the stack is the same
    {"CALL", PY_VERSION_HEX < 0x030C0000 ? Action::none : Action::call},
    {"CALL_KW", Action::call_names},
    {"CALL_FUNCTION_EX", Action::call_unpacked},
    {"IMPORT_NAME", Action::import_name},
    {"IMPORT_FROM", Action::import_from},
    {"RETURN_VALUE", Action::give},
    {"YIELD_VALUE", Action::give},
    // What an object does for `with`, `for`, `await` or an operator is code, which is observed.
    {"BEFORE_WITH", Action::none},
    {"BEFORE_ASYNC_WITH", Action::none},
    {"SEND", Action::none},
    {"GET_AITER", Action::none},
    {"GET_ANEXT", Action::none},
    {"GET_AWAITABLE", Action::none},
    {"UNARY_POSITIVE", Action::none},
    {"UNARY_NEGATIVE", Action::none},
    {"UNARY_INVERT", Action::none},
    {"WITH_EXCEPT_START", Action::none},
    // Compares objects; their values are guarded where they were read.
    {"IS_OP", Action::identify},
    {"POP_JUMP_IF_NONE", Action::none},
    {"POP_JUMP_IF_NOT_NONE", Action::none},
    {"POP_JUMP_FORWARD_IF_NONE", Action::none},
    {"POP_JUMP_FORWARD_IF_NOT_NONE", Action::none},
    {"POP_JUMP_BACKWARD_IF_NONE", Action::none},
    {"POP_JUMP_BACKWARD_IF_NOT_NONE", Action::none},
    {"CHECK_EXC_MATCH", Action::none},
    {"CHECK_EG_MATCH", Action::none},
    {"MATCH_MAPPING", Action::none},
    {"MATCH_SEQUENCE", Action::none},
    // A new object, or a value that is in the frame.
    {"ASYNC_GEN_WRAP", Action::none},
    {"BUILD_CONST_KEY_MAP", Action::none},
    {"BUILD_LIST", Action::none},
    {"BUILD_SLICE", Action::none},
    {"BUILD_STRING", Action::none},
    {"BUILD_TUPLE", Action::none},
    {"CACHE", Action::none},
    {"CALL_INTRINSIC_1", Action::none},
    {"CALL_INTRINSIC_2", Action::none},
    {"CLEANUP_THROW", Action::none},
    {"COPY", Action::none},
    {"COPY_FREE_VARS", Action::none},
    {"DELETE_FAST", Action::none},
    {"END_ASYNC_FOR", Action::none},
    {"END_FOR", Action::none},
    {"END_SEND", Action::none},
    {"ENTER_EXECUTOR", Action::none},
    {"EXIT_INIT_CHECK", Action::none},
    {"EXTENDED_ARG", Action::none},
    {"IMPORT_STAR", Action::none},
    {"INTERPRETER_EXIT", Action::none},
    {"JUMP_BACKWARD", Action::none},
    {"JUMP_BACKWARD_NO_INTERRUPT", Action::none},
    {"JUMP_FORWARD", Action::none},
    {"KW_NAMES", Action::none},
    {"LIST_APPEND", Action::none},
    {"LOAD_ASSERTION_ERROR", Action::none},
    {"LOAD_BUILD_CLASS", Action::none},
    {"LOAD_CLOSURE", Action::none},
    {"LOAD_CONST", Action::none},
    {"LOAD_FAST", Action::none},
    {"LOAD_FAST_AND_CLEAR", Action::none},
    {"LOAD_FAST_CHECK", Action::none},
    {"LOAD_FAST_LOAD_FAST", Action::none},
    {"LOAD_LOCALS", Action::none},
    {"MAKE_CELL", Action::none},
    {"MAKE_FUNCTION", Action::none},
    {"NOP", Action::none},
    {"POP_EXCEPT", Action::none},
    {"POP_TOP", Action::none},
    {"PREP_RERAISE_STAR", Action::none},
    {"PRINT_EXPR", Action::none},
    {"PUSH_EXC_INFO", Action::none},
    {"PUSH_NULL", Action::none},
    {"RAISE_VARARGS", Action::none},
    {"RERAISE", Action::none},
    {"RESERVED", Action::none},
    {"RESUME", Action::none},
    {"RETURN_CONST", Action::none},
    {"RETURN_GENERATOR", Action::none},
    {"SETUP_ANNOTATIONS", Action::none},
    {"SET_FUNCTION_ATTRIBUTE", Action::none},
    {"STORE_FAST", Action::none},
    {"STORE_FAST_LOAD_FAST", Action::none},
    {"STORE_FAST_STORE_FAST", Action::none},
    {"SWAP", Action::none},
};

constexpr std::string_view kEnds[] = {
    "RETURN_VALUE", "RETURN_CONST",  "RAISE_VARARGS",    "RERAISE",
    "JUMP_FORWARD", "JUMP_BACKWARD", "INTERPRETER_EXIT", "JUMP_BACKWARD_NO_INTERRUPT"};

/// What the interpreter puts in place of the compiler's opcodes, and the compiler's own.
bool is_internal(std::string_view name) { return name.starts_with("INSTRUMENTED_"); }

Owned member(PyObject *module, const char *name) {
  Owned found(module ? PyObject_GetAttrString(module, name) : nullptr);
  PyErr_Clear();
  return found;
}

/// `_inline_cache_entries`: a list by opcode up to 3.12, a dict by name in 3.13.
int caches_of(PyObject *entries, PyObject *name, long number) {
  PyObject *count = nullptr; // borrowed
  if (entries && PyList_Check(entries) && number < PyList_GET_SIZE(entries))
    count = PyList_GET_ITEM(entries, number);
  else if (entries && PyDict_Check(entries))
    count = PyDict_GetItemWithError(entries, name);
  return count && PyLong_Check(count) ? static_cast<int>(PyLong_AsLong(count)) : 0;
}

struct Made {
  Opcodes table{};
  std::map<std::string, std::pair<int, Action>> observed; ///< by name, of those with an action
  std::string unknown;
};

Made make() {
  const KeepError keep;
  Made made;
  const Owned module(PyImport_ImportModule("opcode"));
  const Owned map = member(module.get(), "opmap");
  const Owned caches = member(module.get(), "_inline_cache_entries");
  const Owned relative = member(module.get(), "hasjrel");
  made.table.names = -1;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; map && PyDict_Next(map.get(), &at, &key, &value);) {
    const long number = PyLong_AsLong(value);
    const std::string_view name = utf8(key);
    if (number > 255 || is_internal(name))
      continue; // of the compiler, and of the interpreter
    const auto *row = std::find_if(std::begin(kRows), std::end(kRows),
                                   [name](const Row &r) { return r.name == name; });
    if (row == std::end(kRows)) {
      made.unknown += (made.unknown.empty() ? "" : ", ") + std::string(name);
      continue;
    }
    made.table.action[number] = row->action;
    if (row->action != Action::none)
      made.observed.emplace(name, std::pair{static_cast<int>(number), row->action});
    made.table.caches[number] = static_cast<std::uint8_t>(caches_of(caches.get(), key, number));
    made.table.jumps[number] = relative && PySequence_Contains(relative.get(), value) == 1;
    made.table.backwards[number] = name.find("BACKWARD") != name.npos;
    made.table.ends[number] =
        std::find(std::begin(kEnds), std::end(kEnds), name) != std::end(kEnds);
    Opcodes &t = made.table;
    for (const auto &[known, place] :
         {std::pair{"EXTENDED_ARG", &t.extended}, std::pair{"CACHE", &t.cache},
          std::pair{"KW_NAMES", &t.names}, std::pair{"CHECK_EXC_MATCH", &t.check_match},
          std::pair{"CHECK_EG_MATCH", &t.check_group}, std::pair{"RERAISE", &t.reraise},
          std::pair{"WITH_EXCEPT_START", &t.with_start}, std::pair{"POP_TOP", &t.pop_top}})
      if (name == known)
        *place = static_cast<int>(number);
  }
  PyErr_Clear();
  return made;
}

Made &made() {
  static constinit Lazy<Made> table;
  return table(make);
}

} // namespace

const Opcodes &opcodes() { return made().table; }

std::vector<std::string> observed_opcodes() {
  std::vector<std::string> names;
  for (const auto &[name, opcode] : made().observed)
    names.push_back(name);
  return names;
}

bool switch_opcode(const std::string &name, bool on) {
  const auto found = made().observed.find(name);
  if (found == made().observed.end())
    return false;
  made().table.action[found->second.first] = on ? found->second.second : Action::none;
  return true;
}

std::string opcodes_unknown() { return made().unknown; }

} // namespace tracehost::python
