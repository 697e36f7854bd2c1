/* cpu.h: the kernels of the CPU backend, which the simulated devices run too: pure functions of their arguments, safe
 * on any thread. The stream is not used. They return when the work is done. */
#pragma once

#include "backend/backend.h"
#include "base/base.h"

#define KERNEL(name, args, writes, cost, library) tide_status tide__cpu_##name(tide_stream *stream, const args *a);
#include "backend/kernel.def"
/* Whether the library that a kernel calls is there, by the library's name in kernel.def; else why not. */
static inline tide_status tide__cpu_has_none(const char *kernel) { return TIDE_OK; }
tide_status tide__cpu_has_lapack(const char *kernel);
/* The kernels themselves, for backends that report later: true where an element is bad, and gives it. */
bool tide__cpu_gather_bad(const tide_index_args *a, int64_t *value);
bool tide__cpu_scatter_bad(const tide_index_args *a, int64_t *value);
bool tide__cpu_locate_bad(const tide_locate_args *a, int64_t *value);
bool tide__cpu_verify_bad(const tide_verify_args *a, int64_t *value);
tide_status tide__cpu_pack(tide_stream *stream, const tide_pack_args *a);
