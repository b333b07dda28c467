#include "archive/graph_record.h"
#include "archive/graph_values.h"
#include "archive/limits.h"
#include "program/places.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <unordered_set>

namespace tracehost::archive {

namespace jit = torch::jit;

namespace {

constexpr std::size_t kFreelyLeftOut = 64;

/// Null: there is none here.
const jit::Operator *find(const StoredOp &op) {
  for (const auto &candidate : jit::getAllOperatorsFor(c10::Symbol::fromQualString(op.name)))
    if (candidate->schema().overload_name() == op.overload)
      return candidate.get();
  return nullptr;
}

std::string shown(const StoredOp &op) {
  return op.overload.empty() ? op.name : op.name + "." + op.overload;
}

/// `aten::add`, and `Tensor`: what PyTorch may be asked for.
bool is_name(const StoredOp &op) {
  const auto fits = [](std::string_view part) {
    return std::all_of(part.begin(), part.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '.';
    });
  };
  const auto colons = op.name.find("::");
  return colons != std::string::npos && colons > 0 && colons + 2 < op.name.size() &&
         fits(std::string_view(op.name).substr(0, colons)) &&
         fits(std::string_view(op.name).substr(colons + 2)) && fits(op.overload);
}

[[noreturn]] void wrong_op(const StoredOp &op, const std::string &what) {
  throw Error(fmt::format("it has operator '{}' {}", shown(op), what));
}

} // namespace

/// One graph, as it is read: a stack of open blocks in place of recursion.
class GraphReader::Body {
public:
  Body(const GraphReader &reader, std::string_view bytes)
      : reader_(reader), from_(bytes), graph_(std::make_shared<jit::Graph>()),
        may_leave_out_(kFreelyLeftOut + bytes.size() / 4) {}

  std::shared_ptr<jit::Graph> read(std::size_t inputs) {
    if (from_.number() != inputs)
      wrong_file("a graph has other inputs than arguments and tensors");
    for (std::size_t i = 0; i < inputs; ++i)
      values_.push_back({graph_->addInput()->setType(c10::TensorType::get())});
    open(graph_->block(), nullptr);
    while (!blocks_.empty())
      node();
    if (!from_.empty())
      wrong_file("a graph is followed by more");
    return graph_;
  }

private:
  struct Known {
    jit::Value *value; ///< null: of a block that has ended
    std::size_t uses = 0;
  };
  struct Open {
    jit::Block *block;
    jit::Node *of;     ///< null: the graph
    std::size_t first; ///< number of values before it: what is made in it ends with it
  };

  void open(jit::Block *block, jit::Node *of) {
    if (blocks_.size() > static_cast<std::size_t>(kDeepestBlocks))
      wrong_file("a graph nests its blocks too deep");
    blocks_.push_back({block, of, values_.size()});
  }

  jit::Value *use() {
    const std::uint64_t back = from_.number();
    if (back == 0 || back > values_.size())
      wrong_file("a graph uses a value that is not there");
    Known &known = values_[values_.size() - back];
    if (!known.value)
      wrong_file("a graph uses a value that is not there");
    if (++known.uses > kMostUses)
      wrong_file(fmt::format("a graph uses a value more than {} times", kMostUses));
    return known.value;
  }
  std::vector<jit::Value *> uses(std::size_t count) {
    std::vector<jit::Value *> values(count);
    for (jit::Value *&value : values)
      value = use();
    return values;
  }
  void define(jit::Node &node) {
    for (jit::Value *output : node.outputs())
      values_.push_back({output});
  }
  jit::Node *append(jit::Node *node) {
    last_ = node;
    return blocks_.back().block->appendNode(node);
  }
  jit::Node *make(c10::Symbol kind, c10::ArrayRef<jit::Value *> inputs, std::size_t outputs) {
    return append(graph_->create(kind, inputs, outputs));
  }

  void place(jit::Node &node) {
    node.setSourceRange(
        place_range(reader_.places_[from_.below(reader_.places_.size(), "a line")]));
  }

  void node() {
    const auto tag =
        static_cast<Tag>(from_.below(static_cast<std::size_t>(Tag::count), "a kind of node"));
    switch (tag) {
    case Tag::branch:
      return branch();
    case Tag::loop:
      return loop();
    case Tag::end:
      return end();
    case Tag::op:
      op();
      break;
    case Tag::constant:
      constant();
      break;
    default:
      constructor(tag);
    }
    define(*last_);
    place(*last_);
  }

  // ---- ops --------------------------------------------------------------------------------------

  void op() {
    const std::size_t number = from_.below(reader_.ops_.size(), "an operator");
    const StoredOp &op = reader_.ops_[number];
    const jit::Operator *known = reader_.known_[number];
    if (!known)
      wrong_op(op,
               "which this PyTorch does not have. Load the file with the PyTorch that wrote it");
    const c10::FunctionSchema &schema = known->schema();
    const std::vector<jit::Value *> given = uses(op.arguments.size());
    std::vector<jit::Value *> inputs;
    std::size_t next = 0;
    for (const c10::Argument &argument : schema.arguments())
      inputs.push_back(value_of(op, argument, given, next));
    for (; next < given.size(); ++next)
      if (op.arguments[next].name.empty() && schema.is_vararg())
        inputs.push_back(given[next]);
      else
        check_gone(op, op.arguments[next]);
    jit::Node *node = make(c10::Symbol::fromQualString(op.name), inputs, schema.returns().size());
    if (!set_types(*node, schema) || node->maybeOperator() != known)
      wrong_op(op, "with arguments that it does not take");
  }

  /// This PyTorch's operator does not have the argument.
  static void check_gone(const StoredOp &op, const GivenArgument &argument) {
    if (!argument.is_default)
      wrong_op(op, fmt::format("with an argument '{}', which this PyTorch's does not have. Load "
                               "the file with the PyTorch that wrote it",
                               argument.name));
  }

  /// ATen looks a dtype, a layout and a memory format up in tables, by a number that it trusts.
  static void check_number(const StoredOp &op, const c10::Argument &argument,
                           const jit::Value &given) {
    c10::TypePtr type = argument.real_type();
    if (const auto optional = type->cast<c10::OptionalType>())
      type = optional->getElementType();
    const auto end =
        type->kind() == c10::TypeKind::ScalarTypeType     ? int(c10::ScalarType::NumOptions)
        : type->kind() == c10::TypeKind::LayoutType       ? int(c10::Layout::NumOptions)
        : type->kind() == c10::TypeKind::MemoryFormatType ? int(c10::MemoryFormat::NumOptions)
                                                          : 0;
    const auto value = end ? jit::toIValue(&given) : std::nullopt;
    if (value && value->isInt() && (value->toInt() < 0 || value->toInt() >= end))
      wrong_op(op, fmt::format("with {} as its argument '{}', which is the number of none",
                               value->toInt(), argument.name()));
  }

  /// Arguments keep their order from one PyTorch to the next: what is between is new, or gone.
  jit::Value *value_of(const StoredOp &op, const c10::Argument &argument,
                       const std::vector<jit::Value *> &given, std::size_t &next) {
    for (std::size_t i = next; i < given.size(); ++i)
      if (op.arguments[i].name == argument.name()) {
        for (; next < i; ++next)
          check_gone(op, op.arguments[next]);
        check_number(op, argument, *given[next]);
        return given[next++];
      }
    if (!argument.default_value())
      wrong_op(op, fmt::format("without its argument '{}'", argument.name()));
    if (may_leave_out_ == 0)
      wrong_file("a graph leaves out too many arguments");
    --may_leave_out_;
    const jit::WithInsertPoint here(blocks_.back().block);
    return graph_->insertConstant(*argument.default_value());
  }

  void constant() {
    const c10::IValue value = read_constant(from_, of_file_);
    if (value.isTuple() && size_of(*value.type()) > kLargestType)
      wrong_file("a graph has a type that is too large");
    const jit::WithInsertPoint here(blocks_.back().block);
    const auto made = jit::tryInsertConstant(*graph_, value);
    if (!made)
      wrong_file(fmt::format("a graph has a constant of type {}, which is not supported",
                             value.type()->repr_str()));
    last_ = (*made)->node();
    if (last_->output()->type()->isSubtypeOf(*c10::TensorType::get()))
      last_->output()->setType(c10::TensorType::get());
  }

  // ---- nodes without a schema -------------------------------------------------------------------

  void constructor(Tag tag) {
    switch (tag) {
    case Tag::list:
      return list();
    case Tag::unpack_list:
    case Tag::unpack_tuple:
      return unpack(tag);
    case Tag::tuple:
      return tuple();
    case Tag::element:
      return element();
    default:
      append(graph_->createUninitialized(read_type(from_)));
    }
  }

  std::vector<c10::TypePtr> types() {
    std::vector<c10::TypePtr> types(from_.count());
    for (c10::TypePtr &type : types)
      type = read_type(from_);
    return types;
  }

  void unpack(Tag tag) {
    jit::Value *container = use();
    const auto types = this->types();
    const auto list = container->type()->cast<c10::ListType>();
    const auto tuple = container->type()->cast<c10::TupleType>();
    if (tag == Tag::unpack_list ? !list : !tuple || tuple->elements().size() != types.size())
      wrong_file("a graph unpacks what it does not have");
    jit::Node *node =
        make(list ? c10::prim::ListUnpack : c10::prim::TupleUnpack, {container}, types.size());
    for (std::size_t i = 0; i < types.size(); ++i) {
      const c10::TypePtr made = list ? list->getElementType() : tuple->elements()[i];
      if (!made->isSubtypeOf(*types[i]))
        wrong_file("a graph has a value of another type than it says");
      node->output(i)->setType(types[i]);
    }
  }

  void tuple() {
    const auto items = uses(from_.count());
    std::size_t size = 1;
    for (const jit::Value *item : items)
      size += size_of(*item->type());
    if (size > kLargestType)
      wrong_file("a graph has a type that is too large");
    append(graph_->createTuple(items));
  }

  void list() {
    const auto type = read_type(from_)->cast<c10::ListType>();
    if (!type)
      wrong_file("a graph makes a list of another type");
    const auto items = uses(from_.count());
    for (const jit::Value *item : items)
      check_type(*item, *type->getElementType());
    make(c10::prim::ListConstruct, items, 1)->output()->setType(type);
  }

  void element() {
    const std::int64_t index = from_.integer();
    jit::Value *container = use();
    const auto type = container->type()->cast<c10::TupleType>();
    if (!type)
      wrong_file("a graph unpacks what it does not have");
    const auto size = static_cast<std::int64_t>(type->elements().size());
    if (index < -size || index >= size)
      wrong_file("a graph takes an element that its tuple does not have");
    const jit::WithInsertPoint here(blocks_.back().block);
    jit::Value *constant = graph_->insertConstant(index);
    append(graph_->createTupleIndex(
        container, constant,
        type->elements()[static_cast<std::size_t>(index < 0 ? index + size : index)]));
  }

  static void check_type(const jit::Value &value, const c10::Type &type) {
    if (!value.type()->isSubtypeOf(type))
      wrong_file("a graph has a value of another type than it says");
  }
  /// A number of Python's arithmetic may be a bool: a run looks.
  static void check_condition(const jit::Value &value) {
    if (value.type() != c10::NumberType::get())
      check_type(value, *c10::BoolType::get());
  }

  // ---- blocks -----------------------------------------------------------------------------------

  void branch() {
    jit::Value *condition = use();
    check_condition(*condition);
    const auto types = this->types();
    jit::Node *node = make(c10::prim::If, {condition}, types.size());
    for (std::size_t i = 0; i < types.size(); ++i)
      node->output(i)->setType(types[i]);
    open(node->addBlock(), node);
  }

  void loop() {
    if (++loops_ > kMostLoops)
      wrong_file(fmt::format("a graph has more than {} loops", kMostLoops));
    const std::size_t carried = from_.count();
    const std::vector<jit::Value *> inputs = uses(carried + 2);
    check_type(*inputs[0], *c10::IntType::get());
    check_condition(*inputs[1]);
    jit::Node *node = make(c10::prim::Loop, inputs, carried);
    jit::Block *body = node->addBlock();
    open(body, node);
    values_.push_back({body->addInput()->setType(c10::IntType::get())});
    for (std::size_t i = 0; i < carried; ++i) {
      const c10::TypePtr type = read_type(from_);
      check_type(*inputs[i + 2], *type);
      values_.push_back({body->addInput()->setType(type)});
      node->output(i)->setType(type);
    }
  }

  void end() {
    const Open ended = blocks_.back();
    const auto outputs = uses(from_.count());
    const std::size_t before = ended.of && ended.of->kind() == c10::prim::Loop ? 1 : 0;
    if (ended.of && outputs.size() != ended.of->outputs().size() + before)
      wrong_file("a block of a graph has other outputs than its node");
    if (before > 0)
      check_condition(*outputs[0]);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (ended.of && i >= before)
        check_type(*outputs[i], *ended.of->output(i - before)->type());
      ended.block->registerOutput(outputs[i]);
    }
    for (std::size_t i = ended.first; i < values_.size(); ++i)
      values_[i].value = nullptr; // still counted
    blocks_.pop_back();
    if (!ended.of)
      return;
    if (ended.of->kind() == c10::prim::If && ended.of->blocks().size() == 1)
      return open(ended.of->addBlock(), ended.of);
    define(*ended.of);
    place(*ended.of);
  }

  const GraphReader &reader_;
  const ValuesOfFile of_file_{[this](std::uint64_t number) {
                                const at::Tensor &tensor = reader_.tensors_->at(number);
                                check_unexpanded(tensor); // a pass may go through it
                                return tensor;
                              },
                              [this](std::uint64_t number) {
                                if (number >= reader_.generators_.size())
                                  wrong_file("a graph names a generator that is not there");
                                return reader_.generators_[number];
                              }};
  ByteReader from_;
  std::shared_ptr<jit::Graph> graph_;
  std::vector<Known> values_;
  std::vector<Open> blocks_;
  std::size_t may_leave_out_; ///< so many arguments yet: a constant stands for each
  std::size_t loops_ = 0;
  jit::Node *last_ = nullptr; ///< that was made
};

GraphReader::GraphReader(std::string_view bytes, const RecordData &data, DeviceMove move) {
  ByteReader from(bytes);
  read_places(from);
  read_ops(from);
  tensors_.emplace(from, data, move);
  read_generators(from);
  for (std::size_t i = from.count(); i > 0; --i)
    graphs_.push_back(from.text());
  if (!from.empty())
    wrong_file("its graphs are followed by more");
}

void GraphReader::read_places(ByteReader &from) {
  for (std::size_t i = from.count(); i > 0; --i)
    places_.emplace_back(from.text());
}

void GraphReader::read_ops(ByteReader &from) {
  for (std::size_t i = from.count(); i > 0; --i) {
    StoredOp &op = ops_.emplace_back();
    op.name = from.text();
    op.overload = from.text();
    op.arguments.resize(from.count());
    for (GivenArgument &argument : op.arguments) {
      argument.name = from.text();
      argument.is_default = from.flag();
    }
    if (!is_name(op))
      wrong_file("an operator in it has no valid name");
    known_.push_back(find(op));
  }
}

void GraphReader::read_generators(ByteReader &from) {
  std::unordered_set<std::uint64_t> states;
  for (std::size_t i = from.count(); i > 0; --i) {
    const std::uint64_t state = from.number();
    if (!states.insert(state).second)
      wrong_file("two generators in it have one state");
    auto made = at::make_generator<at::CPUGeneratorImpl>();
    const at::Tensor &tensor = tensors_->at(state);
    try {
      made.set_state(tensor.cpu());
    } catch (const c10::Error &) {
      wrong_file("a generator in it has a tensor that is no state");
    }
    generators_.push_back(std::move(made));
  }
}

std::shared_ptr<jit::Graph> GraphReader::graph(std::size_t number, std::size_t inputs) const {
  if (number >= graphs_.size())
    wrong_file("it has no graph of that number");
  return Body(*this, graphs_[number]).read(inputs);
}

} // namespace tracehost::archive
