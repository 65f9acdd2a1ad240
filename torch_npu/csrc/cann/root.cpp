#include "csrc/cann/root.h"

#include <c10/util/Exception.h>
#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace cann {
namespace {

// What a training process opens: without one of these a toolkit is half-installed.
constexpr const char* kRequired[] = {"libascendcl.so", "libnnopbase.so", "libopapi.so", "libhccl.so"};

bool is_file(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool is_directory(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The driver makes one node a device. A toolkit without a driver (a build server, an image) has none; opening the
// toolkit's libraries to ask would leave them in the process under the names the software NPU's have.
bool machine_has_device() {
  DIR* directory = opendir("/dev");
  if (!directory) return false;
  bool found = false;
  while (const dirent* entry = readdir(directory)) {
    constexpr size_t prefix = 7;
    found = found || (std::strncmp(entry->d_name, "davinci", prefix) == 0 && std::isdigit(entry->d_name[prefix]));
  }
  closedir(directory);
  return found;
}

// libtorch_npu.so lies in torch_npu/lib, the software NPU in torch_npu/softnpu/lib64.
std::string package() {
  Dl_info info{};
  TORCH_CHECK(dladdr(reinterpret_cast<void*>(&package), &info) && info.dli_fname,
              "npu: torch_npu cannot find its own file");
  std::string path(info.dli_fname);
  for (int i = 0; i < 2; ++i) {
    const size_t slash = path.rfind('/');
    path = slash == std::string::npos ? "." : path.substr(0, slash);
  }
  return path;
}

Root software_npu() {
  const std::string path = package();
  Root root{path, path + "/softnpu/lib64", true};
  TORCH_CHECK(is_file(root.lib + "/libascendcl.so"),
              "npu: the software NPU is not where torch_npu was installed: ", root.lib,
              "/libascendcl.so is missing. Reinstall torch_npu, or name a CANN toolkit in ASCEND_HOME_PATH");
  return root;
}

// As sourcing the software NPU's own set_env.sh names it, or `import torch_npu` for what it starts; or that of another
// environment, whose set_env.sh a shell has sourced: it is no toolkit, and this environment's own is the one that fits.
bool is_software_npu(const std::string& path) {
  if (is_file(path + "/share/info/anycend/version.info")) return true;
  struct stat named{}, own{};
  const std::string ours = package() + "/softnpu/lib64";
  return stat((path + "/lib64").c_str(), &named) == 0 && stat(ours.c_str(), &own) == 0 && named.st_dev == own.st_dev &&
         named.st_ino == own.st_ino;
}

Root toolkit(const std::string& path, const char* variable) {
  constexpr const char* remedy =
      ". Install the CANN toolkit there, name another one, or run without it: ANYCEND_CANN=soft uses the software NPU";
  TORCH_CHECK(is_directory(path), "npu: ", variable, "=", path, " is not a directory", remedy);
  Root root{path, path + "/lib64", false};
  for (const char* name : kRequired) {
    TORCH_CHECK(is_file(root.lib + "/" + name), "npu: ", variable, "=", path,
                " is not a complete CANN toolkit: ", root.lib, "/", name, " is missing", remedy);
  }
  return root;
}

Root decide() {
  const std::string choice = environment("ANYCEND_CANN");
  if (choice == "soft") return software_npu();
  if (!choice.empty() && choice != "auto") return toolkit(choice, "ANYCEND_CANN");
  const char* variable = "ASCEND_HOME_PATH";
  std::string home = environment(variable);
  if (home.empty()) home = environment(variable = "ASCEND_TOOLKIT_HOME");
  if (home.empty() || is_software_npu(home)) return software_npu();
  Root real = toolkit(home, variable);
  if (machine_has_device()) return real;
  TORCH_WARN("npu: the CANN toolkit in ", variable, "=", home,
             " is complete, but this machine has no NPU (no /dev/davinci*): the software NPU is used. "
             "ANYCEND_CANN=soft says so "
             "without this notice");
  return software_npu();
}

}  // namespace

const Root& root() {
  static std::mutex mutex;
  static const Root* decided = nullptr;  // leaked: read until the process is gone
  const std::lock_guard<std::mutex> lock(mutex);
  if (!decided) decided = new Root(decide());
  return *decided;
}

}  // namespace cann
