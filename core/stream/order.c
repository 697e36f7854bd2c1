/* order.c: which stream has waited for all that another one had.
 *
 * Collectives make streams of several devices wait for each other, before and after. In a row of them most of the waits
 * before are needless: the other device has queued nothing since, but its own wait for us. Each costs four calls of the
 * driver, and the devices the time that a signal takes from one to the other and back, which is more than a small
 * transfer does. So each stream counts what core queues on it, launches and waits, and remembers, for a few others,
 * which count of theirs it has waited for.
 *
 * That is not known of a stream whose handle is outside (tide_stream_handle, cuBLAS), of one that is captured, of one
 * without launches, and while another thread is just about to queue a launch: then nothing is left out.
 *
 * Invariant: what is remembered stays true: a later count of the other stream is another number. */
#include "order.h"

enum { LAUNCH_BITS = 32 };
static const uint64_t one_wait = (uint64_t)1 << LAUNCH_BITS;

uint64_t tide__order_now(const tide_stream *s) {
  const struct tide__progress *p = atomic_load_explicit(&s->progress, memory_order_acquire);
  if (!p || s->capture || s->device < 0 || atomic_load_explicit(&s->order.exposed, memory_order_relaxed)) return 0;
  uint32_t waits = atomic_load_explicit(&s->order.waits, memory_order_relaxed);
  uint32_t queued = atomic_load_explicit(&p->queued, memory_order_acquire);
  uint32_t launched = atomic_load_explicit(&p->launched, memory_order_relaxed);
  return launched == queued && launched ? (uint64_t)waits << LAUNCH_BITS | launched : 0;
}

/* Stream and count in one word, so that it is read and written at once; a constant of splitmix64 spreads them. */
static uint64_t known(const tide_stream *other, uint64_t then) {
  uint64_t x = then ^ other->id * 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  return x ^ x >> 31;
}

static _Atomic uint64_t *place(const tide_stream *stream, const tide_stream *other) {
  tide_stream *s = (tide_stream *)stream;
  return &s->order.behind[other->id % (sizeof s->order.behind / sizeof *s->order.behind)];
}

/* If the other one had waited for all that this stream had, it still has: the wait adds nothing but its own past. */
void tide__order_waited(tide_stream *stream, tide_stream *other, uint64_t then) {
  if (stream->capture || (other && other->capture)) return;
  uint64_t before = other ? tide__order_now(stream) : 0;
  bool mutual = before && atomic_load_explicit(place(other, stream), memory_order_relaxed) == known(stream, before);
  atomic_fetch_add_explicit(&stream->order.waits, 1, memory_order_relaxed);
  if (mutual) atomic_store_explicit(place(other, stream), known(stream, before + one_wait), memory_order_relaxed);
  if (then) atomic_store_explicit(place(stream, other), known(other, then), memory_order_relaxed);
}

bool tide__order_settled(const tide_stream *stream, const tide_stream *other) {
  uint64_t now = stream->capture ? 0 : tide__order_now(other);
  return now && atomic_load_explicit(place(stream, other), memory_order_relaxed) == known(other, now);
}

void tide__order_watched(tide_stream *stream, uint64_t then) {
  atomic_store_explicit(&stream->order.watched, then, memory_order_relaxed);
}

bool tide__order_is_watched(const tide_stream *stream) {
  uint64_t now = tide__order_now(stream);
  return now && now == atomic_load_explicit(&stream->order.watched, memory_order_relaxed);
}

void tide__order_expose(const tide_stream *stream) {
  atomic_store_explicit(&((tide_stream *)stream)->order.exposed, true, memory_order_relaxed);
}
