// See output_tree.h.
#include "migrate/src/output_tree.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "migrate/src/csv.h"
#include "migrate/src/embedded.h"
#include "migrate/src/files.h"
#include "migrate/src/log.h"

namespace migrate {
namespace fs = std::filesystem;
namespace {

constexpr const char* kMarker = "msFmkTranspltlog.txt";

class Writer {
 public:
  Writer(const Options& options, RunResult* run, std::string folder)
      : options_(options), run_(*run), folder_(std::move(folder)) {}

  // Returns what went wrong, or empty. Each step stops at the first error.
  std::string write() {
    std::string error;
    if (!options_.analyse) error = tree();
    if (error.empty()) error = lists();
    if (error.empty() && run_.settings.distributed) error = launcher();
    if (error.empty() && run_.settings.replace_unsupported) error = package("ascend_function");
    if (error.empty() && run_.settings.modelarts) error = package("ascend_modelarts_function");
    if (error.empty() && options_.html) error = put("report.html", html_report(options_, run_));
    log_.info("done: " + std::to_string(run_.changed) + " of " + std::to_string(run_.files.size()) + " files " +
              (options_.migrates() ? "changed" : "would change"));
    if (error.empty()) error = log_.write(folder_);
    return error;
  }

 private:
  std::string put(const std::string& name, std::string_view text, unsigned mode = 0644) {
    std::string why = write_file(folder_ + "/" + name, text, mode);
    return why.empty() ? "" : folder_ + "/" + name + ": " + why;
  }

  // Migrated files and everything else of the input, as it is.
  std::string tree() {
    std::map<std::string_view, const FileResult*> changed;
    for (const FileResult& file : run_.files)
      if (file.changed) changed[file.path] = &file;
    for (const Entry& entry : run_.entries) {
      std::string from = run_.root + "/" + entry.path, to = folder_ + "/" + entry.path;
      std::error_code failed;
      switch (entry.kind) {
        case Entry::kFolder:
          fs::create_directories(to, failed);
          break;
        case Entry::kFile: {
          auto found = changed.find(entry.path);
          if (found != changed.end()) {
            if (std::string error = put(entry.path, found->second->migrated, entry.mode | 0600); !error.empty())
              return error;
            break;
          }
          fs::create_directories(fs::path(to).parent_path(), failed);
          fs::copy_file(from, to, failed);
          if (failed) {
            run_.problems.push_back(entry.path + ": cannot be copied: " + failed.message());
            failed.clear();
          } else {
            fs::permissions(to, fs::perms::owner_write, fs::perm_options::add, failed);
          }
          break;
        }
        case Entry::kLink:
          link(entry, to);
          break;
        default:
          run_.problems.push_back(entry.path + ": not a regular file, left out");
      }
      if (failed) return to + ": " + failed.message();
    }
    return "";
  }

  // A link inside the input stays one; a link out of it is not followed.
  void link(const Entry& entry, const std::string& to) {
    fs::path folder = fs::path(run_.root) / fs::path(entry.path).parent_path();
    fs::path target = fs::path(entry.target).is_absolute() ? fs::path(entry.target) : folder / entry.target;
    std::string inside = target.lexically_normal().lexically_relative(run_.root).string();
    std::error_code failed;
    if (inside.empty() || inside.starts_with("..")) {
      run_.problems.push_back(entry.path + ": a link out of the input (" + entry.target + "), left out");
      return;
    }
    fs::path written =
        fs::path(entry.target).is_absolute() ? target.lexically_relative(folder) : fs::path(entry.target);
    fs::create_directories(fs::path(to).parent_path(), failed);
    fs::create_symlink(written, to, failed);
    if (failed) run_.problems.push_back(entry.path + ": the link cannot be made: " + failed.message());
  }

  std::string finding_list(const char* name, Finding::Category category) {
    std::string text = csv_row({"File", "Start Line", "End Line", "OP", "Tips"});
    for (const FileResult& file : run_.files)
      for (const Finding& finding : file.findings)
        if (finding.category == category)
          text += csv_row(
              {file.path, std::to_string(finding.line), std::to_string(finding.end_line), finding.name, finding.tips});
    return put(name, text);
  }

  std::string lists() {
    log_.info("input " + run_.root + ", PyTorch " + run_.settings.version);
    for (const std::string& problem : run_.problems) log_.warning(problem);
    std::string changes = csv_row({"File", "Start Line", "End Line", "Operation Type", "Message"});
    for (const FileResult& file : run_.files) {
      if (!file.skipped.empty())
        log_.warning(file.path + ":" + std::to_string(std::max(1, file.skipped_line)) +
                     (options_.analyse ? ": not analysed: " : ": copied as it is: ") + file.skipped);
      for (const Change& change : file.changes) {
        changes += csv_row({file.path, std::to_string(change.line), std::to_string(change.end_line), change.operation,
                            change.message});
        log_.info(file.path + ":" + std::to_string(change.line) + ": " + change.message);
      }
      for (const Finding& finding : file.findings)
        if (finding.category == Finding::kNotice || finding.category == Finding::kUnsupported)
          log_.warning(file.path + ":" + std::to_string(finding.line) + ": " + finding.name + ": " + finding.tips);
    }
    std::string error;
    auto step = [&](std::string next) {
      if (error.empty()) error = std::move(next);
    };
    if (!options_.analyse) step(put("change_list.csv", changes));
    step(finding_list("cuda_op_list.csv", Finding::kCudaOp));
    step(finding_list("unknown_api.csv", Finding::kUnknown));
    step(finding_list("unsupported_api.csv", Finding::kUnsupported));
    if (options_.analyse) {
      step(finding_list("limited_api.csv", Finding::kLimited));
      step(finding_list("api_performance_advice.csv", Finding::kPerformance));
      step(finding_list("api_precision_advice.csv", Finding::kPrecision));
      step(finding_list("third_party_libraries.csv", Finding::kThirdParty));
      step(finding_list("notices.csv", Finding::kNotice));
    }
    return error;
  }

  std::string launcher() {
    std::string text(embedded("templates/run_distributed_npu.sh"));
    std::string name = run_.settings.main_file, quoted;
    for (char c : name) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    if (size_t at = text.find("@MAIN@"); at != std::string::npos) text.replace(at, 6, quoted);
    return put("run_distributed_npu.sh", text, 0755);
  }

  // A package of the templates, at the top of the tree.
  std::string package(const std::string& name) {
    std::string prefix = "templates/" + name + "/";
    for (int i = 0; i < kEmbeddedCount; ++i)
      if (kEmbedded[i].name.starts_with(prefix))
        if (std::string error =
                put(name + "/" + std::string(kEmbedded[i].name.substr(prefix.size())), kEmbedded[i].text);
            !error.empty())
          return error;
    log_.info("added " + name + ": the output folder must be on PYTHONPATH if the scripts are not started from it");
    return "";
  }

  const Options& options_;
  RunResult& run_;
  std::string folder_;
  Log log_;
};

}  // namespace

std::string output_folder(const Options& options, const std::string& name) {
  const char* tail = options.analyse ? "_analysis" : options.distributed ? "_msft_multi" : "_msft";
  return (fs::absolute(options.output) / (name + tail)).lexically_normal().string();
}

std::string write_output(const Options& options, RunResult* run) {
  std::string folder = output_folder(options, run->name);
  std::error_code failed;
  bool exists = fs::exists(fs::symlink_status(folder, failed));
  if (exists) {
    bool ours = fs::is_directory(fs::symlink_status(folder)) &&
                (fs::exists(folder + "/" + kMarker) || fs::is_empty(folder, failed));
    if (!ours) return folder + " exists and is no result of this tool: it is not replaced";
    if (!options.yes) {
      if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) return folder + " exists; --yes replaces it";
      std::cerr << folder << " exists. Replace it? [y/N] " << std::flush;
      std::string answer;
      std::getline(std::cin, answer);
      if (answer != "y" && answer != "Y" && answer != "yes") return "nothing was written";
    }
  }
  std::string temporary = folder + ".tmp" + std::to_string(getpid());
  fs::create_directories(temporary, failed);
  if (failed) return temporary + ": " + failed.message();
  std::string error = Writer(options, run, temporary).write();
  std::string old = folder + ".old" + std::to_string(getpid());
  if (error.empty() && exists) {
    fs::rename(folder, old, failed);
    if (failed) error = folder + ": " + failed.message();
  }
  if (error.empty()) {
    fs::rename(temporary, folder, failed);
    if (failed) {
      error = folder + ": " + failed.message();
      if (exists) fs::rename(old, folder, failed);
    }
  }
  if (!error.empty()) {
    fs::remove_all(temporary, failed);
    return error;
  }
  fs::remove_all(old, failed);
  run->output = folder;
  return "";
}

std::string write_in_place(const RunResult& run) {
  std::map<std::string_view, unsigned> modes;
  for (const Entry& entry : run.entries) modes[entry.path] = entry.mode;
  for (const FileResult& file : run.files) {
    if (!file.changed) continue;
    std::string path = run.root + "/" + file.path;
    struct stat info;
    unsigned mode = ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : modes[file.path];
    if (std::string why = write_file(path, file.migrated, mode); !why.empty()) return path + ": " + why;
  }
  return "";
}

}  // namespace migrate
