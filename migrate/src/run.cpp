// See run.h. Threads take files from one counter; each result has its own slot, so no lock is needed for them.
#include "migrate/src/run.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <thread>

#include "migrate/src/configs.h"
#include "migrate/src/cuda_sources.h"
#include "migrate/src/files.h"
#include "migrate/src/project.h"

namespace migrate {
namespace fs = std::filesystem;
namespace {

// A line that is redrawn, on a terminal only.
class Progress {
 public:
  Progress(size_t total, bool wanted) : total_(total), on_(wanted && isatty(STDERR_FILENO)) {}
  ~Progress() {
    if (on_) fputs("\r\033[K", stderr);
  }
  void step() {
    size_t done = ++done_;
    if (!on_ || (done % 16 && done != total_)) return;
    std::lock_guard lock(mutex_);
    int filled = static_cast<int>(30 * done / std::max<size_t>(total_, 1));
    fprintf(stderr, "\r[%.*s%.*s] %zu/%zu files", filled, "##############################", 30 - filled,
            "..............................", done, total_);
  }

 private:
  std::mutex mutex_;
  std::atomic<size_t> done_{0};
  size_t total_;
  bool on_;
};

bool is_python(const std::string& path) { return ends_with_any(path, {".py", ".pyw"}); }

}  // namespace

int RunResult::count(Finding::Category category) const {
  int found = 0;
  for (const FileResult& file : files)
    found += static_cast<int>(std::count_if(file.findings.begin(), file.findings.end(),
                                            [&](const Finding& f) { return f.category == category; }));
  return found;
}

std::string run_rewrite(const Options& options, const Rules& rules, const std::vector<std::string>& skip,
                        RunResult* result) {
  auto begin = std::chrono::steady_clock::now();
  std::error_code failed;
  fs::path input = fs::canonical(options.input, failed);
  if (failed) return options.input + ": " + failed.message();
  bool single = fs::is_regular_file(input, failed);
  if (!single && !fs::is_directory(input, failed)) return options.input + ": neither a folder nor a file";
  result->root = single ? input.parent_path().string() : input.string();
  result->name = single ? input.stem().string() : input.filename().string();
  if (result->name.empty()) result->name = "root";

  if (single) {
    Entry entry;
    entry.path = input.filename().string();
    result->entries.push_back(entry);
  } else {
    result->entries = walk(result->root, skip, &result->problems);
  }

  Settings& settings = result->settings;
  settings.version = options.version;
  settings.rules = &rules;
  settings.replace_unsupported = options.replace_unsupported;
  settings.modelarts = options.modelarts;
  settings.distributed = options.distributed;
  settings.analyse = options.analyse;
  settings.model = options.model;

  std::vector<std::string> paths, python;
  for (const Entry& entry : result->entries) {
    if (entry.kind != Entry::kFile) continue;
    if (is_python(entry.path))
      python.push_back(entry.path), paths.push_back(entry.path);
    else if (is_cuda_source(entry.path) || (options.configs && is_config(entry.path)))
      paths.push_back(entry.path);
  }
  if (single && paths.empty())
    return options.input + ": not a Python file" +
           (options.configs ? " or configuration file" : " (--configs takes configuration files)");

  if (options.distributed) {
    fs::path main = fs::canonical(options.main_file, failed);
    if (failed) main = fs::canonical(fs::path(result->root) / options.main_file, failed);
    std::string relative = failed ? "" : main.lexically_relative(result->root).string();
    if (failed || relative.starts_with("..") || std::find(python.begin(), python.end(), relative) == python.end())
      return "distributed -m " + options.main_file + ": no Python file of the input";
    settings.main_file = relative;
    for (const std::string& path : python) {
      std::string bytes;
      if (read_file(result->root + "/" + path, &bytes).empty() && bytes.find("init_process_group") != std::string::npos)
        settings.already_distributed = true;
    }
    if (settings.already_distributed)
      result->problems.push_back("the scripts make a process group themselves: only names and backends were changed");
  }

  Project project(result->root, python);
  result->files.resize(paths.size());
  std::atomic<size_t> next{0};
  Progress progress(paths.size(), !options.quiet && !options.json);
  auto one = [&](const std::string& path, FileResult* file) {
    std::string bytes;
    std::string why = read_file(result->root + "/" + path, &bytes);
    if (!why.empty()) {
      file->path = path, file->skipped = "cannot be read: " + why;
    } else if (is_python(path)) {
      *file = rewrite_python(std::move(bytes), path, settings, &project);
    } else if (is_cuda_source(path)) {
      *file = scan_cuda_source(std::move(bytes), path);
    } else {
      *file = rewrite_config(std::move(bytes), path, settings, &project);
    }
  };
  auto work = [&] {
    for (size_t i; (i = next++) < paths.size(); progress.step()) {
      FileResult& file = result->files[i];
      try {
        one(paths[i], &file);
      } catch (const std::exception& error) {  // a defect of the tool must not cost the other files
        file = FileResult();
        file.path = paths[i], file.skipped = std::string("internal error: ") + error.what();
      }
      if (file.changed) continue;
      // What does not change is copied from the input: no need to hold it.
      file.original.clear(), file.original.shrink_to_fit();
      file.migrated.clear(), file.migrated.shrink_to_fit();
    }
  };
  int jobs = options.jobs ? options.jobs : std::max(1u, std::thread::hardware_concurrency());
  jobs = std::min<int>(jobs, std::max<size_t>(1, paths.size()));
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < jobs; ++i) threads.emplace_back(work);
    work();
  }
  for (const FileResult& file : result->files) {
    result->lines += file.lines;
    result->changed += file.changed;
    result->skipped += !file.skipped.empty();
  }
  result->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return "";
}

}  // namespace migrate
