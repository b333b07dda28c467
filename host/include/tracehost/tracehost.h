#pragma once

/// All of the C++ API that needs no Python. Link `tracehost::runtime`.

#include "tracehost/archive.h"
#include "tracehost/batcher.h"
#include "tracehost/error.h"
#include "tracehost/function.h"
#include "tracehost/log.h"
#include "tracehost/metrics.h"
#include "tracehost/spec.h"
#include "tracehost/value.h"
#include "tracehost/watcher.h"
