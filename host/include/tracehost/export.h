#pragma once

/// What the library's public headers are made with. Their names lie in an inline namespace that
/// changes with the binary interface: a program and a library that do not fit fail at link time.

#define TRACEHOST_API __attribute__((visibility("default")))
#define TRACEHOST_ABI v0
