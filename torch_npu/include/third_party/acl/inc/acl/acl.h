// The path by which some extensions name CANN's acl.h.
#pragma once

#include <acl/acl.h>
