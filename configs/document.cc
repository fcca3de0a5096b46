// SPDX-License-Identifier: MIT
#include "configs/document.h"

#include <sys/stat.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "configs/raw_text.h"

namespace strata::configs {
namespace {

constexpr int64_t kMostMebibytes = 1;    // the largest shipped configuration has 2 kB
constexpr int64_t kMostNodes = 100'000;  // counted with aliases expanded: ten lines can mean billions

struct Refused {
  Place place;
  std::string message;
};

// Builds nodes from the events of yaml-cpp's parser, because YAML::Load would drop a second document and the quotes.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(std::shared_ptr<const Source> source) : source_(std::move(source)), columns_(source_->text) {}

  NodePtr root() const { return root_; }
  Place place(const YAML::Mark& mark) { return {source_, mark.line + 1, columns_.column(mark.pos, mark.column)}; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (root_) throw Refused{place(mark), "expected one document, got a second one after '---'"};
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    auto node = make(Node::Kind::null, mark);
    // The parser's mark is the position of the next token, so the position of the key is used.
    if (!open_.empty() && open_.back().key) node->place = open_.back().key->place;
    finish(node, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) throw Refused{place(mark), "expected a value, got an alias inside its own anchor"};
    attach(known->second, place(mark));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(mark, tag);
    auto node = make(Node::Kind::scalar, mark);
    node->text = value;
    node->quoted = tag == "!";
    // An unquoted ~ or null means no value.
    if (!node->quoted && (value == "~" || value == "null" || value == "Null" || value == "NULL")) {
      node->kind = Node::Kind::null;
    }
    finish(node, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Node::Kind::list, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Node::Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    std::shared_ptr<Node> node;
    YAML::anchor_t anchor;
    NodePtr key = nullptr;  // in a map: the key whose value was not read yet
  };

  std::shared_ptr<Node> make(Node::Kind kind, const YAML::Mark& mark) {
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->place = place(mark);
    return node;
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    throw Refused{place(mark), "expected a plain value, got the tag '" + tag + "'; leave tags out"};
  }
  void open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    refuse_tag(mark, tag);
    if (open_.size() == kMostLevels) {
      throw Refused{place(mark), "expected at most " + std::to_string(kMostLevels) + " levels of nesting"};
    }
    open_.push_back({make(kind, mark), anchor});
  }
  void close() {
    Open closed = std::move(open_.back());
    open_.pop_back();
    finish(closed.node, closed.anchor);
  }
  void finish(NodePtr node, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = node;
    const Place written = node->place;
    attach(std::move(node), written);
  }
  void attach(NodePtr node, const Place& written) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node->kind == Node::Kind::map && !parent.key) {
      if (node->kind != Node::Kind::scalar) {
        throw Refused{written, "expected a key, got " + node->described()};
      }
      parent.key = std::move(node);
      return;
    }
    parent.node->size += node->size;
    if (parent.node->size > kMostNodes) {
      throw Refused{written, "expected at most " + std::to_string(kMostNodes) + " values, aliases counted each time"};
    }
    if (parent.node->kind == Node::Kind::map) {
      parent.node->entries.push_back({parent.key->text, parent.key->place, std::move(node)});
      parent.key = nullptr;
    } else {
      parent.node->items.push_back(std::move(node));
    }
  }

  std::shared_ptr<const Source> source_;
  CharacterColumns columns_;
  NodePtr root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, NodePtr> anchors_;
};

bool is_too_large(const std::shared_ptr<const Source>& source, int64_t bytes, const std::string& key_path,
                  ErrorList& errors) {
  if (bytes <= kMostMebibytes << 20) return false;
  errors.add({source, 1, 1}, key_path,
             "expected a configuration of at most " + std::to_string(kMostMebibytes) + " MiB, got " +
                 std::to_string(bytes) + " bytes");
  return true;
}

}  // namespace

NodePtr Node::find(const std::string& key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return entry.value;
  }
  return nullptr;
}

std::string Node::described() const {
  switch (kind) {
    case Kind::null:
      return "nothing";
    case Kind::list:
      return "a list of " + std::to_string(items.size());
    case Kind::map:
      return "a section with " + std::to_string(entries.size()) + (entries.size() == 1 ? " key" : " keys");
    case Kind::scalar:
      break;
  }
  constexpr size_t kShown = 60;
  const std::string shown = text.size() > kShown ? text.substr(0, kShown) + "..." : text;
  return quoted ? "the text \"" + shown + "\"" : "'" + shown + "'";
}

NodePtr parse_document(std::shared_ptr<const Source> source, const std::string& key_path, ErrorList& errors) {
  if (is_too_large(source, static_cast<int64_t>(source->text.size()), key_path, errors)) return nullptr;
  if (const auto problem = find_raw_problem(source->text)) {
    errors.add({source, problem->line, problem->column}, key_path, problem->message);
    return nullptr;
  }
  Builder builder(source);
  try {
    std::istringstream stream(source->text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refused& refused) {
    errors.add(refused.place, key_path, refused.message);
    return nullptr;
  } catch (const YAML::Exception& exception) {
    // exception.msg is yaml-cpp's message without the position, which is added here.
    errors.add(builder.place(exception.mark), key_path, "expected YAML: " + exception.msg);
    return nullptr;
  }
  if (!builder.root()) {
    errors.add({source, 1, 1}, key_path, "expected keys and values, got an empty file");
  }
  return builder.root();
}

NodePtr load_document(const std::string& path, ErrorList& errors) {
  auto source = std::make_shared<Source>();
  source->name = path;
  const Place start = {source, 1, 1};
  struct stat status;
  if (stat(path.c_str(), &status) != 0) {
    errors.add(start, "", std::string("cannot read the configuration: ") + std::strerror(errno));
    return nullptr;
  }
  if (!S_ISREG(status.st_mode)) {
    errors.add(start, "", "expected a file, got a folder or a device");
    return nullptr;
  }
  if (is_too_large(source, status.st_size, "", errors)) return nullptr;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    errors.add(start, "", std::string("cannot read the configuration: ") + std::strerror(errno));
    return nullptr;
  }
  source->text.assign(std::istreambuf_iterator<char>(file), {});
  return parse_document(source, "", errors);
}

}  // namespace strata::configs
