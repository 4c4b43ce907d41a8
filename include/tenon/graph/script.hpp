// parse_script, read_script: graphs from their text form.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/graph/graph.hpp>
#include <tenon/graph/print.hpp>
#include <tenon/graph/script_lexer.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// Most dimensions of a tensor in a script.
inline constexpr std::size_t max_script_rank = 3;

/// Longest script, some millions of statements.
inline constexpr std::size_t max_script_bytes = std::size_t{64} << 20;

namespace detail {

/// "SliceNode($a, begin, end)": how a script writes a node.
[[nodiscard]] inline std::string form_text(NodeKind kind) {
  const NodeRule& rule = rule_of(kind);
  std::string text = std::string(rule.name) + "(";
  if (is_named_tensor(kind)) return text + "name, type, [sizes])";
  if (rule.operands < 0) return text + "[program], $a, …)";
  for (int i = 0; i < rule.operands; ++i) {
    text += i == 0 ? "$" : ", $";
    text += static_cast<char>('a' + i);
  }
  if (rule.numbers == NumbersForm::list) text += ", [numbers]";
  if (rule.numbers == NumbersForm::two) text += ", begin, end";
  if (rule.numbers == NumbersForm::last_operand) text += " or a number";
  return text + ")";
}

/// Reads one script, a statement at a time and without recursion.
class ScriptParser {
 public:
  ScriptParser(std::string_view text, std::string_view name) : name_(name), lexer_(text) {}

  Graph parse() {
    while (!token().is("result")) {
      if (token().kind == TokenKind::end) fail(token(), "the script ends without 'result = $N;'");
      if (token().kind != TokenKind::reference) {
        fail(token(), "a statement is '$N = NodeName(arguments);' or 'result = $N;', and none begins with " +
                          token_text(token()));
      }
      statement();
    }
    subject_ = take().text;
    expect('=');
    graph_.set_result(reference());
    expect(';');
    if (token().kind != TokenKind::end) fail(token(), token_text(token()) + " follows it, but the result comes last");
    return std::move(graph_);
  }

 private:
  struct Definition {
    NodeId id;
    std::size_t line;
  };

  [[nodiscard]] const Token& token() const noexcept { return lexer_.token(); }
  Token take() {
    const Token taken = token();
    lexer_.next();
    return taken;
  }

  /// "script:4:6: $4 = MatMulNode: ".
  [[nodiscard]] std::string place(const Token& at) const {
    std::string text(name_);
    text += ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": ";
    if (subject_.empty()) return text;
    text += subject_.substr(0, 24);
    if (kind_) text += " = " + std::string(rule_of(*kind_).name);
    return text + ": ";
  }
  template <class Exception = FormatError>
  [[noreturn]] void fail(const Token& at, const std::string& what) const {
    throw Exception(place(at) + what);
  }
  [[noreturn]] void fail_expected(const std::string& what) const {
    const std::string form = kind_ && in_arguments_ ? "; its form is " + form_text(*kind_) : "";
    if (token().kind == TokenKind::end) fail(token(), "the script ends where " + what + " is missing" + form);
    fail(token(), "expected " + what + ", found " + token_text(token()) + form);
  }

  void expect(char sign) {
    if (!token().is(sign)) fail_expected(std::string("'") + sign + "'");
    take();
  }
  std::string_view word(const char* what) {
    if (token().kind != TokenKind::word) fail_expected(what);
    return take().text;
  }

  /// The value of a number, or of a reference without its `$`.
  [[nodiscard]] std::int64_t value(const Token& at) const {
    std::string_view digits = at.text;
    if (at.kind == TokenKind::reference) digits.remove_prefix(1);
    std::int64_t result = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), result).ec != std::errc()) {
      fail(at, token_text(at) + " does not fit in 64 bits");
    }
    return result;
  }
  std::int64_t number(const char* what) {
    if (token().kind != TokenKind::number) fail_expected(what);
    return value(take());
  }

  /// The node that a reference names; it must be defined.
  NodeId reference() {
    if (token().kind != TokenKind::reference) fail_expected("'$' and the number of a statement");
    const Token at = take();
    const std::int64_t wanted = value(at);
    if (const auto found = definitions_.find(wanted); found != definitions_.end()) {
      operands_.emplace_back(at.text, found->second.id);
      return found->second.id;
    }
    if (wanted == number_ && number_ > 0) fail(at, "it uses itself");
    for (ScriptLexer ahead = lexer_; ahead.token().kind != TokenKind::end;) {
      const Token later = ahead.token();
      ahead.next();
      if (later.kind == TokenKind::reference && later.text == at.text && ahead.token().is('=')) {
        fail(at, "it uses " + token_text(at) + ", which is defined later, in line " + std::to_string(later.line) +
                     ", and a statement uses only those before it");
      }
    }
    fail(at, "it uses " + token_text(at) + ", which is not defined");
  }

  void statement() {
    const Token start = take();
    subject_ = start.text;
    number_ = value(start);
    if (number_ == 0) fail(start, "statements are numbered from 1");
    if (const auto found = definitions_.find(number_); found != definitions_.end()) {
      fail(start, "it is defined already, in line " + std::to_string(found->second.line));
    }
    expect('=');
    const Token name = token();
    kind_ = find_node_kind(word("the name of a node"));
    if (!kind_) fail_unknown(name);
    operands_.clear();
    Node node;
    node.kind = *kind_;
    in_arguments_ = true;
    expect('(');
    arguments(node);
    expect(')');
    in_arguments_ = false;
    expect(';');
    definitions_.emplace(number_, Definition{add(std::move(node), start), start.line});
    number_ = 0;
    subject_ = {};
    kind_.reset();
  }

  [[noreturn]] void fail_unknown(const Token& name) const {
    std::string known;
    for (const NodeRule& rule : node_rules) known += (known.empty() ? "" : ", ") + std::string(rule.name);
    fail(name, "there is no node " + token_text(name) + "; the nodes are " + known);
  }

  void arguments(Node& node) {
    const NodeRule& rule = rule_of(node.kind);
    if (is_named_tensor(node.kind)) {
      node.name = word("the name of the tensor");
      expect(',');
      node.type.dtype = dtype();
      expect(',');
      node.type.shape = list();
      return;
    }
    if (rule.operands < 0) {
      node.program = program();
      while (token().is(',')) {
        const Token comma = take();
        if (node.operands.size() > static_cast<std::size_t>(PointwiseProgram::max_operands)) {
          fail<ValueError>(comma, "there are more operands than a program can have");
        }
        node.operands.push_back(reference());
      }
      return;
    }
    for (int i = 0; i < rule.operands; ++i) {
      if (i > 0) expect(',');
      const bool number_fits = rule.numbers == NumbersForm::last_operand && i + 1 == rule.operands;
      if (number_fits && token().kind == TokenKind::number) {
        node.numbers.push_back(value(take()));
      } else {
        node.operands.push_back(reference());
      }
    }
    if (rule.numbers == NumbersForm::list) {
      expect(',');
      node.numbers = list();
    } else if (rule.numbers == NumbersForm::two) {
      for (const char* what : {"the number of the first row", "the number of the row after the last"}) {
        expect(',');
        node.numbers.push_back(number(what));
      }
    }
  }

  DType dtype() {
    const Token at = token();
    const std::string_view text = word("a type");
    for (const DType type : {DType::float32, DType::int64, DType::float16, DType::bfloat16}) {
      if (dtype_name(type) == text) return type;
    }
    fail<DTypeError>(at, token_text(at) + " is no type of a graph, which are float32, int64, float16 and bfloat16");
  }

  /// `[2, 3]`, of any numbers; what they mean is checked when the node is added.
  std::vector<std::int64_t> list() {
    std::vector<std::int64_t> numbers;
    expect('[');
    while (!token().is(']')) {
      if (!numbers.empty()) expect(',');
      if (numbers.size() == max_script_rank) {
        fail<ShapeError>(token(), "tensors in scripts have at most " + std::to_string(max_script_rank) +
                                      " dimensions, and there are more numbers than that");
      }
      numbers.push_back(number("a number"));
    }
    take();
    return numbers;
  }

  std::vector<PointwiseStep> program() {
    std::vector<PointwiseStep> steps;
    expect('[');
    while (!token().is(']')) {
      if (!steps.empty()) expect(',');
      if (steps.size() == static_cast<std::size_t>(PointwiseProgram::max_steps)) {
        fail<ValueError>(token(), "the program has more than " + std::to_string(steps.size()) + " steps");
      }
      steps.push_back(step());
    }
    take();
    return steps;
  }

  PointwiseStep step() {
    if (token().kind == TokenKind::number) {
      const Token at = take();
      const std::int64_t operand = value(at);
      if (operand < 0 || operand >= PointwiseProgram::max_operands) {
        fail<ValueError>(at, "a program has no operand " + token_text(at) + ", they are 0 to " +
                                 std::to_string(PointwiseProgram::max_operands - 1));
      }
      return {PointwiseCode::load, static_cast<std::uint8_t>(operand)};
    }
    const auto found = std::find(pointwise_words.begin() + 1, pointwise_words.end(), token().text);
    if (token().kind != TokenKind::word || found == pointwise_words.end()) {
      std::string known = "the number of an operand";
      for (std::size_t i = 1; i < pointwise_words.size(); ++i) known += " or " + std::string(pointwise_words[i]);
      fail_expected(known);
    }
    take();
    return {static_cast<PointwiseCode>(found - pointwise_words.begin()), 0};
  }

  /// Graph::add, whose errors get the place, the statement, and what the operands are.
  NodeId add(Node node, const Token& start) {
    if (graph_.size() >= std::numeric_limits<NodeId>::max()) fail(start, "the script has too many statements");
    try {
      return graph_.add(std::move(node));
    } catch (const ShapeError& error) {
      fail<ShapeError>(start, explained(error));
    } catch (const DTypeError& error) {
      fail<DTypeError>(start, explained(error));
    } catch (const ValueError& error) {
      fail<ValueError>(start, explained(error));
    }
  }
  [[nodiscard]] std::string explained(const Error& error) const {
    std::string text = error.what();
    const std::string node = std::string(rule_of(*kind_).name) + ": ";
    if (text.starts_with(node)) text.erase(0, node.size());
    const char* separator = "; ";
    for (const auto& [name, id] : operands_) {
      text += separator + std::string(name.substr(0, 24)) + " is " + type_text(graph_[id].type);
      separator = ", ";
    }
    return text;
  }

  std::string_view name_;
  ScriptLexer lexer_;
  Graph graph_;
  std::map<std::int64_t, Definition> definitions_;
  // Of the statement that is being read.
  std::int64_t number_ = 0;
  std::string_view subject_;  // "$4" or "result"; empty between statements
  std::optional<NodeKind> kind_;
  bool in_arguments_ = false;
  std::vector<std::pair<std::string_view, NodeId>> operands_;
};

}  // namespace detail

/// The graph of a script: statements `$N = NodeName(arguments);`, each using only those before it, then `result = $N;`.
/// N is any positive number, new in each statement. Comments go from `#` or `//` to the end of the line. `name` stands for
/// the text in messages, which begin with `name:line:column: `, columns in bytes.
///
/// Throws FormatError for what is no script, and where a node does not fit its operands the ShapeError, DTypeError or
/// ValueError of Graph::add. Tensors have at most max_script_rank dimensions.
[[nodiscard]] inline Graph parse_script(std::string_view text, std::string_view name = "script") {
  if (text.size() > max_script_bytes) {
    throw FormatError(std::string(name) + ":1:1: the script has more than " + std::to_string(max_script_bytes) +
                      " bytes");
  }
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  return detail::ScriptParser(text, name).parse();
}

/// The same for a file. Throws FileError where it cannot be read.
[[nodiscard]] inline Graph read_script(const std::filesystem::path& path) {
  std::error_code ignored;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, ignored)) {
    throw FileError("'" + path.string() + "' cannot be opened as a graph's script");
  }
  std::string text;
  std::vector<char> block(std::size_t{1} << 16);
  while (file && text.size() <= max_script_bytes) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) throw FileError("'" + path.string() + "' cannot be read");
  return parse_script(text, path.string());
}

}  // namespace graph
TENON_NAMESPACE_END
