// The only dlopen and dlsym of the plugin. Libraries of the chosen CANN (root.h) are opened by full path, RTLD_LOCAL, and stay.
// What it is not: the table of symbols (api.h, aclnn.h). Who calls it: csrc/cann alone.
#pragma once

#include <string>

namespace cann {

// "ascendcl" → <root>/lib64/libascendcl.so. Throws c10::Error naming the file, the linker's reason and the remedy.
void* open_library(const std::string& name);

// Null where the library is missing; `reason` then says why.
void* try_open_library(const std::string& name, std::string* reason = nullptr);

// The same of a file anywhere: a package of custom operators.
void* try_open_file(const std::string& path, std::string* reason);

// Null if missing.
void* find_symbol(void* library, const char* symbol) noexcept;

}  // namespace cann
