#pragma once

#include "tracehost/error.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

/// Arguments and results.
///
///     Value v = 3;  // int, not float: signatures distinguish them
///     Value w = std::make_tuple(at::ones(2), "relu");  // a Python tuple
///     Value m = Map{{"image", x}, {"scale", 0.5}};     // a Python dict, in this order
///
///     auto [h, c] = result.to<std::tuple<at::Tensor, at::Tensor>>();

namespace tracehost {
inline namespace TRACEHOST_ABI {

class Value;

struct TRACEHOST_API List {
  std::vector<Value> items;
  List() = default;
  List(std::initializer_list<Value> values);
  explicit List(std::vector<Value> values);
};

struct TRACEHOST_API Tuple {
  std::vector<Value> items;
  Tuple() = default;
  Tuple(std::initializer_list<Value> values);
  explicit Tuple(std::vector<Value> values);
};

/// A dict whose keys are strings, in order. As an argument its order does not matter; it is also
/// how a dataclass or named tuple is passed. A named tuple comes back as a Tuple. The constructors
/// throw Error where a key comes twice.
struct TRACEHOST_API Map {
  using Item = std::pair<std::string, Value>;
  std::vector<Item> items;
  Map() = default;
  Map(std::initializer_list<Item> values);
  explicit Map(std::vector<Item> values);
  /// Null: there is none.
  const Value *find(std::string_view key) const;
};

/// Implicit from the C++ types below and from vectors, tuples, pairs, optionals and maps of them;
/// to<T>() gives the same types back.
///
///     Python                      C++
///     None                        std::nullopt
///     bool, int, float, str       bool, integers, floating point, strings
///     Tensor, torch.float32, torch.device('cpu')        at::Tensor, at::kFloat, at::Device
///     list, tuple, dict           std::vector, std::tuple or std::pair, std::map; List, Tuple, Map
class TRACEHOST_API Value {
public:
  enum class Kind : std::uint8_t {
    none,
    tensor,
    integer,
    real,
    boolean,
    string,
    dtype,
    device,
    list,
    tuple,
    map
  };

  Value() = default;
  Value(std::nullopt_t) {}
  Value(at::Tensor tensor) : data_(std::move(tensor)) {}
  template <std::same_as<bool> T> Value(T value) : data_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool> && !std::same_as<T, char>) Value(T value)
      : data_(checked(value)) {}
  template <std::floating_point T> Value(T value) : data_(static_cast<double>(value)) {}
  Value(std::string value) : data_(std::move(value)) {}
  Value(std::string_view value) : data_(std::string(value)) {}
  Value(const char *value) : data_(std::string(value)) {}
  Value(at::ScalarType value) : data_(value) {}
  Value(at::Device value) : data_(value) {}
  Value(List value) : data_(std::move(value)) {}
  Value(Tuple value) : data_(std::move(value)) {}
  Value(Map value) : data_(std::move(value)) {}
  template <class T> Value(std::optional<T> value) {
    if (value)
      *this = Value(std::move(*value));
  }
  template <class T> Value(const std::vector<T> &values) {
    List list;
    list.items.reserve(values.size());
    for (const auto &v : values)
      list.items.emplace_back(static_cast<T>(v));
    data_ = std::move(list);
  }
  template <class... T>
  Value(const std::tuple<T...> &values)
      : data_(std::apply([](const T &...v) { return Tuple{Value(v)...}; }, values)) {}
  template <class A, class B>
  Value(const std::pair<A, B> &pair) : data_(Tuple{Value(pair.first), Value(pair.second)}) {}
  template <class T> Value(const std::map<std::string, T> &values) {
    Map map;
    for (const auto &[key, v] : values)
      map.items.emplace_back(key, Value(v));
    data_ = std::move(map);
  }
  template <class T> Value(T *) = delete; ///< or any pointer would be a bool

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is_none() const { return kind() == Kind::none; }
  bool is_tensor() const { return kind() == Kind::tensor; }

  /// What it holds; throws Error with what it is where it holds another kind.
  const at::Tensor &tensor() const { return get<at::Tensor>("a tensor"); }
  std::int64_t integer() const { return get<std::int64_t>("an int"); }
  double real() const { return get<double>("a float"); }
  bool boolean() const { return get<bool>("a bool"); }
  const std::string &string() const { return get<std::string>("a string"); }
  at::ScalarType dtype() const { return get<at::ScalarType>("a dtype"); }
  at::Device device() const { return get<at::Device>("a device"); }
  const List &list() const { return get<List>("a list"); }
  const Tuple &tuple() const { return get<Tuple>("a tuple"); }
  const Map &map() const { return get<Map>("a dict"); }
  /// The item of a list or tuple.
  const Value &operator[](std::size_t index) const;
  /// The item of a dict.
  const Value &operator[](std::string_view key) const;
  /// Of a list, tuple or dict.
  std::size_t size() const;

  /// As a C++ type; throws Error where it is something else: `expected a tensor, got the list [1]`.
  template <class T> T to() const;
  operator at::Tensor() const { return tensor(); }

  const auto &data() const { return data_; }

private:
  template <class T> static std::int64_t checked(T value) {
    if (!std::in_range<std::int64_t>(value))
      fail("an int of 64 bits", std::to_string(value));
    return static_cast<std::int64_t>(value);
  }
  template <class T> const T &get(const char *expected) const {
    if (const T *held = std::get_if<T>(&data_)) [[likely]]
      return *held;
    fail(expected);
  }
  [[noreturn]] void fail(const char *expected) const;
  [[noreturn]] static void fail(const char *expected, const std::string &got);

  // In the order of Kind.
  std::variant<std::monostate, at::Tensor, std::int64_t, double, bool, std::string, at::ScalarType,
               at::Device, List, Tuple, Map>
      data_;
};

/// As Python writes it: `2`, `'relu'`, `float32[8, 3]`, `[1, 2]`, `{'a': 1}`.
TRACEHOST_API std::string text(const Value &value);

namespace detail {

template <class T> struct Reader;
/// The items of a list or tuple; throws unless there are `count` of them, if that is not npos.
TRACEHOST_API const std::vector<Value> &items_of(const Value &value,
                                                 std::size_t count = std::string::npos);

template <> struct Reader<Value> {
  static Value read(const Value &v) { return v; }
};
template <> struct Reader<at::Tensor> {
  static at::Tensor read(const Value &v) { return v.tensor(); }
};
template <> struct Reader<bool> {
  static bool read(const Value &v) { return v.boolean(); }
};
template <> struct Reader<std::string> {
  static std::string read(const Value &v) { return v.string(); }
};
template <> struct Reader<at::ScalarType> {
  static at::ScalarType read(const Value &v) { return v.dtype(); }
};
template <> struct Reader<at::Device> {
  static at::Device read(const Value &v) { return v.device(); }
};
template <std::integral T> struct Reader<T> {
  static T read(const Value &v) {
    const std::int64_t wide = v.integer();
    if (!std::in_range<T>(wide))
      throw Error("expected an int of " + std::to_string(8 * sizeof(T)) + " bits, got " +
                  std::to_string(wide));
    return static_cast<T>(wide);
  }
};
template <std::floating_point T> struct Reader<T> {
  static T read(const Value &v) {
    return static_cast<T>(v.kind() == Value::Kind::integer ? static_cast<double>(v.integer())
                                                           : v.real());
  }
};
template <class T> struct Reader<std::optional<T>> {
  static std::optional<T> read(const Value &v) {
    return v.is_none() ? std::nullopt : std::optional<T>(v.to<T>());
  }
};
template <class T> struct Reader<std::vector<T>> {
  static std::vector<T> read(const Value &v) {
    std::vector<T> result;
    for (const Value &item : items_of(v))
      result.push_back(item.to<T>());
    return result;
  }
};
template <class... T> struct Reader<std::tuple<T...>> {
  static std::tuple<T...> read(const Value &v) {
    const auto &items = items_of(v, sizeof...(T));
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::tuple<T...>{items[I].template to<T>()...};
    }
    (std::index_sequence_for<T...>{});
  }
};
template <class A, class B> struct Reader<std::pair<A, B>> {
  static std::pair<A, B> read(const Value &v) {
    const auto &items = items_of(v, 2);
    return {items[0].template to<A>(), items[1].template to<B>()};
  }
};
template <class T> struct Reader<std::map<std::string, T>> {
  static std::map<std::string, T> read(const Value &v) {
    std::map<std::string, T> result;
    for (const auto &[key, item] : v.map().items)
      result.emplace(key, item.template to<T>());
    return result;
  }
};

} // namespace detail

template <class T> T Value::to() const { return detail::Reader<T>::read(*this); }

inline List::List(std::initializer_list<Value> values) : items(values) {}
inline List::List(std::vector<Value> values) : items(std::move(values)) {}
inline Tuple::Tuple(std::initializer_list<Value> values) : items(values) {}
inline Tuple::Tuple(std::vector<Value> values) : items(std::move(values)) {}

} // namespace TRACEHOST_ABI
} // namespace tracehost
