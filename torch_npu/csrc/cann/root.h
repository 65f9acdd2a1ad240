// Which CANN this process uses: the software NPU that comes with torch_npu, or a toolkit installed on the machine.
// Decided once, at the first question about a device, never at import. What it is not: it loads nothing (library.h does).
// Who calls it: the rest of csrc/cann; csrc/distributed, and csrc/python for torch_npu's own information.
//
//   ANYCEND_CANN=soft     the software NPU
//   ANYCEND_CANN=<root>   that toolkit, devices or not
//   ANYCEND_CANN=auto     (default) $ASCEND_HOME_PATH unset, or the software NPU's own root: the software NPU; set: that
//                         toolkit if it is complete and this machine has a device, the software NPU with one notice if
//                         it has none, an error if it is broken
#pragma once

#include <string>

#include "csrc/cann/export.h"

namespace cann {

struct Root {
  std::string path;  // the toolkit, or torch_npu's own directory
  std::string lib;   // where libascendcl.so lies
  bool soft;         // true: the software NPU
};

// Throws c10::Error naming the file and the remedy where the variables name a toolkit that cannot be used. Asking again
// throws again.
NPU_API const Root& root();

}  // namespace cann
