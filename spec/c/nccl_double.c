/* nccl_double.c: stands in for libnccl.so.2 on simulated devices, for the specs of several processes. It is opened by
 * TIDE_NCCL_LIBRARY.
 *
 * Ranks meet in a folder of shared memory: a file for each rank's part of each operation. A stream writes its part and
 * waits; a thread of the communicator collects all parts, in order, joins them, and lets the stream go on, which writes
 * the result. As NCCL's, making a communicator waits for all ranks, an operation that another rank does not come to
 * hangs, and abort ends it.
 *
 * It is strict about calls while one is in progress, and about NCCL_RUNTIME_CONNECT, which every rank has to set. Ranks
 * that do not fit hang, as they may with NCCL. A job that is killed leaves its files: the next check of ranks removes
 * them. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SUCCESS, INVALID = 4, USAGE = 5, IN_PROGRESS = 7 };

/* What simulated devices offer (core/backend/sim/comm.c). */
typedef struct face {
  int (*queue)(void *stream, void (*fn)(void *user), void *user);
  void *(*seen)(int device, const void *ptr, size_t bytes);
  int (*meet_new)(void **out, int device);
  int (*meet_wait)(void *stream, void *place);
  void (*meet_open)(void *place);
  void (*meet_free)(void *place);
} face;
static face devices;

typedef struct id {
  char bytes[128];
} id;

typedef enum kind { BROADCAST, REDUCE, ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER } kind;

typedef struct part { /* what a file begins with */
  int kind, type, op, root;
  size_t count, bytes;
} part;

typedef struct comm comm;
typedef struct work {
  struct work *next;
  comm *comm;
  part mine;
  const void *in;
  void *out, *place;
  char *result;
  size_t result_bytes;
  unsigned number;
} work;

struct comm {
  comm *next; /* that has ended */
  pthread_mutex_t lock;
  pthread_cond_t wake;
  pthread_t thread;
  int n, rank;
  char name[64];
  unsigned queued;
  work *first, **last;
  _Atomic int state;
  _Atomic bool aborted, ended;
};

#define EXPORT __attribute__((visibility("default")))
EXPORT void tide_simulated_devices(const face *given);
void tide_simulated_devices(const face *given) { devices = *given; }

/* ---- files ---- */

static void path_of(char *path, size_t size, const comm *c, unsigned number, int rank) {
  snprintf(path, size, "/dev/shm/%s.%u.%d", c->name, number, rank);
}

static void post(const comm *c, unsigned number, const part *p, const void *bytes) {
  char path[160], whole[128];
  path_of(whole, sizeof whole, c, number, c->rank);
  snprintf(path, sizeof path, "%s.new", whole);
  FILE *file = fopen(path, "wb");
  if (!file) return;
  fwrite(p, sizeof *p, 1, file);
  if (p->bytes) fwrite(bytes, 1, p->bytes, file);
  fclose(file);
  rename(path, whole);
}

/* NULL: it is not there; malloc'ed. */
static char *collect(part *p, const comm *c, unsigned number, int rank) {
  char path[128];
  path_of(path, sizeof path, c, number, rank);
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  char *bytes = NULL;
  if (fread(p, sizeof *p, 1, file) == 1) {
    bytes = malloc(p->bytes + 1);
    if (bytes && fread(bytes, 1, p->bytes, file) != p->bytes) p->bytes = 0;
  }
  fclose(file);
  return bytes;
}

/* All ranks have posted `number`, so they have read what came before. */
static void forget(const comm *c, unsigned number) {
  char path[128];
  path_of(path, sizeof path, c, number, c->rank);
  unlink(path);
}

static void nap(void) { usleep(200); }

/* ---- arithmetic ---- */

static size_t size_of(int type) {
  static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return sizes[type];
}

#define JOIN(type)                                                                                                     \
  do {                                                                                                                 \
    type *a = (type *)to;                                                                                              \
    const type *b = (const type *)from;                                                                                \
    for (size_t i = 0; i < n; i++)                                                                                     \
      a[i] = (type)(op == 1   ? a[i] * b[i]                                                                            \
                    : op == 2 ? (a[i] > b[i] ? a[i] : b[i])                                                            \
                    : op == 3 ? (a[i] < b[i] ? a[i] : b[i])                                                            \
                              : a[i] + b[i]);                                                                          \
  } while (0)

/* float16 and bfloat16 by float32. */
static float widen(uint16_t h, bool brain) {
  uint32_t bits = brain ? (uint32_t)h << 16 : 0;
  float f;
  if (!brain) {
    _Float16 half;
    memcpy(&half, &h, 2);
    return (float)half;
  }
  memcpy(&f, &bits, 4);
  return f;
}
static uint16_t narrow(float f, bool brain) {
  uint32_t bits;
  uint16_t h;
  memcpy(&bits, &f, 4);
  if (brain) return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  _Float16 half = (_Float16)f;
  memcpy(&h, &half, 2);
  return h;
}

static void join(char *to, const char *from, size_t n, int type, int op) {
  if (type == 0) JOIN(int8_t);
  if (type == 1) JOIN(uint8_t);
  if (type == 2) JOIN(int32_t);
  if (type == 4) JOIN(int64_t);
  if (type == 7) JOIN(float);
  if (type == 8) JOIN(double);
  for (size_t i = 0; i < n && (type == 6 || type == 9); i++) {
    uint16_t *a = (uint16_t *)to + i, b = ((const uint16_t *)from)[i];
    float x = widen(*a, type == 9), y = widen(b, type == 9);
    *a = narrow(op == 1 ? x * y : op == 2 ? (x > y ? x : y) : op == 3 ? (x < y ? x : y) : x + y, type == 9);
  }
}

static void divide(char *x, size_t n, int type, int by) {
  for (size_t i = 0; i < n; i++) {
    if (type == 7) ((float *)x)[i] /= (float)by;
    if (type == 8) ((double *)x)[i] /= by;
    if (type == 6 || type == 9)
      ((uint16_t *)x)[i] = narrow(widen(((uint16_t *)x)[i], type == 9) / (float)by, type == 9);
  }
}

/* ---- a communicator's thread ---- */

static bool waits(const comm *c) { return !atomic_load(&c->aborted); }

/* All parts of an operation; false: aborted, or they do not fit. */
static bool collect_all(comm *c, const work *w, char **parts) {
  for (int r = 0; r < c->n; r++) {
    part p;
    while (waits(c) && !(parts[r] = collect(&p, c, w->number, r))) nap();
    if (!parts[r]) return false;
    if (p.kind != w->mine.kind || p.type != w->mine.type || p.count != w->mine.count || p.root != w->mine.root)
      return false;
  }
  return true;
}

static void compute(work *w, char **parts) {
  const comm *c = w->comm;
  const part *p = &w->mine;
  size_t bytes = p->count * size_of(p->type);
  w->result_bytes = p->kind == ALL_GATHER ? bytes * (size_t)c->n : bytes;
  w->result = malloc(w->result_bytes + 1);
  if (p->kind == BROADCAST) memcpy(w->result, parts[p->root], bytes);
  for (int r = 0; r < c->n && p->kind == ALL_GATHER; r++) memcpy(w->result + bytes * (size_t)r, parts[r], bytes);
  if (p->kind == BROADCAST || p->kind == ALL_GATHER) return;
  size_t skip = p->kind == REDUCE_SCATTER ? bytes * (size_t)c->rank : 0;
  memcpy(w->result, parts[0] + skip, bytes);
  for (int r = 1; r < c->n; r++) join(w->result, parts[r] + skip, p->count, p->type, p->op);
  if (p->op == 4) divide(w->result, p->count, p->type, c->n);
}

static void run_one(comm *c, work *w) {
  char **parts = calloc((size_t)c->n, sizeof *parts);
  if (collect_all(c, w, parts)) {
    compute(w, parts);
    if (w->number > 1) forget(c, w->number - 1);
  } else {
    while (waits(c)) nap(); /* it hangs */
  }
  for (int r = 0; r < c->n; r++) free(parts[r]);
  free(parts);
  devices.meet_open(w->place);
}

static work *next_work(comm *c) {
  pthread_mutex_lock(&c->lock);
  while (!c->first && !atomic_load(&c->ended)) pthread_cond_wait(&c->wake, &c->lock);
  work *w = c->first;
  if (w && !(c->first = w->next)) c->last = &c->first;
  pthread_mutex_unlock(&c->lock);
  return w;
}

static bool hello(comm *c) {
  part p = {-1, 0, 0, 0, 0, 0};
  post(c, 0, &p, NULL);
  for (int r = 0; r < c->n; r++) {
    char *bytes = NULL;
    while (waits(c) && !(bytes = collect(&p, c, 0, r))) nap();
    if (!bytes) return false;
    free(bytes);
  }
  return true;
}

static void *serve(void *user) {
  comm *c = user;
  if (hello(c)) atomic_store(&c->state, SUCCESS);
  for (work *w; (w = next_work(c));) run_one(c, w);
  return NULL;
}

/* ---- what streams run ---- */

static void *find(const void *ptr) {
  void *seen = NULL;
  for (int d = 0; d < 8 && ptr && !seen; d++) seen = devices.seen(d, ptr, 1);
  return seen;
}

static void arrive(void *user) {
  work *w = user;
  post(w->comm, w->number, &w->mine, find(w->in));
}

static void depart(void *user) {
  work *w = user;
  void *to = find(w->out);
  if (to && w->result) memcpy(to, w->result, w->result_bytes);
  devices.meet_free(w->place);
  free(w->result);
  free(w);
}

static int run(kind k, const void *in, void *out, size_t count, int type, int op, int root, comm *c, void *stream) {
  work *w = calloc(1, sizeof *w);
  if (atomic_load(&c->state) == IN_PROGRESS) return free(w), USAGE;
  if (type < 0 || type > 9 || root < 0 || root >= c->n) return free(w), INVALID;
  size_t bytes = count * size_of(type) * (k == REDUCE_SCATTER ? (size_t)c->n : 1);
  *w = (work){.comm = c, .mine = {(int)k, type, op, root, count, bytes}, .in = in, .out = out};
  if (k == REDUCE && root != c->rank) w->out = NULL;
  if (devices.meet_new(&w->place, 0)) return free(w), INVALID;
  pthread_mutex_lock(&c->lock);
  w->number = ++c->queued;
  int failed = devices.queue(stream, arrive, w) || devices.meet_wait(stream, w->place);
  *c->last = w, c->last = &w->next;
  pthread_cond_signal(&c->wake);
  failed = failed || devices.queue(stream, depart, w);
  pthread_mutex_unlock(&c->lock);
  return failed ? INVALID : SUCCESS;
}

/* ---- NCCL's face ---- */

#define NCCL(name, ...)                                                                                                \
  EXPORT int name(__VA_ARGS__);                                                                                        \
  int name(__VA_ARGS__)

EXPORT const char *ncclGetErrorString(int code);
const char *ncclGetErrorString(int code) { return code == USAGE ? "a call in progress" : "an error of the double"; }
NCCL(ncclGetVersion, int *version) { return *version = 22800, SUCCESS; }

NCCL(ncclGetUniqueId, id *out) {
  static int count;
  memset(out, 0, sizeof *out);
  snprintf(out->bytes, sizeof out->bytes, "tide-nccl-%d-%d", (int)getpid(), ++count);
  return SUCCESS;
}

NCCL(ncclCommInitRankConfig, comm **out, int n, id name, int rank, void *config) {
  const struct {
    size_t size;
    unsigned magic, version;
    int blocking;
  } *given = config;
  if (given->size < 20 || given->magic != 0xcafebeef || given->blocking != 1 || !devices.queue) return INVALID;
  if (!getenv("NCCL_RUNTIME_CONNECT")) return USAGE;
  comm *c = calloc(1, sizeof *c);
  c->n = n, c->rank = rank, c->last = &c->first;
  atomic_init(&c->state, IN_PROGRESS);
  snprintf(c->name, sizeof c->name, "%.60s", name.bytes);
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->wake, NULL);
  pthread_create(&c->thread, NULL, serve, c);
  *out = c;
  while (atomic_load(&c->state) == IN_PROGRESS) nap();
  return SUCCESS;
}

NCCL(ncclCommGetAsyncError, comm *c, int *state) { return *state = atomic_load(&c->state), SUCCESS; }

static _Atomic(comm *) ended; /* streams may still depart: communicators stay */

static void finish(comm *c) {
  pthread_mutex_lock(&c->lock);
  atomic_store(&c->ended, true);
  pthread_cond_signal(&c->wake);
  pthread_mutex_unlock(&c->lock);
  pthread_join(c->thread, NULL);
  forget(c, 0), forget(c, c->queued);
  c->next = ended;
  while (!atomic_compare_exchange_weak(&ended, &c->next, c)) continue;
}

NCCL(ncclCommAbort, comm *c) {
  atomic_store(&c->aborted, true);
  finish(c);
  return SUCCESS;
}

NCCL(ncclCommDestroy, comm *c) {
  finish(c);
  return SUCCESS;
}

NCCL(ncclCommInitAll, void **comms, int n, const int *list) {
  (void)comms, (void)n, (void)list;
  return USAGE; /* simulated devices of one process have their own */
}
NCCL(ncclGroupStart, void) { return SUCCESS; }
NCCL(ncclGroupEnd, void) { return SUCCESS; }
NCCL(ncclBroadcast, const void *in, void *out, size_t count, int type, int root, comm *c, void *stream) {
  return run(BROADCAST, in, out, count, type, 0, root, c, stream);
}
NCCL(ncclReduce, const void *in, void *out, size_t count, int type, int op, int root, comm *c, void *stream) {
  return run(REDUCE, in, out, count, type, op, root, c, stream);
}
NCCL(ncclAllReduce, const void *in, void *out, size_t count, int type, int op, comm *c, void *stream) {
  return run(ALL_REDUCE, in, out, count, type, op, 0, c, stream);
}
NCCL(ncclAllGather, const void *in, void *out, size_t count, int type, comm *c, void *stream) {
  return run(ALL_GATHER, in, out, count, type, 0, 0, c, stream);
}
NCCL(ncclReduceScatter, const void *in, void *out, size_t count, int type, int op, comm *c, void *stream) {
  return run(REDUCE_SCATTER, in, out, count, type, op, 0, c, stream);
}
