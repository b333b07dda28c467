#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Splits a statement of TorchScript into tokens, for source_check.cpp. Rejects characters that
/// PyTorch's printer does not write: comments, tabs, continued lines, other quotes.

namespace tracehost::archive {

/// Whether it is a keyword of Python, which no variable and no method is called.
bool is_keyword(std::string_view name);

class SourceLine {
public:
  SourceLine(std::string_view text, std::size_t number) : rest_(text), number_(number) {}

  /// Whether the rest starts with `text`, which is then consumed.
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
  [[noreturn]] void wrong(std::string_view what) const;

private:
  std::string_view digits();
  bool unsigned_number(bool &real);
  std::string_view rest_;
  std::size_t number_;
};

} // namespace tracehost::archive
