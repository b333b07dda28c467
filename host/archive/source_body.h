#pragma once

#include "archive/source_line.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

/// The lines of one method: statements and expressions, and what is known of their values before
/// they are compiled. For source_check.cpp.

namespace tracehost::archive {

/// What is known of a value before it is compiled.
struct Fact {
  bool constant = false; ///< may be; then the frontend may compute what is made of it
  bool literal = false;  ///< a string as it stands in the source
  bool message = false;  ///< text that format() makes
  bool tuple = false;
  int lists = 0;                         ///< in each other; at most
  std::optional<std::int64_t> integer{}; ///< it is that one

  void join(const Fact &other) {
    constant |= other.constant;
    literal |= other.literal;
    message |= other.message;
    tuple |= other.tuple;
    lists = std::max(lists, other.lists);
    integer.reset();
  }
  bool text() const { return literal || message; }
};

/// `List[Optional[Tensor]]`; throws for a type that no graph of tracehost has.
void check_type(SourceLine &line, int depth = 0);

/// Reads line after line. Throws Error.
class SourceBody {
public:
  /// `constants`: of each, whether it is text. Both outlive it.
  SourceBody(const std::set<std::string> &attributes, const std::vector<bool> &constants)
      : attributes_(attributes), constants_(constants) {}
  /// An argument of the method; false: there is one of that name.
  bool argument(std::string_view name) { return names_.emplace(name, Fact{}).second; }
  /// Whether it opens a block.
  bool statement(SourceLine line);

private:
  Fact expression(SourceLine &line, int depth);
  Fact call(SourceLine &line, const std::string &symbol, std::string_view name, int depth);
  Fact cast(SourceLine &line, int depth);
  Fact list(SourceLine &line, int depth);
  Fact tuple(SourceLine &line, int depth);
  Fact postfix(SourceLine &line, Fact made, int depth);
  Fact known(const SourceLine &line, std::string_view name) const;
  void assign(const SourceLine &line, std::string_view name, const Fact &value);
  void assignment(SourceLine &line, std::string_view first);
  void check_call(const SourceLine &line, const std::string &symbol, std::string_view name,
                  const std::vector<Fact> &arguments) const;

  const std::set<std::string> &attributes_;
  std::unordered_map<std::string, Fact> names_;
  const std::vector<bool> &constants_;
};

} // namespace tracehost::archive
