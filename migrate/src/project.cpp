// See project.h. Lock order: a module's once_flag only; resolving names never holds one while it loads another.
#include "migrate/src/project.h"

#include <algorithm>

#include "migrate/src/ast.h"
#include "migrate/src/files.h"
#include "migrate/src/names.h"
#include "migrate/src/source.h"

namespace migrate {

constexpr int kMaxImportDepth = 48;

struct Project::Module {
  std::once_flag once;
  std::mutex mutex;  // Names memoises; a module may be asked by several threads
  std::unique_ptr<Source> source;
  std::unique_ptr<Ast> ast;
  std::unique_ptr<Names> names;
};

Project::Project(std::string root, const std::vector<std::string>& files) : root_(std::move(root)) {
  for (const std::string& file : files) modules_[file] = std::make_unique<Module>();
}
Project::~Project() = default;

Project::Module* Project::load(const std::string& file) {
  auto found = modules_.find(file);
  if (found == modules_.end()) return nullptr;
  Module* module = found->second.get();
  std::call_once(module->once, [&] {
    std::string bytes;
    if (!read_file(root_ + "/" + file, &bytes).empty()) return;
    auto source = std::make_unique<Source>(std::move(bytes));
    if (!source->refusal().empty()) return;
    auto ast = std::make_unique<Ast>(*source);
    if (!ast->error().empty()) return;
    // Names in other files are asked for in terms of imports only: no project here, so no lock is held across files.
    module->names = std::make_unique<Names>(*ast, nullptr, file);
    module->ast = std::move(ast);
    module->source = std::move(source);
  });
  return module->names ? module : nullptr;
}

std::string Project::find_module(const std::string& slashed, const std::string& from) const {
  // As a script sees it (its own folder first), then every folder above up to the root.
  std::string folder = from.substr(0, from.rfind('/') == std::string::npos ? 0 : from.rfind('/'));
  while (true) {
    std::string base = folder.empty() ? slashed : folder + "/" + slashed;
    for (const char* tail : {".py", "/__init__.py"})
      if (modules_.count(base + tail) && base + tail != from) return base + tail;
    if (folder.empty()) return "";
    size_t slash = folder.rfind('/');
    folder = slash == std::string::npos ? "" : folder.substr(0, slash);
  }
}

std::string Project::resolve_import(const std::string& dotted, const std::string& file, int depth, bool only_members) {
  std::string fallback = only_members || dotted.starts_with('.') ? "" : dotted;
  if (depth > kMaxImportDepth) return fallback;
  std::string_view rest = dotted;
  std::string folder;
  bool relative = rest.starts_with('.');
  if (relative) {
    folder = file.substr(0, file.rfind('/') == std::string::npos ? 0 : file.rfind('/'));
    for (rest.remove_prefix(1); rest.starts_with('.'); rest.remove_prefix(1))
      folder = folder.substr(0, folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/'));
  } else if (std::string_view root = root_package(rest); root == "torch" || root == "torch_npu") {
    return fallback;
  }
  // The longest prefix that is a file; what is left are names in it.
  std::string slashed(rest);
  std::replace(slashed.begin(), slashed.end(), '.', '/');
  std::string names;
  while (!slashed.empty()) {
    std::string found;
    if (relative) {
      std::string base = folder.empty() ? slashed : folder + "/" + slashed;
      for (const char* tail : {".py", "/__init__.py"})
        if (found.empty() && modules_.count(base + tail)) found = base + tail;
    } else {
      found = find_module(slashed, file);
    }
    if (!found.empty()) return resolve_member("project:" + found + names, depth + 1);
    size_t slash = slashed.rfind('/');
    std::string last = slash == std::string::npos ? slashed : slashed.substr(slash + 1);
    names = "." + last + names;
    slashed = slash == std::string::npos ? "" : slashed.substr(0, slash);
  }
  if (relative) {
    std::string init = folder.empty() ? "__init__.py" : folder + "/__init__.py";
    if (!names.empty() && modules_.count(init) && init != file)
      return resolve_member("project:" + init + names, depth + 1);
    return "";
  }
  return fallback;
}

std::string Project::resolve_member(const std::string& path, int depth) {
  size_t end = path.find(".py");
  if (end == std::string::npos || depth > kMaxImportDepth) return "";
  std::string file = path.substr(8, end + 3 - 8);
  if (path.size() == end + 3) return path;
  std::string names = path.substr(end + 4);
  size_t dot = names.find_first_of(".(");
  std::string first = names.substr(0, dot);
  std::string rest = dot == std::string::npos ? "" : names.substr(dot);
  std::string meaning;
  if (Module* module = load(file)) {
    std::vector<std::string> stars;
    {
      std::lock_guard lock(module->mutex);
      if (module->names->lookup(first, 0))
        meaning = module->names->exported(first, depth);
      else
        stars = module->names->scopes()[0].stars;
      // What the file itself imports is seen from that file. The raw path comes back because it has no project.
      if (meaning.empty())
        if (auto* bindings = module->names->lookup(first, 0); bindings && bindings->size() == 1)
          if ((*bindings)[0].kind == Binding::kRelative) meaning = (*bindings)[0].path;
    }
    if (!meaning.empty() && !meaning.starts_with("local:")) meaning = resolve_import(meaning, file, depth + 1);
    for (size_t i = 0; meaning.empty() && i < stars.size(); ++i)
      meaning = resolve_import(stars[i] + (stars[i].ends_with('.') ? "" : ".") + first, file, depth + 1, true);
  }
  if (meaning.empty() && file.ends_with("__init__.py")) {  // a submodule that nothing imported by name
    std::string base = file.substr(0, file.size() - 11) + first;
    for (const char* tail : {".py", "/__init__.py"})
      if (meaning.empty() && modules_.count(base + tail)) meaning = "project:" + base + tail;
  }
  if (meaning.empty()) return "";
  if (rest.empty()) return meaning;
  return meaning.starts_with("project:") ? resolve_member(meaning + rest, depth + 1) : meaning + rest;
}

}  // namespace migrate
