#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// A statement of TorchScript, token by token: what source_check.cpp reads with. Characters that
/// the printer of PyTorch does not write (comments, tabs, continued lines, other quotes) are
/// refused.

namespace tracehost::archive {

class SourceLine {
public:
  SourceLine(std::string_view text, std::size_t number) : rest_(text), number_(number) {}

  bool empty() const { return rest_.empty(); }
  /// Whether the text goes on with exactly that; then it is taken.
  bool take(std::string_view text);
  bool at(std::string_view text) const { return rest_.starts_with(text); }
  void expect(std::string_view text);
  void end() const; ///< throws unless all is read
  /// A name; empty: there is none.
  std::string_view name();
  std::string_view need_name();
  /// `"..."`; false: there is none.
  bool string();
  struct Number {
    std::optional<std::int64_t> integer; ///< nullopt: it is no integer, or a larger one
  };
  std::optional<Number> number(); ///< `-1`, `0.5`, `1.+2.j`; nullopt: there is none
  std::size_t line() const { return number_; }
  [[noreturn]] void wrong(std::string_view what) const;

private:
  std::string_view digits();
  bool unsigned_number(bool &real);
  std::string_view rest_;
  std::size_t number_;
};

} // namespace tracehost::archive
