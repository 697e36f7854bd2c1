/* tide/graph.h: work of a GPU that is recorded once and replayed at the cost of one launch. Conventions as in tide.h.
 *
 * While a stream is captured, what is queued on it is recorded and not executed. Other streams join when they wait for
 * an event recorded in the capture; the captured stream must wait for their work before the capture ends. Memory that
 * is allocated in a capture comes from the graph's pool; everything else that its work touches is kept alive by the
 * graph. What would make the host wait, or touch a stream outside, fails with STATE, names the operation and ends the
 * capture: the streams are usable again, the graph is empty. */
#ifndef TIDE_GRAPH_H
#define TIDE_GRAPH_H

#include "tide/memory.h"

TIDE_C_BEGIN

typedef struct tide_graph tide_graph;

/* Whose calls of the driver may break a capture: those of any thread, those of the capturing thread, nobody's. */
typedef enum tide_capture_mode {
  TIDE_CAPTURE_GLOBAL,
  TIDE_CAPTURE_THREAD_LOCAL,
  TIDE_CAPTURE_RELAXED
} tide_capture_mode;

/* An empty graph. keep: what was recorded is kept beside what runs, and made ready by tide_graph_instantiate. */
TIDE_API tide_status tide_graph_new(tide_graph **out, bool keep);
/* One reference more. */
TIDE_API void tide_graph_retain(tide_graph *graph);
/* One reference less; NULL is allowed. For finalisers too: calls no driver and never waits. */
TIDE_API void tide_graph_release(tide_graph *graph);
/* Begins a capture of `stream` (NULL: the current one; not the default one) by the calling thread, which can do one at
 * a time. pool: where memory comes from; NULL: a pool of the graph's own. mode: a tide_capture_mode. Graphs that share
 * a pool must be replayed in the order of their captures, and never at the same time. */
TIDE_API tide_status tide_graph_begin(tide_graph *graph, tide_stream *stream, tide_mempool *pool, int mode);
/* Ends it; without `keep` the graph is ready to be replayed. On failure the graph is empty. */
TIDE_API tide_status tide_graph_end(tide_graph *graph);
/* Ends a capture that is under way and drops what was recorded; else does nothing. Never fails. */
TIDE_API void tide_graph_abort(tide_graph *graph);
/* Makes a graph with `keep` ready to be replayed. */
TIDE_API tide_status tide_graph_instantiate(tide_graph *graph);
/* Bytes of an input's name with its end; inputs of a graph. */
enum { TIDE_GRAPH_NAME = 64, TIDE_GRAPH_INPUTS = 64 };
/* Names x, whose values the work reads or writes, so that tide_graph_bind can replace it: between tide_graph_begin and
 * the first use of x in the capture, by the capturing thread. name: unique in the graph and shorter than
 * TIDE_GRAPH_NAME, for messages too; at most TIDE_GRAPH_INPUTS. Inputs may not share memory with one another. */
TIDE_API tide_status tide_graph_input(tide_graph *graph, const char *name, const tide_tensor *x);
/* Replays that are queued from now on use x[i] where they have used what was named names[i]; names NULL: the first n in
 * the order of their naming. Those queued before are not concerned. Views of an input that the work used are
 * replaced with it. x[i] has the dtype, size, strides and device of what was named (DTYPE, SHAPE, DEVICE), is not of
 * the graph's own memory, and shares none with what the graph writes (VALUE). SUPPORT: an operation keeps its memory.
 * On failure nothing has changed. The graph holds what is bound; an input whose last other reference was released by
 * name (tide_tensor_release and the like, not a finaliser's deferred release) makes replays fail with STATE until
 * another tensor is bound. Waits for nothing, but may allocate; the first bind of an input records again what uses it.
 * From one thread at a time, and none that replays the graph meanwhile; not during a capture. */
TIDE_API tide_status tide_graph_bind(tide_graph *graph, const char *const *names, const tide_tensor *const *x, int n);
/* Queues the recorded work on the current stream of the graph's device. */
TIDE_API tide_status tide_graph_replay(tide_graph *graph);
/* Records the event on the stream that the last replay was queued on, behind what is queued there now; before any
 * replay on the stream of the capture. */
TIDE_API tide_status tide_graph_record(const tide_graph *graph, tide_event *event);
/* Empties the graph; what it held goes when its last replay is done. */
TIDE_API tide_status tide_graph_reset(tide_graph *graph);
/* The pool it was captured with, borrowed. */
TIDE_API tide_status tide_graph_pool(tide_mempool **out, const tide_graph *graph);
/* The device it was captured on; TIDE_CPU while it is empty. */
TIDE_API int tide_graph_device(const tide_graph *graph);
/* Is a capture into this graph under way? */
TIDE_API bool tide_graph_is_capturing(const tide_graph *graph);
/* Replays advance the generator by what the capture drew from it, and draw what eager calls would have drawn. Those
 * that a capture uses are registered by themselves. */
TIDE_API tide_status tide_graph_register_generator(tide_graph *graph, tide_generator *generator);
/* A new generator at g's place: the two advance it together. */
TIDE_API tide_status tide_generator_share(tide_generator **out, tide_generator *g);
/* Leads g, and the graphs that draw from it, to the place of another generator of its device. */
TIDE_API tide_status tide_generator_join(tide_generator *g, tide_generator *other);
/* Keeps what is recorded for tide_graph_dump, and watches handles of tide_graph_output. To be called before the
 * capture. */
TIDE_API tide_status tide_graph_enable_debug(tide_graph *graph);
/* Whether new graphs have it enabled; at the start, whether the environment has TIDE_GRAPH_DEBUG=1. */
TIDE_API void tide_graph_debug_all(bool enabled);
/* Writes the recorded work to a file for Graphviz. */
TIDE_API tide_status tide_graph_dump(const tide_graph *graph, const char *path);
/* A new handle to x, memory that the graph writes, as the last replay left it: with debug enabled, reading values
 * through it or a view of it after a later replay fails with STATE. */
TIDE_API tide_status tide_graph_output(tide_tensor **out, const tide_graph *graph, const tide_tensor *x);

/* Is the current stream of the current device being captured? Makes no context. */
TIDE_API bool tide_current_is_capturing(void);
/* Is a capture under way that the calling thread began, so that values cannot be read? */
TIDE_API bool tide_thread_is_capturing(void);

TIDE_C_END
#endif
