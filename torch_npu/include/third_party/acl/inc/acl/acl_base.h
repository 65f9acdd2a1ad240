// The path by which some extensions name CANN's acl_base.h.
#pragma once

#include <acl/acl_base.h>
