// A package of custom operators: aclnnScaleCust(x, scale, out) is out = x * scale * FACTOR, by another aclnn function.
#include <acl/acl.h>
#include <aclnn/api.h>

extern "C" aclnnStatus aclnnScaleCustGetWorkspaceSize(const aclTensor* x, double scale, aclTensor* out,
                                                      uint64_t* workspaceSize, aclOpExecutor** executor) {
  double factor = scale * FACTOR;
  aclScalar* scalar = aclCreateScalar(&factor, ACL_DOUBLE);
  const aclnnStatus status = aclnnMulsGetWorkspaceSize(x, scalar, out, workspaceSize, executor);
  aclDestroyScalar(scalar);
  return status;
}

extern "C" aclnnStatus aclnnScaleCust(void* workspace, uint64_t size, aclOpExecutor* executor, aclrtStream stream) {
  return aclnnMuls(workspace, size, executor, stream);
}
