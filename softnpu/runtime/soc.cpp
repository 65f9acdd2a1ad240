#include "softnpu/runtime/soc.h"

#include <strings.h>

namespace softnpu {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// Ascend910B without a number is a chip of the first family, Ascend910; Ascend910B1 and its kin are of A2.
constexpr Soc kSocs[] = {
    {"Ascend910A", 32, 32, 32 * kMiB, false},        {"Ascend910B", 32, 32, 32 * kMiB, false},
    {"Ascend910ProA", 32, 32, 32 * kMiB, false},     {"Ascend910ProB", 30, 30, 32 * kMiB, false},
    {"Ascend910PremiumA", 32, 32, 32 * kMiB, false}, {"Ascend910B1", 24, 48, 192 * kMiB, true},
    {"Ascend910B2", 24, 48, 192 * kMiB, true},       {"Ascend910B2C", 24, 48, 192 * kMiB, true},
    {"Ascend910B3", 20, 40, 192 * kMiB, true},       {"Ascend910B4", 20, 40, 96 * kMiB, true},
    {"Ascend910B4-1", 20, 40, 168 * kMiB, true},     {"Ascend910_9391", 24, 48, 192 * kMiB, true},
    {"Ascend910_9392", 24, 48, 192 * kMiB, true},    {"Ascend910_9381", 24, 48, 192 * kMiB, true},
    {"Ascend910_9382", 24, 48, 192 * kMiB, true},    {"Ascend910_9372", 20, 40, 192 * kMiB, true},
    {"Ascend910_9362", 20, 40, 192 * kMiB, true},    {"Ascend950PR_9599", 32, 64, 128 * kMiB, true},
    {"Ascend950PR_9589", 32, 64, 128 * kMiB, true},  {"Ascend950DT_9591", 32, 64, 128 * kMiB, true},
};
// The short names users say stand for the family's usual chip.
constexpr struct {
  const char* family;
  const char* chip;
} kFamilies[] = {{"Ascend910", "Ascend910A"}, {"Ascend910_93", "Ascend910_9391"}, {"Ascend950", "Ascend950PR_9599"}};

}  // namespace

const Soc* find_soc(const char* name) noexcept {
  for (auto& f : kFamilies)
    if (strcasecmp(f.family, name) == 0) name = f.chip;
  for (auto& s : kSocs)
    if (strcasecmp(s.name, name) == 0) return &s;
  return nullptr;
}

std::string soc_names() {
  std::string all;
  for (auto& f : kFamilies) all += (all.empty() ? "" : ", ") + std::string(f.family);
  for (auto& s : kSocs) all += (all.empty() ? "" : ", ") + std::string(s.name);
  return all;
}

}  // namespace softnpu
