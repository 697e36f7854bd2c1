/* quota.h: what counts against the quota of the tide_current that is bound to the calling thread. */
#pragma once

#include "base.h"
#include "tide/quota.h"

extern _Atomic int tide__quotas; /* how many there are */
tide_quota *tide__quota_bound_slow(void);
/* The one that is bound, or NULL: one load where no host has made any. */
static inline bool tide__quota_any(void) {
  return TIDE_UNLIKELY(atomic_load_explicit(&tide__quotas, memory_order_relaxed) != 0);
}
static inline tide_quota *tide__quota_bound(void) { return tide__quota_any() ? tide__quota_bound_slow() : NULL; }
/* Whose data the memory that is allocated now will hold: a number for each quota, never used again; 0 for work without
 * one. Memory that held another's is cleared before work with a quota gets it. */
uint64_t tide__tenant_of(const tide_quota *quota);
static inline uint64_t tide__tenant(void) { return tide__quota_any() ? tide__tenant_of(tide__quota_bound_slow()) : 0; }
void tide__quota_bind(tide_quota *quota); /* borrowed until the next bind */
tide_quota *tide__quota_retain(tide_quota *quota);

/* A launch, a compilation: a status. */
static inline tide_status tide__quota_count(tide_quota_kind kind) {
  tide_quota *q = tide__quota_bound();
  return q ? tide_quota_spend(q, kind, 1) : TIDE_OK;
}
/* The number by which kernels that can be stopped know whose they are, below TIDE_LAUNCH_OWNERS: 0 without a quota. */
uint16_t tide__quota_owner(const tide_quota *quota);
bool tide__quota_over(const tide_quota *quota); /* must what it is bound to end? */
/* The last launch of a kernel that can be stopped, by number; and up to which a quota's were used up when it got a new
 * limit, 0: never. */
extern _Atomic uint64_t tide__launch_numbers;
uint64_t tide__quota_ended(const tide_quota *quota);
/* Takes back one that was counted, and whose work was not done. */
void tide__quota_uncount(tide_quota *quota, tide_quota_kind kind);
/* The bytes of a new storage. *out is what gives them back, or NULL. */
tide_status tide__quota_take_slow(tide_quota **out, tide_quota *quota, size_t bytes, int device);
static inline tide_status tide__quota_take(tide_quota **out, size_t bytes, int device) {
  tide_quota *q = tide__quota_bound();
  return q ? tide__quota_take_slow(out, q, bytes, device) : TIDE_OK;
}
void tide__quota_give(tide_quota *quota, size_t bytes, int device);
/* tide__quota_take; where it refuses, collects the host's garbage and tries once more. */
tide_status tide__quota_charge(tide_quota **out, size_t bytes, int device);
void tide__quota_collect_by(void (*collect)(int device, size_t bytes));
/* Counts bytes that are no storage's; below 0: they are given back, which never fails. */
tide_status tide__quota_move(tide_quota *quota, int64_t by, int device);
/* What is no storage counts as host memory: what a stream, an event, a graph may cost here and in a driver. */
enum { TIDE__STREAM_COST = 64 << 10, TIDE__EVENT_COST = 4 << 10, TIDE__GRAPH_COST = 64 << 10 };
/* Each operation that a graph has recorded; counted for so many at a time, before they are recorded. */
enum { TIDE__NODE_COST = 8 << 10, TIDE__NODES = 16 };
static inline tide_status tide__quota_take_object(tide_quota **out, size_t cost) {
  return *out = NULL, tide__quota_take(out, cost, TIDE_CPU);
}
static inline void tide__quota_give_object(tide_quota *quota, size_t cost) {
  if (quota) tide__quota_give(quota, cost, TIDE_CPU);
}
/* QUOTA where the bound quota's time or processor time ends within `us` more microseconds: asked before work that
 * cannot be stopped. */
tide_status tide__quota_fits(const char *what, double us);
bool tide__quota_ends(void);                           /* must what runs here end? */
tide_status tide__quota_waits(const char *what);       /* may the host wait where nobody asked it to? */
tide_status tide__waits_refused(const char *what);     /* what tide_refuse_waits has set */
tide_status tide__quota_interrupted(const char *what); /* the failure of what had to end, by a quota or by the host */
