// The path by which some extensions name CANN's acl_rt.h.
#pragma once

#include <acl/acl_rt.h>
