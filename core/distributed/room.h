/* room.h: what the files of this room share. Private to libtide_distributed.so. */
#pragma once

#include <stdatomic.h>

#include "distributed/mpi.h"
#include "tide/distributed.h"
#include "os/os.h"

extern tide_distributed_host host; /* tide, as the program handed it over */

/* Makes the thread's error. Formats as snprintf. */
tide_status tide__dist_fail(tide_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define TRY(call)                                                                                                      \
  do {                                                                                                                 \
    tide_status try_status = (call);                                                                                   \
    if (try_status != TIDE_OK) return try_status;                                                                      \
  } while (0)
/* The same for a function of MPI by its name. */
tide_status tide__dist_mpi_fail(const char *function, int code);
#define TRY_MPI(name, arguments)                                                                                       \
  do {                                                                                                                 \
    int try_code = mpi->name arguments;                                                                                \
    if (try_code) return tide__dist_mpi_fail("MPI_" #name, try_code);                                                  \
  } while (0)

static inline void *tide__in_place(void) { return (void *)(intptr_t)mpi_const.in_place; }
static inline double tide__dist_now(void) { return tide__os_seconds(); }

/* ---- launch.c: how this process was started ---- */

typedef struct tide__launch {
  const char *variable; /* that tells how many processes there are, or NULL: no launcher has started this process */
  int size, rank;       /* by the launcher; rank -1: unknown */
  bool inherited;       /* the variables are those of a process that has started this one */
} tide__launch;
tide__launch tide__launch_read(void);
/* Fails if a launcher without MPI has started several processes: each would be a group of one. */
tide_status tide__launch_check_alone(const tide__launch *launch);
/* Opens the library of the launcher, or the one that TIDE_MPI_LIBRARY names. */
tide_status tide__launch_open(const tide__launch *launch);
/* With the library open: fails if Open MPI would end this process, because srun gives it no PMI. */
tide_status tide__launch_check_pmi(const tide__launch *launch);
/* From now on processes that this one starts see that the launcher's variables are not theirs. */
void tide__launch_own(void);
bool tide__launch_host_has_mpi(void); /* has the program called MPI_Init? */
void tide__launch_describe(char *text, size_t size);

/* ---- group.c ---- */

/* Of messages that are no script's, whose tags are below 32000: notes and parts, by the number of their operation. */
enum { TIDE__LONG_TAG = 32767, TIDE__NOTES_TAG = 32100, TIDE__NOTES_TAGS = 600, TIDE__HASH_TAG = 32766 };

struct tide_group {
  _Atomic int refs;
  int size, rank;               /* rank -1: this process is not in it */
  int *ranks;                   /* of all, in the order of the group */
  uint64_t data, check;         /* communicators: of the operations, and of what compares and reports them */
  uint64_t id;                  /* the same on all ranks */
  uint64_t sequence;            /* operations started in it */
  char *failure;                /* why nothing further goes on in it, or NULL */
  int parted[TIDE__NOTES_TAGS]; /* does a reduction by parts run that has this tag? */
  tide_nccl_rank *nccl;         /* for tensors of `device`, or NULL */
  int device;
};
extern tide_group *tide__world; /* NULL before init */
extern int tide__local_rank, tide__local_size;
extern double tide__notice, tide__timeout;
extern int64_t tide__most_bytes; /* of one call of MPI */
extern bool tide__crowded;       /* this machine has more ranks than processors */
/* The world, of the ranks of a communicator; 0: of this process alone. */
tide_status tide__group_world(int size, int rank, uint64_t comm);
/* Every rank of all has come: splits it. *out is NULL for a rank that is not in the list. */
tide_status tide__group_split(tide_group **out, const int *ranks, int n, uint64_t id);
int tide__group_find(const tide_group *group, int rank); /* its place in the group, or -1 */
void tide__group_release(tide_group *group);

/* ---- join.c ---- */

tide_status tide__group_join(const tide_distributed_config *config);
void tide__group_leave(void);
bool tide__group_is_joined(void); /* and MPI is not finalized by the host */

/* ---- note.c: what a rank is doing, for the others ---- */

typedef struct tide__note {
  uint64_t group, sequence;
  int64_t numel, extra; /* extra: of what else has to agree */
  int32_t kind, op, dtype, peer, line, rank;
  char name[24], file[40];
} tide__note;
uint64_t tide__note_hash(const tide__note *note); /* of what has to be the same on all ranks; never 0 */
/* "all_reduce sum of 10 float32 (heat.lua:88)" */
void tide__note_text(char *text, size_t size, const tide__note *note, bool whole);
/* Appends; the text stays ended by a 0. */
void tide__append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Appends "ranks 0, 2 to 5" for those with mark[i] == value. */
void tide__append_ranks(char *text, size_t size, const int *ranks, const int *mark, int n, int value);
/* The error of an operation that ranks do not agree on: notes of all ranks of the group, in their order. */
void tide__note_compare(char *text, size_t size, const tide_group *group, const tide__note *notes);

/* ---- stage.c: tensors as contiguous bytes on the host ---- */

typedef struct tide__side {
  tide_tensor **tensors; /* references */
  tide_tensor *one;      /* the memory of a list of one */
  int count;
  int64_t numel;
  tide_dtype dtype; /* of the bytes */
  char *bytes;
  tide_tensor *staged; /* what the bytes are, if not the one tensor's own; or NULL */
  int device;
  tide_tensor *packed; /* the values in one piece on the device, or NULL: they are */
  tide_host_job *job;  /* begins when the bytes are there; NULL: the host waits */
  tide_event *ready;   /* then: behind the copy from a device; or NULL */
} tide__side;
typedef struct tide__side_use {
  bool reads, apart;     /* the bytes are read; they are not the tensor's own */
  bool may_be_job, once; /* nothing is written back */
} tide__side_use;
tide_status tide__side_make(tide__side *side, tide_tensor *const *tensors, int n, tide_dtype dtype, tide__side_use use);
tide_status tide__side_ready(bool *ready, const tide__side *side); /* are the bytes there? */
/* For what stays on the device. The values in one piece; spread: back to the tensors; mark: the job begins here. */
tide_status tide__side_keep(tide__side *side, tide_tensor *const *tensors, int n, tide_dtype dtype);
tide_status tide__side_line(tide_tensor **out, tide__side *side, bool reads);
tide_status tide__side_spread(tide__side *side, tide_tensor *line);
tide_status tide__side_watch(tide__side *side);
void tide__side_drop(tide__side *side); /* its tensors: what is queued uses their memory before it serves again */
/* The outputs become the inputs, all on one device, as work of the current stream. */
tide_status tide__side_pass(tide__side *in, tide__side *out, const tide_distributed_call *call);
tide_status tide__side_write_back(tide__side *side, int divisor); /* divided first where divisor > 1 */
void tide__side_clear(tide__side *side);
static inline int64_t tide__side_bytes(const tide__side *side) {
  return side->numel * (int64_t)host.dtype_size(side->dtype);
}

/* ---- an operation ---- */

typedef enum tide__state {
  WORK_QUEUED,
  WORK_CHECKING,
  WORK_RUNNING,
  WORK_COMPLETE,
  WORK_DONE,
  WORK_FAILED
} tide__state;

typedef struct tide__connect tide__connect;
typedef struct tide__head tide__head;
enum { TIDE__FEW_RANKS = 4, TIDE__HEAD_BYTES = 16, TIDE__LETTER_BYTES = 4096 };
/* A reduction of few ranks. PAIR, FEW: the most bytes that two ranks, and three or four, all reduce. SHORT: the longest
 * part that goes in messages of a letter's length; longer ones go in pieces, WINDOW of them under way. */
enum { TIDE__PAIR_BYTES = 65536, TIDE__FEW_BYTES = 2048, TIDE__SHORT_BYTES = 8192, TIDE__PIECE_BYTES = 1 << 18 };
enum { TIDE__WINDOW = 2 };

struct tide_work {
  int refs;
  tide__state state;
  tide_work *next;    /* in the queue */
  tide_work *running; /* the next one that progress.c goes on with */
  tide_group *group;
  tide__note note;
  tide__side in, out;
  int64_t *in_split, *out_split; /* elements for each rank of the group, or NULL */
  int root, tag;                 /* in the group; or the peer */
  tide_rank_op op;
  uint64_t *requests, few[2]; /* few: the memory of the first ones */
  int count, tested, room;
  /* A reduction of few ranks: the pieces of a part, of `first` and then `piece` bytes; the number of requests when a
   * piece was posted; the others' values of the pieces under way, or NULL; does one rank reduce a part for all? */
  int pieces, joined, ends[TIDE__WINDOW];
  int64_t first, piece;
  tide_tensor *landing;
  bool is_cut;
  int source; /* of all */
  /* A message: its dtypes; its head, of a receive with room for bytes; the receive whose head comes after it; who sent
   * it, in the group; bytes that fit no tensor. */
  uint64_t parts;
  tide__head *head;
  bool awaits_head;
  tide_work *behind;
  int from;
  char *dropped;
  /* The comparison: hash and its complement, here and the greatest of all ranks. In a small group letters, one from
   * each rank, which carry the first piece, too. */
  uint64_t check[2], greatest[2], check_requests[2 * TIDE__FEW_RANKS];
  char *letters; /* the others', then the own ones */
  bool is_queued, is_checked, is_comparing;
  bool is_running; /* progress.c has it */
  bool is_awaited; /* by the host, or by a stream */
  bool is_nccl;    /* NCCL does it */
  bool is_behind;  /* another operation of NCCL, which ends before it */
  tide__connect *connect;
  bool is_streamed;    /* the current stream waits for it, not the host */
  tide_stream *stream; /* that was current at its start */
  tide_event *written; /* behind what the stream writes, or NULL */
  tide__note *notes;   /* of all ranks, when they do not agree */
  uint64_t *note_requests;
  int check_count; /* of the comparison's requests that are not done */
  double limit;    /* seconds that it may wait */
  double started, reported, seen;
  int tests;
  bool has_noted, has_noticed, is_new_group;
  int *new_ranks, new_count;
  tide_group *made;
  tide_status status;
  char *message;
};

/* post.c: begins the operation, whose bytes are there; bytes in pieces. */
tide_status tide__post(tide_work *work); /* no message */
/* A reduction of few ranks: its memory; joins what has come, when the letters have. */
tide_status tide__parts_make(tide_work *work);
tide_status tide__parts_join(tide_work *work);
void tide__parts_end(const tide_work *work);
/* Letters: the hash and the first values, to all others; are all hashes the same? */
tide_status tide__letters_post(tide_work *work, uint64_t hash);
bool tide__letters_agree(const tide_work *work);
static inline bool tide__has_letters(const tide_group *g) { return g->size <= TIDE__FEW_RANKS; }
void *tide__post_add(tide_work *work); /* a place for one more request, which is 0; NULL: no memory */
/* The request is a place in an array that grows: MPI keeps no address of it. */
#define POST(call, ...)                                                                                                \
  do {                                                                                                                 \
    void *request = tide__post_add(w);                                                                                 \
    if (!request) return tide__dist_fail(TIDE_MEMORY, "%s: no memory for a request", w->note.name);                    \
    TRY_MPI(call, (__VA_ARGS__, request));                                                                             \
  } while (0)
tide_status tide__post_send(tide_work *work, const char *from, int64_t bytes, int to, int tag, uint64_t comm);
tide_status tide__post_recv(tide_work *work, char *to, int64_t bytes, int from, int tag, uint64_t comm);
/* message.c: the dtypes of a message as a word; begins it; goes on where all that was posted is done; takes the heads
 * of all works. */
uint64_t tide__message_parts(const tide_distributed_call *call, tide_dtype dtype);
tide_status tide__message_post(tide_work *work);
tide_status tide__message_next(bool *done, tide_work *work);
void tide__message_progress(void (*advance)(tide_work *));
void tide__parts_add(tide_work *work); /* it goes on with these, too */
void tide__parts_remove(tide_work *work);
void tide__message_free(tide_work *work);
void tide__message_forget(tide_work *work); /* without MPI: it waits for no partner any more */
void tide__message_end(void);               /* the group of all is left: nothing of it meets what comes later */
/* missing.c: looks after a long wait. The text says who is late; told: another rank reports it. */
const char *tide__missing_report(tide_work *work, double waited, bool *is_over);
void tide__missing_receive(void);
/* A rank that has ended waits without a limit for ranks that still work. But has the network to them been silent for
 * the limit of operations? */
bool tide__missing_network(tide_work *work, double waited);
void tide__tell_elsewhere(const char *message, bool is_elsewhere);
bool tide__is_told_elsewhere(const char *message);

static inline bool tide__is_message(const tide_work *w) {
  return w->note.kind == TIDE_SEND_RANKS || w->note.kind == TIDE_RECV_RANKS;
}
bool tide__reduces(int kind);
tide_status tide__check_call(tide_work *work, const tide_distributed_call *call); /* sets the sizes of the note */

/* fail.c: with the thread's error, which is the failure of its group too. Returns status. */
tide_status tide__work_fail(tide_work *work, tide_status status);

/* advance.c, with the lock of progress.c held. */
extern tide_rank_check tide__check;
extern tide_work *tide__work_running; /* operations of streams, which progress.c goes on with */
static inline tide_host_job *tide__work_job(const tide_work *w) { return w->out.job ? w->out.job : w->in.job; }
void tide__work_enqueue(tide_work *work);
void tide__work_advance(tide_work *work);
void tide__work_abandon(tide_work *work); /* it has no owner, and is freed when it is over: by sweep */
void tide__work_sweep(void);
tide_status tide__work_wait(tide_work *work, const char **notice, double *nap);
bool tide__work_is_over(const tide_work *work); /* nothing uses its memory any more */
void tide__work_free(tide_work *work);

tide_status tide__work_start(tide_work **out, const tide_distributed_call *call, const int *ranks, int n);
/* Later work of the current stream waits for the operation, and finds what it gives. *ordered: false: poll it. */
tide_status tide__work_order(bool *ordered, tide_work *work);
tide_status tide__work_poll(bool *done, tide_work *work, const char **notice);
void tide__work_release(tide_work *work);

/* ---- file.c: see tide/distributed.h ---- */

tide_status tide__file_new(const char *path, const char *like, int64_t bytes);
tide_status tide__file_write(const char *path, const tide_file_part *parts, int n);
tide_status tide__file_rename(const char *from, const char *to);
/* ---- nccl.c: collectives on the device; connecting for them ---- */

tide_status tide__connect_begin(tide_work *work, int device, bool must);
tide_status tide__connect_post(tide_work *work);
tide_status tide__connect_next(bool *done, tide_work *work);
void tide__connect_free(tide_work *work);
bool tide__nccl_can(const tide_work *work, const tide_distributed_call *call);
tide_status tide__nccl_queue(tide_work *work, const tide_distributed_call *call);
tide_status tide__nccl_test(bool *done, const tide_work *work);

/* ---- progress.c: the thread that goes on with work of streams ---- */

void tide__progress_lock(void); /* of all works, groups, and calls of MPI */
void tide__progress_unlock(void);
bool tide__progress_can(void);                          /* may there be such a thread? */
void tide__progress_allow(bool allowed);                /* may another thread call MPI? */
void tide__progress_tell(void (*fn)(const char *text)); /* hears what no call can return */
void tide__tell(const char *text);
void tide__progress_nap(double seconds); /* 0: lets others run */
/* With the lock held. */
void tide__progress_add(tide_work *work);
/* Without it. */
tide_status tide__progress_failure(void); /* that nobody has heard of */
void tide__progress_end(void);            /* waits for the thread */
