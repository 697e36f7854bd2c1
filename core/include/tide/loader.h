/* tide/loader.h: batches of a data set that are made ahead and copied by a thread of their own, on to a device where
 * that is wanted. Conventions as in tide.h. */
#ifndef TIDE_LOADER_H
#define TIDE_LOADER_H

#include "tide/tide.h"

TIDE_C_BEGIN

/* The batches of one loop, first in, first out. All calls on one loader come from one thread, but a call may run hooks
 * that close it: then the rest fails with STATE. */
typedef struct tide_loader tide_loader;

/* device: where batches go, TIDE_CPU: nowhere. prefetch: batches that are made ahead of the one in use; 0: no thread
 * copies. pin: the memory of batches is page-locked. *kept is the stream on which batches are sent, for this loop and
 * the next ones: made where it is NULL or of no use; the caller releases it. */
TIDE_API tide_status tide_loader_new(tide_loader **out, tide_stream **kept, int device, int64_t prefetch, bool pin);
/* Ends the thread and releases all batches. Once is enough; as tide_loader_free, it may be called in a finaliser. */
TIDE_API void tide_loader_close(tide_loader *loader);
/* NULL is allowed. */
TIDE_API void tide_loader_free(tide_loader *loader);

/* Begins a batch, instead of one that has begun and was not queued. */
TIDE_API tide_status tide_loader_begin(tide_loader *loader);
/* A tensor that the batch's copies fill: on the loader's device, or in host memory where that has no room, or takes
 * batches only when they are given out. */
TIDE_API tide_status tide_loader_empty(tide_tensor **out, tide_loader *loader, const int64_t *size, int ndim,
                                       tide_dtype dtype);
/* Notes that the n items will be stacked into `into`, or that the only one will be copied there: they are read
 * later. */
TIDE_API tide_status tide_loader_fill(tide_loader *loader, tide_tensor *into, tide_tensor *const *items, int n,
                                      bool stacked);
/* The batch is complete: it is copied, at once where there is no thread. source, line: of the program, for traces. */
TIDE_API tide_status tide_loader_queue(tide_loader *loader, const char *source, int line);

/* The loop asks for another batch: what it has queued for the one before is all that it does with that. */
TIDE_API tide_status tide_loader_ask(tide_loader *loader);
/* Waits until the oldest batch is copied. After an error it is gone. */
TIDE_API tide_status tide_loader_wait(tide_loader *loader);
/* After that: puts the n tensors of the batch, at these addresses, on the device so far as they are not there. What the
 * current stream does from now on comes behind the copies. The batch is gone then, but for TIDE_MEMORY: try again. */
TIDE_API tide_status tide_loader_bring(tide_loader *loader, tide_tensor **const *tensors, int n);

/* Between these no loader's thread copies. */
TIDE_API void tide_loader_pause(void);
TIDE_API void tide_loader_resume(void);

TIDE_C_END
#endif
