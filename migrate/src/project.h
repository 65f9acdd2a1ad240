// The modules of the tree that is being migrated: where `import x` leads when x is one of its files. Files are parsed on
// demand, only when a name that matters comes from them; each once, shared by all threads.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace migrate {

class Ast;
class Names;
class Source;

class Project {
 public:
  // root: the input directory; files: its Python files, relative to it.
  Project(std::string root, const std::vector<std::string>& files);
  ~Project();

  // The absolute path that an imported dotted path (with leading dots if relative) stands for, seen from `file`.
  // A module of the tree is "project:FILE"; a definition of the tree "local:name"; anything else is given back.
  // only_members: empty instead of the path itself when no file of the tree has that name (star imports).
  std::string resolve_import(const std::string& dotted, const std::string& file, int depth, bool only_members = false);
  // "project:FILE.name" → what name means in that file, or the same text if it is a module of a package.
  std::string resolve_member(const std::string& path, int depth);

 private:
  struct Module;
  Module* load(const std::string& file);
  std::string find_module(const std::string& slashed, const std::string& from) const;

  std::string root_;
  std::unordered_map<std::string, std::unique_ptr<Module>> modules_;  // keys are fixed after construction
};

}  // namespace migrate
