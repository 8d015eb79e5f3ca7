// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "core/deck.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "core/error.hpp"

namespace shardmark {

struct Deck::Tables {
  toml::table file;
  std::map<std::string, toml::table> overrides;  // key -> a table that holds "value"
};

/// A node, or null where neither an override nor the file has the key.
struct Deck::Found {
  const toml::node* node;
};

namespace {

std::pair<std::string, std::string> split_key(const std::string& key) {
  const auto dot = key.find('.');
  return {key.substr(0, dot), key.substr(dot + 1)};
}

std::string literal(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string shown(const toml::node& node) {
  if (const auto* real = node.as_floating_point()) return literal(real->get());
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return out.str();
}

}  // namespace

std::string toml_quoted(const std::string& text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

Deck::Deck(const std::string& text, const std::string& name)
    : name_(name), tables_(std::make_unique<Tables>()) {
  try {
    tables_->file = toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw DeckError(fmt::format("{}:{}: bad TOML: {}", name, error.source().begin.line, error.description()));
  }
  for (const auto& [section, node] : tables_->file)
    if (!node.is_table())
      throw DeckError(
          fmt::format("{}:{}: \"{}\" stands outside a section; write it as [section] and key = value", name,
                      node.source().begin.line, std::string(section.str())));
}
Deck::~Deck() = default;
Deck::Deck(Deck&&) noexcept = default;

void Deck::set(const std::string& assignment) {
  const auto equals = assignment.find('=');
  const std::string key = assignment.substr(0, equals);
  if (equals == std::string::npos || key.find('.') == std::string::npos)
    throw DeckError(fmt::format("--set {}: write section.key=value", assignment));
  const std::string value = assignment.substr(equals + 1);
  try {
    tables_->overrides[key] = toml::parse("value = " + value);
  } catch (const toml::parse_error&) {
    tables_->overrides[key] = toml::table{{"value", value}};
  }
}

Deck::Found Deck::find(const std::string& key) const {
  if (const auto it = tables_->overrides.find(key); it != tables_->overrides.end())
    return {it->second.get("value")};
  const auto [section, name] = split_key(key);
  const toml::node* table = tables_->file.get(section);
  return {table != nullptr ? table->as_table()->get(name) : nullptr};
}

std::string Deck::where(const std::string& key) const {
  if (tables_->overrides.count(key) != 0) return "--set";
  const Found found = find(key);
  return found.node != nullptr ? fmt::format("{}:{}", name_, found.node->source().begin.line) : name_;
}

void Deck::fail(const std::string& key, const std::string& problem) const {
  const Found found = find(key);
  std::string value = found.node != nullptr ? shown(*found.node) : "";
  if (value.empty())
    for (const auto& [known, literal] : values_)
      if (known == key) value = literal + " (the default)";
  throw DeckError(fmt::format("{}: {} = {}: {}", where(key), key, value, problem));
}

std::string Deck::locate(const std::string& message) const {
  const std::string key = message.substr(0, message.find_first_of(" :="));
  const bool known =
      std::any_of(values_.begin(), values_.end(), [&](const auto& v) { return v.first == key; });
  return known ? where(key) + ": " + message : message;
}

void Deck::record(const std::string& key, const std::string& literal) {
  values_.emplace_back(key, literal);
}

std::int64_t Deck::integer(const std::string& key, std::int64_t default_value, std::int64_t least,
                           std::int64_t most) {
  const toml::node* node = find(key).node;
  const std::int64_t value =
      node == nullptr ? default_value : node->value_exact<std::int64_t>().value_or(least - 1);
  if (value < least || value > most) {
    const bool bounded = most != std::numeric_limits<std::int64_t>::max();
    fail(key, bounded ? fmt::format("must be an integer from {} to {}", least, most)
                      : fmt::format("must be an integer, at least {}", least));
  }
  record(key, std::to_string(value));
  return value;
}

std::size_t Deck::count(const std::string& key, std::size_t default_value, std::size_t least) {
  return static_cast<std::size_t>(integer(key, static_cast<std::int64_t>(default_value),
                                          static_cast<std::int64_t>(least),
                                          std::numeric_limits<std::int64_t>::max()));
}

double Deck::real(const std::string& key, double default_value, double least, double most) {
  const toml::node* node = find(key).node;
  const bool number = node == nullptr || node->is_number();
  const double value = node == nullptr ? default_value : node->value<double>().value_or(NAN);
  if (!number || !(value >= least && value <= most) || std::isinf(value))
    fail(key, std::isinf(most) ? fmt::format("must be a number, at least {}", least)
                               : fmt::format("must be a number from {} to {}", least, most));
  record(key, literal(value));
  return value;
}

bool Deck::boolean(const std::string& key, bool default_value) {
  const toml::node* node = find(key).node;
  if (node != nullptr && !node->is_boolean()) fail(key, "must be true or false");
  const bool value = node == nullptr ? default_value : node->as_boolean()->get();
  record(key, value ? "true" : "false");
  return value;
}

std::string Deck::text(const std::string& key, const std::string& default_value) {
  const toml::node* node = find(key).node;
  if (node != nullptr && !node->is_string()) fail(key, "must be a string");
  const std::string value = node == nullptr ? default_value : node->as_string()->get();
  record(key, toml_quoted(value));
  return value;
}

std::string Deck::choice(const std::string& key, const std::string& default_value,
                         const std::vector<std::string>& valid) {
  const toml::node* node = find(key).node;
  std::string value = node == nullptr ? default_value : node->value_exact<std::string>().value_or("");
  if (node != nullptr && node->is_boolean()) value = shown(*node);  // "true" and "false" may be choices
  if (std::find(valid.begin(), valid.end(), value) == valid.end())
    fail(key, fmt::format("is not one of \"{}\"", fmt::join(valid, "\", \"")));
  record(key, toml_quoted(value));
  return value;
}

std::vector<std::size_t> Deck::counts(const std::string& key, const std::vector<std::size_t>& default_value) {
  const toml::node* node = find(key).node;
  std::vector<std::size_t> values = default_value;
  if (node != nullptr) {
    const char* problem = "must be an array of positive integers";
    if (!node->is_array()) fail(key, problem);
    values.clear();
    for (const toml::node& element : *node->as_array()) {
      const std::int64_t value = element.value_exact<std::int64_t>().value_or(0);
      if (value < 1) fail(key, problem);
      values.push_back(static_cast<std::size_t>(value));
    }
  }
  record(key, fmt::format("[{}]", fmt::join(values, ", ")));
  return values;
}

std::vector<double> Deck::reals(const std::string& key, const std::vector<double>& default_value,
                                double least, double below) {
  const toml::node* node = find(key).node;
  std::vector<double> values = default_value;
  if (node != nullptr) {
    const std::string problem = fmt::format("must be an array of {} numbers, each at least {} and below {}",
                                            default_value.size(), least, below);
    if (!node->is_array() || node->as_array()->size() != default_value.size()) fail(key, problem);
    values.clear();
    for (const toml::node& element : *node->as_array()) {
      const double value = element.is_number() ? element.value<double>().value_or(NAN) : NAN;
      if (!(value >= least && value < below)) fail(key, problem);
      values.push_back(value);
    }
  }
  std::vector<std::string> literals;
  for (double value : values) literals.push_back(literal(value));
  record(key, fmt::format("[{}]", fmt::join(literals, ", ")));
  return values;
}

std::vector<std::string> Deck::texts(const std::string& key, const std::vector<std::string>& default_value) {
  const toml::node* node = find(key).node;
  std::vector<std::string> values = default_value;
  if (node != nullptr) {
    values.clear();
    if (node->is_string()) {
      values.push_back(node->as_string()->get());
    } else if (node->is_array()) {
      for (const toml::node& element : *node->as_array()) {
        if (!element.is_string()) fail(key, "must be a string or an array of strings");
        values.push_back(element.as_string()->get());
      }
    } else {
      fail(key, "must be a string or an array of strings");
    }
  }
  std::vector<std::string> quoted;
  for (const std::string& value : values) quoted.push_back(toml_quoted(value));
  record(key, fmt::format("[{}]", fmt::join(quoted, ", ")));
  return values;
}

void Deck::check_unknown() const {
  std::map<std::string, std::vector<std::string>> known;
  for (const auto& [key, value] : values_) {
    const auto [section, name] = split_key(key);
    known[section].push_back(name);
  }
  const auto check = [&](const std::string& key, const std::string& place) {
    const auto [section, name] = split_key(key);
    const auto it = known.find(section);
    if (it == known.end()) {
      std::vector<std::string> sections;
      for (const auto& entry : known) sections.push_back(entry.first);
      throw DeckError(
          fmt::format("{}: unknown section [{}]; valid: {}", place, section, fmt::join(sections, ", ")));
    }
    if (std::find(it->second.begin(), it->second.end(), name) == it->second.end())
      throw DeckError(fmt::format("{}: unknown key {}; valid in [{}]: {}", place, key, section,
                                  fmt::join(it->second, ", ")));
  };
  for (const auto& [section, table] : tables_->file) {
    const std::string prefix(section.str());
    if (table.as_table()->empty() && known.count(prefix) == 0)
      check(prefix + ".", fmt::format("{}:{}", name_, table.source().begin.line));
    for (const auto& [key, node] : *table.as_table())
      check(prefix + "." + std::string(key.str()), fmt::format("{}:{}", name_, node.source().begin.line));
  }
  for (const auto& entry : tables_->overrides) check(entry.first, "--set");
}

std::string Deck::effective() const {
  std::string out, section;
  std::vector<std::string> sections;
  for (const auto& [key, value] : values_) {
    const std::string of_key = split_key(key).first;
    if (std::find(sections.begin(), sections.end(), of_key) == sections.end()) sections.push_back(of_key);
  }
  for (const std::string& name : sections) {
    out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", name);
    for (const auto& [key, value] : values_)
      if (const auto [of_key, rest] = split_key(key); of_key == name)
        out += fmt::format("{} = {}\n", rest, value);
  }
  return out;
}

}  // namespace shardmark
