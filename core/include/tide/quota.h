/* tide/quota.h: limits of work that a host does not trust, such as a script's. A quota belongs to a tide_current: all
 * work done while that one is bound counts. Conventions as in tide.h. */
#ifndef TIDE_QUOTA_H
#define TIDE_QUOTA_H

#include "tide/tide.h"

TIDE_C_BEGIN

typedef struct tide_quota tide_quota;

typedef enum tide_quota_kind {
  /* Bytes of the storages that are alive, each with 512 more for what it costs to keep it. An operation that would
   * exceed them fails with QUOTA, and works once enough has been released. */
  TIDE_QUOTA_DEVICE_BYTES,
  /* Of CPU tensors, in page-locked memory too; a stream and a graph count 64 KiB here, an event 4 KiB, and each
   * operation that a graph has recorded 8 KiB. */
  TIDE_QUOTA_HOST_BYTES,
  /* What is spent. Once one of these is used up every operation fails with QUOTA, until the host sets a new limit. */
  TIDE_QUOTA_LAUNCHES,     /* operations that compute or copy, on every device, also in replays of graphs */
  TIDE_QUOTA_COMPILES,     /* texts that a compiler gets */
  TIDE_QUOTA_INSTRUCTIONS, /* of a script: counted by its host, see tide_quota_spend */
  TIDE_QUOTA_MICROSECONDS, /* that pass from when the limit is set */
  /* That one kernel written in Lua, or one replay of a graph with such, may run. It is stopped then, with all of them
   * that the work has launched on the device so far, and its failure, QUOTA, is reported like an index outside
   * is: the work goes on. Its use is always 0. */
  TIDE_QUOTA_KERNEL_MICROSECONDS,
  /* Microseconds of the processor time of the thread that set the limit, from then on. Time for which the system runs
   * others does not count, nor does time of tide's own threads, which share long operations. Spent, as above. */
  TIDE_QUOTA_CPU,
  TIDE_QUOTA_KINDS
} tide_quota_kind;

TIDE_API tide_status tide_quota_new(tide_quota **out); /* without limits */
TIDE_API void tide_quota_release(tide_quota *quota);   /* NULL is allowed; storages that count in it keep it */
/* Negative: no limit. What is spent begins at 0 again, and so does the time; bytes stay. */
TIDE_API void tide_quota_limit(tide_quota *quota, tide_quota_kind kind, int64_t limit);
TIDE_API int64_t tide_quota_get_limit(const tide_quota *quota, tide_quota_kind kind);
TIDE_API int64_t tide_quota_used(const tide_quota *quota, tide_quota_kind kind);
/* How far the use of a kind was beyond its limit when that was first noticed, which is when the work had to end; 0: it
 * has not been. Setting the limit of the kind sets it to 0. */
TIDE_API int64_t tide_quota_overrun(const tide_quota *quota, tide_quota_kind kind);
/* Work that nothing can end asks this before it begins, with the microseconds that it takes. QUOTA where less than
 * that is left of MICROSECONDS or of CPU, and the use would exceed the limit by more than 2 ms and 1/40: that kind
 * counts as used up from then on. */
TIDE_API tide_status tide_quota_afford(tide_quota *quota, int64_t microseconds);
/* Would tide_quota_check fail? Sets no error and notes no overrun. */
TIDE_API bool tide_quota_ended(const tide_quota *quota);
/* Microseconds that are left until the time or the processor time is used up; INT64_MAX: neither has a limit. */
TIDE_API int64_t tide_quota_left(const tide_quota *quota);
/* From any thread: every operation fails with INTERRUPTED from now on, and one that runs, or waits for a device, ends
 * soon, as do kernels written in Lua; false takes it back. */
TIDE_API void tide_quota_stop(tide_quota *quota, bool stopped);
/* May the work go on? Else QUOTA or INTERRUPTED. */
TIDE_API tide_status tide_quota_check(tide_quota *quota);
TIDE_API tide_status tide_quota_spend(tide_quota *quota, tide_quota_kind kind, int64_t n); /* and the same */
/* Operations that would make the host wait for a device fail with PERMISSION. */
TIDE_API void tide_quota_refuse_waits(tide_quota *quota, bool refused);
/* current NULL: the bound one; a thread's own has none. quota NULL: none. A new tide_current has the quota of
 * its parent. */
TIDE_API void tide_current_set_quota(tide_current *current, tide_quota *quota);
TIDE_API tide_quota *tide_current_quota(void); /* of the bound one, borrowed, or NULL */

TIDE_C_END
#endif
