// CounterRandom, which core/ has because kernels draw too.
#pragma once

#include <tenon/core/random.hpp>
