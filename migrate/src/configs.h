// --configs: devices and backends in YAML, JSON, TOML and INI values, shell scripts and notebooks. Only whole values and
// whole command line arguments are changed; comments, keys and everything else stay byte for byte.
#pragma once
#include <string>

#include "migrate/src/rewriter.h"

namespace migrate {

class Project;

bool is_config(const std::string& path);
FileResult rewrite_config(std::string bytes, const std::string& path, const Settings& settings, Project* project);

}  // namespace migrate
