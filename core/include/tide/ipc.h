/* tide/ipc.h: memory and events of one process in another one on the same machine.
 *
 * The process that made them must live on while others use them. A handle is plain bytes that travel any way you like;
 * it works in other processes of the same user, and names nothing once its maker is gone. */
#ifndef TIDE_IPC_H
#define TIDE_IPC_H

#include "tide/tide.h"

TIDE_C_BEGIN

enum { TIDE_IPC_BYTES = 64, TIDE_IPC_TENSOR_BYTES = 512 };

/* What names an event to another process; for backends also a piece of memory. */
typedef struct tide_ipc_handle {
  unsigned char bytes[TIDE_IPC_BYTES];
} tide_ipc_handle;
/* What names a tensor to another process. */
typedef struct tide_ipc_tensor {
  unsigned char bytes[TIDE_IPC_TENSOR_BYTES];
} tide_ipc_tensor;

/* Of an event made with TIDE_EVENT_INTERPROCESS; one that was never recorded belongs to the current device from now
 * on. */
TIDE_API tide_status tide_event_ipc_handle(tide_ipc_handle *out, tide_event *event);
/* The event of another process on a device of this one: recording, waiting and asking work on both sides. */
TIDE_API tide_status tide_event_from_ipc(tide_event **out, int device, const tide_ipc_handle *handle);

/* A handle for one consumer: it can be opened once. Keeps x's storage until the consumer has released what it opened,
 * which tide_ipc_collect and the next handle find out. What the current stream has queued so far is waited for by the
 * consumer's stream. Memory that cannot be opened elsewhere is moved, once for each storage: its address changes, and
 * the call waits for the device. Borrowed memory, and memory from another process, is refused. */
TIDE_API tide_status tide_tensor_ipc_handle(tide_ipc_tensor *out, tide_tensor *x);
/* A tensor on the memory of another process. In the process that made the handle: a view of the same storage. */
TIDE_API tide_status tide_tensor_from_ipc(tide_tensor **out, const tide_ipc_tensor *handle);
/* Releases what consumers have given back, also where a consumer has died. */
TIDE_API void tide_ipc_collect(void);

TIDE_C_END
#endif
