/* graph.h: what core's files share about graphs and captures. Private. See graph.c for the design. */
#pragma once

#include "tensor/tensor.h"

/* A generator that captured work draws from. */
typedef struct tide__draws {
  struct tide__draws *next;
  tide_generator *generator; /* retained */
  tide_storage *state;       /* {seed, offset} in the device's memory, written before each replay; NULL before use */
  uint64_t calls;            /* of one replay */
  uint64_t seed, offset;     /* where the last replay began */
} tide__draws;

/* A tensor of captured work that bind replaces by others. Its bytes are [first, last) of the storage that it had in the
 * capture; captured work that touches them touches the bytes of the bound tensor. */
typedef struct tide__input { /* in few cache lines what each bind asks for */
  uint8_t dtype;
  bool written, pinned;
  bool beside; /* the work uses other bytes of its storage too, which therefore is among `held` */
  int32_t ndim, device;
  int64_t first, last;
  const char *from;             /* where its first element lay in the capture */
  const char *begin;            /* where the first of its bytes did */
  char *at;                     /* where it lies now */
  tide_storage *storage;        /* bound: tide__storage_bind */
  const tide_storage *captured; /* alone to be compared, during the capture */
  char name[TIDE_GRAPH_NAME];
  char stuck[200]; /* why no other tensor can be bound; "": one can */
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
} tide__input;

/* Where an address stands in a node: the address of an input's first element plus an offset in bytes. */
typedef struct tide__place {
  uint16_t node, word;
  int input;
  int64_t shift;
} tide__place;

/* An operation that touches inputs. */
typedef struct tide__bound {
  struct tide__bound *following;
  tide__launch what;
  uint32_t site;
  int device;
  uint64_t inputs, learnt; /* the inputs it touches; the inputs whose places are known: as bits */
  bool again;              /* the places cannot be known: it is recorded again at each bind */
  void *subject;           /* a copy, as in tide__operation */
  int nodes, places;
  void **node;
  tide_node_image **base, **now, **then; /* of each node: as captured; as it is; as it is to be. NULL before use */
  bool now_placed, then_placed;          /* all of them are as captured but for the places */
  tide__place *place;
  tide__scratch_list scratch;
} tide__bound;

/* What bind knows of a recording: NULL where no inputs were named. */
typedef struct tide__binding {
  int n;
  tide__bound *first, **last;
  tide__bound *pending; /* what is being queued */
  uint64_t touched;     /* by that */
  uint64_t unaligned;   /* inputs that stand on another alignment than in the capture */
  tide_capture_place before;
  void *impl; /* the backend's stream that it is queued on */
  struct {
    int n, room;
    const tide_storage **item;
  } written;     /* storages that the work writes beside its inputs */
  bool unknown;  /* that list is not whole */
  bool unusable; /* the driver has taken half of a bind */
  tide__input *input[TIDE_GRAPH_INPUTS];
  void *stream[TIDE_MAX_DEVICES]; /* the backend's, where operations are recorded again */
} tide__binding;

/* What one capture recorded, and everything that it needs to run. */
typedef struct tide__recording {
  struct tide__recording *prev, *next; /* all of them, for the shutdown */
  int device;
  uint64_t capture;   /* the number of the capture */
  void *graph, *exec; /* the backend's */
  tide_stream *last;  /* of the last replay, at first of the capture; retained */
  tide_storage **held;
  int count, room; /* of `held` */
  bool external;   /* some of them are another API's, and used by turns */
  tide__draws *draws;
  tide__binding *binding;
  tide_mempool *pool;
  int64_t launches;  /* as tide__capture counts them */
  tide_quota *quota; /* that they count in until the recording goes, or NULL */
  tide__deferred_free deferred;
} tide__recording;

struct tide_graph {
  tide__capture capture; /* the first member: what streams know of it */
  _Atomic int64_t refs;
  uint32_t epoch;
  tide_quota *quota; /* it counts there; or NULL */
  bool keep, debug;
  tide__recording *recording; /* NULL: the graph is empty */
  tide__replays *replays;
};

/* ---- graph.c ---- */

tide_status tide__recording_new(tide__recording **out, int device, tide_mempool *pool);
/* Lets it go when its last replay is done. From a finaliser: touches no driver. */
void tide__recording_retire(tide__recording *recording, bool from_finaliser);
void tide__graph_shutdown(void);
/* STATE unless a capture has filled it. */
tide_status tide__graph_check_captured(const tide_graph *graph, const char *what);

/* ---- inputs.c ---- */

void tide__inputs_touches(tide__capture *capture, tide__operation *op);
void tide__inputs_launching(tide__capture *capture, const tide__operation *op);
void tide__inputs_launched(tide__capture *capture, tide_status status);
void tide__inputs_captured(tide__recording *recording); /* what inputs alone use is held as their own */
void tide__inputs_free(tide__recording *recording);

/* ---- subject.c ---- */

/* Calls f(arg, address) for every address in the subject. */
void tide__subject_addresses(tide__launch what, void *subject, void (*f)(void *arg, void *address), void *arg);
void *tide__subject_copy(tide__launch what, const void *subject); /* NULL without memory */
/* Queues what the subject says on a backend's stream. */
tide_status tide__subject_run(const tide_backend *b, tide_stream *stream, tide__launch what, void *subject);

/* ---- bind.c ---- */

/* A new instance does what is bound. */
tide_status tide__bind_again(tide__recording *recording);
/* Notes the inputs' use by a replay; STATE where one has been freed. */
tide_status tide__bind_use(const tide__recording *recording, tide_stream *stream);

/* ---- capture.c ---- */

extern const tide__capture_ops tide__graph_capture_ops;
