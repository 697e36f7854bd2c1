/* tide/external.h: memory and semaphores that another API made: the host's own pages, Vulkan's allocations, OpenGL's
 * buffers and textures. Nothing is copied except where it says so, and nothing here waits on the host or synchronises a
 * device or a context. Conventions as in tide.h.
 *
 * Turns. Memory of a graphics API is used by turns, and a tensor on it is not acquired at first: every use of it, of
 * its views too, fails with STATE until tide_external_acquire, and again from tide_external_release on. Its turn begins
 * on the current stream of its device after the other side's signals, and ends there after all work that was queued on
 * it, on any stream, replays of graphs included. Work on other streams waits for the current one only by an explicit
 * wait.
 *
 * Captures. Turns and semaphores are refused on a stream that is being captured: a semaphore's value belongs to one
 * frame. What is captured may use acquired tensors; a replay then needs them acquired.
 *
 * Threads. As in tide.h; release functions run once, on any thread. tide_shutdown and tide_device_reset close every
 * import that is open, and its mapping goes then; the handles are still to be released.
 *
 * Which device. An allocation can be imported on the device that made it alone: compare tide_device_props.uuid with
 * VkPhysicalDeviceIDProperties::deviceUUID. Simulated devices take a memfd for memory, and for a semaphore a memfd that
 * begins with its count: an atomic uint64, of a binary one 0 or 1.
 *
 * What cannot be had. An image with VK_IMAGE_TILING_OPTIMAL and an OpenGL texture have no linear addresses, so no
 * tensor can lie on them: render from a linear image or a buffer texture (glTexBuffer), or let the renderer copy from
 * an imported buffer (vkCmdCopyBufferToImage, a pixel buffer object), or write a texture by tide_gl_texture_write, one
 * copy on the device. Handles of Windows are not taken: tide has no port to it. */
#ifndef TIDE_EXTERNAL_H
#define TIDE_EXTERNAL_H

#include "tide/tide.h"

TIDE_C_BEGIN

/* ---- Host memory, page-locked where it lies ---- */

/* uint8 [bytes] on the cpu, for whose copies non_blocking holds as for pin_memory's; tide_view_dtype gives it another
 * dtype. The pages are unlocked, and then release(user), if any, is called, when the last view has gone and the work
 * queued on it is done. Locking takes the driver up to milliseconds: once, not in a frame. Needs an accelerator. VALUE
 * where some of it is locked already. */
TIDE_API tide_status tide_host_register(tide_tensor **out, void *ptr, size_t bytes, void (*release)(void *user),
                                        void *user);

/* ---- Semaphores ---- */

typedef struct tide_semaphore tide_semaphore;

/* fd: of vkGetSemaphoreFdKHR with VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT; tide's after success, the caller's
 * after an error. */
TIDE_API tide_status tide_import_semaphore(tide_semaphore **out, int fd, bool timeline, int device);
TIDE_API void tide_semaphore_retain(tide_semaphore *semaphore);
TIDE_API void tide_semaphore_release(tide_semaphore *semaphore); /* NULL is allowed; queued work still completes */
/* What is queued on the stream later waits until the count is at least `value`; of a binary semaphore until it is
 * signalled, which takes the signal away, and value is not looked at. A signal that never comes holds the stream for
 * ever. Stream NULL: the current one of the semaphore's device. */
TIDE_API tide_status tide_stream_wait_semaphore(tide_stream *stream, tide_semaphore *semaphore, uint64_t value);
/* The count becomes `value`, more than before, once what was queued on the stream is done. A lost device does not
 * signal. */
TIDE_API tide_status tide_stream_signal_semaphore(tide_stream *stream, tide_semaphore *semaphore, uint64_t value);

/* ---- Memory ---- */

typedef struct tide_external_memory {
  int fd;                /* of vkGetMemoryFdKHR, opaque; tide's after success, the caller's after an error */
  bool dedicated;        /* it was allocated for one buffer or image (VkMemoryDedicatedAllocateInfo) */
  bool scripts;          /* Lua's x:acquire(value) and x:release(value) may be called on the tensor */
  size_t bytes;          /* of the whole allocation */
  size_t offset;         /* of the tensor's first element in it, in bytes */
  tide_semaphore *ready; /* what acquire waits for; NULL: the host has seen to it */
  tide_semaphore *done;  /* what release signals; NULL: nothing. Both are retained */
  size_t struct_size;    /* as in tide_options */
} tide_external_memory;
/* No memory, for the host to fill in: fd is -1. */
static inline tide_external_memory tide_external_memory_defaults(void) {
  tide_external_memory m = {-1, false, false, 0, 0, NULL, NULL, sizeof(tide_external_memory)};
  return m;
}

/* A tensor of options->dtype on options->device. stride NULL: contiguous; of an image with VK_IMAGE_TILING_LINEAR the
 * strides come from vkGetImageSubresourceLayout's rowPitch, in elements. Of what is no multiple of an element, such as
 * a 30-byte vertex, import the bytes (uint8): tide_from_ptr says how. */
TIDE_API tide_status tide_import_memory(tide_tensor **out, const tide_external_memory *memory, const int64_t *size,
                                        const int64_t *stride, int ndim, const tide_options *options);
/* x, or the tensor that it views, is used by tide from now on; value: of a timeline semaphore. */
TIDE_API tide_status tide_external_acquire(tide_tensor *x, uint64_t value);
/* Its turn is over. */
TIDE_API tide_status tide_external_release(tide_tensor *x, uint64_t value);
/* May scripts take turns with x? */
TIDE_API bool tide_external_scripts(const tide_tensor *x);

/* ---- OpenGL: real devices; the context is current on the calling thread in each of these and in turns ---- */

/* A tensor on a buffer object, from `offset` bytes on; a turn maps it behind the commands of GL that were given before,
 * and its end unmaps it before later mappings: values of semaphores are not looked at. The address may change with
 * each turn. The buffer outlives the tensor. */
TIDE_API tide_status tide_import_gl_buffer(tide_tensor **out, uint32_t buffer, size_t offset, const int64_t *size,
                                           const int64_t *stride, int ndim, const tide_options *options);

typedef struct tide_gl_texture tide_gl_texture;
/* target: GL_TEXTURE_2D or GL_TEXTURE_RECTANGLE; NULL is allowed at release, on the thread of the context too. */
TIDE_API tide_status tide_import_gl_texture(tide_gl_texture **out, uint32_t texture, uint32_t target, int device);
TIDE_API void tide_gl_texture_release(tide_gl_texture *texture);
/* Copies a contiguous x [height, ...] on the texture's device into it, on the current stream; the rows of x and of the
 * texture have the same number of bytes. */
TIDE_API tide_status tide_gl_texture_write(tide_gl_texture *texture, const tide_tensor *x);

TIDE_C_END
#endif
