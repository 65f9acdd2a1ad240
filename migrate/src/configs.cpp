// See configs.h.
#include "migrate/src/configs.h"

#include <algorithm>
#include <cstring>

#include "migrate/src/device_text.h"
#include "migrate/src/files.h"
#include "migrate/src/json.h"
#include "migrate/src/rewriter.h"

namespace migrate {
namespace {

std::vector<TextEdit> value_edits(std::string_view text, const Settings& settings) {
  if (text.find_first_of("{%") != std::string_view::npos) return {};
  if (std::vector<TextEdit> edits = backend_edits(text); !edits.empty()) return edits;
  if (std::vector<TextEdit> edits = device_edits(text); !edits.empty()) return edits;
  return name_edits(text, *settings.rules);
}

void add(std::string_view whole, uint32_t at, const std::vector<TextEdit>& edits, Edits* out) {
  for (const TextEdit& edit : edits) {
    uint32_t start = at + static_cast<uint32_t>(edit.at);
    std::string message = "change " + std::string(whole) + " to " + apply_text_edits(whole, edits);
    out->replace(start, start + static_cast<uint32_t>(edit.length), edit.text, message);
  }
}

bool keeps_purpose(std::string_view key) {
  for (std::string_view word :
       {"name", "title", "description", "desc", "help", "path", "dir", "file", "label", "project", "notes"})
    if (key == word || (key.size() > word.size() && key.ends_with(word) && key[key.size() - word.size() - 1] == '_'))
      return true;
  return false;
}

void json_values(const Json& value, std::string_view text, std::string_view key, const Settings& settings, Edits* out) {
  if (value.is_string()) {
    // Escapes would shift the letters: such a string names no device.
    std::string_view written = text.substr(value.start() + 1, value.end() - value.start() - 2);
    if (written == value.string() && !keeps_purpose(key))
      add(written, value.start() + 1, value_edits(written, settings), out);
  }
  for (const Json& item : value.array()) json_values(item, text, key, settings, out);
  for (const auto& [name, member] : value.object()) json_values(member, text, name, settings, out);
}

// YAML, TOML and INI: "key: value", "key = value", "- value", inline lists. The value may be quoted.
void line_values(const Source& source, const Settings& settings, Edits* out) {
  int block_indent = -1;  // inside a "|" or ">" text
  for (int line = 1; line <= source.line_count(); ++line) {
    std::string_view text = source.line_text(line);
    auto offset = static_cast<uint32_t>(text.data() - source.bytes().data());
    size_t start = text.find_first_not_of(" \t");
    if (start == std::string_view::npos) continue;
    if (block_indent >= 0) {
      if (static_cast<int>(start) > block_indent) continue;
      block_indent = -1;
    }
    if (strchr("#;[", text[start])) continue;  // a comment or the head of a section
    size_t at = start;
    std::string_view key;
    while (at + 1 < text.size() && text[at] == '-' && text[at + 1] == ' ')
      at = std::min(text.find_first_not_of(' ', at + 1), text.size());
    size_t separator = text.find_first_of(":=", at);
    bool keyed = separator != std::string_view::npos && (text[separator] == '=' || separator + 1 == text.size() ||
                                                         text[separator + 1] == ' ' || text[separator + 1] == '\t');
    size_t quote = text.find_first_of("'\"", at);
    if (keyed && (quote == std::string_view::npos || quote > separator || quote == at)) {
      key = text.substr(at, separator - at);
      while (!key.empty() && strchr(" \t'\"", key.back())) key.remove_suffix(1);
      if (!key.empty() && strchr("'\"", key[0])) key.remove_prefix(1);
      at = separator + 1;
    }
    if (at >= text.size()) continue;
    std::string_view rest = text.substr(at);
    size_t head = rest.find_first_not_of(" \t");
    if (head != std::string_view::npos && (rest[head] == '|' || rest[head] == '>'))
      block_indent = static_cast<int>(start);
    // A list may only be split where it is one; "cpu:gloo,cuda:nccl" is one value.
    bool list = head != std::string_view::npos && (rest[head] == '[' || rest[head] == '{');
    for (size_t i = 0; i < rest.size();) {
      size_t from = rest.find_first_not_of(list ? " \t,[]{}" : " \t", i);
      if (from == std::string_view::npos || rest[from] == '#') break;
      size_t end;
      if (rest[from] == '\'' || rest[from] == '"') {
        end = std::min(rest.find(rest[from], from + 1), rest.size());
        ++from;
        i = end + 1;
      } else {
        end = from;
        while (end < rest.size() && !(list && strchr(",]}", rest[end])) &&
               !(rest[end] == ' ' && (end + 1 < rest.size() && rest[end + 1] == '#')))
          ++end;
        i = end + 1;
        while (end > from && strchr(" \t", rest[end - 1])) --end;
      }
      std::string_view value = rest.substr(from, end - from);
      if (list && value.find(": ") != std::string_view::npos) {
        size_t colon = value.find(": ");
        key = value.substr(0, colon);
        size_t skip = value.find_first_not_of(" '\"", colon + 1);
        if (skip != std::string_view::npos) {
          from += skip, value = value.substr(skip);
          while (!value.empty() && strchr("'\"", value.back())) value.remove_suffix(1);
        }
      }
      if (!keeps_purpose(key)) add(value, offset + static_cast<uint32_t>(at + from), value_edits(value, settings), out);
      if (!list) break;
    }
  }
}

// Shell: variables of CUDA by their counterpart, and arguments that are devices or backends (--device cuda, device=cuda:0).
void shell(const Source& source, const Settings& settings, Edits* out, std::vector<Finding>* findings) {
  for (int line = 1; line <= source.line_count(); ++line) {
    std::string_view text = source.line_text(line);
    auto offset = static_cast<uint32_t>(text.data() - source.bytes().data());
    size_t start = text.find_first_not_of(" \t");
    if (start == std::string_view::npos || text[start] == '#') continue;
    for (size_t at = start; at < text.size();) {
      if (text[at] == '#' && at > 0 && strchr(" \t", text[at - 1])) break;
      if (is_word(text[at]) && (at == 0 || !is_word(text[at - 1]))) {
        size_t end = at;
        while (end < text.size() && is_word(text[end])) ++end;
        std::string_view word = text.substr(at, end - at);
        std::string_view other = environment_counterpart(word);
        if (!other.empty()) {
          out->replace(offset + at, offset + end, std::string(other),
                       "change " + std::string(word) + " to " + std::string(other));
          at = end;
          continue;
        }
        if (std::string advice = environment_advice(word); !advice.empty())
          findings->push_back({Finding::kNotice, line, line, std::string(word), advice});
        // A whole argument: from a blank, quote or '=' to a blank, quote, ';' or the end.
        bool opens = at == 0 || strchr(" \t='\"", text[at - 1]);
        size_t stop = std::min(text.find_first_of(" \t'\";|&)", at), text.size());
        std::string_view argument = text.substr(at, stop - at);
        bool command = at == start;
        bool assigned = at > 0 && text[at - 1] == '=' && text.substr(0, at).find("--") == std::string_view::npos;
        if (opens && !command) {
          std::vector<TextEdit> edits = value_edits(argument, settings);
          // A bare word "cuda" is a device only after an option or an assignment.
          size_t before = at;
          while (before > 0 && strchr(" \t'\"", text[before - 1])) --before;
          size_t option = before;
          while (option > 0 && !strchr(" \t", text[option - 1])) --option;
          bool after_option = text[option] == '-' && option + 1 < before;
          if (!edits.empty() && (after_option || assigned || text[at - 1] == '=')) {
            add(argument, offset + static_cast<uint32_t>(at), edits, out);
            at = stop;
            continue;
          }
        }
        at = end;
        continue;
      }
      ++at;
    }
  }
}

// A notebook: each code cell is a Python file of its own; its lines are JSON strings, edited in place.
void notebook(const Json& root, std::string_view text, const std::string& path, const Settings& settings,
              Project* project, Edits* out, FileResult* result) {
  const Json* cells = root.get("cells");
  if (!cells || !cells->is_array()) return;
  Settings plain = settings;
  plain.distributed = plain.modelarts = plain.replace_unsupported = false;
  // All code cells together are one module, so that an import in the first counts in the last.
  struct Piece {
    const Json* json;
    size_t start;  // in the program
  };
  std::string program;
  std::vector<Piece> pieces;
  for (const Json& cell : cells->array()) {
    const Json* type = cell.get("cell_type");
    const Json* lines = cell.get("source");
    if (!type || type->string() != "code" || !lines) continue;
    std::vector<const Json*> strings;
    if (lines->is_string()) strings.push_back(lines);
    for (const Json& line : lines->array()) strings.push_back(&line);
    bool magic = false;
    for (const Json* line : strings)
      magic = magic || (!line->string().empty() &&
                        strchr("!%", line->string()[line->string().find_first_not_of(" \t") == std::string::npos
                                                        ? 0
                                                        : line->string().find_first_not_of(" \t")]));
    if (magic) {
      // Magic lines are not Python: blank them with comments of the same length, which keeps every position.
      for (const Json* line : strings) {
        pieces.push_back({line, program.size()});
        std::string code = line->string();
        size_t first = code.find_first_not_of(" \t");
        if (lines->is_array() && first != std::string::npos && strchr("!%", code[first]))
          code[first] = '#';
        else if (lines->is_string())
          code.assign(code.size(), ' ');
        program += code;
      }
    } else {
      for (const Json* line : strings) pieces.push_back({line, program.size()}), program += line->string();
    }
    if (!program.ends_with('\n')) program += '\n';
  }
  FileResult inner = rewrite_python(program, path, plain, project);
  if (!inner.skipped.empty()) {
    result->skipped = inner.skipped, result->skipped_line = inner.skipped_line;
    return;
  }
  result->findings = inner.findings;
  for (const Edit& edit : inner.edits) {
    auto piece = std::upper_bound(pieces.begin(), pieces.end(), edit.start,
                                  [](uint32_t at, const Piece& p) { return at < p.start; });
    if (piece == pieces.begin()) continue;
    --piece;
    const std::string& value = piece->json->string();
    size_t from = edit.start - piece->start, to = edit.end - piece->start;
    if (to > value.size()) continue;  // across lines: none of the cell edits does that
    // Positions in the JSON text: escapes are longer than what they stand for.
    auto position = [&](size_t wanted) {
      uint32_t at = piece->json->start() + 1;
      for (size_t i = 0; i < wanted;) {
        if (text[at] != '\\') {
          ++at, ++i;
        } else if (text[at + 1] == 'u') {
          unsigned code = static_cast<unsigned>(strtoul(std::string(text.substr(at + 2, 4)).c_str(), nullptr, 16));
          bool pair = code >= 0xD800 && code < 0xDC00;
          i += pair ? 4 : code < 0x80 ? 1 : code < 0x800 ? 2 : 3;
          at += pair ? 12 : 6;
        } else {
          at += 2, ++i;
        }
      }
      return at;
    };
    std::string quoted = json_quote(edit.text);
    std::string inside = quoted.substr(1, quoted.size() - 2);
    // A new line is a string of its own where lines are listed.
    size_t newline = inside.find("\\n");
    if (newline != std::string::npos && root.get("nbformat") && newline + 2 <= inside.size())
      inside.insert(newline + 2, "");
    out->replace(position(from), position(to), inside, edit.message);
  }
}

}  // namespace

bool is_config(const std::string& path) {
  return ends_with_any(path, {".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".sh", ".bash", ".ipynb"});
}

FileResult rewrite_config(std::string bytes, const std::string& path, const Settings& settings, Project* project) {
  FileResult result;
  result.path = path;
  result.original = result.migrated = std::move(bytes);
  if (!has_cuda_word(result.original, settings, path)) return result;
  Source source(result.original);
  if (!source.refusal().empty()) {
    result.skipped = source.refusal(), result.skipped_line = source.refusal_line();
    return result;
  }
  Edits edits;
  if (path.ends_with(".json") || path.ends_with(".ipynb")) {
    std::string error;
    std::string_view text = std::string_view(result.original).substr(source.text_start());
    std::optional<Json> json = Json::parse(text, &error);
    if (!json) {
      result.skipped = error, result.skipped_line = 1;
      return result;
    }
    Edits local;
    if (path.ends_with(".ipynb"))
      notebook(*json, text, path, settings, project, &local, &result);
    else
      json_values(*json, text, "", settings, &local);
    for (const Edit& edit : local.sorted())
      edits.replace(edit.start + source.text_start(), edit.end + source.text_start(), edit.text, edit.message);
  } else if (path.ends_with(".sh") || path.ends_with(".bash")) {
    shell(source, settings, &edits, &result.findings);
  } else {
    line_values(source, settings, &edits);
  }
  result.parsed = result.skipped.empty();
  if (result.parsed) finish(source, edits, &result);
  return result;
}

}  // namespace migrate
