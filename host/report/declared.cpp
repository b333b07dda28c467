#include "report/declared.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace tracehost::report {
namespace {

using Strings = std::vector<std::string>;

/// There is no such signature.
struct Impossible {};

void require(bool possible) {
  if (!possible)
    throw Impossible();
}

/// One node of each call, at the same place.
struct Place {
  const Sketch *call;
  std::size_t index;

  const Sketch::Node &node() const { return call->nodes[index]; }
  Place at(std::size_t other) const { return {call, other}; }
};
using Places = std::vector<Place>;

bool is_number(const Sketch::Node &node) {
  return node.kind == Kind::integer || node.kind == Kind::real;
}

std::vector<Places> children(const Places &places) {
  std::vector<Places> result;
  for (const Place &place : places) {
    std::size_t count = 0;
    for (std::size_t i = place.index + 1; i < place.node().end; i = place.call->nodes[i].end) {
      if (count == result.size()) {
        require(&place == &places.front()); // else it has more than those before
        result.emplace_back();
      }
      result[count++].push_back(place.at(i));
    }
    require(count == result.size());
  }
  return result;
}

class Declarer {
public:
  explicit Declarer(std::span<const TraceRecord> calls) : calls_(calls) {
    require(!calls.empty());
    for (const TraceRecord &call : calls) {
      require(!call.request.empty() && call.request.parameters != nullptr);
      starts_.push_back({&call.request, 0});
    }
  }

  Declared run() {
    const Parameters &parameters = *calls_.front().request.parameters;
    Strings specs;
    bool omitted = false; // from then on, all have to keep their defaults
    for (std::size_t p = 0; p < parameters.names.size(); ++p) {
      switch (p < parameters.kinds.size() ? parameters.kinds[p] : Parameters::Kind::positional) {
      case Parameters::Kind::positional:
        if (p == 0 && parameters.names[p] == "self")
          break;
        if (const auto spec = omitted ? std::nullopt : declared(starts_)) {
          specs.push_back(*spec);
        } else {
          require(is_default(parameters, p));
          omitted = true;
        }
        break;
      case Parameters::Kind::var_positional: {
        const auto items = children(starts_);
        require(!omitted || items.empty());
        for (const Places &item : items)
          specs.push_back(joined(item));
        break;
      }
      case Parameters::Kind::keyword:
        require(is_default(parameters, p));
        break;
      case Parameters::Kind::var_keyword:
        require(children(starts_).empty());
        break;
      }
      for (Place &start : starts_)
        start.index = start.node().end;
    }
    result_.text = fmt::format("[{}]", fmt::join(specs, ", "));
    require(!specs.empty());
    return std::move(result_);
  }

private:
  /// nullopt instead of Impossible, and no number noted then.
  std::optional<std::string> declared(const Places &places) {
    const auto numbers = result_.numbers;
    try {
      return joined(places);
    } catch (const Impossible &) {
      result_.numbers = numbers;
      return std::nullopt;
    }
  }

  bool is_default(const Parameters &parameters, std::size_t p) const {
    if (p >= parameters.defaults.size() || parameters.defaults[p].empty())
      return false;
    return std::all_of(starts_.begin(), starts_.end(), [&](const Place &place) {
      const Sketch::Node &node = place.node();
      return !node.is_container() && node.text == parameters.defaults[p];
    });
  }

  std::string joined(const Places &places) {
    const Sketch::Node &first = places.front().node();
    if (first.is_container())
      return container(places);
    const bool tensors = std::any_of(places.begin(), places.end(), [](const Place &place) {
      return place.node().kind == Kind::tensor;
    });
    return tensors ? tensor(places) : number(places);
  }

  std::string container(const Places &places) {
    const Sketch::Node &first = places.front().node();
    for (const Place &place : places)
      require(place.node().kind == first.kind && place.node().text == first.text);
    const auto items = children(places);
    Strings texts;
    if (first.kind == Kind::dict && first.text == "dict") {
      for (std::size_t i = 0; i + 1 < items.size(); i += 2)
        texts.push_back(key(items[i]) + ": " + joined(items[i + 1]));
      return fmt::format("{{{}}}", fmt::join(texts, ", "));
    }
    for (const Places &item : items)
      texts.push_back(joined(item));
    if (first.kind == Kind::list && first.text == "list")
      return fmt::format("[{}]", fmt::join(texts, ", "));
    require(first.kind == Kind::tuple && first.text == "tuple");
    return fmt::format("({}{})", fmt::join(texts, ", "), texts.size() == 1 ? "," : "");
  }

  /// A dict's key as a literal; a long one is cut, and then has no closing quote.
  static std::string key(const Places &places) {
    const std::string &text = places.front().node().text;
    const Kind kind = places.front().node().kind;
    const bool string = kind == Kind::atom && text.size() >= 2 &&
                        (text.front() == '\'' || text.front() == '"') &&
                        text.back() == text.front();
    require(string || kind == Kind::integer || kind == Kind::boolean);
    for (const Place &place : places)
      require(place.node().kind == kind && place.node().text == text);
    return text;
  }

  std::string tensor(const Places &places) {
    std::vector<const Sketch::Tensor *> tensors;
    bool numbers = false, reals = false;
    for (const Place &place : places) {
      const Sketch::Node &node = place.node();
      if (node.kind == Kind::tensor) {
        tensors.push_back(&place.call->tensors[static_cast<std::size_t>(node.tensor)]);
        continue;
      }
      require(is_number(node));
      numbers = true;
      reals |= node.kind == Kind::real;
    }
    const at::ScalarType dtype = tensors.front()->dtype;
    for (const Sketch::Tensor *tensor : tensors)
      require(tensor->dtype == dtype);
    if (numbers) {
      require(reals ? at::isFloatingType(dtype) : dtype != at::kBool);
      result_.numbers.insert(places.front().node().path);
    }
    return spec(sizes(tensors, numbers, places.front().node().path), dtype);
  }

  std::string number(const Places &places) {
    bool reals = false, differ = false;
    for (const Place &place : places) {
      require(is_number(place.node()));
      reals |= place.node().kind == Kind::real;
      differ |= place.node().text != places.front().node().text;
    }
    require(differ); // a tensor for one value is a price without a gain
    result_.numbers.insert(places.front().node().path);
    return spec("[]", reals ? at::kFloat : at::kLong);
  }

  std::string sizes(const std::vector<const Sketch::Tensor *> &tensors, bool numbers,
                    const std::string &path) const {
    const auto &first = tensors.front()->sizes;
    for (const Sketch::Tensor *tensor : tensors)
      if (tensor->sizes.size() != first.size() || (numbers && !tensor->sizes.empty())) {
        require(!specialized(path, -1));
        return "None";
      }
    Strings texts;
    for (std::size_t d = 0; d < first.size(); ++d) {
      const bool same = std::all_of(tensors.begin(), tensors.end(),
                                    [&](const auto *t) { return t->sizes[d] == first[d]; });
      require(same || !specialized(path, static_cast<int>(d)));
      texts.push_back(same ? std::to_string(first[d]) : "None");
    }
    return fmt::format("[{}]", fmt::join(texts, ", "));
  }

  /// Whether the body needs a size as a number; any dimension's for -1.
  bool specialized(const std::string &path, int dimension) const {
    for (const TraceRecord &call : calls_)
      for (const SpecializedSize &one : call.specialized)
        if (one.path == path && (dimension < 0 || one.dimension == dimension))
          return true;
    return false;
  }

  static std::string spec(const std::string &sizes, at::ScalarType dtype) {
    return fmt::format("TensorSpec({}, torch.{})", sizes, dtype_name(dtype));
  }

  std::span<const TraceRecord> calls_;
  Places starts_; ///< of the parameter under way
  Declared result_;
};

} // namespace

std::optional<Declared> declare(std::span<const TraceRecord> calls) {
  try {
    return Declarer(calls).run();
  } catch (const Impossible &) {
    return std::nullopt;
  }
}

} // namespace tracehost::report
