// Another name of kernel_operator.h, which some kernels include. What it is not: anything of its own.
#pragma once

#include "kernel_operator.h"
