/* tide/dlpack.h: tensors that are handed to other libraries of the process, and taken from them, without a copy, by
 * DLPack's binary interface (version 1, and the one before it without a version). The structs are DLPack's: a program
 * that looks into them includes its header, dlpack/dlpack.h, too. Conventions as in tide.h.
 *
 * What is handed out keeps the memory until its deleter is called, which may happen on any thread, at any time, once.
 * Devices: the cpu, CUDA; memory of a simulated device is called kDLExtDev, so that no other library takes it for a
 * GPU's, and comes back to tide alone. */
#ifndef TIDE_DLPACK_H
#define TIDE_DLPACK_H

#include "tide/tide.h"

TIDE_C_BEGIN

struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* x as it is now. consumer: the stream of x's device that will use it, which waits for what is queued on the current
 * one and is known from then on when the memory is freed; NULL: the current stream, or what waits for it. */
TIDE_API tide_status tide_tensor_to_dlpack(struct DLManagedTensorVersioned **out, const tide_tensor *x,
                                           tide_stream *consumer);
TIDE_API tide_status tide_tensor_to_dlpack_unversioned(struct DLManagedTensor **out, const tide_tensor *x,
                                                       tide_stream *consumer);
/* A tensor on the memory of `managed`, whose deleter is called when its last view has gone and the work queued on it is
 * done; after an error `managed` is still the caller's. producer: the stream that makes the values: the current
 * one waits for it; NULL: they are there. Memory that is only to be read is copied, and released. */
TIDE_API tide_status tide_from_dlpack(tide_tensor **out, struct DLManagedTensorVersioned *managed,
                                      tide_stream *producer);
TIDE_API tide_status tide_from_dlpack_unversioned(tide_tensor **out, struct DLManagedTensor *managed,
                                                  tide_stream *producer);
/* Calls the deleter of one that nobody took; NULL is allowed. */
TIDE_API void tide_dlpack_release(struct DLManagedTensorVersioned *managed);

TIDE_C_END
#endif
