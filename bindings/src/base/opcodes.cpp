#include "base/opcodes.h"

#include "base/forget_error.h"
#include "base/lazy.h"
#include "base/object.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <ranges>
#include <string_view>
#include <utility>

namespace tracehost::python {

namespace {

struct Row {
  Action action;
  std::string_view names; ///< with a space between
};

/// Every opcode of Python 3.11 to 3.14.
constexpr Row kRows[] = {
    {Action::load_attribute, "LOAD_ATTR LOAD_METHOD"},
    {Action::store_attribute, "STORE_ATTR DELETE_ATTR"},
    {Action::load_super, "LOAD_SUPER_ATTR"},
    {Action::load_global, "LOAD_GLOBAL"},
    {Action::store_global, "STORE_GLOBAL DELETE_GLOBAL"},
    {Action::load_name, "LOAD_NAME LOAD_FROM_DICT_OR_GLOBALS"},
    {Action::store_name, "STORE_NAME DELETE_NAME"},
    {Action::load_cell, "LOAD_DEREF LOAD_CLASSDEREF LOAD_FROM_DICT_OR_DEREF"},
    {Action::store_cell, "STORE_DEREF DELETE_DEREF"},
    {Action::load_item, "BINARY_SUBSCR"},
    {Action::load_slice, "BINARY_SLICE"},
    {Action::store_item, "STORE_SUBSCR"},
    {Action::store_slice, "STORE_SLICE"},
    {Action::delete_item, "DELETE_SUBSCR"},
    {Action::iterate, "GET_ITER GET_YIELD_FROM_ITER"},
    {Action::take, "UNPACK_SEQUENCE UNPACK_EX LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE"},
    {Action::next, "FOR_ITER"},
    {Action::contains, "CONTAINS_OP"},
    {Action::compare, "COMPARE_OP"},
    {Action::operate, "BINARY_OP"},
    {Action::truth, "TO_BOOL UNARY_NOT POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_FORWARD_IF_TRUE "
                    "POP_JUMP_FORWARD_IF_FALSE POP_JUMP_BACKWARD_IF_TRUE "
                    "POP_JUMP_BACKWARD_IF_FALSE JUMP_IF_TRUE_OR_POP JUMP_IF_FALSE_OR_POP"},
    {Action::length, "GET_LEN"},
    {Action::format, "FORMAT_VALUE FORMAT_SIMPLE CONVERT_VALUE"},
    {Action::format_second, "FORMAT_WITH_SPEC"},
    {Action::hash, "SET_ADD"},
    {Action::hash_second, "MAP_ADD"},
    {Action::hash_all, "BUILD_SET"},
    {Action::hash_keys, "BUILD_MAP"},
    {Action::match_keys, "MATCH_KEYS"},
    {Action::match_class, "MATCH_CLASS"},
    {Action::call, "PRECALL"}, // 3.11: at CALL the stack is the same
    {PY_VERSION_HEX < 0x030C0000 ? Action::none : Action::call, "CALL"},
    {Action::call_names, "CALL_KW"},
    {Action::call_unpacked, "CALL_FUNCTION_EX"},
    {Action::import_name, "IMPORT_NAME"},
    {Action::import_from, "IMPORT_FROM"},
    {Action::give, "RETURN_VALUE YIELD_VALUE"},
    // What an object does for `with`, `for`, `await` or an operator is code, which is observed.
    {Action::enter, "BEFORE_WITH LOAD_SPECIAL"}, // a lock's `__enter__` is C code
    {Action::none, "BEFORE_ASYNC_WITH SEND GET_AITER GET_ANEXT GET_AWAITABLE "
                   "UNARY_POSITIVE UNARY_NEGATIVE UNARY_INVERT WITH_EXCEPT_START"},
    // Compares objects; their values are guarded where they were read.
    {Action::identify, "IS_OP"},
    {Action::none,
     "POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE "
     "POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE CHECK_EXC_MATCH CHECK_EG_MATCH "
     "MATCH_MAPPING MATCH_SEQUENCE"},
    // A new object.
    {Action::none,
     "ASYNC_GEN_WRAP BUILD_CONST_KEY_MAP BUILD_INTERPOLATION BUILD_LIST BUILD_SLICE BUILD_STRING "
     "BUILD_TEMPLATE BUILD_TUPLE CALL_INTRINSIC_1 CALL_INTRINSIC_2 COPY_FREE_VARS IMPORT_STAR "
     "LIST_APPEND LIST_TO_TUPLE "
     "LOAD_ASSERTION_ERROR LOAD_BUILD_CLASS LOAD_CLOSURE LOAD_COMMON_CONSTANT LOAD_LOCALS "
     "MAKE_CELL MAKE_FUNCTION "
     "RETURN_GENERATOR SETUP_ANNOTATIONS SET_FUNCTION_ATTRIBUTE"},
    // A value that is in the frame.
    {Action::none, "COPY DELETE_FAST LOAD_CONST LOAD_FAST LOAD_FAST_AND_CLEAR LOAD_FAST_BORROW "
                   "LOAD_FAST_BORROW_LOAD_FAST_BORROW LOAD_FAST_CHECK LOAD_FAST_LOAD_FAST "
                   "LOAD_SMALL_INT POP_ITER POP_TOP PUSH_NULL STORE_FAST STORE_FAST_LOAD_FAST "
                   "STORE_FAST_STORE_FAST SWAP"},
    // Where the code continues.
    {Action::none,
     "ANNOTATIONS_PLACEHOLDER CACHE CLEANUP_THROW END_ASYNC_FOR END_FOR END_SEND ENTER_EXECUTOR "
     "EXIT_INIT_CHECK "
     "EXTENDED_ARG INTERPRETER_EXIT JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT JUMP_FORWARD KW_NAMES "
     "NOP NOT_TAKEN POP_EXCEPT PREP_RERAISE_STAR PRINT_EXPR PUSH_EXC_INFO RAISE_VARARGS RERAISE "
     "RESERVED "
     "RESUME RETURN_CONST"},
};

constexpr std::string_view kEnds[] = {
    "RETURN_VALUE", "RETURN_CONST",  "RAISE_VARARGS",    "RERAISE",
    "JUMP_FORWARD", "JUMP_BACKWARD", "INTERPRETER_EXIT", "JUMP_BACKWARD_NO_INTERRUPT"};

/// What the interpreter puts in place of the compiler's opcodes, and the compiler's own.
bool is_internal(std::string_view name) { return name.starts_with("INSTRUMENTED_"); }

Owned member(PyObject *module, const char *name) {
  Owned found(module ? PyObject_GetAttrString(module, name) : nullptr);
  forget_error();
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
  std::map<std::string_view, Action> actions;
  for (const Row &row : kRows)
    for (const auto name : std::views::split(row.names, ' '))
      actions.emplace(std::string_view(name.begin(), name.end()), row.action);
  Made made;
  const Owned module(PyImport_ImportModule("opcode"));
  const Owned map = member(module.get(), "opmap");
  const Owned caches = member(module.get(), "_inline_cache_entries");
  const Owned relative = member(module.get(), "hasjrel");
  made.table.names = made.table.special = -1;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; map && PyDict_Next(map.get(), &at, &key, &value);) {
    const long number = PyLong_AsLong(value);
    const std::string_view name = utf8(key);
    if (number > 255 || is_internal(name))
      continue; // of the compiler, and of the interpreter
    const auto row = actions.find(name);
    if (row == actions.end()) {
      made.unknown += (made.unknown.empty() ? "" : ", ") + std::string(name);
      continue;
    }
    const Action action = made.table.action[number] = row->second;
    if (action != Action::none)
      made.observed.emplace(name, std::pair{static_cast<int>(number), action});
    made.table.caches[number] = static_cast<std::uint8_t>(caches_of(caches.get(), key, number));
    made.table.jumps[number] = relative && PySequence_Contains(relative.get(), value) == 1;
    made.table.deletes[number] = name.starts_with("DELETE_");
    made.table.backwards[number] = name.find("BACKWARD") != name.npos;
    made.table.ends[number] =
        std::find(std::begin(kEnds), std::end(kEnds), name) != std::end(kEnds);
    Opcodes &t = made.table;
    for (const auto &[known, place] :
         {std::pair{"EXTENDED_ARG", &t.extended}, std::pair{"KW_NAMES", &t.names},
          std::pair{"CHECK_EXC_MATCH", &t.check_match}, std::pair{"CHECK_EG_MATCH", &t.check_group},
          std::pair{"RERAISE", &t.reraise}, std::pair{"WITH_EXCEPT_START", &t.with_start},
          std::pair{"PUSH_EXC_INFO", &t.push_exception}, std::pair{"POP_TOP", &t.pop_top},
          std::pair{"BINARY_OP", &t.binary}, std::pair{"LOAD_SPECIAL", &t.special}})
      if (name == known)
        *place = static_cast<int>(number);
  }
  forget_error();
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
