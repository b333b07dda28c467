#include "archive/pickle.h"

#include "archive/error.h"

#include <fmt/format.h>

#include <bit>
#include <unordered_map>

namespace tracehost::archive {

/// Runs the opcodes over a stack of items.
class Pickle::Machine {
public:
  Machine(Pickle &pickle, std::string_view text) : pickle_(pickle), rest_(text) {}

  std::uint32_t run() {
    if (take(2) != "\x80\x02")
      pickle_.wrong("is of another protocol");
    while (!ended_)
      step(static_cast<unsigned char>(take(1)[0]));
    if (stack_.size() != 1 || !marks_.empty() || !rest_.empty())
      pickle_.wrong("does not end where it ends");
    return stack_.back();
  }

private:
  std::string_view take(std::size_t count) {
    if (count > rest_.size())
      pickle_.wrong("is cut off");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::uint64_t number(std::size_t bytes) {
    std::uint64_t result = 0;
    const std::string_view taken = take(bytes);
    for (std::size_t i = bytes; i-- > 0;)
      result = result << 8 | static_cast<unsigned char>(taken[i]);
    return result;
  }
  std::string_view line() {
    const auto end = rest_.find('\n');
    if (end == std::string_view::npos)
      pickle_.wrong("is cut off");
    const std::string_view taken = take(end + 1);
    return taken.substr(0, end);
  }

  void push(PickleItem item) {
    stack_.push_back(static_cast<std::uint32_t>(pickle_.items_.size()));
    pickle_.items_.push_back(std::move(item));
  }
  void push_integer(std::int64_t value, PickleKind kind = PickleKind::integer) {
    push({.kind = kind, .integer = value});
  }
  std::uint32_t pop() {
    if (stack_.empty() || (!marks_.empty() && stack_.size() == marks_.back()))
      pickle_.wrong("takes what is not there");
    const std::uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  /// The items above the last mark.
  std::vector<std::uint32_t> pop_marked() {
    if (marks_.empty())
      pickle_.wrong("takes what is not there");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<std::uint32_t> items(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return items;
  }
  void push_items(PickleKind kind, std::vector<std::uint32_t> items) {
    push({.kind = kind, .items = std::move(items)});
  }
  void push_last(PickleKind kind, std::size_t count) {
    std::vector<std::uint32_t> items(count);
    for (std::size_t i = count; i-- > 0;)
      items[i] = pop();
    push_items(kind, std::move(items));
  }
  /// The last items into the container below them, which is new: nothing else has it yet.
  void fill(PickleKind kind, std::size_t unit) {
    std::vector<std::uint32_t> items = pop_marked();
    const std::uint32_t into = pop();
    PickleItem &container = pickle_.items_[into];
    if (container.kind != kind || !container.items.empty() || items.size() % unit != 0)
      pickle_.wrong("fills what is no container");
    container.items = std::move(items);
    stack_.push_back(into);
  }
  void remember(std::uint64_t as) {
    if (stack_.empty())
      pickle_.wrong("takes what is not there");
    memory_[as] = stack_.back();
  }
  void recall(std::uint64_t which) {
    const auto found = memory_.find(which);
    if (found == memory_.end())
      pickle_.wrong("takes what is not there");
    stack_.push_back(found->second);
  }
  void build() {
    const std::uint32_t state = pop(), object = pop();
    PickleItem &of = pickle_.items_[object];
    if (of.kind != PickleKind::object || of.items.size() != 2 ||
        pickle_.items_[of.items[1]].kind != PickleKind::tuple)
      pickle_.wrong("sets the state of what is no new object");
    of.items[1] = state;
    stack_.push_back(object);
  }
  void step(unsigned char opcode);

  Pickle &pickle_;
  std::string_view rest_;
  std::vector<std::uint32_t> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, std::uint32_t> memory_;
  bool ended_ = false;
};

void Pickle::Machine::step(unsigned char opcode) {
  switch (opcode) {
  case '.':
    ended_ = true;
    return;
  case '(':
    return marks_.push_back(stack_.size());
  case 'N':
    return push({});
  case 0x88:
  case 0x89:
    return push_integer(opcode == 0x88, PickleKind::boolean);
  case 'K':
    return push_integer(static_cast<std::int64_t>(number(1)));
  case 'M':
    return push_integer(static_cast<std::int64_t>(number(2)));
  case 'J':
    return push_integer(static_cast<std::int32_t>(static_cast<std::uint32_t>(number(4))));
  case 0x8a: // as many bytes as the first says; the writer has eight
    if (number(1) != 8)
      pickle_.wrong("has an integer of another size");
    return push_integer(static_cast<std::int64_t>(number(8)));
  case 'G': // big-endian
    return push(
        {.kind = PickleKind::real, .real = std::bit_cast<double>(__builtin_bswap64(number(8)))});
  case 'X': {
    const std::uint64_t size = number(4);
    return push({.kind = PickleKind::text, .text = std::string(take(size))});
  }
  case 'c': {
    std::string name(line());
    name += ' ';
    name += line();
    return push({.kind = PickleKind::global, .text = std::move(name)});
  }
  case ')':
    return push_items(PickleKind::tuple, {});
  case ']':
    return push_items(PickleKind::list, {});
  case '}':
    return push_items(PickleKind::dict, {});
  case 't':
    return push_items(PickleKind::tuple, pop_marked());
  case 0x85:
  case 0x86:
  case 0x87:
    return push_last(PickleKind::tuple, opcode - 0x84U);
  case 'e':
    return fill(PickleKind::list, 1);
  case 'u':
    return fill(PickleKind::dict, 2);
  case 'R':
    return push_last(PickleKind::call, 2);
  case 0x81:
    return push_last(PickleKind::object, 2);
  case 'b':
    return build();
  case 'Q':
    return push_last(PickleKind::persistent, 1);
  case 'q':
    return remember(number(1));
  case 'r':
    return remember(number(4));
  case 'h':
    return recall(number(1));
  case 'j':
    return recall(number(4));
  default:
    pickle_.wrong(fmt::format("has opcode {:#04x}", opcode));
  }
}

Pickle::Pickle(std::string_view text, std::string name) : name_(std::move(name)) {
  root_ = Machine(*this, text).run();
}

const PickleItem &Pickle::item(const PickleItem &of, std::size_t index, PickleKind kind) const {
  if (index >= of.items.size() || at(of.items[index]).kind != kind)
    wrong("has another form");
  return at(of.items[index]);
}

const PickleItem *Pickle::arguments(const PickleItem &item, std::string_view global) const {
  if (item.kind != PickleKind::call)
    return nullptr;
  const PickleItem &callee = at(item.items[0]), &arguments = at(item.items[1]);
  return callee.kind == PickleKind::global && callee.text == global &&
                 arguments.kind == PickleKind::tuple
             ? &arguments
             : nullptr;
}

std::vector<std::int64_t> Pickle::integers(const PickleItem &of) const {
  std::vector<std::int64_t> result;
  if (of.kind != PickleKind::tuple && of.kind != PickleKind::list)
    wrong("has another form");
  for (std::size_t i = 0; i < of.items.size(); ++i)
    result.push_back(item(of, i, PickleKind::integer).integer);
  return result;
}

void Pickle::wrong(std::string_view what) const {
  wrong_file(fmt::format("record '{}' {}", name_, what));
}

} // namespace tracehost::archive
