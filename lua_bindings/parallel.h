/* parallel.h: what parallel.c and parallel_tree.c share: trees of tensors over several devices. */
#ifndef LTIDE_PARALLEL_H
#define LTIDE_PARALLEL_H

#include "args.h"

/* Devices in the order in which they take part: accelerators, each once, or the CPU alone. */
typedef struct ltide_devices {
  int n, id[TIDE_MAX_DEVICES];
} ltide_devices;
/* The table of devices at arg, all known to exist; nil: every accelerator, or the CPU where there is none. */
void ltide_check_devices(lua_State *L, int arg, ltide_devices *out);
/* Pushes the name by which messages call a device: "cuda:1". */
const char *ltide_push_device_name(lua_State *L, int device);

/* How the tensors of a tree are cut into one part for each of the first `n` devices. */
typedef struct ltide_cut {
  ltide_state *S;
  int tree, dim; /* stack indexes: the tree, and the dimension as the script counts it */
  int sent;      /* likewise: a table of the tensors whose parts are all on their way, by the tensor */
  int n;         /* parts; fewer than devices where there is too little to cut */
  ltide_devices devices;
  int part;                            /* the one that is being made */
  uint64_t sources;                    /* devices with tensors of the tree, as bits */
  tide_stream *side[TIDE_MAX_DEVICES]; /* of each source: stands for its current stream in the copies; or NULL */
} ltide_cut;
/* Finds n; raises where tensors cannot be cut, or into different numbers of parts. */
void ltide_cut_plan(lua_State *L, ltide_cut *cut);
/* Makes the copies to other devices run beside what is queued from now on, until ltide_cut_end, which never fails. */
void ltide_cut_beside(lua_State *L, ltide_cut *cut);
void ltide_cut_end(ltide_cut *cut);
/* Pushes part i (from 0) of the tree, on its device. */
void ltide_push_part(lua_State *L, ltide_cut *cut, int i);

/* Pushes the table of the copies of the tree at `tree`, one for each of the first n devices. */
void ltide_push_replicas(lua_State *L, ltide_state *S, int tree, const ltide_devices *devices, int n);
/* Pushes one value for the n values in the table at `list`: the tensors in it joined along `dim` (stack index) on the
 * device. */
void ltide_push_gathered(lua_State *L, ltide_state *S, int list, int n, int dim, int device);
/* Pushes the tree at `tree`, on the device. */
void ltide_push_moved(lua_State *L, ltide_state *S, int tree, int device);

#endif
