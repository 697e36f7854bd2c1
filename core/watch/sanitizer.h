/* sanitizer.h: what the files of the stream sanitizer share; sanitizer.c tells the design. Private to them. All of it,
 * except what is of regions alone, is called with tide__sanitizer_lock held. */
#pragma once

#include "tide/sanitizer.h"
#include "watch.h"

extern pthread_mutex_t tide__sanitizer_lock;

/* ---- sanitizer_region.c: the bytes of a view ---- */

enum { TIDE__REGION_DIMS = 6 };

/* Runs of bytes of a storage: one begins at `first` plus any sum of x[d] * stride[d], 0 <= x[d] < size[d]. */
typedef struct tide__region {
  int64_t first, last, run; /* all of them lie in [first, last); each is `run` long */
  int n;                    /* dims; the smallest stride first */
  int64_t size[TIDE__REGION_DIMS], stride[TIDE__REGION_DIMS];
} tide__region;

/* Of a tensor that is not empty. A view of more dims than fit is taken for a part of it. */
void tide__region_of(tide__region *out, const tide_tensor *x);
/* Have they a byte in common? False also where that could not be decided with bounded effort. */
bool tide__region_meets(const tide__region *a, const tide__region *b);
/* Is b surely a part of a? */
bool tide__region_covers(const tide__region *a, const tide__region *b);
/* Makes a the union, if that is a region and is found easily. */
bool tide__region_join(tide__region *a, const tide__region *b);

/* ---- sanitizer_clock.c: who has waited for what ---- */

/* at[slot] is the last epoch of a timeline that lies before. What is not there is 0. */
typedef struct tide__clock {
  int n, room;
  uint64_t *at;
} tide__clock;

static inline bool tide__clock_knows(const tide__clock *c, int slot, uint64_t epoch) {
  return slot < c->n && c->at[slot] >= epoch;
}

/* One for each of the driver's streams, and for each stream of a capture. */
typedef struct tide__timeline {
  int slot, device;
  bool captured, foreign, is_default;
  uint64_t handle;    /* the driver's */
  uint64_t key;       /* the handle, or the number that the stream has in its capture */
  uint64_t used;      /* when it was asked for last */
  uint64_t host_seen; /* the version of the host's clock that it has joined */
  tide__clock clock;  /* at[slot] is its own epoch, which ends whenever somebody learns of it */
} tide__timeline;

/* All of these return NULL or false without memory; then the histories must be forgotten, because a wait may have been
 * missed. */

/* The stream's timeline, which knows of all that the host has waited for. */
tide__timeline *tide__timeline_of(const tide_stream *stream);
const tide__clock *tide__clock_host(void);
/* Marks are events and the points that core sets itself. */
bool tide__clock_record(const void *mark, const tide_stream *stream);
bool tide__clock_wait_event(const tide_stream *stream, const tide_event *event);
bool tide__clock_wait_mark(const tide_stream *stream, const void *mark);
bool tide__clock_host_event(const tide_event *event);
bool tide__clock_host_stream(const tide_stream *stream);
bool tide__clock_host_device(int device);
void tide__clock_mark_gone(const void *mark);
void tide__clock_clear(void);

/* ---- sanitizer_history.c: who has touched which bytes ---- */

/* One access. */
typedef struct tide__touch {
  uint64_t epoch, stream;
  uint32_t site, replay; /* the lines; `replay` is 0 unless a graph's work is meant */
  uint16_t slot, what, detail;
  bool write, is_default, freed; /* freed: the tensor is gone, and its memory is another one's */
  uint8_t input;                 /* of the graph that the capture fills, counted from 1; 0: none */
  int device;
  tide__region region;
} tide__touch;

/* What is known of one storage, outside captures or in one of them. */
typedef struct tide__history {
  struct tide__history *chain;       /* of one bucket */
  struct tide__history *prev, *next; /* of one footprint */
  struct tide__footprint *of;
  const tide_storage *storage;
  int n, room;
  tide__touch *touch; /* the oldest first */
} tide__history;

/* The histories of one capture; capture 0: of all that is executed at once. */
typedef struct tide__footprint {
  struct tide__footprint *next;
  uint64_t capture;
  tide__history *first;
} tide__footprint;

tide__footprint *tide__footprint_find(uint64_t capture); /* or NULL */
void tide__footprint_forget(uint64_t capture);
tide__history *tide__history_find(const tide_storage *s, uint64_t capture); /* or NULL */
tide__history *tide__history_get(const tide_storage *s, uint64_t capture);  /* made if need be; NULL without memory */
/* The last access in the history that t is not ordered behind and that touches the same bytes; NULL: there is none.
 * `clock` is what t knows; the history may be NULL. */
const tide__touch *tide__history_race(const tide__history *h, const tide__touch *t, const tide__clock *clock);
/* Adds the access and drops what nobody can race with without racing with this one, or with anything any more. */
bool tide__history_add(tide__history *h, const tide__touch *t, const tide__clock *clock);
/* Adds it as it is, for a history that is being made. */
bool tide__history_begin(tide__history *h, const tide__touch *t);
/* The storage is gone; or an operation on it has failed, of which it is unknown what it did. */
void tide__history_end(const tide_storage *s);
void tide__history_forget(const tide_storage *s);
/* What the capture has done to its input on `from` it does on `to`, so many bytes further on. */
bool tide__history_rebind(uint64_t capture, int input, const tide_storage *from, const tide_storage *to, int64_t shift);
void tide__history_clear(void);

/* ---- sanitizer_reuse.c: memory that was freed while work on it is queued ---- */

/* The storage ends: what may still be under way is kept by its address. */
void tide__reuse_keep(const tide_storage *s, tide__history *h);
/* Begins the history of a new storage with what is known of its memory. */
bool tide__reuse_inherit(tide__history *h, const tide_storage *s);
void tide__reuse_clear(void);

/* ---- sanitizer_report.c: what was found ---- */

/* Notes a race; `clock` is what the later one knows. The index of its place in the list; *fresh: it was not there
 * before. -1: the list is full. *out is the race, in either case. */
int tide__race_note(tide_race *out, bool *fresh, const tide__touch *earlier, const tide__touch *later,
                    const tide__clock *clock);
void tide__race_clear(void);
/* Fails with the race, for the calling thread; needs no lock. */
tide_status tide__race_fail(const tide_race *race);
