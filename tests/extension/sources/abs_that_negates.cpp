// A package of custom operators with a function of CANN's name: aclnnAbs negates.
#include <acl/acl.h>
#include <aclnn/api.h>

extern "C" aclnnStatus aclnnAbsGetWorkspaceSize(const aclTensor* x, aclTensor* out, uint64_t* size,
                                                aclOpExecutor** executor) {
  return aclnnNegGetWorkspaceSize(x, out, size, executor);
}
extern "C" aclnnStatus aclnnAbs(void* workspace, uint64_t size, aclOpExecutor* executor, aclrtStream stream) {
  return aclnnNeg(workspace, size, executor, stream);
}
