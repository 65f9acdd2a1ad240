// The folder a run leaves (NAME_msft, NAME_msft_multi, NAME_analysis): the migrated tree, lists, log and added packages.
// It is made beside its place under a temporary name and renamed at the end: there is a whole one or none.
#pragma once
#include <string>
#include <vector>

#include "migrate/src/options.h"
#include "migrate/src/run.h"

namespace migrate {

// The folder's name for these options: what the input's walk must leave out if it lies inside.
std::string output_folder(const Options& options, const std::string& name);

// Asks on a terminal before it replaces an earlier result (--yes: does not ask). Returns what went wrong, or empty.
std::string write_output(const Options& options, RunResult* run);

// --in-place. Returns what went wrong, or empty.
std::string write_in_place(const RunResult& run);

// What makes the result another than was asked for; each is told whatever else is, and the exit code is kFailed.
std::vector<std::string> failures(const RunResult& run);
std::string html_report(const Options& options, const RunResult& run);
std::string json_report(const Options& options, const RunResult& run, int exit_code);
std::string summary(const Options& options, const RunResult& run);

}  // namespace migrate
