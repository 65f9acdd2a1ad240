// What becomes what: names, packages that are not PyTorch, advice. Built in from migrate/data, extended by --rules FILE.
// Tables only; where a name stands in the text and how it is edited is the rewriters' business.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace migrate {

enum class Support { kYes, kLimits, kNo, kDoubt, kAbsent, kUnlisted };

struct CudaName {
  // kShared: torch.cuda has it whatever the device, and torch.npu does not (its exception classes).
  enum Status { kSame, kRenamed, kShared, kNone, kUnknown };
  Status status = kUnknown;
  std::string target;  // below torch.npu, for kRenamed the renamed part: "NPUGraph", "mstx.range_push"
};

struct Advice {
  enum Category { kPerformance, kPrecision, kThirdParty, kNotice, kCudaOp, kUnsupported };
  Category category;
  std::string tips;
};

class Rules {
 public:
  Rules();
  // Adds the rules of a JSON file; returns what is wrong with it, or empty.
  std::string load(const std::string& path);

  // name: below torch.cuda, "" for the module itself.
  CudaName cuda_name(std::string_view name) const;
  // Calls spelled torch_npu.npu.X, as the documents spell them: the full replacement or empty.
  std::string_view call_name(std::string_view path) const;
  // Names that moved elsewhere as they are: torch.profiler.profile → torch_npu.profiler.profile. Empty if it did not.
  std::string moved_name(std::string_view path) const;
  // A package whose objects' "cuda" is not PyTorch's; and of those, one whose "cuda" strings are its own too.
  bool foreign(std::string_view path) const;
  bool foreign_device(std::string_view path) const;
  Support support(std::string_view api, std::string_view version) const;
  const Advice* advice(std::string_view path) const;          // by API
  const Advice* third_party(std::string_view package) const;  // by imported package
  // User's string rules: whole literal content → new content.
  const std::string* user_string(std::string_view content) const;

 private:
  std::unordered_map<std::string, std::string> cuda_names_, call_names_, moved_, user_strings_;
  std::unordered_map<std::string, std::vector<char>> support_;
  std::vector<std::string> versions_;
  std::unordered_map<std::string, Advice> advice_, packages_;
  std::vector<std::string> foreign_, plain_;
};

// "1.11.0" → 1011; 0 if it is no version.
int version_number(std::string_view version);

}  // namespace migrate
