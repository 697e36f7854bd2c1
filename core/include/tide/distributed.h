/* tide/distributed.h: several processes, on one machine or on many: collectives and messages over MPI. Conventions as
 * in tide.h.
 *
 * The functions are in a library of their own, libtide_distributed.so, which a program opens when it needs it. It
 * exports one function, tide_distributed_open, which takes what the library calls of tide and gives a table:
 *
 *   static const tide_distributed_host host = TIDE_DISTRIBUTED_HOST;
 *   tide_distributed_open_fn open = (tide_distributed_open_fn)dlsym(library, "tide_distributed_open");
 *   const tide_distributed *dist = open(&host, TIDE_DISTRIBUTED_VERSION);
 *
 * Ranks count from 0. All functions are called by one thread. No call waits but init: an operation is started, which
 * gives a work, and polled until it is done; the caller's loop decides what else happens meanwhile. */
#ifndef TIDE_DISTRIBUTED_H
#define TIDE_DISTRIBUTED_H

#include "tide/debug.h"
#include "tide/host_job.h"
#include "tide/nccl.h"
#include "tide/tide.h"

TIDE_C_BEGIN

#define TIDE_DISTRIBUTED_VERSION 3

typedef struct tide_group tide_group;
typedef struct tide_work tide_work;

typedef enum tide_collective {
#define COLLECTIVE(NAME, name, needs, gives) TIDE_##NAME##_RANKS,
#include "tide/distributed.def"
  TIDE_COLLECTIVE_COUNT
} tide_collective;

typedef enum tide_rank_op { TIDE_RANK_SUM, TIDE_RANK_PROD, TIDE_RANK_MIN, TIDE_RANK_MAX, TIDE_RANK_AVG } tide_rank_op;

/* How operations of different ranks are compared: not, beside the operation, before it. */
typedef enum tide_rank_check { TIDE_RANK_CHECK_OFF, TIDE_RANK_CHECK_INFO, TIDE_RANK_CHECK_DETAIL } tide_rank_check;

enum { TIDE_ANY_RANK = -1 };

typedef struct tide_distributed_config {
  size_t struct_size;
  double notice, timeout; /* seconds after which a wait is reported, and ends; 0: 30 and 600 */
  bool needs_mpi;         /* fail where no launcher has started this process, instead of being alone */
  bool alone;             /* a group of this process only, under any launcher */
} tide_distributed_config;

/* One operation of this rank. */
typedef struct tide_distributed_call {
  size_t struct_size;
  tide_collective kind;
  tide_group *group; /* NULL: all ranks */
  tide_rank_op op;
  int peer; /* the root, or whom a message goes to or comes from: a rank of all, not of the group */
  int tag;
  tide_tensor *const *in, *const *out; /* one tensor, or one part for each rank of the group */
  int ins, outs;
  const int64_t *in_split, *out_split; /* ALL_TO_ALL of one tensor: rows for each rank; NULL: equal ones */
  const char *name;                    /* of the function, for messages; lives as long as the program */
  const char *file;                    /* of the script, without a folder; or NULL */
  int line;
  double timeout; /* seconds; 0: as given to init */
  /* A message of packed parts: their dtypes, which have to be those of the other side; NULL: the tensor's. */
  const tide_dtype *dtypes;
  int dtype_count;
} tide_distributed_call;

/* Bytes at a place of a file. */
typedef struct tide_file_part {
  int64_t offset;
  const void *bytes;
  size_t size;
} tide_file_part;

typedef struct tide_distributed_host {
  size_t struct_size;
#define IMPORT(name) __typeof__(tide_##name) *name;
#include "tide/distributed.def"
} tide_distributed_host;

/* clang-format off */
#define TIDE_DISTRIBUTED_HOST                                                                                          \
  { sizeof(tide_distributed_host), tide_error_set, tide_error_get, tide_dtype_size, tide_dtype_name, tide_dtype_kind,  \
    tide_empty, tide_tensor_retain, tide_tensor_release, tide_tensor_numel, tide_tensor_dtype, tide_tensor_device,     \
    tide_tensor_ndim, tide_tensor_size, tide_tensor_is_contiguous, tide_tensor_data, tide_copy, tide_narrow,           \
    tide_view, tide_elementwise, tide_current_stream, tide_event_new, tide_event_release, tide_event_record,           \
    tide_event_query, tide_event_peek, tide_stream_wait_event, tide_host_job_new, tide_host_job_release,               \
    tide_host_job_begin, tide_host_job_ready, tide_host_job_wait, tide_host_job_end, tide_nccl_rank_id,                \
    tide_nccl_rank_new,                                                                                                \
    tide_nccl_rank_ready, tide_nccl_takes, tide_nccl_rank_queue, tide_nccl_rank_abort, tide_nccl_rank_release }
/* clang-format on */

typedef struct tide_distributed {
  size_t struct_size;
  /* Was this process started by a launcher of MPI, or has the program called MPI_Init? Opens nothing. */
  bool (*is_launched)(void);
  /* Joins all processes that the launcher has started; alone it makes a group of one. Waits for them. Fails
   * under a launcher without MPI, such as torchrun. Where the program
   * has called MPI_Init its MPI is shared, and not finalized. */
  tide_status (*init)(const tide_distributed_config *config);
  bool (*is_initialized)(void);
  /* The last operation of this rank: begins to wait for the others to leave as well; poll the work, then call end. */
  tide_status (*leave)(tide_work **out, const char *file, int line);
  void (*end)(void); /* finalizes MPI where init has initialised it; nothing goes on afterwards */
  /* Ends all processes, this one last, with that exit code. Returns where there is no MPI. */
  void (*abort)(int code);
  int (*rank)(const tide_group *group); /* NULL: of all; -1: this process is not in it */
  int (*size)(const tide_group *group);
  int (*local_rank)(void); /* among the processes of this machine */
  int (*local_size)(void);
  const char *(*library)(void); /* "libmpi.so.40, Open MPI v4.1.4, ...", or "" without MPI */
  void (*set_limits)(double notice, double timeout);
  /* What is worth telling of operations that streams wait for: called by another thread. NULL: nothing. */
  void (*set_teller)(void (*tell)(const char *text));
  void (*set_check)(tide_rank_check check);
  tide_rank_check (*get_check)(void);

  /* Starts an operation. The tensors are kept until it is done, and are not to be changed before. */
  tide_status (*start)(tide_work **out, const tide_distributed_call *call);
  /* Goes on with all operations; is this one done? Takes microseconds, or naps where it has waited for long. Fails if
   * the operation has failed. *notice, which may be NULL, becomes a text that is worth telling, or NULL. */
  tide_status (*poll)(bool *done, tide_work *work, const char **notice);
  /* Makes later work of the current stream wait for the operation and find what it gives; the host does not wait.
   * *ordered: false for what has no tensors of a device, and where streams cannot wait for the host: poll it. A later
   * failure is reported by the next wait for the device, or by the next call here. */
  tide_status (*order)(bool *ordered, tide_work *work);
  int (*source)(const tide_work *work); /* of a RECV that is done: who sent it */
  void (*release)(tide_work *work);     /* NULL is allowed; an operation that runs goes on */
  /* Begins a group of these ranks, in this order; all ranks call it. The work's group is there when it is done: NULL
   * for a process that is not in it. */
  tide_status (*group_new)(tide_work **out, const int *ranks, int n, const char *file, int line);
  tide_group *(*group_of)(const tide_work *work); /* a reference that the caller releases */
  void (*group_retain)(tide_group *group);
  void (*group_release)(tide_group *group);
  /* Begins to connect the ranks of the group for collectives of tensors on this device by NCCL; all of them call it
   * once. device: -1 where this rank has none of its own. Where not all can, the work is done and tensors go through
   * the host, or it fails if all ranks ask for that by `must`. */
  tide_status (*connect)(tide_work **out, tide_group *group, int device, bool must, const char *file, int line);
  bool (*uses_nccl)(const tide_group *group);
  int (*group_rank)(const tide_group *group, int index); /* of all, in the order of the group */
  /* Is the message one that all ranks of an operation get, and another one is to tell it? */
  bool (*is_told_elsewhere)(const char *message);
  /* Describes the libraries and what the launcher has left, line by line, in `text`. Opens a library of MPI. */
  void (*describe)(char *text, size_t size);

  /* A file that all ranks write, each its own bytes. An empty one with room for all, with the rights of the file
   * `like`, if there is one; the bytes of one rank, which are on the disk when it returns; its name at the end. */
  tide_status (*file_new)(const char *path, const char *like, int64_t bytes);
  tide_status (*file_write)(const char *path, const tide_file_part *parts, int n);
  tide_status (*file_rename)(const char *from, const char *to);
} tide_distributed;

/* NULL, with an error of the calling thread: the library is of another version. */
typedef const tide_distributed *(*tide_distributed_open_fn)(const tide_distributed_host *host, int version);

TIDE_C_END
#endif
