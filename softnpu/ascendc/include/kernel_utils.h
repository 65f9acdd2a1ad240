// A name under which kernels include the API's scalar helpers: kernel_operator.h. What it is not: anything of its own.
#pragma once

#include "kernel_operator.h"
