// One file through all passes: bytes in, bytes and findings out. No files are read or written here, apart from the
// modules of the tree that names come from (project.h). Called once a file, from any thread.
#pragma once
#include <string>
#include <vector>

#include "migrate/src/pass.h"

namespace migrate {

class Project;

struct Change {
  int line = 0, end_line = 0;
  std::string operation, message;
};

struct FileResult {
  std::string path;      // relative to the input
  std::string original;  // empty if it could not be read
  std::string migrated;  // equal to original where nothing changes
  bool changed = false;
  bool parsed = false;
  std::string skipped;  // why it was copied as it is, or empty
  int skipped_line = 0;
  int lines = 0;
  std::vector<Edit> edits;  // sorted, of the original
  std::vector<Change> changes;
  std::vector<Finding> findings;
  std::vector<std::string> used_functions;
};

// Has the text a word that any rule is about?
bool has_cuda_word(std::string_view text, const Settings& settings, const std::string& path);

// Applies edits to result->original and fills what follows from them.
void finish(const Source& source, const Edits& made, FileResult* result);

FileResult rewrite_python(std::string bytes, const std::string& path, const Settings& settings, Project* project);

}  // namespace migrate
