// The path by which some extensions name CANN's acl_op.h.
#pragma once

#include <acl/acl_op.h>
